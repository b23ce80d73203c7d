"""``train``: examples of Python to a trained model, as the commands for data and training make it, in this process."""

import argparse
import contextlib
import hashlib
import io
import json
import logging
import math
import os
import random
import re
import sys
import tempfile
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from fairseq import checkpoint_utils, options
from fairseq.logging import metrics, progress_bar
from hydra.core.singleton import Singleton
from tqdm.auto import tqdm

from preprocess import cli
from preprocess.dictionary import read_dictionary
from preprocess.encoders import ENCODERS, GPT2_FOLDER, load_encoder
from preprocess.errors import did_you_mean
from preprocess.flags import flag_name, positive, positive_number, random_seed
from preprocess.readers import is_text, label_text

from .errors import InputError, is_hub_name, refused
from .inference.load import load
from .inference.predictor import Predictor
from .inference.sharing import call_hub
from .methods.options import TrueFalse
from .models.config import METHOD_OPTIONS, use_method_file
from .names import TASK
from .out_of_memory import usual_device
from .saving.backbone_file import notes_folder, stat_file
from .saving.tensors import digest_of
from .training import fairseq_patches, lock

LABEL = "label"
COLUMNS = (("sentence1", "sentence2"), ("sentence",), ("text",))
FORMS = "a list of (text, label) or of (text, text, label), or a table with text, or sentence1 and sentence2, and label"
OWN = {"max_epoch": "what `epochs` says", "cpu": "what `device` says"}  # options of fairseq-train that are set here
OWN |= dict.fromkeys(("task", "distributed_world_size", "log_format", "log_interval"), "train's own choice")
Record = dict[str, Any]  # an example, by column


def train(
    examples: Any,
    backbone: str | Path,
    method: str = "m-idpg-phm",
    *,
    validation: Any = 0.1,
    epochs: int = 10,
    lr: float = 1e-3,
    batch_size: int = 16,
    seed: int = 1,
    patience: int | None = None,
    regression: bool | float = False,
    class_weights: Mapping[str, float] | None = None,
    vocab: str | Path | None = None,
    device: str | torch.device | None = None,
    save_dir: str | Path | None = None,
    progress: bool = True,
    **more: Any,
) -> Predictor:
    """Train a method on examples as ``fairseq-train`` does, and return the best model as ``load`` does.

    Args:
        examples: (text, label) or (text, text, label) in a list; or a table of pandas or ``datasets``, with the columns
            text or sentence, or sentence1 and sentence2, and label.
        backbone: folder of model.pt and dict.txt, or one of Hugging Face, here or on the hub, which is converted once.
        validation: examples that choose the best model; or a share that is held out, the same for every ``seed``.
        patience: end after so many epochs in a row that were no better.
        regression: labels are scores; a number is their scale, by which they are divided in training.
        class_weights: {class: its weight in the loss of training}; 1 for others.
        vocab: folder of the encoder's files; default: the backbone's.
        save_dir: folder of data and checkpoints, where the same call goes on; default: one removed with the model.
        more: options of the method and of fairseq-train, such as ``prompt_length=5``; ``method_file``: the
            Python file of a method that is not part of this package.

    Raise InputError where an argument does not fit. What fairseq changes in the process is put back.
    """
    numbers = {"epochs": (positive, epochs), "lr": (positive_number, lr), "batch_size": (positive, batch_size)}
    numbers |= {"seed": (random_seed, seed), "patience": (positive, 1 if patience is None else patience)}
    for name, (parse, value) in numbers.items():
        try:
            parse(str(value))
        except (argparse.ArgumentTypeError, ValueError) as error:
            raise refused(name, f"is wrong: {error}") from None
    target = torch.empty(0, device=usual_device(cpu=False) if device is None else device).device
    use_method_file(more.get("method_file"))
    for name in more.keys() & OWN.keys():
        raise refused(name, f"is {OWN[name]}: leave it out")
    records = as_records(examples, "examples", regression)
    if isinstance(validation, (int, float)):
        records, held_out = hold_out(records, validation, by_label=not regression)
    else:
        held_out = as_records(validation, "validation", regression)
    if records[0].keys() != held_out[0].keys():
        raise refused("validation", "is not of the kind of `examples`: give pairs to both, or single texts")
    temporary = tempfile.TemporaryDirectory(prefix="fairseq_idpg-") if save_dir is None else None
    folder = Path(save_dir or str(temporary and temporary.name))
    folder.mkdir(parents=True, exist_ok=True)
    lock.hold(str(folder))
    try:
        model, dictionary, places = find_backbone(Path(backbone), folder)
        encoder = find_encoder([Path(vocab)] if vocab else places, dictionary)
        data = write_data({"train": records, "valid": held_out}, folder, regression, *encoder)
        settings = {"arch": "roberta_idpg", "backbone": model, "method": method, "lr": lr, "max_epoch": epochs}
        settings |= {"batch_size": batch_size, "seed": seed, "patience": patience, "no_epoch_checkpoints": True}
        settings |= {"num_workers": 0, **more, "task": TASK, "save_dir": folder, "distributed_world_size": 1}
        settings |= {"cpu": target.type == "cpu", "log_format": "json", "log_interval": 10}
        if class_weights is not None:
            settings |= {"criterion": TASK, "class_weights": json.dumps(dict(class_weights))}
            settings |= {"best_checkpoint_metric": "accuracy", "maximize_best_checkpoint_metric": True, **more}
        run(data, settings, target, progress)
        predictor = load(folder / "checkpoint_best.pt", device=target)
    except InputError as error:
        raise naming_arguments(error) from None
    finally:
        lock.release(str(folder))
    if temporary is not None:
        weakref.finalize(predictor, temporary.cleanup)
    return predictor


