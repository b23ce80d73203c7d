"""Damaged files, and files that are no checkpoints, end in one line; none gives other weights without a word."""

import codecs
import io
import os
import re
import tarfile
import zipfile

import numpy as np
import pytest
import torch
from fairseq.utils import move_to_cpu

from checkpoints.convert_hf import read_weights
from fairseq_idpg.errors import InputError
from fairseq_idpg.saving.backbone_file import read_backbone
from fairseq_idpg.saving.reading import load_state, read_file
from fairseq_idpg.saving.tensors import changed_progress, checksum, with_progress_checksums
from tests.folders import same_tensors, train
from tests.helpers import tiny_model
from tests.saving.conftest import SIZE


def refusal(path, read=lambda path: read_file(path, "--path")) -> str:
    with pytest.raises(InputError, match=re.escape(str(path))) as refused:
        read(str(path))
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_files_that_are_no_checkpoints(old, tmp_path):
    (tmp_path / "folder.pt").mkdir()
    os.mkfifo(tmp_path / "pipe.pt")
    whole = old.checkpoint.read_bytes()
    files = {"text.pt": b"no checkpoint\n", "empty.pt": b"", "pickle.pt": b"\x80\x02}.", "cut.pt": whole[:-1000]}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with tarfile.open(tmp_path / "tar.pt", "w") as archive:
        archive.add(old.backbone, "storages")
    torch.jit.script(torch.nn.Linear(1, 1)).save(str(tmp_path / "script.pt"))
    for name, content in {"list.pt": [1], "other.pt": {"weights": {}}}.items():
        torch.save(content, tmp_path / name)
    for name in [*files, "folder.pt", "pipe.pt", "tar.pt", "script.pt", "list.pt", "other.pt", "nowhere.pt"]:
        for read in (read_backbone, lambda p: load_state(p, "checkpoint"), lambda p: read_file(p, "--path")):
            refusal(tmp_path / name, read)


def test_records_that_claim_to_be_larger(old, tmp_path):
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", bytes(10**7))
    (tmp_path / "bomb.pt").write_bytes(bomb.getvalue())
    assert "larger than the file" in refusal(tmp_path / "bomb.pt")
    data = old.checkpoint.read_bytes()
    at = data.rindex(b"PK\x01\x02") + 20  # the sizes of the last record in the archive's directory
    (tmp_path / "claim.pt").write_bytes(data[:at] + b"\xf0\xff\xff\xff" * 2 + data[at + 8 :])
    assert "larger than the file" in refusal(tmp_path / "claim.pt")
    with zipfile.ZipFile(old.checkpoint) as whole, zipfile.ZipFile(tmp_path / "packed.pt", "w") as archive:
        for record in whole.infolist():  # one of them packed: torch would map its bytes as they stand
            packed = zipfile.ZIP_DEFLATED if record.filename.endswith("version") else zipfile.ZIP_STORED
            archive.writestr(record.filename, whole.read(record), packed)
    assert "packed" in refusal(tmp_path / "packed.pt")


class Made:
    def __init__(self, function, *arguments, state=None):
        self.reduced = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self):
        return self.reduced


OF_ANY_SIZE = {
    "zeros": Made(bytearray, 2),
    "a slow codec": Made(codecs.encode, "a", "punycode"),
    "a codec that is not named": Made(codecs.encode, "a"),
    "a number of numpy": Made(np.float64(0).__reduce__()[0], Made(np.dtype, "V2", False, True)),
    "a type of numpy": Made(np.dtype, "f8", False, True, state=(3, "<", (np.dtype("f8"), (2,)), None, None, -1, -1, 0)),
    "a tensor without numbers": torch.empty(2, device="meta"),
    "numbers that stand many times": torch.zeros(1).expand(10**9),
    "tensors that share their numbers": (lambda one: [one[i:] for i in range(10)])(torch.zeros(10**6)),
}


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("name", OF_ANY_SIZE)
def test_what_could_be_larger_than_its_file(name, zipped, old, tmp_path):
    """Of small sizes here: what may be made is decided by its kind."""
    state = {**torch.load(old.backbone, weights_only=True), "extra_state": {"x": OF_ANY_SIZE[name]}}
    path = str(tmp_path / "pytorch_model.bin")
    torch.save(state, path, _use_new_zipfile_serialization=zipped)
    for read in (lambda path: load_state(path, "--restore-file", builds=False), read_backbone):
        refusal(path, read)
    with pytest.raises(InputError, match=f"{re.escape(path)}: unreadable"):
        read_weights(tmp_path)


