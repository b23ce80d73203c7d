"""The undamaged files, made by the code under test: as small as they can be while everything in them matters."""

from __future__ import annotations

import argparse
import json
import random
import shutil
from pathlib import Path
from typing import Callable

import torch
import yaml
from fairseq.data import Dictionary
from fairseq.models.roberta.model import RobertaEncoder, RobertaModel, base_architecture

from checkpoints.hf_weights import LAYER
from tests.checkpoints.hf_folders import WORDPIECE
from tests.preprocess.commands import write_vocab

SIZES = {
    "encoder_layers": 2,
    "encoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 32,
    "encoder_attention_heads": 2,
    "max_positions": 40,
}
SIZE_FLAGS = [f"--{name.replace('_', '-')}={value}" for name, value in SIZES.items() if name != "max_positions"]
PLUGIN = ["--user-dir", "{code}/fairseq_idpg", "--task", "sentence_prediction_idpg"]
PLUGIN += ["--criterion", "sentence_prediction", "--init-token", "0", "--separator-token", "2"]
PLUGIN += ["--max-positions", str(SIZES["max_positions"]), "--cpu", "--log-format", "json", "--num-workers", "0"]
TRAINING = [*PLUGIN, "--arch", "roberta_idpg", *SIZE_FLAGS, "--optimizer", "adam", "--lr", "0.02"]
TRAINING += ["--lr-scheduler", "fixed", "--batch-size", "4", "--no-epoch-checkpoints"]
CLASSES = ["--num-classes", "2", "--best-checkpoint-metric", "accuracy", "--maximize-best-checkpoint-metric"]
SCORES = ["--num-classes", "1", "--regression-target", "--best-checkpoint-metric", "loss"]
IDPG = ["--method", "m-idpg-phm", "--phm-n", "4"]
WORDS = "red blue cat dog sat ran fast far".split()
SPLITS = {"train": 12, "valid": 8, "test": 6}
LABELS = ("entailment", "not_entailment")
OLD = Path(__file__).parents[1] / "saving" / "of_version_0_1"  # checkpoint, backbone and data of that version
STACK = "encoder.sentence_encoder."

Run = Callable[..., str]  # (tool, *arguments) -> what it printed; fails if the command does


def build(folder: Path, run: Run) -> None:
    """Fills ``folder``; commands run in it."""
    write_vocab(folder / "vocab")
    write_texts(folder / "raw")
    for arguments in PREPROCESS.values():
        run("preprocess", *arguments, "--out", "data")
    shutil.copytree(folder / "data" / "RTE-bin", folder / "data" / "plain-bin")
    for record in (folder / "data" / "plain-bin").glob("*.*"):
        record.unlink()  # fairseq-preprocess writes none, and no checksums
    write_backbone(folder / "backbone", folder / "vocab" / "dict.txt")
    write_released(folder / "released", folder / "backbone" / "model.pt")
    write_hugging_face(folder / "hf")
    shutil.copytree(OLD, folder / "old")
    write_vectors(folder / "vectors.txt")
    run("preprocess", "glove", "--vectors", "vectors.txt", "--data", "data/RTE-bin", *GPT2)
    train = ["--backbone", "backbone/model.pt", "--max-epoch", "2"]
    run("fairseq_cli.train", "data/RTE-bin", *TRAINING, *CLASSES, *IDPG, *train, "--save-dir", "run")
    other = [*SCORES, "--method", "prompt-tuning", *train]
    run("fairseq_cli.train", "data/scores-bin", *TRAINING, *other, "--save-dir", "prompt")
    run("fairseq_idpg.encode", *ENCODE)
    (folder / "sweeps").mkdir()
    (folder / "sweeps" / "sweep.yaml").write_text(yaml.safe_dump(SWEEP, sort_keys=False), encoding="utf-8")
    write_results(folder / "results")


GPT2 = ["--vocab", "vocab"]
PREPROCESS = {
    "RTE": ["RTE", "--raw", "raw", *GPT2],
    "scores": [
        *("scores", "--from-tsv", "train=raw/scores.train.tsv", "valid=raw/scores.valid.tsv", "--no-header"),
        *("--text-columns", "1", "2", "--label-column", "3", "--regression", "5", *GPT2),
    ],
}
ENCODE = ["data/RTE-bin", "--backbone", "backbone/model.pt", "--representation-cache", "cache", "--cpu"]
ENCODE += ["--max-positions", str(SIZES["max_positions"])]
SWEEP = {
    "backbone": "backbone/model.pt",
    "arch": "roberta_idpg",
    "data": "data",
    "tasks": ["RTE"],
    "rows": ["prompt-tuning", {"name": "ours", "method": "m-idpg-phm", "options": {"phm-n": 4}}],
    "lrs": [1.0e-2, 5.0e-3],
    "seeds": [1, 2],
    "positions": [0, 1],
    "dev_examples": 4,
    "batch_size": 4,
    "max_epoch": 2,
    "options": {
        **{"cpu": True, "adam-betas": "(0.9, 0.98)"},
        **{name.replace("_", "-"): value for name, value in SIZES.items()},
    },
}


