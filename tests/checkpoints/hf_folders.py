"""Tiny Hugging Face folders with random weights and small but real vocabularies."""

import functools
import io
import json
import random
from pathlib import Path

import torch
from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode

CORPUS = [
    "the cat sat on the mat and the dog ran after the red cat",
    "a thin thing in the inn was there then and there again",
    "no thought can stand in the rain without an answer",
]
MERGES = ["t h", "th e", "Ġ the", "Ġ a", "i n", "Ġ c", "a t"]
# Five specials spread over the vocabulary, as in BERT's own.
WORDPIECE = (
    "[PAD] [unused0] [unused1] [UNK] [CLS] ! [SEP] the a cat dog in ##n then ##e [MASK] rain "
    "again th ##er ? \u2028 ##at c"
).split(" ")
MODELS = {"roberta": "Roberta", "xlm-roberta": "XLMRoberta", "bert": "Bert"}


def bpe_tokens() -> list[str]:
    """RoBERTa's layout: its own order (by frequency), a filler word, <mask> last."""
    tokens = list(bytes_to_unicode().values()) + [merge.replace(" ", "") for merge in MERGES]
    tokens.append("<|endoftext|>")
    random.Random(1).shuffle(tokens)
    return ["<s>", "<pad>", "</s>", "<unk>", *tokens, "madeupword0000", "<mask>"]


@functools.cache
def spm_bytes() -> bytes:
    """Train a SentencePiece model; its ids start with <unk> <s> </s> as XLM-R's do."""
    import sentencepiece

    model = io.BytesIO()
    options = {"vocab_size": 48, "hard_vocab_limit": False, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_writer=model, **options)
    return model.getvalue()


def tokens_of(family: str) -> list[str]:
    if family != "xlm-roberta":
        return WORDPIECE if family == "bert" else bpe_tokens()
    import sentencepiece

    spm = sentencepiece.SentencePieceProcessor(model_proto=spm_bytes())
    return ["<s>", "<pad>", "</s>", "<unk>", *map(spm.id_to_piece, range(3, spm.get_piece_size())), "<mask>"]


def write_vocabulary(folder: Path, family: str) -> None:
    if family == "xlm-roberta":
        (folder / "sentencepiece.bpe.model").write_bytes(spm_bytes())
    elif family == "bert":
        (folder / "vocab.txt").write_text("\n".join(WORDPIECE) + "\n", encoding="utf-8")
    else:
        write_json(folder / "vocab.json", {token: i for i, token in enumerate(bpe_tokens())})
        merges = "\n".join(["#version: 0.2", *MERGES]) + "\n"
        (folder / "merges.txt").write_text(merges, encoding="utf-8")


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def edit_json(path: Path, **changes: object) -> None:
    """Change fields; None removes one."""
    content = {**json.loads(path.read_text(encoding="utf-8")), **changes}
    write_json(path, {name: value for name, value in content.items() if value is not None})


def build(folder: Path, family: str, weights: str = "safetensors", kind: str = "MaskedLM", **fields):
    """Write a folder with a random model and its vocabulary; return transformers' model.

    Every parameter is disturbed, so that LayerNorms, biases and segment rows matter. BERT's
    embeddings are small: their variance of about 1e-6 lies between its eps and fairseq's.
    """
    import transformers

    torch.manual_seed(1)
    name = MODELS[family]
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
    positions, kinds, eps = (30, 2, 1e-12) if family == "bert" else (32, 1, 1e-5)
    sizes.update(vocab_size=len(tokens_of(family)), max_position_embeddings=positions, type_vocab_size=kinds)
    settings = {**sizes, "layer_norm_eps": eps, "hidden_dropout_prob": 0.2, **fields}
    config = getattr(transformers, f"{name}Config")(**settings)
    model = getattr(transformers, f"{name}For{kind}" if kind != "Model" else f"{name}Model")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        if family == "bert":
            for module in model.modules():
                if isinstance(module, torch.nn.Embedding):
                    module.weight.mul_(2e-3)
    folder.mkdir(parents=True, exist_ok=True)
    transformers.logging.disable_progress_bar()
    model.save_pretrained(folder)
    if weights == "bin":
        (folder / "model.safetensors").unlink()
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    write_vocabulary(folder, family)
    return model.eval()
