"""Sentence prediction with a prompt in each example."""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from fairseq.data.iterators import EpochBatchIterator
from fairseq.tasks import register_task
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from torch import Tensor

from ..backbone.cpu import pack_linears
from ..criterions.sentence_prediction_idpg import check_extra_loss, log_correlations, with_all_words
from ..errors import InputError
from ..metrics import reported
from ..models.config import predicts_words
from ..models.prepare import DataFacts, complete_options
from ..models.short_form import suggest_options
from ..names import TRAIN
from ..optim.half_precision import KeptHalfPrecision
from ..out_of_memory import refuse_batch
from ..representations.cache import SplitText, fill_cache
from ..representations.states import StateCache, find_state_caches
from ..representations.stored import Stored, stored_representations
from ..saving.record import KeptRecord, Record
from . import folder
from .config import SentencePredictionIDPGConfig
from .dataset import PromptedDataset, SwappedPairsAppended, arrangement, place_prompts
from .positions import check_position, check_tokens, separators
from .template import Template, complete_phrasing, find_phrasing, in_places, ordered_words

# In the line that ends a run that has diverged: fairseq writes a crash.pt and a traceback, or takes NaN for the best.
DIVERGED = "the run has diverged"
REMEDY = "lower --lr or give --clip-norm 1.0"
SMALLER_BATCHES = (
    "give --update-freq 2 and half the --batch-size (with --total-batch-size --update-freq 2 alone), which makes the "
    "same updates of smaller batches"
)


