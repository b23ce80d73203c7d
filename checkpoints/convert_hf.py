"""Convert a Hugging Face RoBERTa, XLM-R or BERT folder into a fairseq RoBERTa checkpoint.

checkpoints/README.md says what SRC holds and DST gets. Nothing is downloaded, and code in a pickle does not run.

The three are one network under different names: post-norm Transformer layers over word + position + segment embeddings.
fairseq has no segment (token type) table, and counts positions from padding + 1 = 2. So two tables are rewritten and
everything else is renamed:

    embed_tokens[j]        = word_embeddings[order[j]]
    embed_positions[2 + i] = position_embeddings[first + i] + token_type_embeddings[0]

So sentence B of a pair reads as segment 0, unlike in BERT's pre-training.
Shapes: V vocabulary, P Hugging Face positions, S segments, C width, F inner width of the FFN.
"""

import argparse
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

if not __package__:  # run as a script, from anywhere, installed or not
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch import Tensor

from preprocess.encoders.hugging_face import Vocabulary, dictionary_symbols, fairseq_order, read_json, read_vocabulary
from preprocess.errors import InputError, command_line, reason_of
from preprocess.flags import named_path
from preprocess.writing import scratch_folder, sweep

State = dict[str, Tensor]
Config = dict[str, Any]
Rows = tuple[tuple[str, str, str], ...]

# (Hugging Face name, fairseq name, shape of the weight); a bias has the weight's first dimension.
EMBEDDINGS: Rows = (("embeddings.LayerNorm", "layernorm_embedding", "C"),)
LAYER: Rows = (
    ("attention.self.query", "self_attn.q_proj", "CC"),
    ("attention.self.key", "self_attn.k_proj", "CC"),
    ("attention.self.value", "self_attn.v_proj", "CC"),
    ("attention.output.dense", "self_attn.out_proj", "CC"),
    ("attention.output.LayerNorm", "self_attn_layer_norm", "C"),
    ("intermediate.dense", "fc1", "FC"),
    ("output.dense", "fc2", "CF"),
    ("output.LayerNorm", "final_layer_norm", "C"),
)
# model_type -> where its masked-LM head bias(V) + E . norm(act(dense(x))) is, and the names of dense and norm there.
LM_HEADS = {
    "roberta": ("lm_head.", "dense", "layer_norm"),
    "xlm-roberta": ("lm_head.", "dense", "layer_norm"),
    "bert": ("cls.predictions.", "transform.dense", "transform.LayerNorm"),
}
PREFIXES = ("", "roberta.", "bert.")
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
WORDS = "embeddings.word_embeddings.weight"
POSITIONS = "embeddings.position_embeddings.weight"
SEGMENTS = "embeddings.token_type_embeddings.weight"
BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
ROOT = "encoder.sentence_encoder."

SIZES = {  # fairseq's name -> Hugging Face's
    "encoder_layers": "num_hidden_layers",
    "encoder_embed_dim": "hidden_size",
    "encoder_ffn_embed_dim": "intermediate_size",
    "encoder_attention_heads": "num_attention_heads",
}
# Hugging Face's name -> the only values that fairseq's RoBERTa can compute.
CHOICES = {
    "model_type": tuple(LM_HEADS),
    "hidden_act": ("gelu", "relu"),
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
}

FILES = ("dict.txt", "model.pt")
TOLERANCE = 1e-5


def read_config(folder: Path) -> Config:
    """Return what config.json says; raise ValueError where fairseq's RoBERTa cannot compute it."""
    path = folder / "config.json"
    config = {name: value for name, value in read_json(path).items() if value is not None}  # null: the default
    for name, allowed in CHOICES.items():
        # the first allowed value is the default, but a type must be there
        if config.get(name, allowed[0] if name != "model_type" else None) not in allowed:
            remedy = f"convert a model with {' or '.join(map(str, allowed))}"
            raise ValueError(f"{path}: {name} = {config.get(name)!r} is not what fairseq's RoBERTa computes: {remedy}")
    lacking = [name for name in (*SIZES.values(), "vocab_size", "max_position_embeddings") if name not in config]
    if lacking:
        raise ValueError(f"{path} lacks {', '.join(lacking)}: take that of the model")
    return config


