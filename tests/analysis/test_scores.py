"""Groups of gold scores, rankings and correlations, against counting by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fairseq_idpg.analysis.cosine import correlations, count_groups, gold_scores, group_names
from fairseq_idpg.errors import InputError
from preprocess.data_folder import DataFolder
from tests.analysis.plain_pass import plain_pearson, plain_ranks
from tests.folders import write_folder


def test_groups_are_half_open_but_for_the_last():
    assert group_names(5) == ["[0, 1)", "[1, 2)", "[2, 3)", "[3, 4)", "[4, 5]"]
    assert group_names(2) == ["[0, 2.5)", "[2.5, 5]"]
    assert count_groups(np.array([0, 0.99, 1, 2.5, 3, 3.99, 4, 5, 5]), 5) == [2, 1, 1, 2, 3]
    assert count_groups(np.array([0, 2.4, 2.5, 5]), 2) == [2, 2]
    assert count_groups(np.array([]), 3) == [0, 0, 0]


def test_every_score_that_fifths_of_a_point_make_is_in_its_group():
    """A score is divided by 5 in the folder and multiplied by 5 again: 3.0 may not become 2.9999999."""
    scores = [i / 25 for i in range(126)]
    for score in scores:
        read = float(f"{score / 5:.4f}") * 5
        for groups in (5, 25):
            group = min(int(round(score * 1000)) * groups // 5000, groups - 1)
            assert count_groups(np.array([read]), groups) == [int(i == group) for i in range(groups)], score


def test_correlations_with_equal_scores():
    scores, cosines = [0.0, 5.0, 5.0, 1.0], [0.5, 0.25, 0.75, 0.5]
    ranks = plain_pearson(plain_ranks(cosines), plain_ranks(scores))
    assert correlations(np.array(cosines), np.array(scores))["spearman"] == pytest.approx(ranks)
    assert correlations(np.array(cosines), np.ones(4)) == {"spearman": None, "pearson": None}


def scores_of(folder, lines, largest=1.0):
    (folder / "label" / "valid.label").write_text("".join(f"{line}\n" for line in lines))
    return gold_scores(DataFolder(folder), "valid", largest)


def test_reading_scores(tmp_path):
    folder = write_folder(tmp_path / "data", regression=True, splits={"valid": 3})
    assert scores_of(folder, ["0", "0.6", "1"]).tolist() == [0, 3, 5]
    assert scores_of(folder, ["0", "3.0", "5.000"], largest=5).tolist() == [0, 3, 5]
    for lines, named in (
        (["0", "1.2", "1"], "line 2 has 1.2.*--largest-score"),
        (["0", "0.2", "-1"], "line 3 has -1"),
        (["nan", "0", "1"], "valid.label line 1: 'nan'"),
        (["0", "1"], "label 2"),
    ):
        with pytest.raises(InputError, match=named):
            scores_of(folder, lines)


def test_data_without_scores(tmp_path):
    for options, named in (({"pairs": False, "regression": True}, "has single sentences"), ({}, "has classes")):
        with pytest.raises(InputError, match=named):
            gold_scores(DataFolder(write_folder(tmp_path / named, **options)), "valid", 1)
    folder = write_folder(tmp_path / "pairs", regression=True)
    (folder / "label" / "valid.label").unlink()
    with pytest.raises(InputError, match="split valid of .* has no labels"):
        gold_scores(DataFolder(folder), "valid", 1)