def naming_arguments(error: InputError) -> InputError:
    """Return an error of the commands, which name options, with arguments: --prompt-length is `prompt_length`."""
    message = str(error).replace("name all classes with --labels", "give `examples` one with this label")
    message = message.replace(", or name both classes with --labels", "")
    return type(error)(re.sub(r"(?<!\w)--([a-z][\w-]*\w)", lambda name: f"`{name[1].replace('-', '_')}`", message))


def as_records(examples: Any, argument: str, regression: bool | float) -> list[Record]:
    """Return examples by column; raise InputError with the ``argument`` and the number of a wrong example."""
    columns, names = getattr(examples, "column_names", getattr(examples, "columns", None)), None
    rows: Sequence[Any] = examples if isinstance(examples, (list, tuple)) else ()
    if columns is not None:
        wanted = next(([*texts, LABEL] for texts in COLUMNS if {*texts, LABEL} <= {*columns}), [])
        rows = list(zip(*(list(examples[name]) for name in wanted)))
        # ``datasets`` has numbers for classes whose names it knows
        names = getattr(getattr(examples, "features", {}).get(LABEL), "names", None)
    if not rows:
        found = type(examples).__name__ if columns is None else f"a table of {', '.join(map(str, columns))}"
        raise refused(argument, f"is {found}, without examples: give {FORMS}")

    records: list[Record] = []
    allowed = (int, float) if regression else (int, str)
    for number, row in enumerate(rows):
        *parts, label = row if isinstance(row, (tuple, list)) and row else [row]
        label = label.item() if isinstance(label, np.generic) else label
        with contextlib.suppress(TypeError, IndexError):
            label = label if names is None else names[label] if label >= 0 else None
            if len(parts) in (1, 2) and all(map(is_text, parts)) and label_text(label) and isinstance(label, allowed):
                records.append({**dict(zip(COLUMNS[0], parts)), LABEL: label})
        if len(records) == number or records[0].keys() != records[-1].keys():
            kinds = "a finite number" if regression else "a name or whole number, or `regression` for scores"
            raise refused(argument, f"has {row!r:.80} at {number}: give {FORMS}, and as label {kinds}")
    return records


