"""Every refusal names file, value and remedy, and leaves nothing behind."""

from pathlib import Path

import pytest
import torch

from checkpoints import convert_hf
from preprocess.errors import InputError
from tests.checkpoints import hf_folders
from tests.folders import changed


@pytest.fixture
def source(tmp_path):
    def made(family):
        hf_folders.build(tmp_path / "hf", family, weights="bin")
        return tmp_path / "hf"

    return made


def config(**changes):
    return lambda folder: hf_folders.edit_json(folder / "config.json", **changes)


def write(name, text):
    return lambda folder: (folder / name).write_text(text, encoding="utf-8")


def weights(edit):
    return lambda folder: changed(folder / "pytorch_model.bin", edit)


def one_bit(folder):
    """Flips a bit of a tensor's numbers, which torch itself does not notice."""
    path = folder / "pytorch_model.bin"
    content = bytearray(path.read_bytes())
    numbers = torch.load(path, weights_only=True)["bert.encoder.layer.0.intermediate.dense.weight"].numpy().tobytes()
    content[content.index(numbers) + 5] ^= 4
    path.write_bytes(content)


def vocab(old, new):
    text = "\n".join([*hf_folders.WORDPIECE, ""]).replace(f"{old}\n", f"{new}\n", 1)
    return write("vocab.txt", text)


LAYER = "bert.encoder.layer.1."
BIAS = f"{LAYER}output.dense.bias"
CASES = {
    "no width": ("bert", config(hidden_size=None), "hidden_size"),
    "type": ("bert", config(model_type="albert"), "model_type"),
    "gelu_new": ("bert", config(hidden_act="gelu_new"), "hidden_act"),
    "no weights": ("bert", lambda folder: (folder / "pytorch_model.bin").unlink(), "model.safetensors"),
    "shape": ("bert", weights(lambda state: state.update({BIAS: torch.zeros(17)})), "output.dense.bias"),
    "infinite": ("bert", weights(lambda state: state[BIAS][3:4].fill_(float("inf"))), "output.dense.bias"),
    "one bit": ("bert", one_bit, "pytorch_model.bin"),
    "adapter": ("bert", weights(lambda state: state.update({f"{LAYER}adapter": torch.zeros(17)})), "layer.1.adapter"),
    "other BPE": ("roberta", write("merges.txt", "\u2581 t\n"), "not byte-level"),
    "pad": ("roberta", config(pad_token_id=5), "pad_token_id"),
    "no [MASK]": ("bert", vocab("[MASK]", "mask"), "special tokens are not all there"),
    "twice": ("bert", vocab("dog", "cat"), "token ids are not 0 to"),
    "collision": ("bert", vocab("dog", "<unk>"), "'<unk>' would stand twice"),
    "one token more": ("bert", vocab("dog", "dog\npig"), "vocab_size"),
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


@pytest.mark.parametrize("failing_move", [1, 2])
def test_a_model_never_stands_beside_another_ones_dictionary(failing_move, source, tmp_path, monkeypatch):
    """What is there stays without --force; with it, a folder without its model is refused later."""
    folder, taken, moves, replace = source("bert"), tmp_path / "out", [], Path.replace
    taken.mkdir()
    for name in ("model.pt", "dict.txt", "notes"):
        (taken / name).write_text(f"old {name}")
    with pytest.raises(InputError, match="--force"):
        convert_hf.convert(folder, taken)
    assert all((taken / name).read_text() == f"old {name}" for name in ("model.pt", "dict.txt"))

    def flaky(path, target):
        moves.append(path)
        if len(moves) == failing_move:
            raise KeyboardInterrupt
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", flaky)
    with pytest.raises(KeyboardInterrupt):
        convert_hf.convert(folder, taken, force=True)
    assert not (taken / "model.pt").exists() and (taken / "notes").exists()
    monkeypatch.undo()
    convert_hf.convert(folder, taken, force=True)
    assert (taken / "model.pt").exists() and (taken / "notes").exists()


def test_pickled_code_is_not_run(source, tmp_path):
    class Harmful:
        def __reduce__(self):
            return Path.touch, (tmp_path / "ran",)

    folder = source("bert")
    torch.save({"x": Harmful()}, folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="pytorch_model.bin"):
        convert_hf.convert(folder, tmp_path / "out")
    assert not (tmp_path / "ran").exists()
