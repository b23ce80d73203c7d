"""python -m fairseq_idpg.analysis neighbours, against cosines in loops and prompts generated one by one."""

import re

import pytest
import torch

from fairseq_idpg import load
from fairseq_idpg.analysis.__main__ import main
from fairseq_idpg.inference.load import load_trained
from fairseq_idpg.inference.prompts import NearestWords, Vocabulary
from fairseq_idpg.inference.text import load_dictionary
from preprocess.data_folder import DataFolder
from preprocess.dictionary import FILLER
from tests.analysis.conftest import edited
from tests.analysis.plain_pass import plain_cosine, plain_pass
from tests.folders import write_folder
from tests.inference.conftest import enlarge
from tests.inference.saved import write_checkpoint
from tests.phrases import PAIRS, SINGLES, write_language_model, write_texts


def neighbours(*arguments):
    main(["neighbours", *(str(argument) for argument in arguments)])


@pytest.fixture
def printed(capsys):
    def run(*arguments):
        capsys.readouterr()
        neighbours(*arguments)
        sections, title = {}, ""
        for line in capsys.readouterr().out.splitlines()[1:]:
            if line.startswith("  row "):
                sections[title].append(line)
            else:
                title = line
                sections[title] = []
        return sections

    return run


def loaded_from(checkpoint, pairs):
    return load_trained(str(checkpoint), "--path", load_dictionary(str(pairs / "input0" / "dict.txt")), {})


def plain_lines(rows, loaded, vocabulary, top):
    """Words and cosines of each row, the highest cosine first."""
    table = loaded.model.encoder.sentence_encoder.embed_tokens.weight.detach().numpy()
    symbols = loaded.task.source_dictionary.symbols
    candidates = [i for i, symbol in enumerate(symbols) if symbol != "<pad>" and not symbol.startswith(FILLER)]
    lines = []
    for row in rows.detach().numpy():
        found = sorted(((plain_cosine(row, table[i]), i) for i in candidates), reverse=True)[:top]
        lines.append([(vocabulary.word(i), pytest.approx(cosine, abs=6e-4)) for cosine, i in found])
    return lines


def as_numbers(lines):
    """[("a", 0.5), ...] of each line."""
    columns = re.compile(r"('(?:[^'\\]|\\.)*'|\"'\"|<[^>]+>|\S+) (-?\d\.\d{3})")
    return [[(word, float(cosine)) for word, cosine in columns.findall(line.partition(" row ")[2])] for line in lines]


def test_prompt_of_a_task(place, pairs, task_prompt, printed):
    loaded = loaded_from(task_prompt, pairs)
    vocabulary = Vocabulary.read(pairs, None, None)
    expected = plain_lines(loaded.model.method.table[0], loaded, vocabulary, 4)
    from_folder = printed(task_prompt, "--dict", pairs, "--top", 4)
    assert list(from_folder) == ["the same prompt for every input"]
    (lines,) = from_folder.values()
    assert len(lines) == 5 and as_numbers(lines) == expected
    encoder = ["--bpe", "gpt2", "--vocab", place / "vocab"]
    assert printed(task_prompt, "--dict", place / "vocab" / "dict.txt", *encoder, "--top", 4) == from_folder


@pytest.mark.parametrize("layer", [0, 2])
def test_generated_prompts(pairs, idpg, printed, layer):
    """The output bias, and what the generator makes of <s> A </s> </s> B </s> with the prompt before the last </s>."""
    loaded = loaded_from(idpg, pairs)
    vocabulary = Vocabulary.read(pairs, None, None)
    found = printed(idpg, "--data", pairs, "--examples", 2, "--layer", layer, "--top", 3)
    bias = loaded.model.method.bias[layer]
    assert as_numbers(found.pop("output bias of the generator")) == plain_lines(bias, loaded, vocabulary, 3)
    folder = DataFolder(pairs)
    for i, (title, lines) in enumerate(found.items()):
        a, b = (folder.rows(part, "valid")[i].tolist() for part in ("input0", "input1"))
        assert title == f"{vocabulary.text(a[:-1])} | {vocabulary.text(b[:-1])}"
        _, rows = plain_pass(loaded.model, [0, *a, 2, *b], 3)
        assert (rows[layer] - bias).abs().max() > 1e-4  # the generator adds something
        assert as_numbers(lines) == plain_lines(rows[layer], loaded, vocabulary, 3)
    assert len(found) == 2


