"""Each command of benchmarks/ once, on tiny models: its table has the rows and ratios that its page shows."""

import json
import os
import random
import re
import subprocess
import sys
from dataclasses import asdict, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from checkpoints.convert_hf import convert
from fairseq_idpg.backbone.cpu import PACKED
from fairseq_idpg.methods.registry import PRESETS
from tests.checkpoints import hf_folders
from tests.folders import ROOT, SIZE, write_backbone, write_folder
from tests.helpers import TINY
from tests.inference.saved import write_checkpoint
from tests.preprocess.commands import run as preprocess
from tests.preprocess.commands import write_vocab

SCRIPTS = ROOT / "benchmarks"
sys.path.append(str(SCRIPTS))  # they import each other by name
PAGE = (SCRIPTS / "README.md").read_text(encoding="utf-8")
STEP = ["--layers", 1, "--width", 32, "--ffn", 64, "--batch", 4, "--steps", 2, "--rounds", 1]
METHODS = {"head-only": 0, "m-idpg-dnn": 3, "prompt-tuning": 3}  # of the tiny quick start, and their prompt lengths
KINDS = ["onnx", "int8"] if all(map(find_spec, ("onnx", "onnxruntime", "onnxscript"))) else []
TIMED = [*METHODS, *(f"{name}, {kind}" for kind in KINDS for name in METHODS)]


@pytest.fixture
def benchmark(python, monkeypatch, capsys):
    """Runs a script of benchmarks/ in this process, its child processes with the warm python; returns its output."""

    def run(script: str, *words: object) -> str:
        monkeypatch.setattr(sys, "executable", str(python))
        monkeypatch.setattr(sys, "argv", [script, *map(str, words)])
        import_module(script).main()
        return capsys.readouterr().out

    return run


def page_table(marker: str) -> list[str]:
    """The blocks of one of the page's tables."""
    return re.search(rf"<!-- {marker} table -->\n```text\n(.*?)```\n", PAGE, re.DOTALL).group(1).strip().split("\n\n")


def cells(block: str) -> list[list[str]]:
    """The cells of each line, which are two spaces or more apart."""
    return [re.split(r" {2,}", line.strip()) for line in block.splitlines()]


def test_step_time(benchmark, tmp_path):
    names = ["m-idpg-phm", "m-idpg-phm-cached", "prompt-tuning", "fine-tuning", "floor"]
    said = benchmark("step_time", *STEP, "--no-peers", "--json", tmp_path / "figures.json", "--cases", *names)
    figures = json.loads((tmp_path / "figures.json").read_text())
    block = next(block for block in said.split("\n\n") if block.startswith("case "))
    table = {name: row for name, *row in (line.split() for line in block.splitlines()[1:-1])}
    assert block.splitlines()[-1].startswith("slowest round: ")
    assert set(table) == set(figures) == set(names)
    for name, found in figures.items():
        ratios = [f"{found['median_s'] / figures[of]['median_s']:.2f}" for of in ("prompt-tuning", "floor")]
        assert table[name][:4] == [f"{found['median_s']:.4f}", *ratios, f"{found['peak_mib']:,.0f}"]
    assert len({found["tokens"] for found in figures.values()}) == 1  # all cases see the same
    assert set(benchmark("step_time", "--list").split()) >= PRESETS.keys()


def test_variants_are_what_their_names_say():
    worker, settings = import_module("step_worker"), replace(import_module("common").SIZES["tiny"], threads=1)
    names = ["m-idpg-phm", "m-idpg-phm-cached", "lpt-naive", "lpt-naive-cached-states"]
    cases = import_module("step_time").find_cases(names)
    given = {case.name: worker.Steps(case, settings).batches[0][0].keys() for case in cases}
    assert given["m-idpg-phm-cached"] - given["m-idpg-phm"] == {"representation"}
    assert given["lpt-naive-cached-states"] - given["lpt-naive"] == {"states"}


