"""Few-shot copies of a binarized folder, as in Section 4.4 of the paper: K examples per task.

``train`` and ``valid`` are drawn from the training set. ``test`` is the whole ``valid`` of the source, on which the
paper reports. The seed draws a permutation: its first DEV rows are for validation, the K after them for training. So
every K has the same validation set, and a smaller training set is part of a larger one. numpy keeps the stream of
RandomState for good: a seed chooses the same rows on every machine.

Examples that answer one question are drawn together, and K and DEV are then numbers of questions. Half a question has
no right answer, and tells that of the other half.
"""

import argparse
import json
import shutil
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

from .checksums import FOLDER_FACTS, write_checksums
from .cli import check_task_name
from .cli import main as build_task
from .data_folder import CONTENT, DataFolder, check_split, has_exchanged_pairs, joined, token_digests
from .dictionary import read_dictionary
from .errors import InputError
from .flags import named_path, positive, random_seed
from .glove import GLOVE_FACTS, read_facts, read_means, write_facts
from .indexed import IndexedWriter
from .questions import Questions, question_file
from .writing import check_only, new_folder, scratch_folder, sweep

EXAMPLE = "example: python -m preprocess few-shot RTE --data data/RTE-bin --out few --k 100 --dev 1000 --seed 1 2"


def select_rows(data: DataFolder, k: int, dev: int, seed: int, per_class: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of the training set in the order of writing: (K or K per class for train, DEV for valid)."""
    count, questions = count_drawn(data), data.questions("train")
    if per_class and (data.regression or questions is not None):
        kind = "is a regression task without classes" if data.regression else "has questions, which are drawn whole"
        raise InputError(f"--per-class: {data.path} {kind}: leave the option out")
    order = np.random.RandomState(seed).permutation(count)
    valid, rest = order[:dev], order[dev:]
    if dev >= count or (not per_class and k > len(rest)):
        what = "examples" if questions is None else "questions"
        raise InputError(f"--k {k} --dev {dev}: {data.path} has {count} training {what}: together {count} at most")
    if questions is not None:
        return rows_of(questions, rest[:k]), rows_of(questions, valid)
    if not per_class:
        return rest[:k], valid
    labels = data.classes("train")[rest]
    places = {name: np.flatnonzero(labels == number) for number, name in enumerate(data.label_names)}
    name, fewest = min(((name, len(class_rows)) for name, class_rows in places.items()), key=lambda item: item[1])
    if fewest < k:
        what = f"has {fewest} training examples of class {name} beside the --dev {dev} of seed {seed}"
        remedy = f"--k can be {fewest} at most, or choose a smaller --dev"
        raise InputError(f"--k {k} --per-class: {data.path} {what}: {remedy}")
    return rest[np.sort(np.concatenate([class_rows[:k] for class_rows in places.values()]))], valid


def count_drawn(data: DataFolder) -> int:
    """Return what K and DEV count in a training set: its questions, or else its examples."""
    examples, questions = check_split(data, "train"), data.questions("train")
    return examples if questions is None else questions.count


def rows_of(questions: Questions, drawn: np.ndarray) -> np.ndarray:
    """Return the rows of some questions one after the other; questions are counted in the order of their numbers."""
    # each question's place among those drawn; the others come after them and are cut off
    place = np.full(questions.count, len(drawn))
    place[drawn] = np.arange(len(drawn))
    row_place = place[np.unique(questions.number, return_inverse=True)[1]]
    return np.argsort(row_place, kind="stable")[: int((row_place < len(drawn)).sum())]


def check_source(data: DataFolder) -> None:
    """Raise InputError unless the folder has labelled examples to report on and, in one split, to train on."""
    for split in ("train", "valid"):
        check_split(data, split)
    shards, reason = joined("train", data.splits), ""
    if not (data.has_labels("train") and data.has_labels("valid")):
        reason = "has no labels of train or valid: preprocess it again with labels"
    elif len(shards) > 1:
        reason = f"has training examples in {', '.join(shards)}: put the raw files together, and make it of them"
    elif has_exchanged_pairs(data):  # the same pair could be trained on and validated on
        reason = "has every training pair a second time: make it without, and give --swap-pairs append to fairseq-train"
    if reason:
        raise InputError(f"{data.path} {reason}")


def few_shot(
    data: DataFolder, k: int, dev: int, seed: int, per_class: bool, out: Path, overwrite: bool = False
) -> None:
    """Write the folder ``out``: train, valid and test as above, and ``few_shot.json`` with the rows."""
    check_source(data)
    check_only(out, CONTENT)
    if out.exists() and out.samefile(data.path):
        raise InputError(f"{out} is the folder to sample from, which it would replace: name another TASK or --out")
    train, valid = select_rows(data, k, dev, seed, per_class)
    splits = {"train": train, "valid": valid}
    record = {
        **{"seed": seed, "k": k, "dev": dev, "per_class": per_class, "source": data.path.resolve().name},
        **{"sha256": token_digests(data, "train"), "train_rows": train.tolist(), "valid_rows": valid.tolist()},
    }
    with new_folder(out, overwrite) as folder:
        files = [data.path / FOLDER_FACTS]
        for part in (*data.inputs, "label", "left_out", "question"):
            files += [data.path / part / "dict.txt", *(data.path / part).glob("valid.*")]
        for file in filter(Path.is_file, files):
            target = folder / file.relative_to(data.path)
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(file, target.with_name(file.name.replace("valid.", "test.")))
        take_rows(data, splits, folder)
        take_vectors(data, splits, folder)
        lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in record.items())
        (folder / "few_shot.json").write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
        write_checksums(folder)


def take_rows(data: DataFolder, splits: dict[str, np.ndarray], folder: Path) -> None:
    """Write rows of the training set as splits of ``folder``: {split: rows}."""
    for part in data.inputs if data.regression else (*data.inputs, "label"):
        vocabulary = len(read_dictionary(data.path / part / "dict.txt"))
        source = data.rows(part, "train")
        for split, rows in splits.items():
            with IndexedWriter(folder / part / split, vocabulary) as writer:
                writer.write(*source.take(rows))
    for split, rows in splits.items():
        lines = {f"label/{split}.label": data.targets("train")} if data.regression else {}
        if data.questions("train") is not None:
            questions = (data.path / question_file("train")).read_text(encoding="utf-8")
            lines[question_file(split)] = questions.split("\n")
        for name, train_lines in lines.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text("".join(f"{train_lines[row]}\n" for row in rows), encoding="utf-8")


def take_vectors(data: DataFolder, splits: dict[str, np.ndarray], folder: Path) -> None:
    """Write the examples' word vectors, where ``python -m preprocess glove`` has made those of the source."""
    if not (data.path / "glove" / GLOVE_FACTS).is_file():
        return
    (target := folder / "glove").mkdir()
    trained = read_means(data, "train")
    for split, rows in splits.items():
        np.save(target / f"{split}.npy", trained[rows])
    np.save(target / "test.npy", read_means(data, "valid"))
    facts, made = read_facts(data.path), DataFolder(folder)
    facts.pop("splits", None)  # counts of the source's words
    digests = {name: digest for split in (*splits, "test") for name, digest in token_digests(made, split).items()}
    write_facts(target, {**facts, "sha256": digests})


def parser() -> argparse.ArgumentParser:
    summary = (__doc__ or "").split("\n")[0]
    made = argparse.ArgumentParser("python -m preprocess few-shot", description=summary, epilog=EXAMPLE)
    add = made.add_argument
    add("task", metavar="TASK", help="names the folders: OUT/TASK-K100-seed1-bin")
    source = made.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", metavar="DIR", type=named_path, help="binarized folder to sample from")
    source.add_argument("--raw", metavar="DIR", help="raw files; options of `python -m preprocess TASK` go with it")
    add("--out", metavar="DIR", type=named_path, required=True, help="where the folders go")
    add("--k", metavar="K", type=positive, nargs="+", action="extend", help="training examples (default: 100 500 1000)")
    add("--dev", metavar="N", type=positive, default=1000, help="validation examples (default: 1000)")
    add("--seed", metavar="S", type=random_seed, nargs="+", action="extend", help="one sample for each (default: 1)")
    add("--per-class", action="store_true", help="K examples of each class instead of K in all")
    add("--overwrite", action="store_true", help="replace folders that are there")
    return made


def main(argv: Sequence[str]) -> None:
    args, options = parser().parse_known_args(argv)
    if options and args.data is not None:
        parser().error(f"unrecognized arguments: {' '.join(options)}")
    check_task_name(args.task)
    if args.data is not None:
        write_samples(DataFolder(args.data), args)
        return
    # the folder of all examples is made of the raw files, sampled from, and removed
    binarized = args.out / f"{args.task}-bin"
    sweep(binarized)
    with scratch_folder(binarized) as work:
        made = build_task([args.task, "--raw", args.raw, *options, "--out", str(work)])
        write_samples(DataFolder(made), args)


def write_samples(data: DataFolder, args: argparse.Namespace) -> None:
    """Write a folder for each K and seed, once all of them are checked."""
    folders = {}
    for k, seed in product(dict.fromkeys(args.k or (100, 500, 1000)), dict.fromkeys(args.seed or (1,))):
        folder = args.out / f"{args.task}-K{k}-seed{seed}-bin"
        folders[folder] = (k, args.dev, seed, args.per_class)
        select_rows(data, *folders[folder])
        if folder.exists() and not args.overwrite:
            raise InputError(f"{folder} exists already: remove it, name another --out, or give --overwrite")
    tested = check_split(data, "valid")
    for folder, choice in folders.items():
        few_shot(data, *choice, folder, args.overwrite)
        trained, validated = (check_split(DataFolder(folder), split) for split in ("train", "valid"))
        print(f"{folder}: train {trained}, valid {validated}, test {tested} examples")
