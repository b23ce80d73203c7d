"""Folders of peft: the same logits there and here, for its classifiers of RoBERTa and BERT."""

import json
import shutil
from inspect import signature

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch.nn.utils.rnn import pad_sequence

from checkpoints.convert_hf import convert
from fairseq_idpg import load
from fairseq_idpg.errors import InputError
from fairseq_idpg.export import export, main
from fairseq_idpg.inference.hub import IDPGHubInterface
from fairseq_idpg.inference.peft import CONFIG, TENSORS
from preprocess.encoders.hugging_face import fairseq_order, read_vocabulary
from tests.checkpoints import hf_folders
from tests.inference.saved import write_checkpoint
from tests.preprocess.commands import make_folder
from tests.saving.test_fingerprints import change_value

LABELS = ["no", "yes", "maybe"]
TEXTS = ["the cat", "a dog in the rain again", "rain"]
SIZES = {"encoder-layers": 2, "encoder-embed-dim": 16, "encoder-ffn-embed-dim": 24, "encoder-attention-heads": 4}
LORA = ["--method", "lora-all", "--lora-rank", 3, "--lora-layers", "1"]
HELD = {  # case -> options, whether of pairs
    "lora": (["--method", "lora", "--lora-alpha", 7.5], False),
    "lora-all": (LORA, True),
    "prefix-tuning": (["--method", "prefix-tuning", "--prompt-length", 4], True),
    "p-tuning-v2-kv": (["--method", "p-tuning-v2-kv"], False),
    "prompt-tuning": (["--method", "prompt-tuning"], True),
    "p-tuning": (["--method", "p-tuning", "--prompt-length", 1], False),
}
REFUSED = {
    "m-idpg-phm": (["--method", "m-idpg-phm", "--prompt-length", 2], "from each input"),
    "p-tuning-v2": (["--method", "p-tuning-v2"], "hidden states"),
    "late": (["--method", "prompt-tuning", "--prompt-insertion", "late"], "hidden states"),
    "some layers": (["--method", "p-tuning-v2-kv", "--prompt-layers", "1"], "every layer"),
    "position": (["--method", "prompt-tuning", "--prompt-position", 1], "--prompt-position is 1"),
    "bitfit": (["--method", "bitfit"], "weights of the backbone"),
    "adapter": (["--method", "adapter"], "no such method"),
}


class World:
    """A family's Hugging Face folder, the backbone made of it, and data of its vocabulary."""

    def __init__(self, place, family):
        self.place, self.family, self.hf = place, family, place / "hf"
        hf_folders.build(self.hf, family)
        convert(self.hf, place / "backbone")
        shutil.copy(place / "backbone" / "dict.txt", self.hf)
        self.backbone = place / "backbone" / "model.pt"
        bpe = "bert" if family == "bert" else "gpt2"
        self.order = torch.tensor(fairseq_order(read_vocabulary(self.hf)))
        for name, parts in (("single", 1), ("pair", 2)):
            rows = [(*TEXTS[:parts], label) for label in LABELS for _ in range(2)]
            make_folder(place, name, dict.fromkeys(("train", "valid"), rows), "--bpe", bpe, "--vocab", self.hf)

    def checkpoint(self, path, *options, pairs=False):
        sizes = [word for name, value in SIZES.items() for word in (f"--{name}", value)]
        bert = self.family == "bert"
        usual = ["--max-positions", 30, "--layer-norm-eps", 1e-12 if bert else 1e-5, "--num-classes", 3]
        folder, without = self.place / ("pair-bin" if pairs else "single-bin"), "--phm-n"
        without += " --separator-token" if bert and "--separator-token" not in options else ""
        return write_checkpoint(path, folder, self.backbone, *sizes, *usual, *options, without=without, std=0.5)

    def logits(self, path, pairs, **options):
        """(tokens, B x T, in the numbers of transformers, with pads; B x classes logits)."""
        hub = IDPGHubInterface(load(path, device="cpu", backbone=self.backbone, vocab=self.hf, **options))
        rows = [hub.encode(text, *([other] if pairs else [])) for text, other in zip(TEXTS, TEXTS[1:] + TEXTS)]
        tokens = pad_sequence(rows, batch_first=True, padding_value=1)
        return self.order[tokens], hub.predict("sentence_classification_head", tokens, return_logits=True)


@pytest.fixture(scope="module", params=["roberta", "bert"])
def world(request, tmp_path_factory):
    return World(tmp_path_factory.mktemp(request.param), request.param)


