"""Several tasks on one backbone answer as each does by itself."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from fairseq_idpg import load
from fairseq_idpg.errors import ModelFault
from fairseq_idpg.inference.sharing import check_same_backbone
from preprocess.errors import InputError
from tests.inference.saved import write_checkpoint
from tests.inference.test_command import predict, table
from tests.inference.test_predictor import inputs

PHM = ["--phm-n", 4]
LATE = ["--prompt-insertion", "late", "--prompt-layers"]
IN_PYTHON = r"load\({'NAME': CHECKPOINT}\) or add\(CHECKPOINT, 'NAME'\)"
MIXED = {  # name: options; different lengths, positions and places
    "m-idpg": ["--method", "m-idpg-phm", *PHM],
    "m-idpg of <s>": ["--method", "m-idpg-dnn", "--representation", "backbone", "--prompt-position", 2],
    "s-idpg": ["--method", "s-idpg-phm", *PHM, "--prompt-length", 2, "--prompt-position", 4],
    "mean": ["--method", "s-idpg-dnn", "--representation", "mean-pooled", "--prompt-position", 3],
    "prompt tuning": ["--method", "prompt-tuning", "--prompt-length", 7, "--prompt-position", 1],
    "p-tuning v2": ["--method", "p-tuning-v2", "--prompt-length", 3, "--prompt-insertion", "replace"],
    "keys": ["--method", "p-tuning-v2-kv", "--prompt-length", 4],
    "idpg keys": ["--method", "m-idpg-dnn", "--prompt-insertion", "key-value-input", "--prompt-length", 2],
    "late": ["--method", "lpt-naive", "--prompt-length", 6, "--prompt-layers", 1],
    "late idpg": ["--method", "m-idpg-phm", *PHM, *LATE, "0,1", "--prompt-length", 2],
    "appg": ["--method", "lpt-appg", "--prompt-layers", 1],
    "id-spam": ["--method", "id-spam", "--prompt-layers", 1, "--generator-input", "embeddings"],
    "id-spam of words": ["--method", "id-spam", "--prompt-insertion", "add", "--prompt-layers", "first"],
    "last states": ["--method", "id-spam", "--prompt-layers", 1, "--generator-input", "last"],
    "dept": ["--method", "dept", "--prompt-length", 3, "--words-length", 6],
    "smop": ["--method", "smop"],
    "lora": ["--method", "lora-all"],
    "adapter": ["--method", "adapter"],
    "parallel": ["--method", "adapter-parallel"],
    "heads": ["--method", "adapter-multihead-parallel"],
    "joined": ["--method", "p-tuning-v2-kv+lora", "--prompt-insertion", "key-value-input", "--prompt-length", 3],
    "head": ["--method", "head-only"],
    "head on M(x)": ["--method", "head-on-representation"],
}


@pytest.fixture(scope="module")
def saved(place, folders):
    """(kind of texts, name, options) -> checkpoint."""

    def write(kind: str, name: str, *options: object, backbone=None):
        path = place / "many" / kind / f"{name.replace(' ', '-')}.pt"
        if not path.exists():
            without = "--phm-n --num-classes" if kind == "scores" else "--phm-n"
            more = ["--num-classes", 1, "--regression-target"] if kind == "scores" else []
            write_checkpoint(
                path, folders[kind], backbone or place / "backbone/model.pt", *options, *more, without=without
            )
        return path

    return write


@pytest.fixture(scope="module")
def mixed(saved):
    """{name: checkpoint} of all methods, trained on pairs."""
    return {name: saved("pairs", name, *options) for name, options in MIXED.items()}


@pytest.fixture(scope="module")
def many(mixed):
    return load(mixed, device="cpu")


def values(predictions) -> np.ndarray:
    """Probabilities, or the score."""
    return np.array([list(p.probabilities.values()) or [p.score] for p in predictions])


def of_task(answers, task: str) -> np.ndarray:
    return values([answer[task] for answer in answers])


@pytest.fixture(scope="module")
def together(many):
    return many.predict(inputs("pairs"), batch_size=3 * len(MIXED))


@pytest.mark.parametrize("task", MIXED)
def test_a_mixed_batch_is_as_alone(task, together, mixed):
    texts = inputs("pairs")
    expected = values(load(mixed[task], device="cpu").predict(texts, batch_size=5))
    assert of_task(together, task) == pytest.approx(expected, abs=1e-5)
    assert [answer[task].text for answer in together] == texts
    assert np.ptp(expected[:, 0]) > 1e-4  # inputs matter


def test_each_text_is_represented_once(many):
    texts = [*inputs("pairs"), inputs("pairs")[3]]
    passes = []
    encoder = many["m-idpg"].model.encoder
    hook = encoder.register_forward_hook(lambda module, given, out: passes.append(given[0].shape))
    try:
        found = many.predict(texts, batch_size=40)
    finally:
        hook.remove()
    rows, lengths = zip(*passes)
    kinds = {"backbone", "mean-pooled", "last-states"}
    assert sum(rows) == len(kinds) * len(set(texts)) + len(texts) * len(MIXED)
    assert rows[:3] == (len(set(texts)),) * 3 and max(rows) <= 40  # a pass for each kind
    assert list(lengths[3:]) == sorted(lengths[3:], reverse=True) and lengths[3] > lengths[-1]  # alike run together
    assert of_task(found[-1:], "mean") == pytest.approx(of_task(found[3:4], "mean"), abs=1e-5)


def test_a_prediction_that_is_not_finite_names_its_task(saved):
    many = load({name: saved("pairs", name, *MIXED[name]) for name in ("late", "head")}, device="cpu")
    many["head"].head.out_proj.bias.data.fill_(float("nan"))
    with pytest.raises(ModelFault, match="the prediction of task head: input 1 is not finite: give another checkpoint"):
        many.predict(inputs("pairs")[:1])
    assert len(many.predict(inputs("pairs"), "late")) == 16


def test_one_backbone_in_memory(many):
    places = [{p.data_ptr() for p in many[name].model.encoder.parameters()} for name in many.names]
    assert all(place == places[0] for place in places) and len(places) == len(MIXED)
    lora = many["lora"]
    assert not lora.model.method.merged  # its changes would be everybody's
    own = [{p.data_ptr() for p in many[name].model.method.parameters()} for name in ("lora", "adapter")]
    assert not own[0] & own[1]


def test_in_training_mode_no_task_of_the_backbone_answers(saved):
    """Its dropout would be that of all of them."""
    tasks = load({name: saved("pairs", name, *MIXED[name]) for name in ("head", "keys")}, device="cpu")
    texts = inputs("pairs")[:3]
    expected = tasks.predict(texts)
    tasks["head"].model.train()
    for ask in (tasks.predict, lambda texts: tasks.predict(texts, "keys"), tasks["keys"].predict):
        with pytest.raises(InputError, match=r"^the model is in training mode, .*: call its eval\(\) first$"):
            ask(texts)
    tasks["head"].model.eval()
    assert tasks.predict(texts) == expected


def test_some_tasks_and_one_of_them(many, together):
    texts = inputs("pairs")[:5]
    found = many.predict(texts, tasks=["keys", "late"], batch_size=1)
    assert [list(answer) for answer in found] == [["keys", "late"]] * 5
    for name in ("keys", "late"):
        assert of_task(found, name) == pytest.approx(of_task(together[:5], name), abs=1e-5)
    assert values(many["lora"].predict(texts)) == pytest.approx(of_task(together[:5], "lora"), abs=1e-5)
    assert many.predict([]) == []
    with pytest.raises(InputError, match="tasks is empty: choose among m-idpg, "):
        many.predict(texts, tasks=[])
    for tasks in (3, [["lora"]], [None]):
        with pytest.raises(InputError, match="^tasks are given by their names, not .*: choose among m-idpg, "):
            many.predict(texts, tasks=tasks)
    with pytest.raises(InputError, match="takes a list of texts, not {'sentence'"):
        many.predict({"sentence": "red cat"})


def test_scores_beside_classes(saved):
    paths = [saved("pairs", "m-idpg", *MIXED["m-idpg"]), saved("scores", "keys", *MIXED["keys"])]
    many, texts = load(paths, device="cpu"), inputs("pairs")
    assert many.names == ["pairs", "scores"]
    found = many.predict(texts)
    for name, path in zip(many.names, paths):
        assert of_task(found, name) == pytest.approx(values(load(path, device="cpu").predict(texts)), abs=1e-5)
    assert {answer["scores"].label for answer in found} == {None}


def test_each_task_cuts_to_its_own_room(saved):
    names = {"short": 3, "long": 20}
    options = {name: ["--method", "prompt-tuning", "--prompt-length", length] for name, length in names.items()}
    many = load({name: saved("singles", f"cuts {name}", *options[name]) for name in names}, device="cpu", truncate=True)
    texts = ["red", "red cat " * 6, "red cat " * 12]
    found = [{task: answer.cut for task, answer in answers.items()} for answers in many.predict(texts)]
    expected = (False, False), (False, True), (True, True)
    assert found == [dict(zip(names, cut)) for cut in expected]


def test_tasks_come_and_go_while_threads_predict(saved):
    first, second, single = (saved("pairs", n, *MIXED[n]) for n in ("late", "lora", "m-idpg"))
    many, texts = load({"first": first}, device="cpu"), inputs("pairs")
    expected = of_task(many.predict(texts), "first")
    stop = threading.Event()

    def predict() -> list:
        found = [many.predict(texts)]
        while not stop.is_set():
            found.append(many.predict(texts))
        return found

    with ThreadPoolExecutor(2) as threads:
        running = [threads.submit(predict) for _ in range(2)]
        try:
            assert many.add(second, "second") == "second"
            assert many.add(single) == "pairs"
            many.drop("second")
        finally:
            stop.set()
        answers = [found for future in running for found in future.result()]
    assert many.names == ["first", "pairs"]
    for found in answers:
        assert of_task(found, "first") == pytest.approx(expected, abs=1e-5)
        assert len({tuple(answer) for answer in found}) == 1  # the tasks of its beginning, for all texts
    many.drop("first")
    expected = values(load(single, device="cpu").predict(texts))
    assert of_task(many.predict(texts), "pairs") == pytest.approx(expected, abs=1e-5)


def test_what_cannot_share_is_refused(saved, place, folders, tmp_path):
    tuned, late = (saved("pairs", n, *MIXED[n]) for n in ("prompt tuning", "late"))
    other = tmp_path / "other" / "model.pt"
    other.parent.mkdir()
    state = torch.load(place / "backbone" / "model.pt", weights_only=True)
    name = next(name for name in state["model"] if name.endswith("layers.1.fc1.bias"))
    state["model"][name] += 0.5
    torch.save(state, other)
    single = saved("singles", "late", *MIXED["late"])
    for paths, message in (
        ([tuned, late], f"{late}: there is a task pairs already: give it another name, as in {IN_PYTHON}$"),
        ({7: tuned}, f"^checkpoint {tuned}: the name 7 of its task is no text: give a string$"),
        ([], "the list is empty"),
        ([tuned, saved("pairs", "bitfit", "--method", "bitfit")], "--method bitfit trains weights of the backbone"),
        (
            [saved("pairs", "norms", "--method", "adapter", "--train-layer-norms", "true")],
            "--method adapter --train-layer-norms true trains weights of the backbone, which cannot be shared",
        ),
        (
            {"a": tuned, "b": saved("pairs", "moved", *MIXED["late"], backbone=other)},
            r"moved.pt: its backbone .*other/model.pt \(SHA-256 .*\) is not that of the other tasks, .*: load it alone",
        ),
        ([tuned, tmp_path / "no.pt"], "no.pt is not a file"),
    ):
        with pytest.raises(InputError, match=message):
            load(paths, device="cpu")
    with pytest.raises(InputError, match="vectors.* no task reads word vectors"):
        load([tuned], device="cpu", vectors="x.txt")
    many = load([tuned, single], device="cpu")
    for tasks, texts, message in (
        (None, inputs("singles"), "task pairs: input 1 is a single sentence, and this model was trained on pairs"),
        (["singles"], inputs("pairs"), "task singles: input 1 is a pair of sentences"),
        (["mnli"], inputs("pairs"), "task mnli is not here: choose among pairs, singles"),
        ("pairs", "red", "takes a list of texts"),
        ([], ["red"], "there is no task"),
    ):
        with pytest.raises(InputError, match=message):
            many.predict(texts, tasks)
    with pytest.raises(InputError, match="task mnli is not here"):
        many.drop("mnli")
    assert len(many.predict(inputs("singles"), "singles")) == 16


def test_another_way_from_text_to_ids_is_refused(saved):
    first, second = (load(saved("pairs", n, *MIXED[n]), device="cpu") for n in ("late", "head"))
    check_same_backbone(second, first, "B")
    second.text.encoder.fingerprint = lambda: "0" * 64
    with pytest.raises(InputError, match="B: its encoder of text, in .*vocab .SHA-256 000000000000., is not that of"):
        check_same_backbone(second, first, "B")
    second.text.dictionary.symbols[9] += "x"
    with pytest.raises(InputError, match="B: its dictionary, in "):
        check_same_backbone(second, first, "B")


def test_command_line(saved, tmp_path, capsys):
    pairs, scores = saved("pairs", "m-idpg", *MIXED["m-idpg"]), saved("scores", "keys", *MIXED["keys"])
    texts, path = inputs("pairs"), tmp_path / "x.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in texts))
    usual = ["--text", path, "--pairs", "tab", "--path", f"same={pairs}", scores]
    expected = load({"same": pairs, "scores": scores}, device="cpu").predict(texts)
    predict(*usual)
    rows = table(capsys.readouterr().out)
    assert list(rows[0]) == ["same.label", "same.probability", "scores.score", "sentence1", "sentence2"]
    assert [float(row["scores.score"]) for row in rows] == pytest.approx(of_task(expected, "scores")[:, 0], abs=2e-5)
    assert [row["same.label"] for row in rows] == [answer["same"].label for answer in expected]
    predict(*usual, "--out", tmp_path / "o.jsonl")
    found = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [row["sentence1"] for row in found] == [a for a, _ in texts]
    assert found[0]["tasks"]["same"].keys() == {"label", "probability", "probabilities"}
    with pytest.raises(SystemExit, match=f"there is a task pairs already: give it another name, as in NAME={pairs}$"):
        predict(*usual[:4], "--path", pairs, pairs)
    with pytest.raises(SystemExit, match="several tasks read --text; for a folder give one"):
        predict("data-bin", "--path", pairs, scores, "--out", tmp_path / "o")
    with pytest.raises(SystemExit, match="--path: task same was trained on pairs of sentences: give --pairs tab"):
        predict("--text", path.rename(tmp_path / "x.txt"), *usual[4:])