@pytest.mark.parametrize("name", ["lora", "fine-tuning"])
def test_predictions_have_packed_weights(name):
    """All of them, as ``load`` has: also those into which a method was written, and those that were trained."""
    settings = replace(import_module("common").SIZES["tiny"], threads=1, predict=True)
    steps = import_module("step_worker").Steps(*import_module("step_time").find_cases([name]), settings)
    layers = steps.model.encoder.sentence_encoder.layers.modules()
    linears = [layer for layer in layers if isinstance(layer, torch.nn.Linear)]
    assert linears and all(PACKED[layer].version == layer.weight._version for layer in linears)


def test_memory_by_calculation_is_what_a_step_takes(benchmark, tmp_path):
    """What the meta device counts is what a CPU's tensors hold; without drawn masks, also what autograd keeps."""
    said = benchmark("memory", "--sizes", "tiny", "--json", tmp_path / "figures.json")
    figures = json.loads((tmp_path / "figures.json").read_text())
    size = replace(import_module("common").SIZES["tiny"], batch=8, length=128, length_spread=0.0, dtype="bfloat16")
    for name in ("lora-checkpointed", "prompt-tuning-checkpointed"):
        steps = import_module("step_worker").Steps(
            *import_module("step_time").find_cases([name]), replace(size, steps=1)
        )
        steps.step()
        adam = steps.optimizer.optimizer.fp32_optimizer.optimizer
        copies, states = adam.param_groups[0]["params"], adam.state.values()
        trained = [p for p in steps.model.parameters() if p.requires_grad]
        moments = [state[moment] for state in states for moment in ("exp_avg", "exp_avg_sq")]
        held = {"weights": steps.model.parameters(), "gradients": [p.grad for p in (*trained, *copies)]}
        held["optimizer"] = [*copies, *moments]
        found = {part: figures[f"tiny {name}"][part] * 2**30 for part in (*held, "kept")}
        assert all(found[part] == sum(t.nbytes for t in tensors) for part, tensors in held.items())
        most = 1 if "lora" in name else 1.2  # the embedding's dropout keeps two bytes a number, not one
        assert 1 <= found["kept"] / (steps.built["kept_mib"] * 2**20) <= most
        assert re.search(rf"^tiny +{name} +{figures[f'tiny {name}']['weights']:.3f} ", said, re.MULTILINE)


def test_memory_names_a_case_that_fails_on_the_device(benchmark, monkeypatch, capsys):
    memory, failing = import_module("memory"), "lora-checkpointed"
    answers = {failing: {"error": "full"}}
    monkeypatch.setattr(memory, "check_device", lambda device: None)
    monkeypatch.setattr(
        memory, "measure", lambda cases, *_: ({c.name: answers.get(c.name, {"peak_mib": 2**10}) for c in cases}, [])
    )
    with pytest.raises(SystemExit, match="error: "):
        benchmark("memory", "--sizes", "tiny", "--device", "cuda")
    said = capsys.readouterr().out
    assert f"tiny {failing} fails: full" in said and said.count(" 1.000\n") == 2


def test_scaling(benchmark, tmp_path):
    file, axes = tmp_path / "figures.json", ["--axes", "layers=1,2", "batch=4"]
    figure = tmp_path / "figure.svg"
    said = benchmark("scaling", *STEP, *axes, "--cases", "prompt-tuning", "--json", file, "--plot", figure)
    saved = json.loads(file.read_text())["axes"]
    found = [point["cases"]["prompt-tuning"] for point in saved["layers"]]
    assert saved["batch"][0]["cases"]["prompt-tuning"] == found[0]  # one point of both axes, measured once
    lines = [line.split() for line in said[said.index("depth (layers)") :].splitlines()[:4]]
    assert lines[0][2:] == ["1", "2"] and lines[1][2:] == [f"{each['median_s']:.4f}" for each in found]
    assert ">batch size (sentences)</text>" in figure.read_text(encoding="utf-8")