def theirs(world, folder, tokens):
    """What peft computes."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    from transformers import AutoModelForSequenceClassification

    base = AutoModelForSequenceClassification.from_pretrained(world.hf, num_labels=3)
    model, real = peft.PeftModel.from_pretrained(base, str(folder)).eval(), tokens.ne(world.order[1])
    takes = signature(base.base_model.forward).parameters
    if model.active_peft_config.peft_type == "PREFIX_TUNING" and "past_key_values" not in takes:
        pytest.skip("transformers 5.24 renames past_key_values, and peft 0.21 ends in a ValueError")
    # BERT's tokenizer calls all behind the first [SEP] segment 1
    segments = {}
    if world.family == "bert":
        ends = tokens.eq(world.order[2])
        segments = {"token_type_ids": ((ends.cumsum(1) - ends.long()).clamp(max=1) * real).long()}
    with torch.no_grad():
        return model(input_ids=tokens, attention_mask=real.long(), **segments).logits


@pytest.mark.parametrize("case", HELD)
def test_the_same_logits(case, world, tmp_path):
    """Of the checkpoint, of its folder here and in peft, the classes in one order; rows differ in length."""
    options, pairs = HELD[case]
    path, folder = world.checkpoint(tmp_path / "x.pt", *options, pairs=pairs), tmp_path / "out"
    main([str(path), str(folder), "--format", "peft"])
    tokens, expected = world.logits(path, pairs)
    assert (expected - expected.mean(0)).abs().max() > 1e-2  # texts differ
    _, again = world.logits(folder, pairs)
    torch.testing.assert_close(again, expected, atol=1e-5, rtol=0)
    assert load(folder, vocab=world.hf).labels == load(path, vocab=world.hf).labels
    torch.testing.assert_close(theirs(world, folder, tokens), expected, atol=1e-5, rtol=0)


def test_what_is_written(world, tmp_path):
    """Names, shapes and configuration; what was there is replaced on request alone."""
    prefix = ["--method", "p-tuning-v2-kv", "--prompt-length", 3]
    for name, options in (("lora", LORA), ("prefix", prefix)):
        export(str(world.checkpoint(tmp_path / f"{name}.pt", *options)), str(tmp_path / name), peft=True)
    shapes = {n: tuple(value.shape) for n, value in load_file(tmp_path / "lora" / TENSORS).items()}
    bert = world.family == "bert"
    root = f"base_model.model.{world.family}"
    assert shapes.pop(f"{root}.encoder.layer.1.intermediate.dense.lora_A.weight") == (3, 16)
    assert shapes.pop(f"{root}.encoder.layer.1.intermediate.dense.lora_B.weight") == (24, 3)
    assert shapes.pop(f"base_model.model.classifier.{'' if bert else 'out_proj.'}weight") == (3, 16)
    assert shapes.pop(f"{root}.pooler.dense.bias" if bert else "base_model.model.classifier.dense.bias") == (16,)
    assert len(shapes) == 10 + 2
    adapter = json.loads((tmp_path / "lora" / CONFIG).read_text())
    assert (adapter["peft_type"], adapter["r"], adapter["lora_alpha"]) == ("LORA", 3, 16.0)
    adapter = json.loads((tmp_path / "prefix" / CONFIG).read_text())
    assert (adapter["peft_type"], adapter["num_virtual_tokens"], adapter["token_dim"]) == ("PREFIX_TUNING", 3, 16)
    assert adapter["modules_to_save"][-2:] == ["position_embeddings", "token_type_embeddings"]
    held = load_file(tmp_path / "prefix" / TENSORS)
    assert held["prompt_embeddings"].shape == (3, 2 * 2 * 16)
    table = held[f"base_model.{world.family}.embeddings.position_embeddings.weight"]
    assert table.shape == (30 if bert else 32, 16)
    card = (tmp_path / "lora" / "README.md").read_text()
    assert all(label in card for label in LABELS) and "PeftModel" in card
    main([str(tmp_path / "lora.pt"), str(tmp_path / "moved"), "--format", "peft", "--no-paths"])
    assert not any(str(world.place).encode() in file.read_bytes() for file in (tmp_path / "moved").iterdir())
    change_value(other := shutil.copy(world.backbone, tmp_path / "model.pt"))
    with pytest.raises(InputError, match="is not its backbone"):
        export(str(tmp_path / "lora.pt"), str(tmp_path / "other"), peft=True, backbone=other)
    with pytest.raises(InputError, match="--overwrite"):
        export(str(tmp_path / "lora.pt"), str(tmp_path / "prefix"), peft=True)
    with pytest.raises(InputError, match="`int8` and .*lora, a folder without config.json"):
        load(tmp_path / "lora", int8=True)
    export(str(tmp_path / "lora.pt"), str(tmp_path / "prefix"), peft=True, overwrite=True)


@pytest.mark.parametrize("world", ["roberta"], indirect=True)
@pytest.mark.parametrize("case", REFUSED)
def test_what_peft_cannot_hold(case, world, tmp_path):
    options, reason = REFUSED[case]
    path = world.checkpoint(tmp_path / "x.pt", *options)
    with pytest.raises(InputError, match=reason):
        export(str(path), str(tmp_path / "out"), peft=True)
    assert not (tmp_path / "out").exists()


def by_peft(world, folder, config):
    """A folder that peft itself writes, with random values, as it loads; BERT's pooler is trained too."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    from transformers import AutoModelForSequenceClassification

    base = AutoModelForSequenceClassification.from_pretrained(world.hf, num_labels=3)
    model = peft.get_peft_model(base, config(peft))
    with torch.no_grad():
        for parameter in filter(lambda p: p.requires_grad, model.parameters()):
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(str(folder))
    return folder


