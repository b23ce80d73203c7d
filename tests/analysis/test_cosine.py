"""python -m fairseq_idpg.analysis cosine, against sentences encoded one by one and pairs counted in loops."""

import json

import numpy as np
import pytest
from scipy.stats import rankdata

from fairseq_idpg.analysis.__main__ import main
from fairseq_idpg.analysis.cosine import count_groups, gold_scores, report
from fairseq_idpg.errors import InputError
from fairseq_idpg.inference.load import load_trained, load_untrained
from fairseq_idpg.inference.text import load_dictionary
from preprocess.data_folder import DataFolder
from tests.analysis.conftest import PAIRS, edited
from tests.analysis.plain_pass import plain_cosine, plain_state
from tests.folders import write_folder


def cosine(*arguments):
    main(["cosine", *(str(argument) for argument in arguments), "--cpu"])


@pytest.fixture
def numbers_of(tmp_path, capsys):
    def run(*arguments):
        cosine(*arguments, "--json", tmp_path / "found.json")
        return json.loads((tmp_path / "found.json").read_text())

    return run


def plain_cosines(loaded, data, position):
    folder = DataFolder(data)
    both = [folder.rows(part, "valid") for part in ("input0", "input1")]
    states = [[plain_state(loaded.model, rows[i][:-1].tolist(), position) for i in range(PAIRS)] for rows in both]
    return [plain_cosine(*pair) for pair in zip(*states)]


def check_against_loops(model, scores, expected):
    assert model["cosines"] == pytest.approx(expected, abs=1e-5)
    assert np.std(expected) > 1e-3  # the pairs do differ
    assert model["pearson"] == pytest.approx(np.corrcoef(model["cosines"], scores)[0, 1], abs=1e-6)
    ranks = rankdata(model["cosines"]), rankdata(scores)  # equal ones share the mean of their ranks
    assert model["spearman"] == pytest.approx(np.corrcoef(*ranks)[0, 1], abs=1e-6)
    for k, counts in model["top"].items():
        plain = [0] * 5
        for i in sorted(range(PAIRS), key=lambda i: -model["cosines"][i])[: int(k)]:
            plain[min(int(scores[i] + 1e-9), 4)] += 1
        assert counts == plain and sum(counts) == int(k)


def test_prompted_and_fine_tuned(pairs, idpg, tuned, numbers_of):
    """A generator at position 3 of pairs, which is 1 of a sentence, beside fine-tuning."""
    found = numbers_of(pairs, "--path", idpg, "--baseline", tuned, "--top-k", 5, 12, "--batch-size", 7)
    dictionary = load_dictionary(str(pairs / "input0" / "dict.txt"))
    named = [(model["name"], model["prompt_position"]) for model in found["models"]]
    assert named == [("m-idpg-phm", 1), ("fine-tuning", None)]
    assert found["scores"] == pytest.approx([i % 5 for i in range(PAIRS)], abs=1e-5)
    assert found["all"] == [4, 3, 3, 3, 3]
    for model, path, position in zip(found["models"], (idpg, tuned), (1, 0)):
        plain = plain_cosines(load_trained(str(path), "--path", dictionary, {}), pairs, position)
        check_against_loops(model, found["scores"], plain)


def test_task_prompt_and_untouched_backbone(place, pairs, task_prompt, numbers_of):
    """The prompt of position 4 stands behind </s>, in a sentence as in a pair."""
    backbone = place / "backbone" / "model.pt"
    found = numbers_of(pairs, "--path", task_prompt, "--backbone", backbone, "--top-k", 10)
    dictionary = load_dictionary(str(pairs / "input0" / "dict.txt"))
    assert [model["name"] for model in found["models"]] == ["prompt-tuning", "backbone, not fine-tuned"]
    models = [load_trained(str(task_prompt), "--path", dictionary, {}), load_untrained(str(backbone), dictionary)]
    for model, loaded, position in zip(found["models"], models, (4, 0)):
        check_against_loops(model, found["scores"], plain_cosines(loaded, pairs, position))


def test_the_position_may_be_chosen(pairs, task_prompt, numbers_of):
    (found,) = (numbers := numbers_of(pairs, "--path", task_prompt, "--top-k", 5, "--prompt-position", 0))["models"]
    loaded = load_trained(str(task_prompt), "--path", load_dictionary(str(pairs / "input0" / "dict.txt")), {})
    check_against_loops(found, numbers["scores"], plain_cosines(loaded, pairs, 0))


