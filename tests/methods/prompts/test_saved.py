"""--prompt-init saved: values of another task's checkpoint, where it stands alone or was joined with others."""

import pytest
import torch

from fairseq_idpg.backbone.weights import LM_HEAD, STACK
from fairseq_idpg.errors import InputError
from fairseq_idpg.methods.base import WordEmbeddings
from fairseq_idpg.methods.prompts.base import PromptMethod
from fairseq_idpg.methods.prompts.initial import on_other_backbone
from fairseq_idpg.saving.backbone_file import weights_digest
from tests.folders import same_tensors
from tests.helpers import tiny_model
from tests.models.started import start, started


def saved(path, given, state=None):
    """Options with which a run takes over what is given."""
    torch.save({"args": None, "cfg": {"model": vars(given.args)}, "model": state or given.state_dict()}, path)
    return {"prompt_init": "saved", "prompt_init_from": str(path)}


def test_a_prompt_of_other_sizes(tmp_path):
    more = saved(tmp_path / "x.pt", tiny_model(method="adapter+prompt-tuning", prompt_length=4))
    with pytest.raises(InputError, match="--prompt-init-from .*table"):
        started(method="prompt-tuning+adapter", **more)


TAKEN_OVER = {"m-idpg-phm": "m-idpg-phm", "prompt-tuning+adapter": "prompt-tuning"}
TAKEN_OVER |= {"adapter+id-spam": "id-spam+lora", "mam": "prefix-tuning"}


@pytest.mark.parametrize(("source", "target"), TAKEN_OVER.items())
def test_a_saved_prompt_of_joined_methods(source, target, tmp_path):
    """The prompt's values are taken over, wherever it stands in either; those of the others are not."""
    sizes = {"reparameterization_hidden_size": 7, "prompt_length": 3} if "mam" in source else {}
    given = tiny_model(method=source, **sizes)
    with torch.no_grad():
        for parameter in given.method.parameters():
            parameter.add_(1)
    model = tiny_model(method=target, **sizes, **saved(tmp_path / "x.pt", given))
    before = {name: value.clone() for name, value in model.method.state_dict().items()}
    start(model)
    (ours,), (theirs,) = (
        [part for part in getattr(each.method, "parts", [each.method]) if isinstance(part, PromptMethod)]
        for each in (model, given)
    )
    assert ours.state_dict() and same_tensors(ours.state_dict(), theirs.state_dict())
    changed = {name for name, value in model.method.state_dict().items() if not torch.equal(value, before[name])}
    prefix = next((f"parts.{i}." for i, part in enumerate(getattr(model.method, "parts", [])) if part is ours), "")
    assert changed == {f"{prefix}{name}" for name in ours.state_dict()}


@pytest.mark.parametrize(("target", "rows"), [("add", 10), ("key-value-input", 5)])
def test_keys_and_values_are_no_rows_of_another_kind(target, rows, tmp_path):
    """Though they have the same shape: 5 keys and 5 values, 10 rows."""
    more = saved(tmp_path / "x.pt", tiny_model(method="p-tuning-v2-kv"))
    with pytest.raises(InputError, match=f"key-value.*{target}"):
        started(method="p-tuning-v2", prompt_insertion=target, prompt_length=rows, **more)


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.parametrize(
    ("source", "target", "told"),
    [
        ({"representation": "mean-pooled"}, {}, "with --representation mean-pooled"),
        ({}, {"generator_residual": True}, "without --generator-residual"),
        ({"prompt_init": "uniform"}, {}, ""),
    ],
)
def test_values_of_other_options_are_told_of(source, target, told, tmp_path, caplog):
    """They have the same shapes, and nothing else would say that they were fitted to something else."""
    given = tiny_model(method="m-idpg-phm", **source)
    model = started(method="m-idpg-phm", **target, **saved(tmp_path / "x.pt", given))
    assert same_tensors(model.method.state_dict(), given.method.state_dict())
    assert len(warnings(caplog)) == bool(told) and all(told in warning for warning in warnings(caplog))


@pytest.mark.parametrize("method", ["prompt-tuning", "ept", "mpt"])
@pytest.mark.parametrize("other", [True, False])
def test_values_fitted_to_another_backbone_are_told_of(method, other, tmp_path, caplog):
    given = tiny_model(method=method)
    given.backbone_fingerprint[0] = 1
    model = tiny_model(method=method, **saved(tmp_path / "x.pt", given))
    model.backbone_fingerprint[0] = 2 if other else 1
    start(model)
    assert same_tensors(model.method.state_dict(), given.method.state_dict())
    assert len(warnings(caplog)) == other and all("another backbone" in warning for warning in warnings(caplog))


def test_a_folded_prompt_and_one_without_a_fingerprint_are_taken_without_a_warning(tmp_path, caplog):
    for given in (tiny_model(method="p-tuning"), tiny_model(method="prompt-tuning")):
        state = {name: value for name, value in given.state_dict().items() if name.startswith("method.")}
        model = started(method="prompt-tuning", **saved(tmp_path / "x.pt", given, state))
        assert torch.equal(model.method.table, given.method.table)
    assert not warnings(caplog)


@pytest.mark.parametrize("parts", [(STACK,), (STACK, LM_HEAD)])
def test_which_backbone_a_prompt_is_of(parts):
    model = tiny_model(method="prompt-tuning", no_freeze_backbone=True, predict_with="mlm")
    tensors = model.state_dict()
    assert any(name.startswith(LM_HEAD) for name in tensors)
    digest = torch.tensor(list(bytes.fromhex(weights_digest(tensors, parts))), dtype=torch.uint8)
    for fingerprint, other in ((digest, False), (digest ^ 1, True)):
        words = WordEmbeddings(torch.zeros(1), 4, list, fingerprint)
        assert on_other_backbone({"no_freeze_backbone": True}, tensors, words) is other
