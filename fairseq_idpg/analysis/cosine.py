"""Do prompts bring similar sentences closer? Gold scores of the pairs with the highest cosine.

IDPG (https://arxiv.org/abs/2204.04497), Section 4.5.5 and appendix A.6, Figures 4 and 8. Each sentence of a pair is
encoded alone, by the last layer's ``<s>`` state; all pairs are ranked by cosine; the gold scores of the first k are
counted in groups of equal width. A prompt trained on pairs stands in a single sentence at ``SINGLE_POSITION``.
"""

import argparse
import json
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from fairseq import utils
from fairseq.data import PrependTokenDataset
from scipy import stats
from torch import Tensor
from tqdm import tqdm

from preprocess.data_folder import DataFolder
from preprocess.drawing import ONE_COLUMN, PANEL_HEIGHT, TWO_COLUMNS, check_image, draw_bars, save
from preprocess.flags import aligned
from preprocess.tasks import TASKS
from preprocess.writing import check_apart, check_output, check_replaces_nothing, write_output

from ..errors import InputError
from ..inference.load import LoadedModel, load_trained, load_untrained
from ..inference.text import load_dictionary
from ..models.config import predicts_words
from ..out_of_memory import put_on, usual_device
from ..representations.kinds import GLOVE
from ..tasks.dataset import PromptedDataset, by_length, place_prompts, unlabelled
from ..tasks.folder import check_files, check_labels, read_sentences, sentence_lengths
from ..tasks.positions import check_position
from ..training.arguments import parse_overrides

TOP = (100, 200, 300)  # the paper's
LARGEST = 2**16  # of groups, and of a batch
HIGHEST = TASKS["STS-B"].scale  # scores are shown from 0 to this

# Where a prompt of pairs stands in a single sentence. What follows it stays the same: position 2 is in front of a
# sentence, as 0 is, and 3 in front of the closing </s>, as 1 is.
SINGLE_POSITION = {0: 0, 1: 1, 2: 0, 3: 1, 4: 4}


def gold_scores(data: DataFolder, split: str, largest: float) -> np.ndarray:
    """Return N scores from 0 to 5; ``largest`` is the one that stands for 5 in the folder's files."""
    if len(data.inputs) < 2 or not data.regression:
        content = "classes, no scores (no label/*.label)" if len(data.inputs) == 2 else "single sentences (no input1)"
        raise InputError(f"{data.path} has {content}: give a folder of pairs with scores such as STS-B-bin")
    check_files(str(data.path), split, regression=True)
    check_labels(str(data.path), split, regression=True, combine=False, examples=len(data.rows("input0", split)))
    path = f"{data.path}/label/{split}.label"
    scores = np.array(data.targets(split), dtype=np.float64)
    outside = np.flatnonzero(~((scores >= 0) & (scores <= largest)))
    if len(outside):
        score = scores[outside[0]]
        remedy = "give the largest one with --largest-score" if score > largest else "negative scores have no groups"
        raise InputError(f"{path} line {outside[0] + 1} has {score:g}, not a score from 0 to {largest:g}: {remedy}")
    return scores / largest * HIGHEST


def group_names(groups: int) -> list[str]:
    """Return ``[0, 1)`` ... ``[4, 5]``: all but the last exclude their upper end."""
    edges = [f"{edge:.3g}" for edge in np.linspace(0, HIGHEST, groups + 1)]
    names = [f"[{low}, {high})" for low, high in zip(edges, edges[1:])]
    return [*names[:-1], names[-1][:-1] + "]"]


def count_groups(scores: np.ndarray, groups: int) -> list[int]:
    # Rounded, as an edge of 1.4 may be 1.4000000000000001.
    return np.histogram(np.round(scores, 6), np.linspace(0, HIGHEST, groups + 1).round(6))[0].tolist()


def correlations(cosines: np.ndarray, scores: np.ndarray) -> dict[str, float | None]:
    """Return Spearman and Pearson of cosines and gold scores; None where all cosines or all scores are equal."""
    if np.ptp(cosines) == 0 or np.ptp(scores) == 0:
        return {"spearman": None, "pearson": None}
    spearman, pearson = (measure(cosines, scores)[0] for measure in (stats.spearmanr, stats.pearsonr))
    return {"spearman": float(spearman), "pearson": float(pearson)}


