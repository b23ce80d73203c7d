"""Gold scores of sentence pairs: reading them, grouping them, comparing cosines with them."""

import numpy as np
from scipy import stats

from preprocess.data_folder import DataFolder
from preprocess.tasks import TASKS

from ..errors import InputError
from ..tasks.folder import check_files
from ..tasks.labels import check_labels

HIGHEST = TASKS["STS-B"].scale  # scores are shown from 0 to this


def gold_scores(data: DataFolder, split: str, largest: float) -> np.ndarray:
    """N scores from 0 to 5; ``largest`` is the one that stands for 5 in the folder's files.

    Raises:
        InputError: single sentences, classes, no labels, or scores outside 0 to ``largest``.
    """
    if len(data.inputs) < 2 or not data.regression:
        found = "classes, no scores (no label/*.label)" if len(data.inputs) == 2 else "single sentences (no input1)"
        raise InputError(f"{data.path} has {found}: give a folder of pairs with scores such as STS-B-bin")
    check_files(str(data.path), split, regression=True)
    check_labels(str(data.path), split, regression=True, combine=False, examples=len(data.rows("input0", split)))
    path = f"{data.path}/label/{split}.label"
    scores = np.array(data.targets(split), dtype=np.float64)
    outside = np.flatnonzero(~((scores >= 0) & (scores <= largest)))
    if len(outside):
        found = scores[outside[0]]
        remedy = "give the largest one with --largest-score" if found > largest else "negative scores have no groups"
        raise InputError(f"{path} line {outside[0] + 1} has {found:g}, not a score from 0 to {largest:g}: {remedy}")
    return scores / largest * HIGHEST


def group_names(groups: int) -> list[str]:
    """``[0, 1)`` ... ``[4, 5]``: all but the last without their upper end."""
    edges = [f"{edge:.3g}" for edge in np.linspace(0, HIGHEST, groups + 1)]
    names = [f"[{low}, {high})" for low, high in zip(edges, edges[1:])]
    return [*names[:-1], names[-1][:-1] + "]"]


def count_groups(scores: np.ndarray, groups: int) -> list[int]:
    """How many scores lie in each group."""
    edges = np.linspace(0, HIGHEST, groups + 1)  # 1.4 may be 1.4000000000000001 there
    return np.histogram(np.round(scores, 6), np.round(edges, 6))[0].tolist()


def correlations(cosines: np.ndarray, scores: np.ndarray) -> dict[str, float | None]:
    """Spearman and Pearson of cosines and gold scores; None where one of them is the same for all pairs."""
    if np.ptp(cosines) == 0 or np.ptp(scores) == 0:
        return {"spearman": None, "pearson": None}
    found = {"spearman": stats.spearmanr(cosines, scores)[0], "pearson": stats.pearsonr(cosines, scores)[0]}
    return {name: float(value) for name, value in found.items()}
