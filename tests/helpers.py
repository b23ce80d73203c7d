"""Small models and folders that the tests share."""

import argparse
import contextlib
import signal
from collections.abc import Iterable, Iterator
from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from fairseq.models.roberta.model import RobertaEncoder, RobertaModel, base_architecture

from fairseq_idpg.backbone.encoder import OpenRobertaEncoder
from fairseq_idpg.models.config import METHOD_OPTIONS, fill_method_options
from fairseq_idpg.models.roberta_idpg import RobertaIDPGModel

PAD, EOS = 1, 2
ALWAYS_SAVED = {"backbone_fingerprint", "_extra_state"}  # besides tensors that were trained
WORDS = 50
TINY = {"encoder_layers": 3, "encoder_embed_dim": 32, "encoder_ffn_embed_dim": 64, "encoder_attention_heads": 4}
TINY["max_positions"] = 64


@contextlib.contextmanager
def ends_soon() -> Iterator[None]:
    """What is within must not wait for something that never comes."""

    def end(number, frame) -> None:
        raise AssertionError("it waits")

    earlier = signal.signal(signal.SIGALRM, end)
    signal.alarm(30)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, earlier)


def dictionary_of(names: Iterable[str]) -> Dictionary:
    """Specials, and these behind them."""
    symbols = Dictionary()
    for name in names:
        symbols.add_symbol(name)
    return symbols


def dictionary(words: int = WORDS) -> Dictionary:
    """Specials, ``w0`` … and <mask>, as sentence_prediction loads one."""
    return dictionary_of([*(f"w{i}" for i in range(words)), "<mask>"])


def model_args(**options) -> argparse.Namespace:
    args = argparse.Namespace(**dict.fromkeys(METHOD_OPTIONS))
    defaults = {"method": "m-idpg-phm", "no_freeze_backbone": False, "save_full_model": False, "backbone": None}
    for name, value in {**TINY, "layer_norm_eps": 1e-5, **defaults, **options}.items():
        setattr(args, name, value)
    fill_method_options(args)
    base_architecture(args)
    return args


def tiny_model(heads: int = 2, symbols: Dictionary | None = None, **options) -> RobertaIDPGModel:
    """A randomly initialised model in evaluation mode that passes for one with its backbone loaded."""
    torch.manual_seed(0)
    args = model_args(**options)
    model = RobertaIDPGModel(args, OpenRobertaEncoder(args, symbols or dictionary()))
    model.register_classification_head("sentence_classification_head", num_classes=heads)
    model.backbone_loaded = True
    return model.eval()


def enlarge(module: torch.nn.Module, std: float = 0.3) -> None:
    """Random values large enough for every parameter to matter."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn_like(parameter) * std + (parameter.dim() == 1) * 0.1)


def stock_twin(model: RobertaIDPGModel) -> RobertaModel:
    """fairseq's own RoBERTa with the same encoder weights."""
    twin = RobertaModel(model.args, RobertaEncoder(model.args, model.encoder.dictionary))
    twin.encoder.load_state_dict(model.encoder.state_dict())
    for module in twin.encoder.sentence_encoder.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = model.args.layer_norm_eps
    # torch rounds a product differently when the weight needs a gradient, so both must be frozen alike
    twin.encoder.requires_grad_(model.args.no_freeze_backbone)
    return twin.train(model.training)


def prompted(tokens: torch.Tensor, position: int, length: int, placeholder: int = 3) -> SimpleNamespace:
    """What the task makes of padded rows ``<s> A </s> [</s> B </s>]``: prompted_tokens and prompt_offset."""
    rows, offsets = [], []
    for row in tokens.tolist():
        row = [token for token in row if token != PAD]
        if position == 4:  # behind another separator, and with an end of its own
            row += [EOS, EOS]
        middle, end = row.index(EOS), len(row) - 1
        offsets.append({0: 1, 1: middle, 2: middle + 2, 3: end, 4: end}[position])
        rows.append(torch.tensor(row[: offsets[-1]] + [placeholder] * length + row[offsets[-1] :]))
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
    return SimpleNamespace(prompted_tokens=padded, prompt_offset=torch.tensor(offsets))


def logits(model: RobertaIDPGModel, tokens: torch.Tensor, position: int = 0) -> torch.Tensor:
    """Logits of padded rows with the prompt at ``position``."""
    extra = prompted(tokens, position, model.prompt_length) if model.prompt_length else SimpleNamespace()
    return model(tokens, **vars(extra), classification_head_name="sentence_classification_head")[0]


def pair_batch() -> torch.Tensor:
    """Three pairs of different lengths: <s> A </s> </s> B </s>, padded."""
    rows = [[0, 5, 6, 7, 2, 2, 8, 9, 2], [0, 10, 2, 2, 11, 12, 13, 14, 15, 2], [0, 16, 17, 2, 2, 18, 2]]
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(r) for r in rows], batch_first=True, padding_value=PAD)


def single_batch() -> torch.Tensor:
    """Three single sentences of different lengths: <s> A </s>, padded."""
    rows = [[0, 5, 6, 7, 8, 9, 2], [0, 10, 2], [0, 16, 17, 18, 2]]
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(r) for r in rows], batch_first=True, padding_value=PAD)