def test_peft_trained_lora(world, tmp_path):
    """Its labels are transformers' names; texts are single sentences."""
    more = {"modules_to_save": ["pooler"]} if world.family == "bert" else {}
    targets = {"target_modules": ["query", "intermediate.dense"], "layers_to_transform": [1], "use_rslora": True}
    folder = by_peft(world, tmp_path / "x", lambda peft: peft.LoraConfig(task_type="SEQ_CLS", r=4, **targets, **more))
    tokens, found = world.logits(folder, pairs=False)
    torch.testing.assert_close(found, theirs(world, folder, tokens), atol=1e-5, rtol=0)
    assert load(folder, backbone=world.backbone, vocab=world.hf).labels == ["LABEL_0", "LABEL_1", "LABEL_2"]
    with pytest.raises(InputError, match="--backbone"):
        load(folder, vocab=world.hf)


PROMPTS = {
    "PrefixTuningConfig": {"prefix_projection": True, "encoder_hidden_size": 5},
    "PromptTuningConfig": {},
    "PromptEncoderConfig": {"encoder_hidden_size": 5},
}


@pytest.mark.parametrize("kind", PROMPTS)
def test_peft_trained_prompts(kind, world, tmp_path):
    """They are read as DePT, whose rows on words stand for peft's places; no text is longer than peft reads."""
    more = {"modules_to_save": ["pooler"]} if world.family == "bert" else {}
    config = {"task_type": "SEQ_CLS", "num_virtual_tokens": 3, **PROMPTS[kind], **more}
    folder = by_peft(world, tmp_path / "x", lambda peft: getattr(peft, kind)(**config))
    tokens, found = world.logits(folder, pairs=False)
    torch.testing.assert_close(found, theirs(world, folder, tokens), atol=1e-5, rtol=0)
    model = load(folder, backbone=world.backbone, vocab=world.hf)
    assert not model.predict([" ".join(["a"] * 25)])[0].cut  # 30 positions
    if kind == "PrefixTuningConfig":
        assert model.predict([" ".join(["a"] * 26)])[0].cut
    else:
        with pytest.raises(InputError, match="has 26 tokens"):
            model.predict([" ".join(["a"] * 26)])


def change_config(folder, **changes):
    path = folder / CONFIG
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def change_tensors(folder, change, **metadata):
    tensors = load_file(folder / TENSORS)
    change(tensors)
    save_file(tensors, folder / TENSORS, metadata)


def cut(folder):
    (folder / TENSORS).write_bytes((folder / TENSORS).read_bytes()[:-9])


DAMAGE = {
    "other numbers beside our description": lambda folder: change_config(folder, lora_alpha=1),
    "half a file": cut,
    "a pickle alone": lambda folder: (folder / TENSORS).rename(folder / "adapter_model.bin"),
    "no JSON": lambda folder: (folder / CONFIG).write_text("{"),
}
STRANGE = {
    "dora": lambda folder: change_config(folder, use_dora=True),
    "several alphas": lambda folder: change_config(folder, alpha_pattern={"query": 1}),
    "changed weights": lambda folder: change_config(folder, init_lora_weights="pissa"),
    "another rank": lambda folder: change_config(folder, r=5),
    "a huge rank": lambda folder: change_config(folder, r=10**12),
    "no head": lambda folder: change_tensors(folder, lambda held: held.pop(next(n for n in held if "classifier" in n))),
    "more": lambda folder: change_tensors(folder, lambda held: held.update(more=torch.zeros(2))),
    "not finite": lambda folder: change_tensors(folder, lambda held: next(iter(held.values())).fill_(float("nan"))),
}


@pytest.mark.parametrize("world", ["roberta"], indirect=True)
@pytest.mark.parametrize("case", [*DAMAGE, *STRANGE])
def test_what_is_not_read(case, world, tmp_path, monkeypatch):
    """In one line, whatever is wrong; nothing is unpickled."""
    folder = tmp_path / "x"
    export(str(world.checkpoint(tmp_path / "x.pt", *LORA)), str(folder), peft=True)
    if case in STRANGE:  # as peft would have written it
        change_tensors(folder, lambda held: None)
        load(folder, backbone=world.backbone, vocab=world.hf)
        with safe_open(folder / TENSORS, "pt") as file:
            assert not file.metadata()
    {**DAMAGE, **STRANGE}[case](folder)
    with pytest.raises(InputError) as error:
        load(folder, backbone=world.backbone, vocab=world.hf)
    assert "\n" not in str(error.value)
