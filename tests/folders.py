"""Tiny binarized folders and backbones for runs through the command line."""

import argparse
import contextlib
import json
import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from fairseq import options
from fairseq.data import Dictionary, indexed_dataset
from fairseq.models.roberta.model import RobertaEncoder, RobertaModel, base_architecture

from preprocess.data_folder import DataFolder
from tests.command_line import FORKS, ROOT, command_line
from tests.helpers import TINY, WORDS, dictionary, dictionary_of
from tests.in_process import call

SIZE = [f"--{name.replace('_', '-')}={value}" for name, value in TINY.items() if name != "max_positions"]


def words_dictionary(words: int = WORDS) -> Dictionary:
    return dictionary_of(f"w{i}" for i in range(words))


def write_indexed(prefix: Path, rows: list[list[int]]) -> None:
    prefix.parent.mkdir(parents=True, exist_ok=True)
    builder = indexed_dataset.make_builder(f"{prefix}.bin", impl="mmap", vocab_size=1000)
    for row in rows:
        builder.add_item(torch.tensor(row, dtype=torch.int32))
    builder.finalize(f"{prefix}.idx")


def write_folder(
    folder: Path,
    pairs: bool = True,
    regression: bool = False,
    classes: int = 2,
    splits: dict[str, int] | None = None,
    longest: int = 12,
    words: int = WORDS,
    names: Sequence[str] = (),
) -> Path:
    """A folder as fairseq-preprocess writes it. The label, one of ``names``, says whether A holds the word w1."""
    draw = random.Random(0)
    names = names or [str(number) for number in range(classes)]
    for split, count in (splits or {"train": 24, "valid": 13}).items():
        labels, parts = [], {"input0": [], **({"input1": []} if pairs else {})}
        for i in range(count):
            for part in parts.values():
                part.append([draw.randrange(6, 4 + words) for _ in range(draw.randint(1, longest))] + [2])
            labels.append(i % len(names))
            if labels[-1]:
                parts["input0"][-1][0] = 5
        for part, rows in parts.items():
            write_indexed(folder / part / split, rows)
            words_dictionary(words).save(str(folder / part / "dict.txt"))
        (folder / "label").mkdir(exist_ok=True)
        if regression:
            text = "".join(f"{label + draw.random() / 10}\n" for label in labels)
            (folder / "label" / f"{split}.label").write_text(text)
            continue
        dictionary_of(names).save(str(folder / "label" / "dict.txt"))
        write_indexed(folder / "label" / split, [[4 + label, 2] for label in labels])
    return folder


def write_questions(folder: Path, split: str, numbers: Sequence[int], agreement: Sequence[float] = ()) -> Path:
    """Which question each example of a split answers; with ``agreement`` answers are texts, and so their F1 is."""
    (folder / "question").mkdir(exist_ok=True)
    texts = [f"\t{value:.0f}\t{value}\tentity {row}" for row, value in enumerate(agreement)] or [""] * len(numbers)
    lines = [f"{number}{text}\n" for number, text in zip(numbers, texts)]
    (folder / "question" / f"{split}.tsv").write_text("".join(lines))
    return folder


def renamed(source: Path, target: Path, names: dict[str, str], order: list[str] | None = None) -> Path:
    """A copy of a folder whose labels have other names, their ids in the given order (else as before)."""
    shutil.copytree(source, target)
    data = DataFolder(source)
    order = order or [names[name] for name in data.label_names]
    dictionary_of(order).save(str(target / "label" / "dict.txt"))
    for split in filter(data.has_labels, data.splits):
        labels = [names[data.label_names[number]] for number in data.classes(split)]
        write_indexed(target / "label" / split, [[4 + order.index(label), 2] for label in labels])
    return target


def write_backbone(path: Path, seed: int = 0, words: int = WORDS, **size) -> Path:
    """A checkpoint of fairseq's own RoBERTa, with what its trainer writes beside the tensors."""
    torch.manual_seed(seed)
    args = argparse.Namespace(arch="roberta", **{**TINY, **size})
    base_architecture(args)
    model = RobertaModel(args, RobertaEncoder(args, dictionary(words)))
    history = {"criterion_name": "MaskedLmLoss", "optimizer_name": "FairseqAdam", "num_updates": 0}
    history["lr_scheduler_state"] = {"best": None}
    extra = {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}, "val_loss": None}
    path.parent.mkdir(parents=True, exist_ok=True)
    state = {"args": args, "model": model.state_dict(), "optimizer_history": [history], "extra_state": extra}
    torch.save({**state, "last_optimizer_state": None}, path)
    return path


def changed(path: Path, change: Callable[[dict], object], target: Path | None = None) -> Path:
    """A file of torch once ``change`` has been made to what it holds: in its own place, or a copy."""
    state = torch.load(path, weights_only=True)
    change(state)
    torch.save(state, target or path)
    return target or path