def check_vocabulary(vocabulary: Vocabulary, config: Config, order: list[int]) -> None:
    """Raise ValueError unless the vocabulary belongs to the weights."""
    if len(vocabulary.tokens) != config["vocab_size"]:
        what = f"{len(vocabulary.tokens)} tokens, but config.json has vocab_size = {config['vocab_size']}"
        raise ValueError(f"{vocabulary.path}: {what}; resize the model's embeddings to the vocabulary and save it")
    padding = config.get("pad_token_id", 1)
    if config["model_type"] != "bert" and padding != order[1]:
        what = f"positions are counted from the padding token, which has id {order[1]}"
        raise ValueError(f"{vocabulary.path}: {what}, but config.json has pad_token_id = {padding}")


def read_weights(folder: Path) -> State:
    """Load the tensors of a Hugging Face folder; no pickled code is executed."""
    path = next((folder / name for name in WEIGHT_FILES if (folder / name).is_file()), folder)
    try:
        if path == folder:
            raise FileNotFoundError(f"neither {' nor '.join(WEIGHT_FILES)} there; sharded weights are not read")
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            state = load_file(str(path))
        else:
            from fairseq_idpg.saving.torch_files import read_saved

            state = read_saved(str(path))
        for name, tensor in state.items():
            if not isinstance(name, str) or not isinstance(tensor, Tensor) or tensor.layout != torch.strided:
                raise ValueError(f"{name} is not a tensor")
            if tensor.is_floating_point() and not tensor.isfinite().all():
                raise ValueError(f"{name} has a number that is not finite")
    except Exception as error:  # readers raise half a dozen types on a damaged file
        raise InputError(f"{path}: unreadable ({reason_of(error)}): fetch it again") from error
    # the first BERT files call the parameters of a LayerNorm by its paper's letters
    gamma, beta = ("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")
    return {name.replace(*gamma).replace(*beta): tensor for name, tensor in state.items()}


class Reader:
    """Takes tensors from a Hugging Face state, checks their shapes, and notes their names in ``taken``."""

    def __init__(self, state: State, config: Config):
        self.state = state
        self.taken: set[str] = set()
        names = {"V": "vocab_size", "P": "max_position_embeddings", "C": "hidden_size", "F": "intermediate_size"}
        self.sizes = {letter: config[name] for letter, name in names.items()}
        self.sizes["S"] = config.get("type_vocab_size", 2)

    def __call__(self, name: str, shape: str) -> Tensor:
        """Return tensor `name` as float32; `shape` spells its dimensions, such as "FC"."""
        tensor, expected = self.state.get(name), tuple(self.sizes[letter] for letter in shape)
        if tensor is None or tuple(tensor.shape) != expected or not tensor.is_floating_point():
            actual = "missing" if tensor is None else f"{tuple(tensor.shape)} of {tensor.dtype}"
            what = f"{name} is {actual}, but config.json says {expected}"
            raise ValueError(f"{what}; take both files from the same model")
        self.taken.add(name)
        # a copy: of a view, torch.save would write the whole storage
        return tensor.to(torch.float32, copy=True).contiguous()

    def modules(self, source: str, target: str, rows: Rows) -> State:
        """Rename the weight and bias of every module in `rows` below the two roots."""
        state = {}
        for hf_name, fairseq_name, shape in rows:
            state[f"{target}{fairseq_name}.weight"] = self(f"{source}{hf_name}.weight", shape)
            state[f"{target}{fairseq_name}.bias"] = self(f"{source}{hf_name}.bias", shape[0])
        return state


def convert_weights(weights: State, config: Config, order: list[int]) -> State:
    """Return fairseq's RoBERTa state; `order[j]` is the source id of fairseq's id j.

    It has a masked-LM head, `encoder.lm_head.*`, if the source has one that is tied to the embeddings as fairseq's is.
    """
    prefix = next((p for p in PREFIXES if p + WORDS in weights), "")
    take = Reader(weights, config)
    first = 0 if config["model_type"] == "bert" else order[1] + 1  # the first token's position
    segment = take(prefix + SEGMENTS, "SC")[0] if prefix + SEGMENTS in weights else None
    words = take(prefix + WORDS, "VC")
    state = {
        f"{ROOT}version": torch.tensor([3.0]),  # fairseq's layout without a final layer norm
        f"{ROOT}embed_tokens.weight": words[torch.tensor(order)],
        f"{ROOT}embed_positions.weight": fold_positions(take(prefix + POSITIONS, "PC"), segment, first),
    }
    state.update(take.modules(prefix, ROOT, EMBEDDINGS))
    for i in range(config["num_hidden_layers"]):
        state.update(take.modules(f"{prefix}encoder.layer.{i}.", f"{ROOT}layers.{i}.", LAYER))
    # fairseq's RoBERTa has no adapters, relative positions ...
    for name in weights:
        inside = name.startswith((f"{prefix}encoder.", f"{prefix}embeddings."))
        if inside and name not in take.taken and name[len(prefix) :] not in BUFFERS:
            raise ValueError(f"fairseq's RoBERTa has no place for {name}: convert a plain encoder")
    state.update(convert_lm_head(take, config["model_type"], words, order))
    if "encoder.lm_head.bias" in state:  # one storage, so the file holds the table once
        state["encoder.lm_head.weight"] = state[f"{ROOT}embed_tokens.weight"]
    return state


