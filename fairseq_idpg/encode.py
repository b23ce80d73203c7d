"""Fill a representation cache before training: ``python -m fairseq_idpg.encode DATA-bin --backbone model.pt ...``.

fairseq-train finds the rows with the same --representation-cache, --max-positions, --shorten-method, --separator-token,
--swap-pairs and --fp16 or --bf16 (neither for --amp).
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from preprocess.data_folder import DataFolder
from preprocess.flags import named_path

from .errors import InputError, check_there, command_parser, logged_command

KINDS = ("backbone", "mean-pooled", "token-mean")
TASK_OPTIONS = (  # those that the task of a training run has too
    *("separator_token", "max_positions", "shorten_method", "swap_pairs"),
    *("representation_cache", "representation_cache_dtype"),
)


def build_parser() -> argparse.ArgumentParser:
    parser = command_parser("encode", __doc__, "SST-2-bin --backbone model.pt --representation-cache cache")
    add = parser.add_argument
    add("data", metavar="DATA-bin", nargs="+", help="binarized folders")
    add("--backbone", required=True, metavar="FILE", help="the model.pt of the training runs")
    add("--representation-cache", type=named_path, required=True, metavar="DIR", help="folder of the rows")
    add("--representation-cache-dtype", choices=["float32", "float16"], default="float32", help="default: float32")
    add("--representation", choices=KINDS, default="backbone", help="default: backbone, which previous-layer reads too")
    add("--splits", nargs="+", action="extend", metavar="SPLIT", help="default: all that have labels")
    add("--separator-token", type=int, default=2, metavar="N", help="default: 2")
    add("--max-positions", type=int, default=512, metavar="N", help="default: 512")
    add("--shorten-method", choices=["none", "truncate"], default="none", help="default: none")
    room = (
        "rows of the prompt in the input: 2 more at --prompt-position 4; 0 for keys and values, late rows and a head "
        "on M(x); it matters where examples are cut (default: 5)"
    )
    add("--prompt-length", type=int, default=5, metavar="N", help=room)
    add("--swap-pairs", choices=["none", "append"], default="none", help="default: none")
    half = parser.add_mutually_exclusive_group()
    for option, precision in (("--fp16", "float16"), ("--bf16", "bfloat16")):
        stores: Any = {"action": "store_const", "dest": "precision", "const": precision, "default": "float32"}
        half.add_argument(option, help=f"rows for runs with {option}", **stores)
    add("--cpu", action="store_true", help="do not use a GPU")
    return parser


def encode(data: DataFolder, args: argparse.Namespace, sizes: dict[str, Any]) -> None:
    """Fill the cache of every split of a folder, with rows of M(x) as a training run on it would compute them."""
    import torch

    from .models.config import open_options
    from .out_of_memory import put_on, usual_device
    from .representations.cache import fill_cache
    from .tasks.config import SentencePredictionIDPGConfig
    from .tasks.task import SentencePredictionIDPGTask

    splits = args.splits or [*filter(data.has_labels, data.splits)]
    if not splits:
        raise InputError(f"{data.path} has no split with labels: name what to encode, --splits {' '.join(data.splits)}")
    cfg = SentencePredictionIDPGConfig(
        data=str(data.path),
        num_classes=1 if data.regression else max(2, len(data.label_names)),  # of fewer the error names the folder
        regression_target=data.regression,
        init_token=0,
        classification_head_name="sentence_classification_head",
        seed=1,
        **{name: getattr(args, name) for name in TASK_OPTIONS},
    )
    labelled = data.regression or data.label_names  # texts without labels have an M(x) too
    task = SentencePredictionIDPGTask.setup_task(cfg, from_checkpoint=not labelled)

    # The rows are computed by a model of the backbone's own size, whose method reads M(x) and takes room in the input.
    options = open_options(
        **sizes,
        _name="roberta_idpg",
        method="s-idpg-dnn",
        representation=args.representation,
        prompt_insertion="add" if args.prompt_length else "key-value",
        prompt_length=args.prompt_length or 1,
        backbone=args.backbone,
        max_positions=args.max_positions,
    )
    device = usual_device(args.cpu)
    built = task.build_model(options).eval().to(getattr(torch, args.precision))
    model = put_on(device, built, f"--backbone {args.backbone}")
    for split in splits:
        # fairseq-train joins train, train1 and so on to one training set
        dataset = task.load_dataset(split, combine=split == "train", need_labels=False)
        stored: Any = dataset.representations  # there is a cache
        complete = stored.complete
        fill_cache(stored, model, dataset.raw_tokens, dataset.sizes, split)
        print(f"{data.path} {split}: {len(dataset):,} rows {'were there' if complete else 'written'}")


@logged_command()
def main(argv: Sequence[str] | None = None) -> None:
    args = build_parser().parse_args(argv)
    check_there("--backbone", args.backbone)
    check_there("DATA-bin", *args.data)
    from . import plugin  # noqa: F401  here, as torch and fairseq take seconds to import
    from .saving.backbone_file import backbone_path, read_backbone

    sizes = read_backbone(backbone_path(args.backbone)).sizes
    for path in args.data:
        encode(DataFolder(Path(path)), args, sizes)


if __name__ == "__main__":
    sys.exit(main())
