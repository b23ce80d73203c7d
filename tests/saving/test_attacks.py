"""Checkpoints of a stranger that would run code, through every command that reads one: the code never runs."""

import argparse
import sys

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.models.roberta.model import RobertaClassificationHead

from checkpoints.convert_released import convert
from fairseq_idpg import load
from fairseq_idpg.errors import InputError
from fairseq_idpg.inference.load import load_trained
from fairseq_idpg.inference.text import load_dictionary
from fairseq_idpg.methods.base import Geometry
from fairseq_idpg.methods.prompts.initial import load_saved
from fairseq_idpg.methods.prompts.task_prompts import TaskPrompts
from fairseq_idpg.models.heads import load_head
from fairseq_idpg.names import TASK
from fairseq_idpg.predict import main as predict
from fairseq_idpg.saving.backbone_file import read_backbone
from fairseq_idpg.saving.reading import load_state
from fairseq_idpg.saving.record import Record
from tests.folders import train, validate
from tests.helpers import ends_soon, model_args
from tests.saving.conftest import SIZE

PROMPT = model_args(method="prompt-tuning")
HEAD = "sentence_classification_head"


class Evil:
    """Unpickled by Python itself, it would make a file."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return open, (str(self.file), "w")


@pytest.fixture
def mark(tmp_path):
    """A file that hostile code would make, and an expression that makes it."""
    file = tmp_path / "executed"
    yield file, f"[(512, 3) for _ in [open({str(file)!r}, 'w')]]"
    assert not file.exists()


def at(section, **options):
    """Options in a section of the configuration; with a ``_name`` in the place of the whole section."""

    def change(state, code):
        values = {name: code if value is CODE else value for name, value in options.items()}
        state["cfg"][section] = values if "_name" in values else {**state["cfg"][section], **values}

    return change


def of_model(name, **options):
    def change(state, code):
        state["cfg"]["task"]["_name"] = "sentence_prediction"
        at("model", _name=name, **options)(state, code)

    return change


def as_namespace(change):
    def changed(state, code):
        change(state, code)
        cfg = state.pop("cfg")
        names = {"task": cfg["task"]["_name"], "arch": cfg["model"]["_name"], "criterion": cfg["criterion"]["_name"]}
        state["args"] = argparse.Namespace(**{**cfg["task"], **cfg["model"], **cfg["criterion"], **names})

    return changed


def stock(state, code):
    """fairseq's own RoBERTa with an option that its attention evaluates."""
    of_model("roberta", encoder_xformers_att_config=CODE)(state, code)
    del state["model"]["backbone_sha256"]


CODE = object()
REFUSED = {
    "fconv": of_model("fconv", encoder_layers=CODE, encoder_embed_dim=8, share_input_output_embed=False),
    "no model at all": of_model("nothing"),
    "a model without a name": lambda state, code: state["cfg"].update(model={"encoder_layers": code}),
    "a string in our model": at("model", encoder_layers=CODE),
    "a string in our task": at("task", num_classes=CODE),
    "an interpolation": at("task", data="${oc.env:HOME}"),
    "a size without bounds": at("model", prompt_length=10**12),
    "a task that evaluates": at("task", _name="multilingual_translation", left_pad_source=CODE),
    "another criterion": at("criterion", _name="ctc", wer_args=CODE),
    "a configuration of another kind": lambda state, code: state.update(cfg=[code]),
}
REFUSED.update({f"{name}, as a namespace": as_namespace(REFUSED[name]) for name in ("fconv", "another criterion")})
STOCK = {"stock": stock, "stock, as a namespace": as_namespace(stock)}
WITHOUT_EFFECT = {
    "a learning rate schedule": at("lr_scheduler", _name="manual", update2lr=CODE, epoch2lr=CODE),
    "a target for hydra": at("model", _target_="os.system"),
    "a part for the transformer": at("model", encoder={"xformers_att_config": "open('x')"}),
    "overrides": at("common_eval", _name="x", model_overrides=CODE),
}
ALL = {**REFUSED, **STOCK, **WITHOUT_EFFECT}


@pytest.fixture
def crafted(old, mark):
    def make(name, **parts):
        state = old.state()
        ALL[name](state, mark[1])
        return old.save({**state, **parts})

    return make


def refusal(command) -> str:
    """The one line with which a command ends, or nothing."""
    try:
        command()
    except (InputError, SystemExit) as error:
        line = str(error)
        assert "\n" not in line and "weights_only" not in line
        return line
    return ""


def predicting(old, path, out):
    return lambda: predict([str(old.data), "--path", str(path), "--split", "valid", "--out", str(out), "--cpu"])


