"""What ``RobertaIDPGModel.from_pretrained`` returns: fairseq's hub interface of RoBERTa, for models with a method."""

import os
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from fairseq import utils
from torch import Tensor, nn

from ..errors import InputError
from ..saving.shared_folder import CONFIG
from .load import open_checkpoint
from .predictor import Predictor

Span = tuple[int, int]  # of the tokens of a sentence and its </s>: the first, and the one after the last


def from_pretrained(
    path: str | Path, checkpoint_file: str, data: str | None = None, **options: Any
) -> "IDPGHubInterface":
    """Return the model in ``path/checkpoint_file``, or of a folder to share.

    ``data``: from ``path`` on where it begins with a dot, as in fairseq; ``options``: as of ``load``; on the CPU unless
    they name a ``device``.
    """
    if data is not None and str(data).startswith("."):
        data = os.path.abspath(Path(path, data))
    checkpoint = path if Path(path, CONFIG).is_file() else Path(path, checkpoint_file)
    options = {"device": "cpu", **options}
    return IDPGHubInterface(open_checkpoint(str(checkpoint), data=data, **options))


class IDPGHubInterface(nn.Module):
    """A trained model by fairseq's names, for every method: ``encode``, ``extract_features``, ``predict``.

    Tokens are what the text becomes, ``<s> A </s>`` or ``<s> A </s> </s> B </s>``: prompts are put among them, and
    taken out of the features again. ``predictor.predict`` takes sentences.
    """

    def __init__(self, predictor: Predictor):
        super().__init__()
        self.predictor = predictor
        self.model = predictor.model
        self.task = predictor.task

    @property
    def device(self) -> torch.device:
        return self.predictor.device

    def encode(self, sentence: str, *second: str) -> Tensor:
        """Return the tokens of a sentence, or of a pair; raise InputError for one where the model reads the other."""
        (checked,) = self.predictor.check([(sentence, *second)])
        ids = self.predictor.text.encode(checked.sentences)
        cfg = self.task.cfg
        between = [] if cfg.separator_token is None else [torch.tensor([cfg.separator_token])]
        return torch.cat([torch.tensor([cfg.init_token]), ids[0], *(part for b in ids[1:] for part in (*between, b))])

    def decode(self, tokens: Tensor) -> str | list[str]:
        """Return the sentence of T tokens, or the two of a pair, as the encoder puts pieces together."""
        (row,) = torch.atleast_2d(tokens)
        ids = [row[start : end - 1].tolist() for start, end in self._sentences(row, "tokens")]
        texts = self.predictor.text.encoder.decode(ids)
        return texts[0] if len(texts) == 1 else texts

    def extract_features(self, tokens: Tensor, return_all_hiddens: bool = False) -> Tensor | list[Tensor]:
        """Return B x T x d, the last layer's states of the tokens (T, or B x T with pads at their ends).

        With ``return_all_hiddens`` the states before the first and after each layer. Columns of pads alone are 0. Raise
        InputError for a model that reads a template, which has no states of these tokens alone.
        """
        if self.predictor.template is not None:
            raise InputError(
                f"this model reads sentences in a template, {self.model.args.template}, and has no states of these "
                "tokens alone: use predict"
            )
        rows = torch.atleast_2d(tokens)
        net_input, is_text = self._batch(rows)
        features, extra = self.model(**net_input, features_only=True, return_all_hiddens=return_all_hiddens)
        self.model.check_backbone()
        states = [inner.transpose(0, 1) for inner in extra["inner_states"]] if return_all_hiddens else [features]
        of_text = [layer[is_text].view(len(rows), -1, layer.size(2)) for layer in states]
        padded = [F.pad(layer, (0, 0, 0, rows.size(1) - layer.size(1))) for layer in of_text]
        return padded if return_all_hiddens else padded[0]

    def register_classification_head(self, name: str, num_classes: int | None = None, **options: Any) -> None:
        """Add a head with fresh weights, which ``predict`` takes by its name."""
        self.model.register_classification_head(name, num_classes, **options)
        self.model.train(self.model.training).to(next(self.model.parameters()))  # the device, and half precision

    def predict(self, head: str, tokens: Tensor, return_logits: bool = False) -> Tensor:
        """Return B x classes log-probabilities, or the logits (of scores: B x 1, on the scale of the training)."""
        if self.predictor.record.regression and not return_logits:
            raise InputError("this model gives scores, which have no log-probabilities: give return_logits=True")
        net_input, _ = self._batch(torch.atleast_2d(tokens))
        logits, _ = self.model(**net_input, features_only=True, classification_head_name=head)
        self.model.check_backbone()
        return logits if return_logits else F.log_softmax(logits, dim=-1)

    def _batch(self, rows: Tensor) -> tuple[dict[str, Any], Tensor]:
        """Return the model's input for B x T tokens, and which of its B x T' places are theirs."""
        names = [f"row {number} of the tokens" for number in range(1, len(rows) + 1)]
        of_rows = [self._sentences(row, name) for row, name in zip(rows, names)]
        parts = [[row[start:end].cpu() for row, (start, end) in zip(rows, spans)] for spans in zip(*of_rows)]
        examples = self.predictor.examples(parts, names.__getitem__, may_be_cut=False)
        net_input = examples.collater([examples[i] for i in range(len(rows))])["net_input"]
        if self.predictor.means is not None:
            net_input["representation"] = self.predictor.means.rows(parts)
        rows_of_prompt, before = len(examples.places.block), torch.from_numpy(examples.places.before)[:, None]
        places = torch.arange(net_input["src_tokens"].size(1) + rows_of_prompt)
        is_text = (places < before) | (places >= before + rows_of_prompt)
        return utils.apply_to_sample(lambda tensor: tensor.to(self.device), net_input), is_text.to(self.device)

    def _sentences(self, row: Tensor, name: str) -> list[Span]:
        """Return where the sentences stand among T tokens, their ``</s>`` included."""
        dictionary, cfg, pairs = self.predictor.text.dictionary, self.task.cfg, bool(self.predictor.record.pairs)
        eos, ids = dictionary.eos(), row[: int(row.ne(dictionary.pad()).sum())].tolist()
        first = ids.index(eos) + 1 if eos in ids else 0
        between = [] if cfg.separator_token is None or not pairs else [cfg.separator_token]
        spans = [(1, first), (first + len(between), len(ids))][: 2 if pairs else 1]
        parts = [ids[start:end] for start, end in spans]
        whole = [cfg.init_token, *parts[0], *(token for part in parts[1:] for token in (*between, *part))] == ids
        if not whole or dictionary.pad() in ids or any(part.count(eos) != 1 or part[-1] != eos for part in parts):
            form = "<s> A </s> </s> B </s>" if between else "<s> A </s> B </s>" if pairs else "<s> A </s>"
            raise InputError(
                f"{name}: these are not {form}, which this model reads, with pads behind it: make them with encode"
            )
        return spans