@pytest.mark.parametrize("zipped", [True, False])
def test_what_fairseq_saves_is_read(zipped, old, tmp_path):
    tied = torch.zeros(1000)
    values = {"best": np.float64(0.5), "bytes": b"\xe9", "shared": [tied, tied.view(10, 100)]}
    state = {**torch.load(old.backbone, weights_only=True), "extra_state": values}
    torch.save(state, tmp_path / "saved.pt", _use_new_zipfile_serialization=zipped)
    found = read_file(str(tmp_path / "saved.pt"), "--path")["extra_state"]
    assert (found["best"], found["bytes"], found["shared"][1].shape) == (0.5, b"\xe9", (10, 100))
    assert same_tensors(read_backbone(str(tmp_path / "saved.pt")).weights, state["model"])


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A checkpoint of this version, as the trainer writes it."""
    path = tmp_path_factory.mktemp("saved") / "checkpoint.pt"
    model = tiny_model()
    torch.save({"cfg": {"model": {"_name": "roberta_idpg"}}, "model": model.state_dict()}, path)
    return path


CHANGES = [
    lambda model: model["method.bias"].add_(1e-6),
    lambda model: model.pop("method.bias"),
    lambda model: model.update({"method.bias": model["method.bias"].double()}),
    lambda model: model.update({"method.bias": model["method.bias"].flatten()}),
    lambda model: model["_extra_state"].update(record={"labels": ["a", "b"]}),
    lambda model: model["_extra_state"].pop("checksum"),
    lambda model: model.pop("_extra_state"),
    lambda model: model["_extra_state"].update(record=nested(40, 2)),
]


def test_the_checksum_is_compared(saved, tmp_path):
    read_file(str(saved), "--path")
    for change in CHANGES:
        changed = torch.load(saved, weights_only=True)
        change(changed["model"])
        torch.save(changed, tmp_path / "changed.pt")
        assert "do not fit the checksum" in refusal(tmp_path / "changed.pt")


def nested(depth, times):
    """A list that holds the next one so many times."""
    value = ["ha"]
    for _ in range(depth):
        value = [value] * times
    return value


def test_half_precision_counts_as_what_fairseq_writes():
    model = tiny_model()
    for half in (torch.float16, torch.bfloat16):
        state = model.to(half).state_dict()
        assert checksum(move_to_cpu(dict(state))) == state["_extra_state"]["checksum"]


def test_a_run_writes_and_reads_its_checksum(old, tmp_path):
    usual = [*SIZE, "--backbone", old.backbone, "--phm-n", 4]
    train(old.data, tmp_path / "run", *usual, "--max-epoch", 1)
    last = tmp_path / "run" / "checkpoint_last.pt"
    state = read_file(str(last), "--path")
    assert state["model"]["_extra_state"]["checksum"] == checksum(state["model"])
    state["extra_state"]["train_iterator"]["epoch"] = 1
    torch.save(state, last)
    line = train(old.data, tmp_path / "run", *usual, "--max-epoch", 2, succeed=False).last_line
    assert line.startswith("fairseq_idpg: checkpoint ") and "its extra_state is not what was saved" in line


def test_progress_that_is_not_what_was_saved(saved, tmp_path):
    state = {**torch.load(saved, weights_only=True), "optimizer_history": [{"num_updates": 3}], "extra_state": {}}
    moments = {"state": {0: {"step": 3, "exp_avg": torch.ones(3)}}, "param_groups": [{"lr": 0.1, "params": [0]}]}
    state = with_progress_checksums({**state, "last_optimizer_state": moments})
    torch.save(state, tmp_path / "saved.pt")
    assert changed_progress(torch.load(tmp_path / "saved.pt", weights_only=True)) is None
    assert changed_progress({**state, "last_optimizer_state": None}) is None  # taken out to save room
    for name, value in (
        ("optimizer_history", [{"num_updates": 2}]),
        ("extra_state", {"best": 1.0}),
        ("last_optimizer_state", {**moments, "param_groups": [{"lr": 0.1, "params": ["0"]}]}),
        ("last_optimizer_state", {**moments, "state": {0: {"step": 3, "exp_avg": torch.ones(3, 1)}}}),
    ):
        assert changed_progress({**state, name: value}) == name
    torch.save({**state, "extra_state": nested(300, 1)}, tmp_path / "changed.pt")
    with pytest.raises(InputError, match="its extra_state is not what was saved"):
        load_state(str(tmp_path / "changed.pt"), "checkpoint", builds=False)
    assert changed_progress({**state, "checksums": None}) == "checksums"
