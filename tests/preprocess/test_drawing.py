"""Panels of a figure: labels that cover nothing."""

import itertools

import pytest

from preprocess.drawing import Panel, Point, Series, draw

Text = pytest.importorskip("matplotlib.text").Text


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
