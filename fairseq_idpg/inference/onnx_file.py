"""A whole trained model as an ONNX file: tokens in, probabilities or scores out; onnxruntime computes it on a CPU."""

import contextlib
import json
import logging
import shutil
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from preprocess.checksums import sha256
from preprocess.dictionary import MASK
from preprocess.errors import reason_of
from preprocess.writing import new_folder

from ..errors import InputError, check_there, refused
from ..saving.shared_folder import CONFIG, ONNX, VOCAB, onnx_digests, onnx_file, write_config
from ..tasks.positions import END, prompt_block, separators
from .sharing import check_target, describe

TOLERANCE = 1e-4  # of what the file and the model say of the same texts
SOURCE = "checkpoint_sha256"  # among the facts of the run: what a file in int8 was made of
LINEARS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj", "fc1", "fc2")


class Product(nn.Module):
    """x W^T + b, W^T being the parameter: int8 needs the matrix itself, and both passes of IDPG share it."""

    def __init__(self, linear: Any):
        super().__init__()
        self.matrix, self.bias = nn.Parameter(linear.weight.detach().t().contiguous()), linear.bias

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.matrix + self.bias


class WholeModel(nn.Module):
    """B x T tokens -> (B x classes probabilities, or B x 1 scores on the task's scale; B x classes logits)."""

    def __init__(self, predictor: Any):
        super().__init__()
        self.model: Any = predictor.model
        cfg, dictionary = predictor.options, predictor.text.dictionary
        for layer in self.model.encoder.sentence_encoder.layers:
            layer.skips_pads = False
            for name in LINEARS:
                layer.set_submodule(name, Product(layer.get_submodule(name)))
        self.head, self.position, self.separators = cfg.classification_head_name, cfg.prompt_position, separators(cfg)
        self.pad, self.eos, self.mask = dictionary.pad(), dictionary.eos(), dictionary.index(MASK)
        self.pairs = bool(predictor.record.pairs) and predictor.template is None  # a template makes one text of both
        self.scale = (predictor.record.scale or 1.0) if predictor.record.regression else None
        self.block = prompt_block(self.position, self.model.prompt_length, self.mask, self.eos)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        net_input, rows = {"src_tokens": tokens, "padded": True}, self.block.numel()
        # The table of ``positions``; text never becomes </s>, which ends both sentences.
        count = tokens.ne(self.pad).sum(1)
        end = tokens.eq(self.eos).long().argmax(1) if self.pairs else count - 1
        before = [torch.ones_like(count), end, end + self.separators, count - 1, count][self.position]
        mask_index = tokens.eq(self.mask).long().argmax(1)
        net_input["mask_index"] = mask_index + rows * (before <= mask_index)
        if rows:
            # Column j holds token j in front of the block, token j - rows behind it.
            column = torch.arange(tokens.size(1) + rows, device=tokens.device)[None]
            row = column - before[:, None]
            source = torch.where(row < 0, column, column - rows).clamp(0, tokens.size(1) - 1)
            text, block = tokens.gather(1, source), self.block[row.clamp(0, rows - 1)]
            net_input["prompted_tokens"] = torch.where((row >= 0) & (row < rows), block, text)
            net_input["prompt_offset"] = before + (self.position == END)
        logits, _ = self.model(**net_input, features_only=True, classification_head_name=self.head)
        return (logits.softmax(1) if self.scale is None else logits * self.scale), logits


class OnnxModel(nn.Module):
    """Stands in for the model of a ``Predictor``: onnxruntime computes the logits of ``src_tokens``."""

    method = None
    check_backbone = staticmethod(lambda: None)  # the file was read whole
    kept: dict[str, Any]  # of a folder that is predicted

    def __init__(self, path: Path, args: Any, head: str):
        super().__init__()
        check_packages("onnxruntime")
        from onnxruntime import InferenceSession, SessionOptions

        self.args, self.head = args, head
        options = SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = torch.get_num_threads(), 3  # errors alone
        self.session = InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.prompt_length = int(self.session.get_modelmeta().custom_metadata_map["prompt_length"])
        self.encoder = nn.Identity()  # in evaluation mode, as the model is
        self.place = nn.Parameter(torch.empty(0))  # says that tensors go to the CPU
        self.eval()

    def forward(self, src_tokens: Tensor, **asked: Any) -> tuple[Tensor, dict[str, Any]]:
        if asked.get("classification_head_name") != self.head or asked.get("return_all_hiddens"):
            raise refused("features", f"and prompts are not in {ONNX}, which only answers: load the checkpoint")
        (logits,) = self.session.run(["logits"], {"tokens": src_tokens.numpy()})
        return torch.from_numpy(logits), {}