def write_texts(raw: Path) -> None:
    """RTE as GLUE has it, and pairs with scores from 0 to 5 without a header."""
    draw = random.Random(0)
    (raw / "RTE").mkdir(parents=True)
    for split, count in SPLITS.items():
        pairs = [[" ".join(draw.choices(WORDS, k=draw.randint(1, 2))) for _ in range(2)] for _ in range(count)]
        lines = ["index\tsentence1\tsentence2" + ("" if split == "test" else "\tlabel")]
        for number, pair in enumerate(pairs):
            label = [] if split == "test" else [LABELS[number % 3 > 1]]
            lines.append("\t".join([str(number), *pair, *label]))
        name = {"valid": "dev"}.get(split, split)
        (raw / "RTE" / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        scored = "".join(f"{a}\t{b}\t{draw.randint(0, 50) / 10}\n" for a, b in pairs)
        (raw / f"scores.{split}.tsv").write_text(scored, encoding="utf-8")


def write_backbone(folder: Path, dict_file: Path) -> None:
    """``model.pt`` and ``legacy.pt``, the same in the format of torch before 1.6 (that of the published RoBERTa)."""
    torch.manual_seed(0)
    dictionary = Dictionary.load(str(dict_file))
    dictionary.add_symbol("<mask>")
    args = argparse.Namespace(arch="roberta", **SIZES)
    base_architecture(args)
    model = RobertaModel(args, RobertaEncoder(args, dictionary))
    # larger matrices: as they are drawn, the states of all sentences are nearly the same
    tensors = {name: value * 10 if value.dim() > 1 else value for name, value in model.state_dict().items()}
    history = {"criterion_name": "MaskedLmLoss", "optimizer_name": "FairseqAdam"}
    history.update({"lr_scheduler_state": {"best": None}, "num_updates": 0})
    extra = {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}, "val_loss": None}
    state = {"args": args, "model": tensors, "optimizer_history": [history], "extra_state": extra}
    state["last_optimizer_state"] = None
    folder.mkdir()
    torch.save(state, folder / "model.pt")
    torch.save(state, folder / "legacy.pt", _use_new_zipfile_serialization=False)
    shutil.copyfile(dict_file, folder / "dict.txt")


def write_released(folder: Path, backbone: Path) -> None:
    """P-tuning v2 as the paper's released code saves it."""
    state = torch.load(backbone, weights_only=False)  # our own
    tensors, layers, width = state["model"], SIZES["encoder_layers"], SIZES["encoder_embed_dim"]
    tensors[f"{STACK}suffix_embed.weight"] = torch.randn(5, width)
    tensors[f"{STACK}middle_prompt.weight"] = torch.randn(5 * layers, width)
    shapes = {"dense.weight": (width, width), "dense.bias": (width,)}
    shapes.update({"out_proj.weight": (2, width), "out_proj.bias": (2,)})
    for name, shape in shapes.items():
        tensors[f"classification_heads.sentence_classification_head.{name}"] = torch.randn(shape)
    args = {
        **{**SIZES, "dropout": 0.1, "attention_dropout": 0.1, "insert_position": 1},
        **{"add_suffix": True, "suffix_len": 5, "middle_prompt_insert_layer": 1, "middle_prompt_mode": "none"},
        **{"prompt_generation": False, "prompt_insert_mode": 1, "adapter_insert_layer": 25},
        **{"init_token": 0, "separator_token": 2, "regression_target": False},
    }
    folder.mkdir()
    torch.save({"args": argparse.Namespace(**args), "model": tensors}, folder / "checkpoint.pt")


def write_hugging_face(folder: Path) -> None:
    """A BERT of two layers as transformers saves one."""
    width, inner, layers, positions = 16, 32, 2, 40
    shapes = {"word": len(WORDPIECE), "position": positions, "token_type": 2}
    shapes = {f"embeddings.{name}_embeddings.weight": (count, width) for name, count in shapes.items()}
    sizes = {"C": width, "F": inner}
    modules = [("embeddings.LayerNorm", "C")]
    modules += [(f"encoder.layer.{layer}.{name}", shape) for layer in range(layers) for name, _, shape in LAYER]
    for name, shape in modules:
        shapes[f"{name}.weight"] = tuple(sizes[letter] for letter in shape)
        shapes[f"{name}.bias"] = (sizes[shape[0]],)
    config = {"model_type": "bert", "vocab_size": len(WORDPIECE), "hidden_size": width, "pad_token_id": 0}
    config.update({"num_hidden_layers": layers, "num_attention_heads": 2, "intermediate_size": inner})
    config.update({"max_position_embeddings": positions, "type_vocab_size": 2, "layer_norm_eps": 1e-12})
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**config, "hidden_act": "gelu"}), encoding="utf-8")
    (folder / "vocab.txt").write_text("\n".join(WORDPIECE) + "\n", encoding="utf-8")
    torch.save({name: torch.randn(shape) for name, shape in shapes.items()}, folder / "pytorch_model.bin")


def write_vectors(path: Path) -> None:
    """Word vectors as GloVe's files have them."""
    draw = random.Random(1)
    lines = [" ".join([word, *(f"{draw.uniform(-1, 1):.4f}" for _ in range(8))]) for word in WORDS]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_results(folder: Path) -> None:
    """What a sweep of two methods on two tasks left."""
    folder.mkdir()
    lines, sizes = [], {"m-idpg-phm": 137232, "prompt-tuning": 5120}
    for number in range(16):
        row, task = list(sizes)[number % 2], ("RTE", "CR")[number // 2 % 2]
        record = {
            **{"run": f"{number:012x}", "row": row, "task": task, "setting": "full", "k": None},
            **{"selection": "clean", "position": 0, "supplementary_position": None, "prompt_length": 5},
            **{"lr": (1e-3, 5e-3)[number // 8], "seed": 1 + number // 4 % 2, "metric": "accuracy"},
            **{"dev": 70.0 + number, "test": 68.5 + number, "trainable": sizes[row], "options": {}},
            **{"backbone": {"path": "/models/model.pt", "sha256": "ab12" * 16}, "status": "done"},
            **{"command": ["fairseq-train", "--arch", "roberta_idpg_large"], "predictions": None},
        }
        lines.append(json.dumps(record) + "\n")
    (folder / "results.jsonl").write_text("".join(lines), encoding="utf-8")