def test_epoch(benchmark, tmp_path):
    data = write_folder(tmp_path / "single-bin", pairs=False, splits={"train": 44, "valid": 5, "test": 13})
    words = [data, "--backbone", write_backbone(tmp_path / "model.pt", max_positions=512), "--arch", "roberta_idpg"]
    words += ["--methods", "m-idpg-phm", "prompt-tuning", "--cpu", "--rounds", 1, "--updates", 2]
    said = benchmark("epoch", *words, "--json", tmp_path / "figures.json", "--options", *SIZE)
    figures = json.loads((tmp_path / "figures.json").read_text())
    table = {line.split()[0]: line.split()[1:] for line in said.split("\n\n")[-1].splitlines()}
    assert len(figures) == 8 and figures.keys() < table.keys()
    for found in figures.values():
        assert (found["updates"], found["updates_per_epoch"], found["examples"]) == (2, 3, 44)
        assert found["epoch_s"] > 2 * found["update_s"]
    seconds = [figures[name]["epoch_s"] for name in ("m-idpg-phm", "prompt-tuning")]
    assert table["m-idpg-phm"][2] == f"{seconds[0] / seconds[1]:.2f}"
    assert table["m-idpg-phm"][5] == f"{figures['m-idpg-phm']['bytes']:,.0f}"


def test_startup(benchmark, tmp_path):
    words = ["--size", "tiny", "--cases", "load", "--work", tmp_path, "--json", tmp_path / "figures.json"]
    table, page = (cells(text)[1:] for text in (benchmark("startup", *words), page_table("startup")[0]))
    assert table[0] == page[0] and [row[:-2] for row in table[1:]] == [row[:-2] for row in page[5:]]
    rounds = json.loads((tmp_path / "figures.json").read_text())["load"]
    assert [row[-2] for row in table[1:]] == [f"{rounds[way][0]['wall']:.2f}" for way in ("first", "later")]


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory) -> Path:
    """What a quick start leaves, with random labels and checkpoints that are not trained."""
    folder, draw = tmp_path_factory.mktemp("quickstart"), random.Random(0)
    sizes = {"hidden_size": TINY["encoder_embed_dim"], "intermediate_size": TINY["encoder_ffn_embed_dim"]}
    sizes.update(num_hidden_layers=TINY["encoder_layers"], max_position_embeddings=TINY["max_positions"])
    hf_folders.build(folder / "minilm-hf", "bert", kind="Model", **sizes)
    convert(folder / "minilm-hf", folder / "backbone")
    (folder / "reviews").mkdir()
    files = {split: folder / "reviews" / f"{split}.tsv" for split in ("train", "valid", "test")}
    for file in files.values():
        texts = (" ".join(draw.choices("the a cat dog in then rain".split(), k=draw.randint(1, 9))) for _ in range(10))
        file.write_text("".join(f"{draw.randrange(2)}\t{text}\n" for text in texts))
    columns = ["--no-header", "--text-columns", "2", "--label-column", "1", "--labels", "0", "1"]
    encoder = ["--bpe", "bert", "--vocab", str(folder / "minilm-hf"), "--out", str(folder)]
    sources = [f"{split}={file}" for split, file in files.items()]
    assert preprocess(["reviews", "--from-tsv", *sources, *columns, *encoder]) == 0
    for name, length in METHODS.items():
        options = ["--method", name, "--layer-norm-eps", 1e-12, *(["--prompt-length", length] if length else [])]
        path = folder / "runs" / name / "checkpoint_best.pt"
        write_checkpoint(path, folder / "reviews-bin", folder / "backbone" / "model.pt", *options)
    return folder


FEW = ["--sentences", 6, "--singles", 2, "--tasks", 2, "--batch-size", 4, "--rounds", 1, "--connections", 3]


def test_predict_speed(benchmark, quickstart, tmp_path):
    said = benchmark("predict_speed", quickstart, *FEW, "--json", tmp_path / "figures.json")
    blocks = json.loads((tmp_path / "figures.json").read_text())["blocks"]
    page, printed = page_table("predict")[1:], said.split("\n\n")[1:5]
    assert len(blocks) == len(page) == len(printed)
    for shown, block, (title, cases) in zip(page, printed, blocks.items()):
        head, *rows = cells(block)
        assert head == [title, *cells(shown)[0][1:]]  # the columns of the page
        for case, (name, speed, *_) in zip(cases, rows, strict=True):
            assert (name, speed) == (case["name"], f"{case['answers'] / case['rounds'][0]:.1f}")
        assert [name for name, *_ in rows if not name.startswith("pipeline")] == TIMED


