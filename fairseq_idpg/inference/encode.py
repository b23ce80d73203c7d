"""Rows of M(x) for a representation cache, as a training run on the same folder would compute them."""

import argparse
from typing import Any

from preprocess.data_folder import DataFolder

from ..errors import InputError
from ..models.config import open_options
from ..out_of_memory import put_on, usual_device
from ..representations.cache import fill_cache
from ..saving.backbone_file import backbone_path, read_backbone, recorded_sizes
from ..tasks.config import SentencePredictionIDPGConfig
from ..tasks.task import SentencePredictionIDPGTask


def task_of(data: DataFolder, args: argparse.Namespace) -> SentencePredictionIDPGTask:
    """Return the task of a training run on a folder."""
    cfg = SentencePredictionIDPGConfig(
        data=str(data.path),
        num_classes=1 if data.regression else max(2, len(data.label_names)),  # of less, the line names the folder
        regression_target=data.regression,
        init_token=0,
        separator_token=args.separator_token,
        max_positions=args.max_positions,
        shorten_method=args.shorten_method,
        swap_pairs=args.swap_pairs,
        representation_cache=args.representation_cache,
        representation_cache_dtype=args.representation_cache_dtype,
        classification_head_name="sentence_classification_head",
        seed=1,
    )
    named = data.regression or data.label_names  # texts without labels have an M(x) too
    return SentencePredictionIDPGTask.setup_task(cfg, from_checkpoint=not named)


def model_options(args: argparse.Namespace) -> argparse.Namespace:
    """Return options of a model of the backbone's own size, whose method reads M(x) and takes room in the input."""
    return open_options(
        **recorded_sizes(read_backbone(backbone_path(args.backbone))),
        _name="roberta_idpg",
        method="s-idpg-dnn",
        representation=args.representation,
        prompt_insertion="add" if args.prompt_length else "key-value",
        prompt_length=args.prompt_length or 1,
        backbone=args.backbone,
        max_positions=args.max_positions,
    )


def encode(data: DataFolder, args: argparse.Namespace, options: argparse.Namespace) -> None:
    """Fill the cache of every split of a folder.

    Raises:
        InputError: none is named, and none has labels.
    """
    splits = args.splits or [*filter(data.has_labels, data.splits)]
    if not splits:
        raise InputError(f"{data.path} has no split with labels: name what to encode, --splits {' '.join(data.splits)}")
    task = task_of(data, args)
    device = usual_device(args.cpu)
    model = put_on(device, task.build_model(options).eval().to(args.precision), f"--backbone {args.backbone}")
    for split in splits:
        # combined as fairseq-train does
        dataset = task.load_dataset(split, combine=split == "train", need_labels=False)
        stored: Any = dataset.representations  # there is a cache
        known = stored.complete
        fill_cache(stored, model, dataset.raw_tokens, dataset.sizes, split)
        print(f"{data.path} {split}: {len(dataset):,} rows {'were there' if known else 'written'}")
