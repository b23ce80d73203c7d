"""Converted checkpoints compute what transformers computes, on the symbols of its vocabulary."""

from __future__ import annotations

import argparse
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary

from checkpoints import convert_hf
from preprocess.encoders.hugging_face import dictionary_symbols, fairseq_order, read_vocabulary
from preprocess.errors import InputError
from tests.checkpoints import hf_folders
from tests.folders import write_folder

SCRIPT = Path(convert_hf.__file__)
ROOT = "encoder.sentence_encoder."
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
    assert args.source == {"model_type": "roberta", "name": "some/name"}
    assert (args.arch, args.encoder_layers, args.encoder_embed_dim) == ("roberta", 2, 16)
    assert (args.encoder_ffn_embed_dim, args.encoder_attention_heads) == (24, 4)
    assert (args.dropout, args.attention_dropout, args.max_positions) == (0.2, 0.1, 30)
    assert (args.activation_fn, args.layer_norm_eps) == ("gelu", 1e-5)
    tied = state["encoder.lm_head.weight"], state[f"{ROOT}embed_tokens.weight"]
    assert tied[0].data_ptr() == tied[1].data_ptr()
    assert {tensor.dtype for tensor in state.values()} == {torch.float32}
    assert state[f"{ROOT}version"].tolist() == [3.0]
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
    theirs = hf_folders.build(tmp_path / "hf", "roberta", "bin")
    path = tmp_path / "hf" / "pytorch_model.bin"
    state = torch.load(path, weights_only=True)
    state["lm_head.decoder.weight"] = state["lm_head.decoder.weight"] + 1
    torch.save(state, path)
    model = convert_hf.convert(tmp_path / "hf", tmp_path / "out")["model"]
    assert not [name for name in model if "lm_head" in name]
    words = theirs.roberta.embeddings.word_embeddings.weight
    assert torch.equal(model[f"{ROOT}embed_tokens.weight"], words)


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


TRAIN = """
import argparse, torch
torch.serialization.add_safe_globals([argparse.Namespace])
from fairseq_cli.train import cli_main
cli_main()
"""


def test_command_line_and_stock_training(tmp_path):
    """The script as users run it, then one update of stock fairseq-train --restore-file."""
    hf_folders.build(tmp_path / "hf", "roberta")
    command = [sys.executable, str(SCRIPT), "hf", "out", "--verify"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "largest difference from transformers" in result.stdout
    assert "roberta, 2 layers of width 16" in result.stdout and "note:" not in result.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hf", "out"]

    data = write_folder(tmp_path / "data", pairs=False, splits={"train": 4}, words=20)
    (data / "input0" / "dict.txt").write_bytes((tmp_path / "out" / "dict.txt").read_bytes())
    options = (
        "--task sentence_prediction --criterion sentence_prediction --num-classes 2 --init-token 0 "
        "--arch roberta --encoder-layers 2 --encoder-embed-dim 16 --encoder-ffn-embed-dim 24 "
        "--encoder-attention-heads 4 --max-positions 30 --restore-file out/model.pt "
        "--reset-optimizer --reset-dataloader --reset-meters --optimizer adam --lr 0.001 "
        "--batch-size 2 --max-update 1 --cpu --disable-validation --save-dir saved"
    ).split()
    command = [sys.executable, "-c", TRAIN, str(data), *options]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    log = result.stdout + result.stderr
    assert result.returncode == 0, log[-3000:]
    assert "Loaded checkpoint out/model.pt" in log


# --- vocabulary files -> dict.txt: exact symbols, exact order ------------------------------------------


def symbols_of(folder: Path):
    """Convert, let fairseq read dict.txt, and return (fairseq's symbols, order)."""
    vocabulary = read_vocabulary(folder)
    order = fairseq_order(vocabulary)
    symbols = dictionary_symbols(vocabulary, order)
    convert_hf.write_dictionary(symbols, folder / "dict.txt")
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    assert dictionary.symbols[4:] == symbols
    assert len(order) == len(dictionary) + 1  # the task appends <mask>
    assert sorted(order) == list(range(len(order)))
    return dictionary.symbols, order


@pytest.mark.parametrize("write", [hf_folders.write_vocabulary, hf_folders.write_tokenizer_json])
def test_bert(write, tmp_path):
    write(tmp_path, "bert")
    symbols, order = symbols_of(tmp_path)
    special = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]
    words = [token for token in hf_folders.WORDPIECE if token not in special]
    assert symbols == ["<s>", "<pad>", "</s>", "<unk>", *words]
    tokens = [hf_folders.WORDPIECE[i] for i in order]
    assert tokens == [*special[:4], *words, "[MASK]"]


def test_added_tokens_of_plain_files_and_merges_as_pairs(tmp_path):
    """Newer files spell a merge as a pair, older ones as text."""
    for name in ("bert", "roberta"):
        (tmp_path / name).mkdir()
    hf_folders.write_vocabulary(tmp_path / "bert", "bert")
    count = len(hf_folders.WORDPIECE)
    hf_folders.write_json(tmp_path / "bert" / "added_tokens.json", {"<e1>": count, "<e2>": count + 1})
    assert symbols_of(tmp_path / "bert")[0][-2:] == ["<e1>", "<e2>"]
    hf_folders.write_tokenizer_json(tmp_path / "roberta", "roberta")
    path = tmp_path / "roberta" / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    expected = symbols_of(tmp_path / "roberta")
    for merges in (hf_folders.MERGES, [pair.split() for pair in hf_folders.MERGES]):
        content["model"]["merges"] = merges
        hf_folders.write_json(path, content)
        assert symbols_of(tmp_path / "roberta") == expected


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
    symbols, order = symbols_of(tmp_path)
    assert symbols == released
    assert order == list(range(50265))