def test_preprocess_time(benchmark, tmp_path):
    (tmp_path / "text").write_text("a line\nanother\n" * 20)
    said = benchmark("preprocess_time", "--file", tmp_path / "text", "--rounds", 1, "--vocab", write_vocab(tmp_path))
    assert said.startswith("40 lines") and "files equal byte for byte" in said


def gpu(*words: str, **variables: object) -> subprocess.CompletedProcess:
    own = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment = {**own, **{name: str(value) for name, value in variables.items()}}
    command = ["bash", str(SCRIPTS / "gpu.sh"), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)


def test_gpu_begins_with_agreement_and_targets(monkeypatch):
    for name in ("PARTS", "DTYPES", "CASES"):
        monkeypatch.delenv(name, raising=False)
    parts = import_module("gpu").find_parts("cuda", "roberta-large", ["--against", "DIR"])
    assert list(dict.fromkeys(part.kind for part in parts)) == [
        "agree",
        "targets",
        "few-shot",
        "sizes",
        "predict",
        "steps",
    ]
    commands = [" ".join(part.command) for part in parts if part.kind == "targets"]
    assert [re.findall("--dtype (.*?) .*--against (.*?) ", each) for each in commands] == [
        [("bfloat16", "DIR")],
        [("float16", "DIR")],
    ]


def test_gpu_says_which_targets_are_met_and_which_were_not_measured():
    settings = asdict(replace(import_module("common").SIZES["roberta-large"], batch=32, length=128))
    seconds = {"prompt-tuning": 0.018, "peft-prompt-tuning": 0.036, "m-idpg-phm": 0.03}
    figures = {name: {"median_s": s, "peak_mib": 1e5 * s, "settings": settings} for name, s in seconds.items()}
    *table, rate = import_module("gpu").targets(figures, "NVIDIA H200")
    assert cells("\n".join(table[1:]))[1:] == [
        ["prompt-tuning", "peft-prompt-tuning", "0.5", "0.50", "yes", "0.50"],
        ["p-tuning-v2-kv", "peft-prefix-features", "0.6", "-", "-", "-"],
        ["lora", "peft-lora", "0.75", "-", "-", "-"],
        ["m-idpg-phm-cached", "prompt-tuning", "1.1", "-", "-", "-"],
        ["m-idpg-phm", "prompt-tuning", "1.6", "1.67", "NO", "1.67"],
    ]
    assert rate == "prompt-tuning: 30% of 989 TFLOP/s (NVIDIA H200)"  # 5.25 TFLOP


def test_gpu_goes_on_and_reports_every_part(python, tmp_path):
    """After --limit seconds it ends; the same command runs the parts that are left."""
    usual = {"PYTHON": python, "DEVICE": "cpu", "SIZE": "tiny", "CASES": "'lor?'", "OUT": tmp_path / "out"}
    usual.update(PARTS="environment agree targets few-shot sizes predict steps", DTYPES="bfloat16")
    words = ["--threads", "1", "--rounds", "1", "--steps", "1", "--against", str(SCRIPTS.parent)]
    assert gpu("--limit", "0.001", *words, **usual).returncode == 0
    parts = json.loads((tmp_path / "out" / "report.json").read_text())["parts"]
    assert not [name for name, part in parts.items() if "found" in part]
    done = gpu(*words, **usual)
    assert done.returncode == 0, done.stdout + done.stderr
    parts = json.loads((tmp_path / "out" / "report.json").read_text())["parts"]
    assert parts["memory-tiny"]["said"]
    assert set(map(len, parts["few-shot"]["found"]["seconds"].values())) == {1}
    assert max(parts["agree-float32-1"]["found"]["lora"].values()) < 1e-6
    other = f"lora ({SCRIPTS.parent.name})"  # --against: the case of the other checkout is measured beside
    assert {"lora", other} == parts["steps-bfloat16-1"]["found"].keys()
    assert parts["predict-bfloat16-1"]["found"]["lora"]["settings"]["predict"]
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^lora +\d\.\d{4} ", report, re.MULTILINE)) == 4  # targets, sizes, predict, steps