def sentence_dataset(loaded: LoadedModel, data: str, part: str, split: str, position: int) -> PromptedDataset:
    """Return sentences alone, ``<s> A </s>``; ``places.shorten.cut`` says which were too long and are cut."""
    own, dictionary = loaded.task.cfg, loaded.task.source_dictionary
    sentences, pad = read_sentences(data, part, split, dictionary, combine=False), dictionary.pad()
    cut = {"shorten_method": "truncate", "shorten_data_split_list": "", "seed": 0}
    room = {"max_positions": own.max_positions, "separator_token": own.separator_token}
    cfg = SimpleNamespace(prompt_position=position, **room, **cut)
    places = place_prompts(cfg, dictionary, split, [sentence_lengths(sentences)], loaded.prompt_length)
    tokens = PrependTokenDataset(sentences, own.init_token)
    return PromptedDataset(unlabelled(tokens, pad), places, pad=pad, arrange=by_length)


@torch.no_grad()
def sentence_states(loaded: LoadedModel, dataset: PromptedDataset, batch_size: int) -> Tensor:
    """Return N x d, the last layer's ``<s>`` state of each sentence, on the CPU in the data's order."""
    batches = dataset.batch_by_size(dataset.ordered_indices(), max_sentences=batch_size)
    on_gpu = next(loaded.model.parameters()).is_cuda
    states = []
    for index in tqdm(batches, desc=loaded.name, unit=" batches", disable=None, leave=False):
        net_input = dataset.collater([dataset[i] for i in index])["net_input"]
        features, _ = loaded.model(**(utils.move_to_cuda(net_input) if on_gpu else net_input), features_only=True)
        states.append(features[:, 0].float().cpu())
    return torch.cat(states)[np.argsort(np.concatenate(batches))]


def compare(loaded: LoadedModel, name: str, scores: np.ndarray, args: argparse.Namespace) -> dict[str, Any]:
    """Encode the sentences of all pairs, and return facts of the model and how it ranks the pairs."""
    position = 0
    if loaded.prompt_length:
        check_position(loaded.task.cfg.prompt_position, pairs=True)
        own = SINGLE_POSITION[loaded.task.cfg.prompt_position]
        position = own if args.prompt_position is None else args.prompt_position
    put_on(usual_device(args.cpu), loaded.model, loaded.path)
    both = [sentence_dataset(loaded, args.data, part, args.split, position) for part in ("input0", "input1")]
    one, other = (sentence_states(loaded, dataset, args.batch_size).double() for dataset in both)
    loaded.check_backbone()
    return {
        "name": name,
        "path": loaded.path,
        "prompt_position": position if loaded.prompt_length else None,
        "sentences_cut": int(sum(dataset.places.shorten.cut.sum() for dataset in both)),
        **ranked(F.cosine_similarity(one, other, dim=1).numpy(), scores, args),
    }


def ranked(cosines: np.ndarray, scores: np.ndarray, args: argparse.Namespace) -> dict[str, Any]:
    """Return correlations, and the groups of the pairs with the highest cosines, earlier pairs first among equals."""
    order = np.argsort(-cosines, kind="stable")
    top = {str(k): count_groups(scores[order[:k]], args.groups) for k in args.top_k or TOP}
    return {**correlations(cosines, scores), "top": top, "cosines": cosines.tolist()}


def numbers(models: Sequence[dict[str, Any]], scores: np.ndarray, args: argparse.Namespace) -> dict[str, Any]:
    """Return everything that is printed and drawn, and the values behind it."""
    facts = {"data": args.data, "split": args.split, "pairs": len(scores), "groups": group_names(args.groups)}
    return {**facts, "all": count_groups(scores, args.groups), "models": models, "scores": scores.tolist()}


def report(results: dict[str, Any]) -> str:
    lines = [f"{results['data']} {results['split']}: {results['pairs']:,} pairs, each sentence encoded alone", ""]
    models = [("model", "file", "prompt position", "Spearman", "Pearson")]
    for model in results["models"]:
        position = "-" if model["prompt_position"] is None else str(model["prompt_position"])
        both = ["-" if model[name] is None else f"{model[name]:.3f}" for name in ("spearman", "pearson")]
        models.append((model["name"], model["path"], position, *both))
    lines += [*aligned(models, left=range(2)), ""]
    counts = [("gold score", "", *results["groups"]), ("all pairs", "", *map(str, results["all"]))]
    for k in results["models"][0]["top"]:
        for number, model in enumerate(results["models"]):
            counts.append(("" if number else f"top {k}", model["name"], *map(str, model["top"][k])))
    lines += aligned(counts, left=range(2))
    cut = [model for model in results["models"] if model["sentences_cut"]]
    lines += [f"{model['name']}: {model['sentences_cut']:,} sentences were too long and cut" for model in cut]
    return "\n".join(lines)