def test_fairseqs_own_checkpoint_and_one_of_the_same_method(pairs, stock, tuned, task_prompt, numbers_of):
    found = numbers_of(pairs, "--path", task_prompt, "--baseline", stock, "--top-k", 5)
    assert found["models"][1]["name"] == "roberta" and found["models"][1]["prompt_position"] is None
    found = numbers_of(pairs, "--path", tuned, "--baseline", tuned, "--top-k", 5)
    assert [model["name"] for model in found["models"]] == ["fine-tuning", "fine-tuning, baseline"]


def test_command(pairs, idpg, tuned, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    files = ["--out", tmp_path / "plot.PNG", "--json", tmp_path / "sub" / "found.json"]
    cosine(pairs, "--path", idpg, "--baseline", tuned, "--top-k", 5, 10, *files)
    found, printed = json.loads((tmp_path / "sub" / "found.json").read_text()), capsys.readouterr().out
    assert report(found) in printed and all(f" saved: {path}\n" in printed for path in files[1::2])
    assert (tmp_path / "plot.PNG").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_bad_options_and_models_without_such_states(place, pairs, idpg, tmp_path):
    glove = edited(idpg, tmp_path / "glove.pt", method="m-idpg-phm-glove", representation="glove")
    words = edited(idpg, tmp_path / "words.pt", predict_with="mlm")
    for options, named in (
        (["--top-k", 17], "--top-k 17, .*give 1 to 16"),
        (["--out", tmp_path / "plot.xyz"], "--out .*plot.xyz"),
        (["--json", idpg], "--json .* is the file of --path"),
        (["--path", place / "backbone" / "model.pt"], "--path .*model.pt holds a model of --task "),
        (["--path", glove], "--method m-idpg-phm-glove reads word vectors"),
        (["--path", words], "--predict-with mlm"),
    ):
        with pytest.raises(SystemExit, match=named):
            cosine(pairs, "--path", idpg, "--top-k", 5, *options)
    assert {*tmp_path.iterdir()} == {glove, words}


def test_data_of_a_dictionary_of_the_same_size(tuned, tmp_path):
    other = write_folder(tmp_path / "other", regression=True, words=256)
    for part in ("input0", "input1"):
        path = other / part / "dict.txt"
        path.write_text(path.read_text().replace("w7 ", "x7 "))
    (other / "label" / "valid.label").write_text("0.5\n" * 13)
    with pytest.raises(SystemExit, match="the dictionary of the text .* is not the one that this checkpoint"):
        cosine(other, "--path", tuned, "--top-k", 5)


def test_every_score_that_fifths_of_a_point_make_is_in_its_group():
    """A score is divided by 5 in the folder and multiplied by 5 again: 3.0 may not become 2.9999999."""
    scores = [i / 25 for i in range(126)]
    for score in scores:
        read = float(f"{score / 5:.4f}") * 5
        for groups in (5, 25):
            group = min(int(round(score * 1000)) * groups // 5000, groups - 1)
            assert count_groups(np.array([read]), groups) == [int(i == group) for i in range(groups)], score


def scores_of(folder, lines, largest=1.0):
    (folder / "label" / "valid.label").write_text("".join(f"{line}\n" for line in lines))
    return gold_scores(DataFolder(folder), "valid", largest)


def test_reading_scores(tmp_path):
    folder = write_folder(tmp_path / "data", regression=True, splits={"valid": 3})
    assert scores_of(folder, ["0", "0.6", "1"]).tolist() == [0, 3, 5]
    assert scores_of(folder, ["0", "3.0", "5.000"], largest=5).tolist() == [0, 3, 5]
    for lines, named in (
        (["0", "1.2", "1"], "line 2 has 1.2.*--largest-score"),
        (["0", "0.2", "-1"], "line 3 has -1"),
        (["0", "1"], "label 2"),
    ):
        with pytest.raises(InputError, match=named):
            scores_of(folder, lines)
    for options, named in (({"pairs": False, "regression": True}, "has single sentences"), ({}, "has classes")):
        with pytest.raises(InputError, match=named):
            gold_scores(DataFolder(write_folder(tmp_path / named, **options)), "valid", 1)
