"""A batch, or a model, that does not fit into memory ends in one line, which says what to lower."""

import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from fairseq_idpg import load, predict
from fairseq_idpg.backbone.encoder import OpenTransformerEncoder
from fairseq_idpg.errors import InputError
from fairseq_idpg.models.roberta_idpg import RobertaIDPGModel
from fairseq_idpg.serving.questions import Served
from tests.command_line import until
from tests.inference.conftest import inputs
from tests.serving.running import ask, in_thread

SAID = "CUDA out of memory. Tried to allocate 2.00 GiB."
TOO_LARGE = r"a batch of \d+ x \d+ tokens does not fit into memory"


@pytest.fixture
def room(monkeypatch):
    """There is some for passes of two examples; weak references to what larger ones have computed."""
    computed, whole = [], OpenTransformerEncoder.forward

    def limited(self, tokens, *given, **more):
        if len(tokens) > 2:
            states = tokens + 1
            computed.append(weakref.ref(states))
            raise torch.cuda.OutOfMemoryError(SAID)
        return whole(self, tokens, *given, **more)

    monkeypatch.setattr(OpenTransformerEncoder, "forward", limited)
    return computed


def test_in_python(idpg, request):
    texts, checkpoint = inputs("singles"), idpg("singles")
    alone, many = load(checkpoint, device="cpu"), load({"a": checkpoint, "b": checkpoint}, device="cpu")
    expected = alone.predict(texts)
    computed = request.getfixturevalue("room")
    for model in (alone, many):
        with pytest.raises(InputError, match=f"^{TOO_LARGE}.*batch_size"):
            model.predict(texts, batch_size=6)
    assert len(computed) == 2 and not any(states() is not None for states in computed)
    for found in (alone.predict(texts, batch_size=2), [each["b"] for each in many.predict(texts, batch_size=2)]):
        assert [p.probability for p in found] == pytest.approx([p.probability for p in expected], abs=1e-5)


def test_at_the_command_line(idpg, folders, tmp_path, room):
    (tmp_path / "x.txt").write_text("red cat\nblue dog\nred dog\n")
    shared = ["--path", str(idpg("singles")), "--cpu", "--out", str(tmp_path / "out.tsv")]
    folder = [str(folders["singles"]), "--split", "valid"]
    for asked, where in ((["--text", str(tmp_path / "x.txt")], ""), (folder, "split valid: ")):
        with pytest.raises(SystemExit, match=f"^fairseq_idpg: {where}{TOO_LARGE}.*--batch-size"):
            predict.main([*asked, *shared])
        assert not (tmp_path / "out.tsv").exists()
        predict.main([*asked, *shared, "--batch-size", "2"])
        (tmp_path / "out.tsv").unlink()


def test_a_model_without_room(idpg, monkeypatch):
    to = RobertaIDPGModel.to

    def refused(self, where):
        if isinstance(where, torch.device):
            raise torch.cuda.OutOfMemoryError(SAID)
        return to(self, where)

    monkeypatch.setattr(RobertaIDPGModel, "to", refused)
    with pytest.raises(InputError, match="checkpoint_last.pt: the model does not fit into memory"):
        load(idpg("singles"), device="cpu")


def test_a_server_is_at_fault_and_answers_the_others(idpg, room, caplog):
    """Questions that do not fit together are answered one after the other."""
    with in_thread(Served(load(idpg("singles"), device="cpu")), window=600) as server:

        def answer(*texts):
            return ask(server.port, "/predict", {"texts": texts})

        with ThreadPoolExecutor(3) as threads:
            together = [threads.submit(answer, text) for text in ("red cat", "blue dog ran", "red")]
            until(lambda: server.batcher.waiting == 3)
            server.batcher.hurry()
        assert [found.result().status for found in together] == [200] * 3 and room
        refused = answer("red cat", "blue dog", "red")
        assert refused.status == 500
    (logged,) = [record.message for record in caplog.records if "memory" in record.message]
    assert logged.startswith("a batch of 3 x 10 tokens")
