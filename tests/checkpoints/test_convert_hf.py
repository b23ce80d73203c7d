"""Converted checkpoints compute what transformers computes, on the symbols of its vocabulary."""

import argparse
import inspect
import json
import re
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary

from checkpoints import convert_hf
from preprocess.encoders.hugging_face import dictionary_symbols, fairseq_order, read_vocabulary
from preprocess.errors import InputError
from tests.checkpoints import hf_folders
from tests.folders import changed

GPT2_BPE = Path(__file__).resolve().parents[3] / "shared" / "data" / "gpt2_bpe"


@pytest.fixture(params=hf_folders.MODELS)
def family(request):
    return request.param


@pytest.mark.parametrize(
    ("weights", "kind", "fields"),
    [("safetensors", "MaskedLM", {}), ("bin", "Model", {"hidden_act": "relu", "type_vocab_size": 3})],
)
def test_the_result_computes_what_transformers_does(family, weights, kind, fields, tmp_path, monkeypatch, capsys):
    """--verify says so, and finds one wrong table."""
    hf_folders.build(tmp_path / "hf", family, weights, kind, **fields)
    convert_hf.convert(tmp_path / "hf", tmp_path / "out", check=True)
    assert float(re.search(r"transformers: (\S+) \(", capsys.readouterr().out)[1]) < 1e-5
    assert convert_hf.load_fairseq(tmp_path / "out").max_positions() == 30
    fold = convert_hf.fold_positions
    monkeypatch.setattr(convert_hf, "fold_positions", lambda rows, _, first: fold(rows, None, first))
    with pytest.raises(InputError, match="differs from transformers"):
        convert_hf.convert(tmp_path / "hf", tmp_path / "out2", check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hf", "out"]


def test_checkpoint_content(tmp_path):
    hf_folders.build(tmp_path / "hf", "roberta")
    hf_folders.edit_json(tmp_path / "hf" / "config.json", _name_or_path="some/name")
    convert_hf.convert(tmp_path / "hf", tmp_path / "out")
    torch.serialization.add_safe_globals([argparse.Namespace])
    checkpoint = torch.load(tmp_path / "out" / "model.pt", weights_only=True)
    args, state = checkpoint["args"], checkpoint["model"]
    assert args.source == {"model_type": "roberta", "type_vocab_size": 1, "name": "some/name"}
    assert (args.dropout, args.attention_dropout, args.max_positions) == (0.2, 0.1, 30)
    assert {tensor.dtype for tensor in state.values()} == {torch.float32}
    tensors = sum(t.numel() for name, t in state.items() if name != "encoder.lm_head.weight")
    size = (tmp_path / "out" / "model.pt").stat().st_size
    assert size < 4 * tensors + 40_000  # the table once, and no foreign storage behind a view


def test_half_precision_and_old_names(tmp_path):
    hf_folders.build(tmp_path / "hf", "bert", "bin")
    path = tmp_path / "hf" / "pytorch_model.bin"
    expected = convert_hf.convert(tmp_path / "hf", tmp_path / "out")["model"]
    state = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor.half()
        for name, tensor in torch.load(path, weights_only=True).items()
    }
    state["bert.embeddings.position_ids"] = torch.arange(30)
    torch.save(state, path)
    result = convert_hf.convert(tmp_path / "hf", tmp_path / "out2")["model"]
    assert result.keys() == expected.keys()
    for name, tensor in result.items():
        torch.testing.assert_close(tensor, expected[name], atol=2e-3, rtol=0)


def test_untied_head_is_left_out(tmp_path):
    hf_folders.build(tmp_path / "hf", "roberta", "bin")
    name, path = "lm_head.decoder.weight", tmp_path / "hf" / "pytorch_model.bin"
    changed(path, lambda state: state.update({name: state[name] + 1}))
    assert not [name for name in convert_hf.convert(tmp_path / "hf", tmp_path / "out")["model"] if "lm_head" in name]


def test_stock_fairseq_loads_strictly(family, tmp_path, monkeypatch):
    """checkpoint_utils rebuilds task and model from the file; the LM head's logits agree."""
    from fairseq import checkpoint_utils

    # fairseq's own, whether or not another test has imported the plugin, which reads no masked LM
    stock = inspect.unwrap(checkpoint_utils.load_checkpoint_to_cpu)
    monkeypatch.setattr(checkpoint_utils, "load_checkpoint_to_cpu", stock)
    theirs = hf_folders.build(tmp_path / "hf", family, layer_norm_eps=1e-5)  # what stock fairseq computes with
    convert_hf.convert(tmp_path / "hf", tmp_path / "out")
    torch.serialization.add_safe_globals([argparse.Namespace])
    (ours,), _, _ = checkpoint_utils.load_model_ensemble_and_task(
        [str(tmp_path / "out" / "model.pt")], arg_overrides={"data": str(tmp_path / "out")}
    )
    ours.eval()
    order = fairseq_order(read_vocabulary(tmp_path / "hf"))
    tokens, ids = convert_hf.random_batch(order, ours.max_positions())
    with torch.no_grad():
        a = ours(tokens)[0]
        b = theirs(input_ids=ids, attention_mask=(tokens != 1).long()).logits
    torch.testing.assert_close(a[tokens != 1], b[tokens != 1][:, order], atol=1e-5, rtol=0)


@pytest.mark.skipif(not GPT2_BPE.is_dir(), reason="the released GPT-2 BPE files are not here")
def test_released_roberta_dictionary(tmp_path):
    """RoBERTa's vocabulary in Hugging Face's form converts back to the released dict.txt."""
    encoder = json.loads((GPT2_BPE / "encoder.json").read_text(encoding="utf-8"))
    token_of = {str(i): token for token, i in encoder.items()}
    released = Dictionary.load(str(GPT2_BPE / "dict.txt")).symbols
    tokens = [token_of.get(symbol, symbol) for symbol in released] + ["<mask>"]
    assert len(tokens) == 50265
    hf_folders.write_json(tmp_path / "vocab.json", {token: i for i, token in enumerate(tokens)})
    (tmp_path / "merges.txt").write_bytes((GPT2_BPE / "vocab.bpe").read_bytes())
    vocabulary = read_vocabulary(tmp_path)
    order = fairseq_order(vocabulary)
    lines = [f"{symbol} 1\n" for symbol in dictionary_symbols(vocabulary, order)]
    (tmp_path / "dict.txt").write_text("".join(lines), encoding="utf-8")
    assert Dictionary.load(str(tmp_path / "dict.txt")).symbols == released
    assert order == list(range(50265))