def check_packages(*names: str) -> None:
    missing = " ".join(name for name in names if find_spec(name) is None)
    if missing:
        raise InputError(f"{ONNX} needs {missing}: pip install {missing}")


def write_onnx(work: Path, config: dict[str, Any], predictor: Any, int8: bool = False) -> None:
    """Write a model, its encoder's files and ``config``; the model is changed.

    Raise InputError where the file's answers differ from the model's.
    """
    check_packages("onnx", "onnxruntime", "onnxscript")
    exact = work / "exact" if int8 else work
    exact.mkdir(exist_ok=True)
    silenced = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"), torch.no_grad():
            write_model(exact / ONNX, predictor)
            if int8:
                from onnxruntime.quantization import QuantType, quantize_dynamic

                # 7 bits: processors without VNNI add products of 8 bits in 16, which would overflow
                way: Any = {"per_channel": True, "reduce_range": True, "weight_type": QuantType.QInt8}
                quantize_dynamic(exact / ONNX, work / ONNX, op_types_to_quantize=["MatMul"], **way)
                shutil.rmtree(exact)
    except Exception as error:  # of torch's exporter, and of onnxruntime for sizes that are not open
        raise InputError(
            f"--method {predictor.model.args.method} cannot be written as {ONNX} ({reason_of(error, 80)}): give a "
            "checkpoint of another method"
        ) from error
    finally:
        logging.disable(silenced)
    (work / VOCAB).mkdir()
    for file in predictor.text.encoder.files:
        shutil.copy(file, work / VOCAB)
    write_config(work, onnx_digests(work), config)


def write_model(path: Path, predictor: Any) -> None:
    """Write an ONNX file; raise ValueError where its answers differ from the model's."""
    whole = WholeModel(predictor).eval()
    tokens = pad_sequence([torch.tensor([0, *range(4, 4 + n), 2]) for n in (9, 12)], True, whole.pad)
    sizes = {"tokens": {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}}
    program = torch.export.export(whole, (tokens,), dynamic_shapes=sizes, strict=False)
    names = ["probabilities" if whole.scale is None else "score", "logits"]
    written: Any = torch.onnx.export(program, input_names=["tokens"], output_names=names, dynamo=True, verbose=False)
    written.model.metadata_props["prompt_length"] = str(whole.model.prompt_length)
    written.save(path)

    # Texts of several lengths, as the task places prompts in them, alone and padded.
    sentences = [1, 2, 3, max(predictor.options.max_positions // 3 - whole.model.prompt_length, 4), 7, 1]
    words, draw = len(predictor.text.dictionary) - 4, torch.Generator().manual_seed(0)
    parts = [
        [torch.cat([4 + torch.randperm(words - 1, generator=draw)[:n], torch.tensor([whole.eos])]) for n in order]
        for order in (sentences, sentences[::-1])[: 1 + bool(predictor.record.pairs)]
    ]
    examples, file = predictor.examples(parts, str), OnnxModel(path, whole.model.args, whole.head)
    for numbers in ([0], [1, 2], range(len(sentences))):
        net_input = examples.collater([examples[i] for i in numbers])["net_input"]
        given = {**net_input, "features_only": True, "classification_head_name": whole.head}
        expected, found = (model(**given)[0] for model in (whole.model, file))
        difference = float(((found - expected).abs() / expected.abs().clamp(min=1)).max())
        if not difference <= TOLERANCE:
            raise ValueError(f"its logits differ by {difference:.0e}")


def in_int8(checkpoint: str, open_checkpoint: Callable[..., Any], **reads: Any) -> str:
    """Return the folder CHECKPOINT.int8 with its model in int8; make it unless it was made from this checkpoint."""
    check_there("checkpoint", checkpoint)
    if onnx_file(checkpoint):
        raise refused("int8", f"and {checkpoint}, which is in ONNX already: give the checkpoint that it was made of")
    source = Path(checkpoint)
    folder, file = Path(f"{source}.int8"), source / CONFIG if source.is_dir() else source
    if not file.is_file():
        raise refused("int8", f"and {checkpoint}, a folder without {CONFIG}: give a checkpoint or a folder to share")
    digest = sha256(file)
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        if json.loads((folder / CONFIG).read_text(encoding="utf-8"))["run"][SOURCE] == digest:
            return str(folder)
    check_target(folder, overwrite=True)
    config = describe(checkpoint).config
    config["run"][SOURCE] = digest
    with new_folder(folder, overwrite=True) as work:
        write_onnx(work, config, open_checkpoint(checkpoint, "cpu", **reads), int8=True)
    return str(folder)