@register_task("sentence_prediction_idpg", dataclass=SentencePredictionIDPGConfig)
class SentencePredictionIDPGTask(SentencePredictionTask):
    """Reads ordinary sentence_prediction folders, and says where the prompt goes in each example.

    The model that is built says how many rows it needs; for a method that inserts none examples are fairseq's own.
    """

    prompt_length = 0
    judges = False  # whether the model was trained before, as in fairseq-validate
    stored: Callable[[SplitText], Stored] | None = None  # finds M(x) of a split, where it is not computed
    state_cache: Callable[[SplitText, np.ndarray], StateCache] | None = None  # finds the states of a split
    half_precision: KeptHalfPrecision | None = None  # what a checkpoint keeps for resuming in half precision
    labels: folder.LabelOrder | None = None  # of a folder with classes
    record: Record | None = None  # of the data folder
    model_record: Record | None = None  # of a checkpoint that was opened for texts, without a data folder
    adds_loss: str | None = None  # the option by which the method of a new model adds to the loss
    template: Template | None = None  # around every example, for --predict-with mlm
    all_words = False  # whether the loss is over the whole vocabulary
    reports: Sequence[str] = ()  # metrics of preprocess/split_scores.py that the criterion is asked for

    @classmethod
    def add_args(cls, parser: Any) -> None:
        super().add_args(parser)
        # ``complete_arguments`` has to tell what was typed from what was not
        parser.set_defaults(criterion=None, best_checkpoint_metric=None)
        suggest_options(parser)

    @classmethod
    def setup_task(cls, cfg: Any, from_checkpoint: bool = False, **kwargs: Any) -> "SentencePredictionIDPGTask":
        """Raise InputError where folder and options do not fit; with ``from_checkpoint`` it may lack label names."""
        folder.check_folder(cfg, from_checkpoint)
        check_position(cfg.prompt_position, folder.has_pairs(cfg.data))
        dictionary = cls.load_dictionary(os.path.join(cfg.data, "input0", "dict.txt"))
        labels = folder.load_labels(cfg, cls.load_dictionary, from_checkpoint)
        task = cls(cfg, dictionary, dictionary if labels is None else labels.dictionary)
        task.labels, task.record = labels, folder.folder_record(cfg, dictionary, [] if labels is None else labels.names)
        return task

    def build_model(self, cfg: Any, from_checkpoint: bool = False):
        """Build the model, and put all options as they take effect into ``cfg``, which every checkpoint keeps."""
        check_tokens(self.cfg, self.source_dictionary)
        data = DataFacts(
            task_cfg=self.cfg,
            dictionary=self.source_dictionary,
            encode=lambda text: folder.text_encoder(self.cfg.data, text).encode([text])[0][:-1].tolist(),
            record=self.record,
            take_order=None if self.labels is None else self.labels.take_order,
        )
        complete_options(cfg, data)
        # With --predict-with mlm a template is put around each example, and the classes are words of the dictionary.
        words = None
        if self.record is not None:  # a model that reads texts instead of a folder brings its own
            complete_phrasing(cfg, self.cfg, self.record)
            if predicts_words(cfg):
                encoder, pairs = folder.text_encoder(self.cfg.data, cfg.template), bool(self.record.pairs)
                self.template, words = find_phrasing(cfg, self.cfg, self.source_dictionary, pairs, encoder)
        self.judges = from_checkpoint
        model = super().build_model(cfg, from_checkpoint)
        if words is not None:
            head = model.predict_words(self.cfg.classification_head_name, words)
            self.all_words = str(cfg.verbaliser_loss) == "vocabulary"
            if not from_checkpoint:  # a checkpoint has its words in the order of its classes
                assert self.labels is not None  # scores were refused
                data = replace(data, take_order=ordered_words(cfg, self.labels, head))
        model.prepare(data, training=not from_checkpoint)

        # The built model says what batches must bring: room for its rows, and M(x) or states from a cache.
        self.prompt_length = model.prompt_length
        self.half_precision = model.kept.get("fp16")
        self.stored = stored_representations(self.cfg, model)
        self.state_cache = find_state_caches(self.cfg, model, training=not from_checkpoint)
        self.adds_loss = None if from_checkpoint else getattr(model.method, "adds_loss", None)
        return model

    def build_criterion(self, cfg: Any, *args: Any) -> Any:
        folder.check_scored(cfg, self.labels)
        self.reports = reported(cfg)
        criterion = super().build_criterion(cfg, *args)
        check_extra_loss(criterion, self.adds_loss)
        return criterion

    def load_dataset(
        self, split: str, combine: bool = False, need_labels: bool = True, **kwargs: Any
    ) -> PromptedDataset:
        """Return fairseq's dataset of the split, with the prompt's place in every example.

        Raise InputError for missing, empty or disagreeing files, for examples that are too long for text and prompt
        together, and, with ``need_labels``, for a split without labels.
        """
        cfg, dictionary = self.cfg, self.source_dictionary
        if self.model_record is not None:
            self.match_classes(self.model_record)
        folder.check_files(cfg.data, split, cfg.regression_target, combine)
        inputs = ["input0", "input1"] if folder.has_pairs(cfg.data) else ["input0"]
        texts = [folder.read_sentences(cfg.data, part, split, dictionary, combine) for part in inputs]
        lengths = [folder.sentence_lengths(sentences) for sentences in texts]
        examples = len(lengths[0])
        folder.check_labels(cfg.data, split, cfg.regression_target, combine, examples, need_labels)
        if self.labels is not None and self.labels.names:
            self.labels.check_count()
        # fairseq would cut the joined tokens. Here ``Shortener`` cuts each sentence, so fairseq reads them whole.
        method, cfg.shorten_method = cfg.shorten_method, "none"
        try:
            dataset = super().load_dataset(split, combine=combine, **kwargs)
        finally:
            cfg.shorten_method = method

        # Exchanged pairs follow the others, only in training: a validation counts each example once.
        orders = [texts]
        swapped = str(cfg.swap_pairs) == "append" and not self.judges and split.startswith(TRAIN)
        if swapped:
            dataset = SwappedPairsAppended(dataset, lengths, separators(cfg), not cfg.no_shuffle, cfg.seed)
            lengths, orders = [np.concatenate(lengths), np.concatenate(lengths[::-1])], [texts, texts[::-1]]
        # Behind a space in a template a sentence may have other tokens than alone, so its length is counted there.
        placed = [] if self.template is None else in_places(self.template, lengths, orders)
        places = place_prompts(cfg, dictionary, split, lengths, self.prompt_length, self.template, placed)
        # Files of a cache are named by all that changes what the backbone reads of the split.
        arranged = [cfg.init_token, cfg.separator_token, swapped, *places.shorten.arrangement]
        text = SplitText(cfg.data, split, inputs, combine, examples, len(orders), arranged)
        judged = self.judges or not split.startswith(TRAIN)
        self.datasets[split] = PromptedDataset(
            dataset,
            places,
            pad=dictionary.pad(),
            arrange=arrangement(cfg, split),
            representations=None if self.stored is None else self.stored(text),
            states=None if self.state_cache is None else self.state_cache(text, places.shorten.sizes),
            class_of=self.labels,
            questions=folder.find_questions(cfg.data, split, self.reports) if judged else None,
        )
        return self.datasets[split]

    def match_classes(self, model: Record) -> None:
        """Map the classes of the folder, which is known only now, onto those of a checkpoint; see ``KeptRecord``."""
        task = self.setup_task(self.cfg, from_checkpoint=True)
        assert task.record is not None
        self.labels = task.labels
        take_order = None if self.labels is None else self.labels.take_order
        KeptRecord(task.record, self.cfg.data, take_order, training=False).load_state_dict(asdict(model))

    def get_batch_iterator(self, dataset: Any, *args: Any, **kwargs: Any) -> EpochBatchIterator:
        """Return fairseq's, with --total-batch-size and --max-tokens shared out among processes and --update-freq."""
        longest, most = int(dataset.num_tokens_vec(slice(None)).max(initial=0)), kwargs.get("max_tokens")
        if most is not None and longest > most:
            raise InputError(f"--max-tokens (or --max-tokens-valid) {most} is below the longest text: give {longest}")
        trained = any(dataset is known for split, known in self.datasets.items() if split.startswith(TRAIN))
        if trained and not self.judges and self.cfg.total_batch_size is not None:
            total, processes = self.cfg.total_batch_size, kwargs.get("num_shards", 1)
            kwargs["max_sentences"] = share_of_batch(total, processes, self.cfg.update_freq)
            if most:
                # of the examples of an update, at least the longest
                kwargs["max_tokens"] = max(most // (processes * self.cfg.update_freq[0]), longest)
        if self.stored is not None or self.state_cache is not None:
            # Worker processes then start at the first step, when ``begin_epoch`` has filled the caches.
            kwargs["data_buffer_size"] = kwargs.get("data_buffer_size") or 1
        iterator = super().get_batch_iterator(dataset, *args, **kwargs)
        if str(self.cfg.shorten_method) == "random_crop":
            iterator.reuse_dataloader = False  # worker processes would keep the first epoch's windows
        return iterator

    def begin_epoch(self, epoch: int, model: Any) -> None:
        """Pack frozen weights on a CPU, and fill the caches: for each split the backbone reads all texts once."""
        stack = getattr(model.encoder, "sentence_encoder", None)  # a model in ONNX has none
        if stack is not None and next(model.parameters()).device.type == "cpu":
            pack_linears(stack.layers, trains=True)
        for split, dataset in self.datasets.items():
            fill_cache(dataset.representations, model, dataset.raw_tokens, dataset.sizes, split)
            fill_cache(dataset.states, model, dataset.raw_tokens, dataset.places.shorten.sizes, split)

    begin_valid_epoch = begin_epoch

    def loss(self, criterion: Any) -> Any:
        """Return the criterion of a step; with --verbaliser-loss vocabulary, over all words of the dictionary."""
        return partial(with_all_words, criterion) if self.all_words else criterion

    def train_step(self, sample, model, criterion, optimizer, update_num, ignore_grad=False):
        # A resumed run in half precision gets back the loss scale that its checkpoint kept.
        assert self.half_precision is not None
        self.half_precision.before_step(optimizer, update_num)
        # Forward and backward pass: criterion -> ``RobertaIDPGModel.forward`` -> loss. fairseq would leave out a batch
        # that does not fit into memory, and so never train on the longest examples; here it ends the run.
        with refuse_batch(sample["net_input"]["src_tokens"], SMALLER_BATCHES, f"update {update_num + 1}: "):
            loss, sample_size, logging_output = super().train_step(
                sample, model, self.loss(criterion), optimizer, update_num, ignore_grad
            )
        # A process that has run out of batches steps with a batch of before, so that all processes reduce gradients
        # together. It must count nowhere: fairseq zeroes the gradient, and this the counts.
        if ignore_grad:
            return loss, 0, {name: 0 * value for name, value in logging_output.items()}
        return loss, sample_size, logging_output

    def valid_step(self, sample: Any, model: Any, criterion: Any):
        # Within a training fairseq tries a batch once more that does not fit, and ``post_validate`` looks at the
        # scores of the split. fairseq-validate has neither.
        if not self.judges:
            return super().valid_step(sample, model, self.loss(criterion))
        smaller = "give a smaller --batch-size or --max-tokens"
        with refuse_batch(sample["net_input"]["src_tokens"], smaller, "the validation: "):
            loss, sample_size, logging_output = super().valid_step(sample, model, self.loss(criterion))
        model.check_backbone()
        if not torch.isfinite(loss):
            lines = sample["id"] + 1
            raise InputError(f"the loss of lines {lines.min()} to {lines.max()} is not finite: give another checkpoint")
        return loss, sample_size, logging_output

    def reduce_metrics(self, logging_outputs: list[dict[str, Any]], criterion: Any) -> None:
        """Log what fairseq does, with correlations that are never NaN, for its own criterion too."""
        log_correlations(logging_outputs)
        super().reduce_metrics(logging_outputs, criterion)

    def post_validate(self, model: Any, stats: dict[str, Any], agg: Any) -> None:
        """Refuse a loss that is not finite, and a score of NaN, which fairseq would take for the best."""
        for name, value in stats.items():
            if not isinstance(value, (int, float, Tensor)) or name.startswith("best_"):
                continue
            if math.isnan(value) or name == "loss" and math.isinf(value):
                kind, update = "NaN" if math.isnan(value) else "infinite", stats.get("num_updates")
                raise InputError(f"{DIVERGED}: the {name} is {kind} in the validation after update {update}: {REMEDY}")


def share_of_batch(total: int, processes: int, update_freq: Sequence[int]) -> int:
    """Return --batch-size of one process; raise InputError unless updates of ``total`` examples are shared evenly."""
    parts = processes * update_freq[0]
    if len(set(update_freq)) > 1 or total < 1 or total % parts:
        raise InputError(f"--total-batch-size {total}: give one --update-freq, and a multiple of {parts}")
    return total // parts