def test_examples_are_read_as_predictions_read_them(tmp_path, printed):
    """In the template of a masked language model, with or without labels; data of another kind is refused."""
    data = write_texts(tmp_path, "MR", SINGLES)
    write_language_model(tmp_path)
    enlarge(tmp_path / "model.pt")
    options = ["--method", "m-idpg-phm", "--predict-with", "mlm"]
    checkpoint = write_checkpoint(tmp_path / "x.pt", data, tmp_path / "model.pt", *options, without="")
    texts = [text for text, _ in SINGLES[:2]]
    found = printed(checkpoint, "--data", data, "--examples", 2, "--top", 3)
    predicted = load(str(checkpoint), device="cpu").predict(texts, prompts=True, words=3)
    for text, prediction in zip(texts, predicted):
        words = [row.words for row in prediction.prompts if not row.layer]
        near = [[(word, pytest.approx(cosine, abs=6e-4)) for word, cosine in row] for row in words]
        assert as_numbers(found[text]) == near
    for file in (*(data / "label").glob("valid.*"), data / "sha256.txt"):
        file.unlink()
    assert printed(checkpoint, "--data", data, "--examples", 2, "--top", 3) == found
    with pytest.raises(SystemExit, match=re.escape("--template {0} . It was <mask> . has no {1}")):
        neighbours(checkpoint, "--data", write_texts(tmp_path, "RTE", PAIRS))


def test_nearest_words_by_hand(tmp_path):
    """Symbols that are words stand as they are; <pad> and fillers are no words; cosines do not see lengths."""
    (tmp_path / "dict.txt").write_text("great 9\nbad 8\nmadeupword0000 0\n")
    vocabulary = Vocabulary.read(tmp_path / "dict.txt", None, None)
    table = torch.tensor([[0, 0, 1.0], [9, 9, 9], [0, 0, -1], [0, 0, 1], [2, 0, 0], [0, 3, 0], [9, 9, 9], [0, 0, 1]])
    rows = torch.tensor([[5.0, 1, 0], [0, -1, -2], [0, 0, 0]])
    words = NearestWords(vocabulary, table)
    assert words.candidates.tolist() == [0, 2, 3, 4, 5, 7]
    expected = ["  row 1  great 0.981  bad 0.196", "  row 2  </s> 0.894   great 0.000", "  row 3  all zero"]
    assert words.lines(rows, 2) == expected


def test_models_without_rows_and_data_of_another_dictionary(place, pairs, idpg, tuned, task_prompt, tmp_path):
    smop = edited(task_prompt, tmp_path / "smop.pt", method="smop")
    for path, data, named in (
        (smop, ["--data", pairs], "--data: --method smop chooses among prompts for each input"),
        (task_prompt, ["--data", pairs], "--data: --method prompt-tuning"),
        (edited(idpg, tmp_path / "adapter.pt", method="adapter"), ["--dict", pairs], "--method adapter"),
        (edited(task_prompt, tmp_path / "k.pt", prompt_insertion="key-value"), ["--dict", pairs], "key-value"),
        (tuned, ["--dict", pairs], "--method fine-tuning"),
        (idpg, ["--dict", pairs, "--layer", 7], "--layer 7: .* 0, 1, 2"),
        (idpg, ["--dict", pairs, "--data", write_folder(tmp_path / "other")], "made with another dictionary"),
        (idpg, ["--dict", place / "vocab" / "dict.txt"], "--bpe gpt2 --vocab"),
    ):
        with pytest.raises(SystemExit, match=named):
            neighbours(path, *data)