@pytest.mark.parametrize("name", [*REFUSED, *STOCK])
def test_nothing_is_built_from_it(name, old, crafted, tmp_path):
    path = str(crafted(name))
    dictionary = load_dictionary(str(old.data / "input0" / "dict.txt"))
    commands = [predicting(old, path, tmp_path / "out.tsv"), lambda: load_trained(path, "--path", dictionary, {})]
    if name in REFUSED:
        commands.append(lambda: load_state(path, "--path"))
    assert all(path in refusal(command) for command in commands)
    assert not (tmp_path / "out.tsv").exists()


def test_fairseqs_own_reader(crafted):
    """In a process that has imported this package, whichever task it runs."""
    path = str(crafted("a string in our model"))
    assert path in refusal(lambda: checkpoint_utils.load_checkpoint_to_cpu(path))
    # Without our fingerprint, in a process that fairseq-validate has started.
    path = str(crafted("fconv", model={}))
    assert path in refusal(lambda: checkpoint_utils.load_checkpoint_to_cpu(path, {"task": TASK}))


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_what_is_not_read_changes_nothing(name, old, crafted, tmp_path):
    predicting(old, crafted(name), tmp_path / "out.tsv")()
    assert (tmp_path / "out.tsv").read_text() == old.predictions.read_text()


@pytest.mark.parametrize("name", ALL)
def test_files_of_which_only_tensors_are_read(name, old, crafted):
    path = str(crafted(name))
    refusal(lambda: load_state(path, "--restore-file", builds=False))
    heads = {HEAD: RobertaClassificationHead(16, 16, 2, "tanh", 0.0)}
    model = argparse.Namespace(classification_heads=heads, args=argparse.Namespace(pooler_activation_fn="tanh"))
    refusal(lambda: load_head(model, path, HEAD, Record()))
    assert refusal(lambda: load_saved(TaskPrompts(PROMPT, Geometry(2, 16, 32)), path, PROMPT))
    whole = {**old.state()["model"], **torch.load(old.backbone, weights_only=True)["model"]}
    path = str(crafted(name, model=whole))
    refusal(lambda: load_state(path, "--restore-file", builds=False))
    refusal(lambda: read_backbone(path))
    if "namespace" in name:  # as the released checkpoints are, whose criterion is not read
        assert refusal(lambda: convert(path)) or "criterion" in name


def test_an_option_of_the_released_code_that_would_be_evaluated(old, mark):
    whole = torch.load(old.backbone, weights_only=True)["model"]
    head = {name: value for name, value in old.state()["model"].items() if name.startswith("classification_heads.")}
    for value in (mark[1], "${oc.env:HOME}"):
        args = argparse.Namespace(encoder_layers=value, init_token=0, separator_token=2, max_positions=64)
        path = old.save({"args": args, "model": {**whole, **head}})
        assert "says --encoder-layers" in refusal(lambda path=path: convert(path))


def test_a_record_that_holds_itself_many_times(old):
    """Of version 0.1, which has no checksum: written out, it would have 2^50 parts."""
    names = ["name"]
    for _ in range(50):
        names = [names, names]
    state = old.state()
    state["model"]["_extra_state"] = {"record": {"labels": names}}
    path = old.save(state)
    with ends_soon():
        assert "labels" in refusal(lambda: load(path, device="cpu"))


def test_a_folder_to_import_is_never_looked_at(old, mark, tmp_path):
    (tmp_path / "stranger").mkdir()
    (tmp_path / "stranger" / "__init__.py").write_text(mark[1])
    state = old.state()
    state["cfg"]["common"]["user_dir"] = str(tmp_path / "stranger")
    path = old.save(state)
    predicting(old, path, tmp_path / "out.tsv")()
    assert "stranger" not in sys.modules
    assert load_state(str(path), "--path")["cfg"]["common"].get("user_dir") is None


def test_objects_are_not_unpickled(old, mark, tmp_path):
    for place in ("args", "cfg", "model", "extra_state", "task_state"):
        path = old.save({**old.state(), place: Evil(mark[0])})
        assert "which is not data" in refusal(predicting(old, path, tmp_path / "out.tsv"))
        refusal(lambda path=path: load_state(str(path), "--restore-file", builds=False))


def test_fairseqs_own_commands(old, crafted, tmp_path):
    line = validate(old.data, crafted("another criterion"), succeed=False).last_line
    assert line.startswith("fairseq_idpg: checkpoint ") and "changed.pt" in line
    (tmp_path / "run").mkdir()
    crafted("a string in our model").rename(tmp_path / "run" / "checkpoint_last.pt")
    finished = train(old.data, tmp_path / "run", *SIZE, "--backbone", old.backbone, "--max-epoch", 3, succeed=False)
    assert finished.last_line.startswith("fairseq_idpg: ") and "--encoder-layers" in finished.last_line