class Finished:
    """A command that has ended: its status, its output, that of its other processes, and what json log lines say."""

    def __init__(self, status: int, output: str, others: str = ""):
        self.status, self.output, self.others = status, output, others
        self.last_line = (output.strip().splitlines() or [""])[-1]

    def log(self, key: str) -> list[float]:
        """Every value of ``key`` in the json lines, in order."""
        values = []
        for line in self.output.splitlines():
            start = line.find("{")
            if start >= 0 and f'"{key}"' in line:
                values.append(float(json.loads(line[start:])[key]))
        return values


def run(
    tool: str,
    folder: Path,
    *options: object,
    succeed: bool = True,
    without: str = "",
    processes: int = 1,
    cpu: bool = True,
    forked: bool = False,
) -> Finished:
    """``fairseq-TOOL folder --user-dir fairseq_idpg --task sentence_prediction_idpg ...``, on the CPU unless told.

    Options come later than the usual ones and so win over them; ``without`` names some (with a value) to leave out.
    With several ``processes`` (gloo) the output is that of the first; one is ``forked`` only where that is the point.
    """
    device = ["--cpu"] if cpu else ["--distributed-world-size", 1]
    arguments = left_out([folder, *OF_TASK, *device, "--log-format", "json", "--num-workers", 0, *options], without)
    if processes == 1 and not forked and "--user-dir" not in options:  # of which a process imports one alone
        finished = Finished(*call(tool, [str(argument) for argument in arguments]))
        assert (finished.status == 0) == succeed, finished.output[-3000:]
        return finished
    with contextlib.ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.NamedTemporaryFile("r")) for _ in range(processes)]
        meeting = stack.enter_context(tempfile.TemporaryDirectory())
        started = []
        for rank, (output, place) in enumerate(zip(outputs, distributed(processes, meeting))):
            command = [str(argument) for argument in [*arguments, *place]]
            started.append(FORKS.Process(target=command_line, args=(tool, command, output.name)))
            started[rank].start()
        for process in started:
            process.join()
        statuses = [process.exitcode for process in started]
        others = "".join(output.read() for output in outputs[1:])
        finished = Finished(max(statuses, key=abs), outputs[0].read(), others)
    assert (finished.status == 0) == succeed, (finished.output + others)[-3000:]
    return finished


def distributed(processes: int, meeting: str) -> list[list[object]]:
    """Options of each of several processes on this machine's CPU, which meet in a folder: a free port may be taken."""
    if processes == 1:
        return [[]]
    shared = ["--distributed-world-size", processes, "--distributed-init-method", f"file://{meeting}/store"]
    shared += ["--distributed-no-spawn", "--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"]
    return [[*shared, "--distributed-rank", rank] for rank in range(processes)]


OF_TASK = [
    *("--user-dir", ROOT / "fairseq_idpg", "--task", "sentence_prediction_idpg", "--criterion", "sentence_prediction"),
    *("--init-token", 0, "--max-positions", TINY["max_positions"]),
]
TRAINING = [
    *("--arch", "roberta_idpg", *SIZE, "--optimizer", "adam", "--lr", "1e-3", "--lr-scheduler", "fixed"),
    *("--batch-size", 8, "--best-checkpoint-metric", "accuracy", "--maximize-best-checkpoint-metric"),
    *("--no-epoch-checkpoints", "--phm-n", 4, "--separator-token", 2, "--num-classes", 2),
]


def left_out(words: list[object], names: str) -> list[object]:
    """A copy of the words without these options, each of which has a value."""
    words = list(words)
    for name in names.split():
        at = words.index(name)
        del words[at : at + 2]
    return words


def training_arguments(*more: object, folder: Path | str = "DATA", without: str = "") -> argparse.Namespace:
    usual = left_out([folder, *OF_TASK, *TRAINING, "--cpu", "--distributed-world-size", 1], without)
    parser = options.get_training_parser()
    return options.parse_args_and_arch(parser, input_args=[str(part) for part in (*usual, *more)])


def train(folder: Path, save_dir: Path, *options: object, without: str = "", **more) -> Finished:
    few = {str(option) for option in options} & {"prompt-tuning", "p-tuning-v2", "head-only"}
    usual = left_out(TRAINING, "--phm-n" if few else "")
    if "loss" in options:  # instead of the accuracy
        usual.remove("--maximize-best-checkpoint-metric")
    return run("train", folder, *usual, "--save-dir", save_dir, *options, without=without, **more)


def validate(folder: Path, checkpoint: Path, *options: object, **more) -> Finished:
    usual = ["--path", checkpoint, "--batch-size", 5, "--separator-token", 2, "--num-classes", 2]
    return run("validate", folder, *usual, *options, **more)


def saved(folder: Path, at: str = "last") -> dict:
    """What a training has kept of its model."""
    return torch.load(folder / f"checkpoint_{at}.pt", weights_only=True)["model"]


def same_tensors(one: dict, other: dict) -> bool:
    """Whether two state dicts have the same tensors; what a checkpoint keeps besides tensors is not compared."""
    tensors = [{name: value for name, value in state.items() if torch.is_tensor(value)} for state in (one, other)]
    return tensors[0].keys() == tensors[1].keys() and all(torch.equal(tensors[0][n], tensors[1][n]) for n in tensors[0])
