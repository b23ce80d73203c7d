"""Panels of a figure: no empty cell, one legend, labels that cover nothing."""

import itertools

import pytest

from preprocess.drawing import Panel, Point, Series, draw

Text = pytest.importorskip("matplotlib.text").Text


@pytest.mark.parametrize(("panels", "shape"), [(1, (1, 1)), (3, (1, 3)), (4, (2, 2)), (5, (2, 3)), (7, (2, 4))])
def test_the_legend_fills_the_cell_that_is_left(panels, shape):
    series = [Series(str(number), [Point(0, 1.0), Point(1, 2.0)], number) for number in range(3)]
    of_tasks = [Panel(f"task {number}", "updates", "score", list(series)) for number in range(panels)]
    figure = draw(of_tasks)
    rows, columns = figure.axes[0].get_subplotspec().get_gridspec().get_geometry()
    assert (rows, columns) == shape
    drawn = [axes for axes in figure.axes if axes.containers]
    assert len(drawn) == panels and [axes.get_ylabel() for axes in drawn] == [
        "" if number % columns else "score" for number in range(panels)
    ]
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes if axes.get_legend())]
    assert len(legends) == (panels > 1) and not (figure.legends and panels in (5, 7))


def test_labels_beside_points_cover_neither_each_other_nor_the_points():
    heights = (70.0, 70.4, 72.0, 75.0, 75.1)
    series = [Series(f"method-{n}", [Point(10.0 ** (1 + n / 5), y, 1.0)], n) for n, y in enumerate(heights)]
    figure = draw([Panel("", "parameters", "score", series, log=True)])
    (axes,) = figure.axes
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text) for text in axes.texts]
    assert len(boxes) == len(series) and not figure.legends
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    points = [axes.transData.transform(each.points[0][:2]) for each in series]
    assert not any(box.contains(*point) for box in boxes for point in points)
