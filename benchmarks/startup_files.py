"""The files of benchmarks/startup.py: a random RoBERTa, a binarized folder of a few sentences, a sweep of one run."""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import torch
from fairseq.data import Dictionary, indexed_dataset
from fairseq.models.roberta.model import RobertaEncoder, RobertaModel, base_architecture
from step_data import SPECIALS, VOCAB
from step_settings import POSITIONS, Settings

from preprocess.tasks import TASKS

SPLITS = {"train": 6, "valid": 2}
LENGTH = 12
SWEEP = """backbone: {backbone}
arch: roberta_idpg
data: {{RTE: {data}}}
tasks: [RTE]
rows: [{method}]
lrs: [0.001]
seeds: [1]
dev_examples: 2
batch_size: 2
max_update: 1
options: {{cpu: true, {options}}}
"""


def words() -> Dictionary:
    symbols = Dictionary()
    for i in range(VOCAB - SPECIALS - 1):
        symbols.add_symbol(f"w{i}")
    return symbols


def size_options(settings: Settings) -> dict[str, int]:
    """Those of fairseq-train."""
    names = {"layers": "encoder-layers", "width": "encoder-embed-dim", "ffn": "encoder-ffn-embed-dim"}
    names["heads"] = "encoder-attention-heads"
    return {option: getattr(settings, name) for name, option in names.items()}


def write_backbone(path: Path, settings: Settings) -> None:
    sizes = {name.replace("-", "_"): value for name, value in size_options(settings).items()}
    args = argparse.Namespace(arch="roberta", max_positions=POSITIONS, **sizes)
    base_architecture(args)
    dictionary = words()
    dictionary.add_symbol("<mask>")
    model = RobertaModel(args, RobertaEncoder(args, dictionary))
    path.parent.mkdir(parents=True)
    torch.save({"args": args, "model": model.state_dict()}, path)


def write_rows(prefix: Path, rows: list[list[int]]) -> None:
    prefix.parent.mkdir(parents=True, exist_ok=True)
    builder = indexed_dataset.make_builder(f"{prefix}.bin", impl="mmap", vocab_size=VOCAB)
    for row in rows:
        builder.add_item(torch.tensor(row, dtype=torch.int32))
    builder.finalize(f"{prefix}.idx")


def write_folder(folder: Path) -> None:
    """Pairs of sentences, as fairseq-preprocess writes them."""
    draw, symbols, labels = random.Random(0), words(), Dictionary()
    for name in TASKS["RTE"].labels:
        labels.add_symbol(name)
    for split, count in SPLITS.items():
        for part in ("input0", "input1"):
            rows = [[draw.randrange(SPECIALS, VOCAB - 1) for _ in range(LENGTH)] + [2] for _ in range(count)]
            write_rows(folder / part / split, rows)
            symbols.save(str(folder / part / "dict.txt"))
        write_rows(folder / "label" / split, [[SPECIALS + number % 2, 2] for number in range(count)])
    labels.save(str(folder / "label" / "dict.txt"))


def write_sweep(path: Path, backbone: Path, data: Path, method: str, settings: Settings) -> None:
    options = ", ".join(f"{name}: {value}" for name, value in size_options(settings).items())
    path.write_text(SWEEP.format(backbone=backbone, data=data, method=method, options=options))
