"""Every method reads sentences: as on a folder, in several threads, by fairseq's own interface, and shared."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from fairseq_idpg import load
from fairseq_idpg.errors import InputError
from fairseq_idpg.export import export
from fairseq_idpg.inference.hub import IDPGHubInterface
from fairseq_idpg.methods.prompts.base import PREFIX, PromptMethod
from fairseq_idpg.methods.registry import PRESETS
from tests.helpers import TINY
from tests.inference.conftest import inputs
from tests.inference.saved import FROM_SOURCES, source_options, write_checkpoint
from tests.inference.test_hub import HEAD
from tests.inference.test_predictor import outputs_of_folder

SHORT = ["--prompt-length", 3]
WHOLE_MODELS = ("fine-tuning", "efl")  # whose checkpoint is the model, so that no folder to share is made of it
SMALLER = "adept pt-moe dynamic-prompt dynamic-prompt-pool prompt-tuning-100 prompt-tuning-134 dpt ept".split()
OPTIONS = {  # of presets that do not fit the small backbone as they are
    **dict.fromkeys(("m-idpg-phm", "s-idpg-phm"), ["--phm-n", 4]),
    "m-idpg-phm-glove": ["--phm-n", 4, "--generator-hidden-size", 8],
    **dict.fromkeys((*SMALLER, *FROM_SOURCES), SHORT),
    "dept": [*SHORT, "--words-length", 6],
}
CASES = {  # name: options
    **{name: ["--method", name, *OPTIONS.get(name, [])] for name in PRESETS},
    "joined": ["--method", "prompt-tuning+adapter"],
    "late": ["--method", "m-idpg-phm", "--phm-n", 4, "--prompt-insertion", "late", "--prompt-layers", 1],
    "before B": ["--method", "s-idpg-dnn", "--prompt-position", 2],
    "after the end": ["--method", "m-idpg-dnn", "--prompt-position", 4],
    "one separator": ["--method", "m-idpg-dnn", "--prompt-position", 3],
    "last states": ["--method", "id-spam", "--generator-input", "last"],
}


@pytest.mark.parametrize("case", CASES)
def test_as_on_a_folder(case, place, folders, vectors, tmp_path):
    backbone = place / "backbone" / "model.pt"
    without = "--phm-n --separator-token" if case == "one separator" else "--phm-n"
    more = source_options(case, tmp_path, folders["pairs"], backbone, *SHORT)
    path = write_checkpoint(tmp_path / "x.pt", folders["pairs"], backbone, *CASES[case], *more, without=without)
    for source in tmp_path.glob("source*.pt"):
        source.unlink()  # nobody needs it any more
    reads_words = {"vectors": vectors} if "glove" in case else {}
    model, texts = load(path, device="cpu", **reads_words), inputs("pairs")
    logits = outputs_of_folder(path, folders["pairs"])
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    assert np.ptp(expected[:, 0]) > 1e-4  # inputs matter

    def probabilities(found) -> np.ndarray:
        return np.array([list(prediction.probabilities.values()) for prediction in found])

    found = model.predict(texts, batch_size=3)
    assert probabilities(found) == pytest.approx(expected, abs=1e-6)
    with ThreadPoolExecutor(4) as threads:
        parts = threads.map(lambda start: model.predict(texts[start : start + 4], batch_size=3), range(0, 16, 4))
        assert probabilities([p for part in parts for p in part]) == pytest.approx(expected, abs=1e-6)
    hub = IDPGHubInterface(model)
    by_tokens = [hub.predict(HEAD, hub.encode(*pair))[0].exp().tolist() for pair in texts[:4]]
    assert np.array(by_tokens) == pytest.approx(expected[:4], abs=1e-6)
    tokens = hub.encode(*texts[0])
    features = hub.extract_features(tokens)
    assert features.shape[:2] == (1, len(tokens))
    logits = hub.model.classification_heads[HEAD](features)
    assert logits.softmax(1)[0].tolist() == pytest.approx(expected[0].tolist(), abs=1e-6)
    parts = [] if model.model.method is None else model.model.method.modules()
    if case not in WHOLE_MODELS:
        check_shared(path, tmp_path / "shared", texts, found, reads_words)
    prompt = next((part for part in parts if isinstance(part, PromptMethod)), None)
    if prompt is not None and prompt.insertion not in PREFIX:
        rows = model.predict(texts[:3], prompts=True, words=2)[2].prompts
        assert [row.layer for row in rows] == [place for place in prompt.places for _ in range(prompt.rows)]
        assert all(len(row.words) == 2 and row.vector.shape == (TINY["encoder_embed_dim"],) for row in rows)
    else:
        with pytest.raises(InputError, match="has no prompt rows that stand among the words"):
            model.predict(texts[:3], prompts=True)


def check_shared(checkpoint, folder, texts, expected, reads_words) -> None:
    """A folder to share says the same to the bit, without what only training needs."""
    export(str(checkpoint), str(folder))
    assert load(folder, device="cpu", **reads_words).predict(texts, batch_size=3) == expected
    tensors = load_file(folder / "prompt.safetensors")
    assert not any("reparameterization" in name for name in tensors)
    ours = {name for name in torch.load(checkpoint, weights_only=True)["model"] if name.startswith("encoder.")}
    assert {name for name in tensors if name.startswith("encoder.")} == ours
