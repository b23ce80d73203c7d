"""Every refusal names file, value and remedy, and leaves nothing behind."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest
import torch

from checkpoints import convert_hf
from preprocess.errors import InputError
from tests.checkpoints import hf_folders


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    """One folder of every family, read-only for the tests."""
    root = tmp_path_factory.mktemp("pristine")
    for family in hf_folders.MODELS:
        hf_folders.build(root / family, family, weights="bin")
    return root


@pytest.fixture
def source(pristine, tmp_path):
    """Gives a function that copies a pristine folder."""
    return lambda family: shutil.copytree(pristine / family, tmp_path / "hf")


def config(**changes):
    return lambda folder: hf_folders.edit_json(folder / "config.json", **changes)


def remove(*names):
    return lambda folder: [(folder / name).unlink() for name in names]


def write(name, text):
    return lambda folder: (folder / name).write_text(text, encoding="utf-8")


def weights(edit):
    def change(folder):
        state = torch.load(folder / "pytorch_model.bin", weights_only=True)
        edit(state)
        torch.save(state, folder / "pytorch_model.bin")

    return change


def one_bit(folder):
    """Flips a bit of a tensor's numbers, which torch itself does not notice."""
    path = folder / "pytorch_model.bin"
    content = bytearray(path.read_bytes())
    numbers = torch.load(path, weights_only=True)["bert.encoder.layer.0.intermediate.dense.weight"].numpy().tobytes()
    content[content.index(numbers) + 5] ^= 4
    path.write_bytes(content)


def vocab(*replacements):
    def change(folder):
        text = (folder / "vocab.txt").read_text(encoding="utf-8")
        for old, new in replacements:
            text = text.replace(f"{old}\n", f"{new}\n", 1)
        (folder / "vocab.txt").write_text(text, encoding="utf-8")

    return change


LAYER = "bert.encoder.layer.1."
BIAS, WORDS = f"{LAYER}output.dense.bias", "bert.embeddings.word_embeddings.weight"
CASES = {
    "no config": ("bert", remove("config.json"), "config.json"),
    "text for a size": ("bert", config(hidden_size="8"), "hidden_size"),
    "NaN for eps": ("bert", config(layer_norm_eps=float("nan")), "layer_norm_eps"),
    "type": ("bert", config(model_type="albert"), "model_type"),
    "gelu_new": ("bert", config(hidden_act="gelu_new"), "hidden_act"),
    "decoder": ("roberta", config(is_decoder=True), "is_decoder"),
    "no weights": ("bert", remove("pytorch_model.bin"), "model.safetensors"),
    "no embeddings": ("bert", weights(lambda state: state.pop(WORDS)), "embeddings.word_embeddings.weight"),
    "no bias": ("bert", weights(lambda state: state.pop(BIAS)), "encoder.layer.1.output.dense.bias"),
    "shape": ("bert", weights(lambda state: state.update({BIAS: torch.zeros(17)})), "output.dense.bias"),
    "infinite": ("bert", weights(lambda state: state[BIAS][3:4].fill_(float("inf"))), "output.dense.bias"),
    "one bit": ("bert", one_bit, "pytorch_model.bin"),
    "adapter": ("bert", weights(lambda state: state.update({f"{LAYER}adapter": torch.zeros(17)})), "layer.1.adapter"),
    "heads": ("bert", config(num_attention_heads=3), "num_attention_heads"),
    "no vocabulary": ("bert", remove("vocab.txt"), "tokenizer.json"),
    "no merges": ("roberta", remove("merges.txt"), "merges.txt"),
    "bad merges": ("roberta", write("merges.txt", "#version\na\n"), "not a vocabulary"),
    "bad spm": ("xlm-roberta", write("sentencepiece.bpe.model", "x"), "sentencepiece.bpe.model"),
    "other BPE": ("roberta", write("merges.txt", "\u2581 t\n"), "not byte-level"),
    "pad": ("roberta", config(pad_token_id=5), "pad_token_id"),
    "no [MASK]": ("bert", vocab(("[MASK]", "mask")), "special tokens are not all there"),
    "twice": ("bert", vocab(("dog", "cat")), "token ids are not 0 to"),
    "collision": ("bert", vocab(("dog", "<unk>")), "'<unk>' would stand twice"),
    "space": ("bert", vocab(("dog", "hot dog")), "'hot dog' has a space"),
    "one token more": ("bert", vocab(("dog", "dog\npig")), "vocab_size"),
}


@pytest.mark.parametrize("case", CASES)
def test_refused(case, source, tmp_path):
    family, change, message = CASES[case]
    folder = source(family)
    change(folder)
    with pytest.raises(SystemExit, match=message) as caught:
        convert_hf.main([str(folder), str(tmp_path / "deep" / "out")])
    line = str(caught.value)
    assert line.startswith("convert_hf: ") and "\n" not in line and "weights_only" not in line
    assert not list((tmp_path / "deep").glob("*"))


@pytest.fixture
def taken(tmp_path):
    """A DST of an earlier conversion, with a file of the user's beside it."""
    folder = tmp_path / "out"
    folder.mkdir()
    for name in ("model.pt", "dict.txt", "notes"):
        (folder / name).write_text(f"old {name}")
    return folder


def contents(folder: Path):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_force(source, taken, tmp_path):
    folder, before = source("bert"), contents(taken)
    with pytest.raises(InputError, match="--force"):
        convert_hf.convert(folder, taken)
    assert contents(taken) == before
    convert_hf.main([str(folder), str(taken), "--force"])
    convert_hf.convert(folder, tmp_path / "fresh")
    assert (taken / "dict.txt").read_bytes() == (tmp_path / "fresh" / "dict.txt").read_bytes()
    assert (taken / "notes").read_text() == "old notes"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fresh", "hf", "out"]
    with pytest.raises(InputError, match="is a file"):
        convert_hf.convert(folder, taken / "notes", force=True)


def test_half_written_file(source, taken, tmp_path, monkeypatch):
    before = contents(taken)

    def save(_, path):
        Path(path).write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch, "save", save)
    with pytest.raises(SystemExit, match="convert_hf: .*out: No space"):
        convert_hf.main([str(source("bert")), str(taken), "--force"])
    assert contents(taken) == before and {path.name for path in tmp_path.iterdir()} == {"hf", "out"}


@pytest.mark.parametrize("failing_move", [1, 2])
def test_a_model_never_stands_beside_another_ones_dictionary(failing_move, source, taken, monkeypatch):
    """Whichever move into an existing folder fails: a folder without its model is refused, and --force goes on."""
    moves, replace = [], Path.replace

    def flaky(path, target):
        moves.append(path)
        if len(moves) == failing_move:
            raise KeyboardInterrupt
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", flaky)
    with pytest.raises(KeyboardInterrupt):
        convert_hf.convert(source("bert"), taken, force=True)
    assert not (taken / "model.pt").exists() and (taken / "notes").exists()


def test_pickled_code_is_not_run(source, tmp_path):
    class Harmful:
        def __reduce__(self):
            return Path.touch, (tmp_path / "ran",)

    folder = source("bert")
    torch.save({"x": Harmful()}, folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="pytorch_model.bin"):
        convert_hf.convert(folder, tmp_path / "out")
    assert not (tmp_path / "ran").exists() and not (tmp_path / "out").exists()