def fold_positions(rows: Tensor, segment: Tensor | None, first: int) -> Tensor:
    """Return fairseq's position table, (2 + P - first) x C, from P x C rows; ``first``: row of the first token.

    Rows 0 and 1 (unused, padding) are never read: they stay where the tables agree, else they are zero.
    """
    unused = rows[:2] if first == 2 else rows.new_zeros(2, rows.size(1))
    used = rows[first:] if segment is None else rows[first:] + segment
    return torch.cat([unused, used])


def convert_lm_head(take: Reader, model_type: str, words: Tensor, order: list[int]) -> State:
    """Return `encoder.lm_head.*` without its tied weight, or {} if there is no such head."""
    root, dense, norm = LM_HEADS[model_type]
    decoder = f"{root}decoder.weight"  # most files lack it, because it is the embedding table
    biases = (f"{root}bias", f"{root}decoder.bias")  # one tensor that files store under either name
    bias = next((name for name in biases if name in take.state), None)
    if bias is None or any(f"{root}{name}.weight" not in take.state for name in (dense, norm)):
        return {}
    if decoder in take.state and not torch.equal(take(decoder, "VC"), words):
        return {}  # fairseq would load this table over the embeddings
    state = take.modules(root, "encoder.lm_head.", ((dense, "dense", "CC"), (norm, "layer_norm", "C")))
    state["encoder.lm_head.bias"] = take(bias, "V")[torch.tensor(order)]
    return state


def checkpoint_of(state: State, config: Config) -> dict[str, Any]:
    """Return what fairseq's trainer expects in a file at update 0, of plain values, for weights_only."""
    source = {"model_type": config["model_type"], "type_vocab_size": config.get("type_vocab_size", 2)}
    name = config.get("_name_or_path")
    if isinstance(name, str) and name and not os.path.isabs(name):  # another machine has no such path
        source["name"] = name
    max_positions = state[f"{ROOT}embed_positions.weight"].size(0) - 2
    args = argparse.Namespace(
        arch="roberta",
        task="masked_lm",
        criterion="masked_lm",
        data="",
        **{ours: config[theirs] for ours, theirs in SIZES.items()},
        activation_fn=config.get("hidden_act", "gelu"),
        layer_norm_eps=config.get("layer_norm_eps", 1e-12),
        dropout=config.get("hidden_dropout_prob", 0.1),
        attention_dropout=config.get("attention_probs_dropout_prob", 0.1),
        max_positions=max_positions,
        tokens_per_sample=max_positions,
        source=source,
    )
    names = {"criterion_name": "MaskedLmLoss", "optimizer_name": "FairseqAdam"}
    return {
        "args": args,
        "model": state,
        "optimizer_history": [{**names, "lr_scheduler_state": {"best": None}, "num_updates": 0}],
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
        "last_optimizer_state": None,
    }


def load_fairseq(folder: Path) -> Any:
    """Build fairseq's RoBERTa from DST's two files, with the source's LayerNorm eps."""
    from fairseq.data import Dictionary
    from fairseq.models.roberta import RobertaModel

    torch.serialization.add_safe_globals([argparse.Namespace])
    checkpoint = torch.load(folder / "model.pt", weights_only=True)
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    dictionary.add_symbol("<mask>")
    model = RobertaModel.build_model(checkpoint["args"], SimpleNamespace(source_dictionary=dictionary))
    model.load_state_dict(checkpoint["model"], strict="encoder.lm_head.bias" in checkpoint["model"])
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = checkpoint["args"].layer_norm_eps  # fairseq has no option for it
    return model.eval()