def hold_out(records: list[Record], share: float, by_label: bool) -> tuple[list[Record], list[Record]]:
    """Return the examples to train on, and a share of each class's texts to validate on."""
    held: set[tuple[Any, str]] = set()
    # a class, and a number that is drawn from the texts, so that no seed changes what is held out
    texts = [json.dumps([record[name] for name in record if name != LABEL]).encode() for record in records]
    classes = [label_text(record[LABEL]) if by_label else None for record in records]
    keys = [(each, hashlib.sha256(text).hexdigest()) for each, text in zip(classes, texts)]
    for each in dict.fromkeys(classes if 0 < share < 1 else ()):
        ranked = sorted({key for key in keys if key[0] == each})
        held.update(ranked[: min(math.ceil(share * len(ranked)), len(ranked) - 1)])
    if not held:
        raise refused("validation", f"is {share}: give a share between 0 and 1 that holds out a text, or examples")
    left = [record for record, key in zip(records, keys) if key not in held]
    return left, [record for record, key in zip(records, keys) if key in held]


def write_data(splits: dict[str, list[Record]], folder: Path, regression: bool | float, bpe: str, vocab: Path) -> Path:
    """Make the binarized folder in ``folder`` as ``python -m preprocess`` does, and return it."""
    texts = [name for name in splits["train"][0] if name != LABEL]
    command = ["--text-columns", *texts, "--bpe", bpe, "--vocab", str(vocab), "--out", str(folder), "--strict"]
    command += ["--overwrite", *(["--regression", str(float(regression))] if regression else []), "--from-jsonl"]
    with tempfile.TemporaryDirectory() as raw:
        for split, records in splits.items():
            file = Path(raw, f"{split}.jsonl")
            file.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
            command.append(f"{split}={file}")
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # the folder's preprocess.log has the summary
                return cli.main(["data", *command])
        except InputError as error:
            argument = "validation" if os.path.join(raw, "valid.jsonl") in str(error) else "examples"
            # an example has no line, and what validates may have been taken out of them
            problem = re.sub(rf"{re.escape(raw)}/(\w+\.jsonl line [0-9]+: )?", "", str(error))
            raise refused(argument, f"cannot be encoded: {problem}") from None


def find_backbone(source: Path, folder: Path) -> tuple[Path, Path, list[Path]]:
    """Return model.pt, dict.txt, and where the encoder's files may be; what is converted is kept in the user's cache.

    Where there is no cache it is kept in ``folder``.
    """
    if is_hub_name(str(source)):
        what, wanted = f"`backbone` {source} is not a folder", ["*.json", "*.safetensors", "*.txt", "*.model"]
        source = Path(call_hub(what, "snapshot_download", str(source), allow_patterns=wanted))
    found, notes = source, notes_folder()
    if not (source / "model.pt").is_file() and (source / "config.json").is_file():
        from checkpoints.convert_hf import convert

        files = [stat_file(str(file)) for file in sorted(source.iterdir()) if file.is_file()]
        found = (folder if notes is None else notes.parent) / "converted" / digest_of(files)[:32]
        if not (found / "model.pt").is_file():
            found.parent.mkdir(parents=True, exist_ok=True)
            convert(source, found, force=True)
    if not (found / "model.pt").is_file() or not (found / "dict.txt").is_file():
        raise refused("backbone", f"{source} is not a folder of model.pt and dict.txt, or of Hugging Face: give one")
    return (found / "model.pt").absolute(), found / "dict.txt", [source, GPT2_FOLDER]


def find_encoder(places: Iterable[Path], dictionary: Path) -> tuple[str, Path]:
    """Find the encoder whose pieces are the dictionary's; return its name for --bpe and its folder."""
    symbols = read_dictionary(dictionary)
    for place in filter(Path.is_dir, places):
        for bpe in ENCODERS:
            with contextlib.suppress(InputError):
                if load_encoder(bpe, place).symbols == symbols:
                    return bpe, place
    raise refused("vocab", f"does not name the folder of the encoder that {dictionary} belongs to: name it")