def bar_figure(results: dict[str, Any]) -> Any:
    """Return one panel for each k; in each group a bar for each model."""
    from matplotlib.figure import Figure  # without pyplot: no window, no global state

    models, tops = results["models"], list(results["models"][0]["top"])
    figure = Figure(figsize=(ONE_COLUMN if len(tops) == 1 else TWO_COLUMNS, PANEL_HEIGHT), layout="constrained")
    panels = figure.subplots(1, len(tops), squeeze=False, sharey=True)[0]
    for axes, k in zip(panels, tops):
        drawn = draw_bars(axes, list(zip(*(model["top"][k] for model in models))), results["groups"], "%d")
        axes.set(title=f"top {k} of {results['pairs']:,} pairs", xlabel="gold score")
        axes.yaxis.get_major_locator().set_params(integer=True)
    panels[0].set_ylabel("number of pairs")
    figure.legend(drawn, [model["name"] for model in models], loc="outside lower center", ncols=len(models))
    return figure


def check_options(args: argparse.Namespace, pairs: int) -> None:
    """Raise InputError for values and files that would fail after the models have run."""
    limits = [*(("--top-k", k, pairs) for k in args.top_k or TOP), ("--groups", args.groups, LARGEST)]
    for option, value, most in (*limits, ("--batch-size", args.batch_size, LARGEST)):
        if not 1 <= value <= most:
            raise InputError(f"{option} {value}, with {pairs} pairs in {args.data} {args.split}: give 1 to {most}")
    if args.out:
        check_image(args.out, "--out")
    if args.out and args.json:
        check_apart("--out", args.out, "--json", args.json)
    read = {
        "DATA-bin": [args.data],
        **{f"--{name}": [getattr(args, name)] for name in ("path", "baseline", "backbone")},
    }
    for option, path in (("--out", args.out), ("--json", args.json)):
        if path is not None:
            check_replaces_nothing(path, option, read)
            check_output(path, option)


def refuse_other_states(cfg: Any) -> None:
    """Raise InputError for models without a meaningful ``<s>`` state of a single sentence."""
    reason = None
    if predicts_words(cfg):
        reason = "was trained with --predict-with mlm, so that its <s> states say nothing of a sentence"
    elif getattr(cfg, "representation", None) == GLOVE:
        reason = "reads word vectors, and the data folder has those of whole pairs, not of each sentence"
    if reason:
        raise InputError(f"--method {cfg.method} {reason}: give another checkpoint")


def load_models(args: argparse.Namespace) -> dict[str, LoadedModel]:
    dictionary = load_dictionary(f"{args.data}/input0/dict.txt")
    overrides = {**parse_overrides(args.model_overrides), "data": args.data}
    loaded = [load_trained(args.path, "--path", dictionary, overrides, refuse_other_states)]
    if args.baseline is not None:
        loaded.append(load_trained(args.baseline, "--baseline", dictionary, overrides, refuse_other_states))
    if args.backbone is not None:
        loaded.append(load_untrained(args.backbone, dictionary))
    names = [model.name for model in loaded]
    if len(set(names)) < len(names):
        names[1] += ", baseline"
    return dict(zip(names, loaded))


def run(args: argparse.Namespace) -> None:
    if not 0 < args.largest_score < math.inf:
        raise InputError(f"--largest-score {args.largest_score:g}: give a positive number")
    scores = gold_scores(DataFolder(Path(args.data)), args.split, args.largest_score)
    check_options(args, len(scores))
    models = [compare(loaded, name, scores, args) for name, loaded in load_models(args).items()]
    results = numbers(models, scores, args)
    print(report(results))
    if args.json:
        write_output(args.json, f"{json.dumps(results)}\n", "--json")
        print(f"numbers saved: {args.json}")
    if args.out:
        save(partial(bar_figure, results), args.out)
        print(f"plot saved: {args.out}")