def random_batch(order: list[int], max_positions: int) -> tuple[Tensor, Tensor]:
    """Return fairseq ids and the same sentences in Hugging Face ids, both B x T, right-padded.

    Tokens are drawn from the whole vocabulary but the padding; one sentence has full length, at most 128.
    """
    longest = min(max_positions, 128)
    lengths = torch.tensor([longest, max(longest // 2, 1), min(3, longest)])
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, len(order) - 1, (len(lengths), longest), generator=generator)
    tokens += (tokens >= 1).long()  # skips id 1, the padding
    tokens[:, 0] = 0
    tokens[torch.arange(longest) >= lengths[:, None]] = 1
    return tokens, torch.tensor(order)[tokens]


@torch.no_grad()
def verify(source: Path, converted: Path, order: list[int]) -> None:
    """Raise InputError unless fairseq's last hidden states a and transformers' b agree on a random padded batch.

    |a - b| <= 1e-5 * max(1, max |b|) over real tokens, all of segment 0. Hidden values of large models reach ten and
    more, of which single precision rounds off 1e-5.
    """
    from transformers import AutoModel, logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    theirs = AutoModel.from_pretrained(str(source), local_files_only=True, add_pooling_layer=False).float().eval()
    ours = load_fairseq(converted)
    tokens, hf_tokens = random_batch(order, ours.max_positions())
    real = tokens != 1  # B x T
    a = ours(tokens, features_only=True)[0][real]
    b = theirs(input_ids=hf_tokens, attention_mask=real.long()).last_hidden_state[real]
    difference, largest = (a - b).abs().max().item(), b.abs().max().item()
    print(f"largest difference from transformers: {difference:.2e} (hidden values to {largest:.1f})")
    if not difference <= TOLERANCE * max(1.0, largest):  # NaN fails too
        raise InputError(f"--verify: the result differs from transformers by {difference:.2e}; nothing written")


def convert(source: Path, target: Path, check: bool = False, force: bool = False) -> dict[str, Any]:
    """Convert `source` into `target` and return the checkpoint; an error leaves `target` as it was."""
    target = target.resolve()  # behind a link, so that the hidden folder beside it is on the same disk
    present = [name for name in FILES if (target / name).exists()]
    if present and not force or target.is_file():
        what = f"already has {' and '.join(present)}: give --force" if present else "is a file: name a folder"
        raise InputError(f"DST {target} {what}")
    try:
        config, vocabulary = read_config(source), read_vocabulary(source)
        order = fairseq_order(vocabulary)
        symbols = dictionary_symbols(vocabulary, order)
        check_vocabulary(vocabulary, config, order)
        checkpoint = checkpoint_of(convert_weights(read_weights(source), config, order), config)
    except (OSError, LookupError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise InputError(f"SRC {source} cannot be converted: {error}") from None

    sweep(target)
    with scratch_folder(target) as work:
        (work / "dict.txt").write_text("".join(f"{symbol} 1\n" for symbol in symbols), encoding="utf-8")
        torch.save(checkpoint, str(work / "model.pt"))
        if check:
            verify(source, work, order)
        target.mkdir(exist_ok=True)
        # the old model goes first and the new one comes last: none ever stands beside another one's dictionary
        (target / "model.pt").unlink(missing_ok=True)
        for name in FILES:
            (work / name).replace(target / name)
    return checkpoint


@command_line("convert_hf")
def main(argv: list[str] | None = None) -> None:
    epilog = "example: python checkpoints/convert_hf.py hf/roberta-base checkpoints/roberta-base --verify"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog=epilog)
    parser.add_argument("source", metavar="SRC", type=named_path, help="folder saved by transformers")
    parser.add_argument("target", metavar="DST", type=named_path, help="folder for model.pt and dict.txt")
    parser.add_argument("--verify", action="store_true", help="compare with transformers' own model")
    parser.add_argument("--force", action="store_true", help="replace DST's model.pt and dict.txt")
    options = parser.parse_args(argv)
    checkpoint = convert(options.source, options.target, options.verify, options.force)
    args, state = checkpoint["args"], checkpoint["model"]
    print(
        f"{options.target / 'model.pt'}: {args.source['model_type']}, {args.encoder_layers} layers of width "
        f"{args.encoder_embed_dim}, {len(state[f'{ROOT}embed_tokens.weight'])} tokens, {args.max_positions} positions"
    )
    if "encoder.lm_head.bias" not in state:
        print("note: no masked-LM head tied to the embeddings in the source, so none in model.pt")
    if args.source["type_vocab_size"] > 1:
        what = "segment 0 is folded into the positions, so sentence B of a pair reads as segment 0"
        print(f"note: fairseq's RoBERTa has no segment embeddings; {what}")


if __name__ == "__main__":
    main()
