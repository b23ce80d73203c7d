"""What is damaged, and the public command that reads it: name, files, command, answer, and what may be said instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping

from . import valid, valid_texts
from .answers import Answer, converted, files_of, logged, predictions, printed, rows, trained
from .checkpoints import BACKBONE, CHECKPOINT, FLAT, LEGACY, RESUMED
from .damage import BYTES, Damage
from .folders import CACHE_ROWS, FOLDER, JSON, SCORES
from .texts import RAW, RESULTS, YAML
from .valid import Valid
from .world import CLASSES, ENCODE, IDPG, PLUGIN, PREPROCESS, SWEEP, TRAINING
from .world import SCORES as SCORE_OPTIONS


@dataclass(frozen=True)
class Target:
    """One kind of file and one command that reads it.

    Attributes:
        files: pattern of the files to damage, below the folder of the case; one is drawn for each case.
        command: tool and arguments; ``{code}`` is the checkout.
        structure: damage that leaves whole files, besides that of bytes.
        whole: the folder that ``structure`` damages and ``valid`` looks at, where that is not the file.
        valid: decides whether what is damaged is valid and says something else.
        warning: pattern of a warning that is enough for another answer, because the file's documentation says so.
        names: what a clear error may name besides the file and options of the command line.
        allowed: patterns of files that may be there after an error.
        without: kinds that are no damage here.
    """

    name: str
    files: str
    command: tuple[str, ...]
    answer: Answer
    structure: Mapping[str, Damage]
    whole: str | None = None
    valid: Valid = valid.nothing
    warning: str | None = None
    names: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    @property
    def kinds(self) -> list[str]:
        return [kind for kind in (*BYTES, *self.structure) if kind not in self.without]


DATA = "data/RTE-bin"
PREDICT = ("fairseq_idpg.predict", DATA, "--path", "run/checkpoint_best.pt", "--split", "valid", "--out", "out.tsv")
PREDICT += ("--batch-size", "3", "--cpu")
VALIDATE = (
    "fairseq_cli.validate",
    DATA,
    *PLUGIN,
    "--num-classes",
    "2",
    "--path",
    "run/checkpoint_best.pt",
    "--batch-size",
    "3",
)
TRAIN = ("fairseq_cli.train", DATA, *TRAINING, *CLASSES, *IDPG, "--save-dir", "run")
RESUME = (*TRAIN, "--backbone", "backbone/model.pt", "--max-epoch", "3")
FIRST = (*TRAIN[:-1], "new", "--max-epoch", "1")
ANALYSIS = "fairseq_idpg.analysis"
COSINE = (ANALYSIS, "cosine", "data/scores-bin", "--path", "prompt/checkpoint_best.pt", "--top-k", "3", "--cpu")
COSINE += ("--batch-size", "3")
NEIGHBOURS = (ANALYSIS, "neighbours", "run/checkpoint_best.pt", "--data", DATA, "--examples", "2")
FEW_SHOT = ("preprocess", "few-shot", "RTE", "--out", "few", "--k", "4", "--dev", "2")
BACKBONE_OPTION = ("--backbone", "backbone/model.pt")
RESET = ("--reset-optimizer", "--reset-dataloader", "--reset-meters", "--reset-lr-scheduler")
CACHED = (*FIRST, *BACKBONE_OPTION, "--representation-cache", "cache")
ENCODE_ANEW = ("fairseq_idpg.encode", *(part if part != "cache" else "new" for part in ENCODE))
SCORES_FIRST = ("fairseq_cli.train", "data/scores-bin", *TRAINING, *SCORE_OPTIONS, "--method", "prompt-tuning")
SCORES_FIRST += (*BACKBONE_OPTION, "--save-dir", "new", "--max-epoch", "1")
OLD = (
    "fairseq_idpg.predict",
    "old/pairs",
    "--path",
    "old/run/checkpoint_best.pt",
    "--backbone",
    "old/backbone/model.pt",
)
OLD += ("--split", "valid", "--out", "out.tsv", "--cpu")
GLOVE = ("fairseq_cli.train", DATA, *TRAINING, *CLASSES, "--method", "m-idpg-phm-glove", *BACKBONE_OPTION)
GLOVE += ("--save-dir", "new", "--max-epoch", "1")
DRY_RUN = ("run_scripts.sweep", "sweeps/sweep.yaml", "--dry-run", "--results", "swept")
REPORT = ("run_scripts.report", "results", "--table", "1", "--tasks", "CR", "RTE", "--significance", "prompt-tuning")
RECORDS = r"preprocess\.|sha256\."  # they hold the names of files and the time, and the digest of that
SKIPPED = r"skipped line \d+"
LOCKS = (r".*\.lock",)

CHECKPOINTS = (
    Target("checkpoint/predict", "run/checkpoint_best.pt", PREDICT, predictions, CHECKPOINT, valid=valid.same_run),
    Target("checkpoint/validate", "run/checkpoint_best.pt", VALIDATE, logged, CHECKPOINT, valid=valid.same_run),
    Target(
        *("checkpoint/resume", "run/checkpoint_last.pt", RESUME, trained("run"), RESUMED),
        **{"valid": valid.same_run, "allowed": LOCKS, "without": ("absent",)},  # nothing there: a new training
    ),
    Target("checkpoint/cosine", "prompt/checkpoint_best.pt", COSINE, printed, CHECKPOINT, valid=valid.any_run),
    Target("checkpoint/neighbours", "run/checkpoint_best.pt", NEIGHBOURS, printed, CHECKPOINT, valid=valid.same_run),
    Target(
        *("checkpoint/prompt-init", "run/checkpoint_best.pt"),
        (*FIRST, *BACKBONE_OPTION, "--prompt-init", "saved", "--prompt-init-from", "run/checkpoint_best.pt"),
        *(trained("new"), CHECKPOINT),
        **{"valid": valid.same_run, "allowed": LOCKS},
    ),
    Target(
        *("checkpoint/head-init", "run/checkpoint_best.pt"),
        (*FIRST, *BACKBONE_OPTION, "--head-init-from", "run/checkpoint_best.pt"),
        *(trained("new"), CHECKPOINT),
        **{"valid": valid.same_run, "allowed": LOCKS},
    ),
    Target(
        *("checkpoint/restore-file", "run/checkpoint_best.pt"),
        (*FIRST, *BACKBONE_OPTION, "--restore-file", "run/checkpoint_best.pt", *RESET),
        *(trained("new"), CHECKPOINT),
        **{"valid": valid.same_run, "allowed": LOCKS},
    ),
    Target(
        *("released/convert", "released/checkpoint.pt"),
        ("{code}/checkpoints/convert_released.py", "released/checkpoint.pt", "converted.pt"),
        *(converted("converted.pt"), BACKBONE),
        valid=valid.backbone,
    ),
)
CHECKPOINTS += (
    Target(
        *("old checkpoint/predict", "old/run/checkpoint_best.pt", OLD, predictions, CHECKPOINT),
        valid=valid.unsigned_checkpoint,
    ),
)
BACKBONES = (
    Target(
        *("backbone/train", "backbone/model.pt", (*FIRST, *BACKBONE_OPTION), trained("new"), BACKBONE),
        **{"valid": valid.backbone, "allowed": LOCKS},
    ),
    Target(
        *("legacy backbone/train", "backbone/legacy.pt", (*FIRST, "--backbone", "backbone/legacy.pt"), trained("new")),
        LEGACY,
        **{"valid": valid.backbone, "allowed": LOCKS},
    ),
    Target("backbone/predict", "backbone/model.pt", (*PREDICT, *BACKBONE_OPTION), predictions, BACKBONE),
    Target(
        *("backbone/encode", "backbone/model.pt", (*ENCODE_ANEW, "--splits", "valid"), rows("new"), BACKBONE),
        **{"valid": valid.backbone, "allowed": (r"new/.*",)},
    ),
    Target(
        *("dictionary/train", "backbone/dict.txt", (*FIRST, *BACKBONE_OPTION), trained("new"), {}),
        **{"allowed": LOCKS, "without": ("absent",)},  # it need not be there
    ),
)
CACHES = (
    Target("cache rows/train", "cache/*.npy", CACHED, trained("new"), CACHE_ROWS, allowed=LOCKS),
    Target("cache record/train", "cache/*.json", CACHED, trained("new"), JSON, allowed=LOCKS),
    Target("cache rows/encode", "cache/*.npy", ("fairseq_idpg.encode", *ENCODE), rows("cache"), CACHE_ROWS),
    Target(
        *("cache rows/predict", "cache/*.npy", (*PREDICT, "--representation-cache", "cache"), predictions, CACHE_ROWS),
        allowed=LOCKS,
    ),
)


def folder_targets(name: str, data: str, check: Valid, check_names: Valid) -> tuple[Target, ...]:
    """Classes, by the commands that read them."""

    def on(command: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(data if part == DATA else part for part in command)

    files, valids = f"{data}/*/[dtv][ira][cila]*", f"{data}/*/[dv][ia][cl]*"
    train, whole = (*FIRST, *BACKBONE_OPTION), {"whole": data}
    few = (*FEW_SHOT, "--data", data)
    return (
        Target(f"{name}/train", files, on(train), trained("new"), FOLDER, valid=check, allowed=LOCKS, **whole),
        Target(f"{name}/predict", valids, on(PREDICT), predictions, FOLDER, valid=check_names, **whole),
        Target(f"{name}/validate", valids, on(VALIDATE), logged, FOLDER, valid=check_names, **whole),
        Target(f"{name}/few-shot", files, few, files_of("few", RECORDS), FOLDER, valid=check, **whole),
    )


FOLDERS = (
    *folder_targets("folder", DATA, valid.nothing, valid.nothing),
    *folder_targets("plain folder", "data/plain-bin", valid.folder, valid.folder_of_the_model),
    Target(
        *("folder/encode", f"{DATA}/input*/*", (*ENCODE_ANEW, "--splits", "train", "valid"), rows("new"), FOLDER, DATA),
        allowed=(r"new/.*",),
    ),
    Target("folder/record", f"{DATA}/preprocess.json", NEIGHBOURS, printed, JSON),
    Target(
        *("scores/train", "data/scores-bin/*/*", SCORES_FIRST, trained("new"), SCORES, "data/scores-bin"),
        **{"allowed": LOCKS},
    ),
    Target("scores/cosine", "data/scores-bin/*/[vd]*", COSINE, printed, SCORES, "data/scores-bin"),
    Target("folder/sweep", f"{DATA}/*/[dtv][ira][cila]*", DRY_RUN, printed, FOLDER, DATA),
)
HUGGING_FACE = ("{code}/checkpoints/convert_hf.py", "hf", "made")
OTHERS = (
    Target(
        *("hf weights/convert", "hf/pytorch_model.bin", HUGGING_FACE, converted("made/model.pt"), FLAT),
        valid=valid.flat_tensors,
    ),
    Target(
        *("hf texts/convert", "hf/[cv]*", HUGGING_FACE, converted("made/model.pt"), {}, "hf"),
        **{"valid": valid_texts.hf_texts},
    ),
    Target("word vectors/train", f"{DATA}/glove/*.npy", GLOVE, trained("new"), CACHE_ROWS, allowed=LOCKS),
    Target("word vectors record/train", f"{DATA}/glove/*.json", GLOVE, trained("new"), JSON, allowed=LOCKS),
)
TEXTS = (
    Target(
        *("results/report", "results/results.jsonl", REPORT, printed, RESULTS),
        **{"valid": valid_texts.results, "warning": "torn by an interruption"},
    ),
    Target(
        *("yaml/sweep", "sweeps/sweep.yaml", DRY_RUN, printed, YAML),
        **{"valid": valid_texts.sweep, "names": tuple(f"{key} " for key in SWEEP)},
    ),
    Target(
        *(
            "raw text/RTE",
            "raw/RTE/*.tsv",
            ("preprocess", *PREPROCESS["RTE"], "--out", "made"),
            files_of("made", RECORDS),
        ),
        RAW,
        **{"valid": valid_texts.raw_rte, "warning": SKIPPED},
    ),
    Target(
        *("raw text/scores", "raw/scores.[tv][ra]*", ("preprocess", *PREPROCESS["scores"], "--out", "made")),
        *(files_of("made", RECORDS), RAW),
        **{"valid": valid_texts.raw_scores, "warning": SKIPPED},
    ),
    Target(
        *("vocabulary/preprocess", "vocab/*", ("preprocess", *PREPROCESS["RTE"], "--out", "made")),
        *(files_of("made", RECORDS), {}),
        **{"whole": "vocab", "valid": valid_texts.vocabulary},
    ),
)
TARGETS = {target.name: target for target in (*CHECKPOINTS, *BACKBONES, *CACHES, *FOLDERS, *OTHERS, *TEXTS)}