def run(data: Path, settings: dict[str, Any], target: torch.device, progress: bool) -> None:
    """``fairseq-train`` with these options, in this process."""

    def refuse(message: str) -> None:  # where argparse would end the process
        names, _, problem = message.removeprefix("argument --").partition(": ")  # such as max-valid-steps/--nval
        raise refused(names.partition("/")[0].replace("-", "_"), f"is refused ({problem}): give another value")

    words = [str(data)]
    for name, value in settings.items():
        kind = METHOD_OPTIONS[name].type if name in METHOD_OPTIONS else None
        if isinstance(value, bool) and TrueFalse not in (kind, *get_args(kind)):
            words += [flag_name(name)] * value
        elif value is not None:
            words.append(f"{flag_name(name)}={str(value).lower() if isinstance(value, bool) else value}")
    with left_as_it_was(target) as command:
        parser = options.get_training_parser()
        parser.error = refuse
        args, _ = options.parse_args_and_arch(parser, words, parse_known=True)
        known = {*(train.__kwdefaults__ or ()), *(name[2:].replace("-", "_") for name in parser._option_string_actions)}
        for name in settings.keys() - known:
            raise refused(name, f"is unknown: {did_you_mean(name, known)}OPTIONS.md has a method's options")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Hydra's, of how fairseq calls it
            cfg = command.convert_namespace_to_omegaconf(args)
        with shown_progress(cfg.optimization.max_epoch, f"valid_{cfg.checkpoint.best_checkpoint_metric}", progress):
            try:
                command.main(cfg)
            except Exception as error:  # fairseq's trainer wraps any error of a checkpoint in another one
                if isinstance(error.__context__, InputError):
                    raise error.__context__ from None
                raise


@contextlib.contextmanager
def left_as_it_was(target: torch.device) -> Iterator[Any]:
    """Yield fairseq's command, and put back what it changes in this process."""
    root, hook = logging.getLogger(), sys.excepthook
    handlers, level = root.handlers[:], root.level
    import fairseq_cli.train as command  # sets up the root logger

    root.handlers[:] = handlers
    root.setLevel(level)
    fairseq_patches.install()
    # fairseq's attributes of functions and its metrics, and Hydra's objects
    memories: list[Any] = [vars(checkpoint_utils.save_checkpoint), vars(command.should_stop_early)]
    memories += [metrics._aggregators, metrics._active_aggregators, metrics._active_aggregators_cnt]
    memories += [Singleton._instances, *map(vars, Singleton._instances.values())]
    kept = [dict(memory) for memory in memories]
    drawn, drawn_by_numpy = random.getstate(), np.random.get_state()
    try:
        with torch.cuda.device(target if target.type == "cuda" else -1):
            # fairseq draws a GPU's numbers anew for a training on a CPU, too
            with torch.random.fork_rng([torch.cuda.current_device()] if torch.cuda.is_available() else []):
                yield command
    finally:
        for memory, before in zip(memories, kept):
            memory.clear()
            memory.update(before)
        random.setstate(drawn)
        np.random.set_state(drawn_by_numpy)
        sys.excepthook = hook


@contextlib.contextmanager
def shown_progress(epochs: int, metric: str, progress: bool) -> Iterator[None]:
    """Show a bar with the last loss, and the score of the last validation, instead of fairseq's lines."""
    lines, values = progress_bar.logger, dict[str, Any]()
    level = lines.level
    names = {"loss": "loss", "train_loss": "loss", metric: metric}
    with tqdm(total=epochs, unit="epoch", disable=not progress) as bar:

        def show(line: logging.LogRecord) -> bool:
            stats = json.loads(line.getMessage())
            bar.n = stats.get("update", stats["epoch"])
            values.update({shown: stats[name] for name, shown in names.items() if name in stats})
            bar.set_postfix(values)
            return False  # and no handler gets the line

        lines.addFilter(show)
        lines.setLevel(logging.INFO)
        try:
            yield
        finally:
            lines.removeFilter(show)
            lines.setLevel(level)
