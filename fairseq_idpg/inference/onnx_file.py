"""A whole trained model as an ONNX file: tokens in, probabilities or scores out; onnxruntime computes it on a CPU."""

import contextlib
import json
import logging
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from preprocess.checksums import sha256
from preprocess.dictionary import MASK
from preprocess.errors import reason_of
from preprocess.writing import new_folder

from ..errors import InputError, refused
from ..saving.shared_folder import CONFIG, ONNX, VOCAB, onnx_digest, write_config
from ..tasks.positions import END, prompt_block, separators
from .sharing import check_target, describe

TOLERANCE = 1e-4  # of what the file and the model say of the same texts
SOURCE = "checkpoint_sha256"  # among the facts of the run: what a file in int8 was made of
LINEARS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj", "fc1", "fc2")


class Product(nn.Module):
    """x W^T + b with W^T kept: quantisation finds the matrix, and both passes of IDPG share it."""

    def __init__(self, linear: Any):
        super().__init__()
        self.matrix, self.bias = nn.Parameter(linear.weight.detach().t().contiguous()), linear.bias

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.matrix + self.bias


class WholeModel(nn.Module):
    """B x T tokens -> (B x classes probabilities, or B x 1 scores on the task's scale; B x classes logits)."""

    block: Tensor

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
        self.register_buffer("block", prompt_block(self.position, self.model.prompt_length, self.mask, self.eos))

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
    kept: dict[str, Any]  # of a folder that is predicted

    def __init__(self, path: Path, args: Any, head: str):
        super().__init__()
        self.args, self.head = args, head
        self.session = open_session(path)
        self.prompt_length = int(self.session.get_modelmeta().custom_metadata_map["prompt_length"])
        self.encoder = nn.Identity()  # in evaluation mode, as the model is
        self.place = nn.Parameter(torch.empty(0))  # says that tensors go to the CPU
        self.eval()

    def forward(
        self,
        src_tokens: Tensor,
        classification_head_name: str | None = None,
        return_all_hiddens: bool = False,
        inspect: Any = None,
        **unused: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        if classification_head_name != self.head or return_all_hiddens or inspect is not None:
            raise refused("features", f"and prompts are not in {ONNX}, which only answers: load the checkpoint")
        (logits,) = self.session.run(["logits"], {"tokens": src_tokens.numpy()})
        return torch.from_numpy(logits), {}

    def check_backbone(self) -> None:
        """Do nothing: the file was read whole."""


def open_session(path: Path) -> Any:
    """Return the session of an ONNX file, with the threads of torch."""
    with needing_onnx():
        import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = torch.get_num_threads(), 3  # errors alone
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


@contextlib.contextmanager
def needing_onnx() -> Iterator[None]:
    """Raise InputError for a package that is missing; leave out warnings of others."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    except ModuleNotFoundError as error:
        raise InputError(f"{ONNX} needs {error.name}: pip install onnx onnxruntime onnxscript") from None
    finally:
        logging.disable(logging.NOTSET)


def write_onnx(work: Path, config: dict[str, Any], predictor: Any, int8: bool = False) -> None:
    """Write the model of ``predictor``, which is changed, its encoder's files and ``config`` into a folder.

    Raise InputError for a method whose file would say something else.
    """
    what = f"--method {predictor.model.args.method} cannot be written as {ONNX}"
    if isinstance(predictor.model, OnnxModel) or predictor.means is not None:
        raise InputError(f"{what} from word vectors, or from another ONNX file: give another checkpoint")
    whole, path = WholeModel(predictor).eval(), work / ONNX
    tokens = pad_sequence([torch.tensor([0, *range(4, 4 + n), 2]) for n in (9, 12)], True, whole.pad)
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    names = ["probabilities" if whole.scale is None else "score", "logits"]
    with needing_onnx(), torch.no_grad():
        try:
            program = torch.export.export(whole, (tokens,), dynamic_shapes={"tokens": sizes}, strict=False)
            written: Any = torch.onnx.export(
                program, input_names=["tokens"], output_names=names, dynamo=True, verbose=False
            )
            written.model.metadata_props.update(
                prompt_length=str(whole.model.prompt_length), labels=json.dumps(predictor.labels)
            )
            written.save(path)
            difference = largest_difference(path, predictor)
        except ModuleNotFoundError:
            raise
        except Exception as error:  # of torch's exporter, and of onnxruntime for sizes that are not open
            raise InputError(f"{what} ({reason_of(error, 60)}): give a checkpoint of another method") from error
        if not difference <= TOLERANCE:
            raise InputError(f"{what}, which differs by {difference:.0e}: give a checkpoint of another method")
        if int8:
            round_matrices(path)
    (work / VOCAB).mkdir()
    for file in predictor.text.encoder.files:
        shutil.copy(file, work / VOCAB)
    write_config(work, onnx_digest(work), config)


def largest_difference(path: Path, predictor: Any) -> float:
    """Return by how much logits of the file differ from the model's, on texts of several lengths, padded and alone."""
    session, draw = open_session(path), torch.Generator().manual_seed(0)
    longest = predictor.options.max_positions // 3 - predictor.model.prompt_length
    sizes = [1, 2, 3, max(longest, 4), 7, 1]
    last, eos = len(predictor.text.dictionary) - 2, torch.tensor([predictor.text.dictionary.eos()])
    parts = [
        [torch.cat([torch.randint(4, last, (n,), generator=draw), eos]) for n in order]
        for order in ([sizes, sizes[::-1]] if predictor.record.pairs else [sizes])
    ]
    examples, differences = predictor.examples(parts, str), []
    for numbers in ([0], [1, 2], range(len(sizes))):
        net_input = examples.collater([examples[i] for i in numbers])["net_input"]
        expected, _ = predictor.model(
            **net_input, features_only=True, classification_head_name=predictor.options.classification_head_name
        )
        (found,) = session.run(["logits"], {"tokens": net_input["src_tokens"].numpy()})
        differences.append(np.abs(found - expected.numpy()) / np.maximum(1, np.abs(expected.numpy())))
    return float(max(map(np.max, differences)))


def round_matrices(path: Path) -> None:
    """Put the matrices of an ONNX file into int8, by onnxruntime; what they are multiplied with follows in each run."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    exact = path.with_suffix(".float")
    path.rename(exact)
    # 7 bits: processors without VNNI add products of 8 bits in 16, which would overflow
    quantize_dynamic(exact, path, ["MatMul"], per_channel=True, reduce_range=True, weight_type=QuantType.QInt8)
    exact.unlink()


def in_int8(checkpoint: str, open_checkpoint: Callable[..., Any], **reads: Any) -> str:
    """Return the folder CHECKPOINT.int8 with its model in int8; make it unless it is of this very checkpoint.

    ``open_checkpoint``: that of ``load``, with its arguments ``reads``.
    """
    folder, source = Path(f"{checkpoint}.int8"), Path(checkpoint)
    digest = sha256(source / CONFIG if source.is_dir() else source)
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        if json.loads((folder / CONFIG).read_text(encoding="utf-8"))["run"][SOURCE] == digest:
            return str(folder)
    check_target(folder, overwrite=True)
    described = describe(checkpoint)
    described.config["run"][SOURCE] = digest
    with new_folder(folder, overwrite=True) as work:
        write_onnx(work, described.config, open_checkpoint(checkpoint, "cpu", **reads), int8=True)
    return str(folder)
