"""A run of the paper's comparison: all that decides its result, its examples, and the runs that go on from it.

The latter answer another task: the model as it is (zero-shot), or trained on K examples of that task (few-shot), as in
ID-SPAM, Section 3.4 and Appendix C. Labels are matched by their meanings, never by their numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from preprocess.checksums import content_digest, sha256
from preprocess.data_folder import DataFolder
from preprocess.errors import InputError, did_you_mean
from preprocess.few_shot import count_drawn, few_shot
from preprocess.tasks import OF_SCORES, SETTINGS, TASKS, Settings, Task, counterparts, find_task, known_task, own_task
from preprocess.writing import locked

SELECTIONS = ("clean", "paper")
# Here without torch, which commands import once they have read their arguments.
ARCHITECTURES = ("roberta_idpg", "roberta_idpg_base", "roberta_idpg_large", "roberta_idpg_minilm")
MAX_TOKENS = 4400  # of a batch
# Version of the settings in command.py. Every change of them raises it: runs with other settings get other identities.
# 2: at most 4,400 tokens in a batch, the authors' choice of checkpoints and loss scale.
PROTOCOL = 2
METRICS_OF_OLD = ("accuracy", "acc_and_f1", "pearson_and_spearman", "mcc")  # these are in no identity
OWN_LARGE = 20_000  # training examples above which own data is trained as the paper's large tasks are
AFTERWARDS = ("eval_tasks", "eval_data")  # do not change the training
STARTS = ("init_prompts_from", "init_head_from")  # may be None
START = "--finetune-from-model"
READ = ("--source-prompts", "--spot-target", "--spot-embeddings", START)  # options that name files
ARROW = " → "  # between the task of the training and the task of the answers
LATER = ("source_run", "source_task", "warm_up")  # in identities only where they are set: older runs keep theirs
HELD_OUT_SEED = 0  # the same development set for all methods and seeds
HELD_OUT_SHARE, HELD_OUT_MOST = 10, 1000
FEW_SHOT_DEV = 1000  # Section 4.4
REPORTED = "valid"  # split of a published folder that has the test scores
REMEDIES = {
    "data": "make it with python -m preprocess {} --raw DIR --out data, of own data with --from-csv and the like, or "
    "name another folder",
    "backbone": "get it with bash checkpoints/download.sh roberta.large, or name another file",
}
SHORT_TASKS = "python -m run_scripts.short_tasks TEXT --bpe bert --vocab quickstart/minilm-hf --out data/"
MADE_BY = {  # what lies at or below these paths
    **dict.fromkeys(("quickstart/backbone", "quickstart/reviews-bin"), "bash run_scripts/quickstart.sh"),
    "data/short": f"{SHORT_TASKS}short",
    "data/tests": f"{SHORT_TASKS}tests --large-tests",
}


@dataclass(frozen=True)
class Experiment:
    """A training run and its evaluation; None stands for the paper's setting."""

    task: str  # a name of preprocess.tasks, or of own data
    method: str  # a --method of the plugin
    lr: float
    seed: int
    data: str  # the task's whole binarized folder
    backbone: str
    arch: str = "roberta_idpg_large"
    row: str = ""  # of a table
    k: int | None = None  # training examples of the few-shot setting (Section 4.4)
    dev_examples: int | None = None  # held out of the training set to choose learning rate and checkpoint
    selection: str = "clean"  # clean: choose on held-out examples; paper: on the split that is reported
    position: int | None = None  # of the prompt
    supplementary_position: int | None = None  # of the prompt in the backbone's training on MNLI
    supplementary: bool = False  # the run is that training of the whole model (appendix A.4)
    init_prompts_from: str | None = None  # checkpoint whose method is the start
    init_head_from: str | None = None  # checkpoint whose head is the start
    batch_size: int | None = None
    max_epoch: int | None = None
    max_update: int | None = None
    options: tuple[str, ...] = ()  # further ones of fairseq-train
    eval_tasks: tuple[str, ...] = ()  # other tasks that the trained model answers as it is
    eval_data: tuple[str, ...] = ()  # their whole folders
    source_run: str | None = None  # run whose trained model is the start
    source_task: str | None = None  # task of that run
    warm_up: float | None = None  # share of the updates in which the learning rate rises, before it falls to 0
    metric: str | None = None  # of own data, where it is not the usual one for its labels

    @property
    def facts(self) -> Task:
        return known_task(self.task) or own_facts(self.task, self.data, self.metric)

    @property
    def size(self) -> str:
        """Size of the task, as preprocess.tasks names it; MNLI is a large one."""
        if self.k is not None:
            return "few-shot"
        return "large" if self.facts.settings == "supplementary" else self.facts.settings

    @property
    def settings(self) -> Settings:
        """The paper's settings: of prompts and adapters, or of supplementary training."""
        return SETTINGS["supplementary" if self.supplementary else self.size]

    @property
    def prompt_position(self) -> int:
        """``position``, by default 0 (after ``<s>``), for pairs too, as in all of the authors' scripts."""
        return 0 if self.position is None else self.position

    @property
    def best_position(self) -> int:
        """The paper's best in a single layer: before the first ``</s>`` of a pair, else after ``<s>`` (A.5.2)."""
        return int(self.facts.pairs)

    @property
    def run(self) -> str:
        """The run's identity, 12 hex digits: equal for runs of a row with the same result, wherever their files lie."""
        decides: dict[str, Any] = {**asdict(self), "position": self.prompt_position, "protocol": PROTOCOL}
        for name in ("metric", *AFTERWARDS, *(name for name in LATER if decides[name] is None)):
            del decides[name]
        if self.facts.metric not in METRICS_OF_OLD or known_task(self.task) is None:
            decides["metric"] = self.facts.metric
        decides["backbone"] = backbone_digest(self.backbone)
        decides["options"] = by_content(self.options)
        for name in STARTS:
            decides[name] = decides[name] and file_digest(decides[name])
        decides["data"] = self.read_digest
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def reads_word_vectors(self) -> bool:
        return any("glove" in word for word in (self.method, *self.options))

    @property
    def read_digest(self) -> str:
        """Digest of the texts and labels that the run reads, and of the word vectors where its method takes them."""
        return folder_digest(self.data, self.reads_word_vectors)

    def absolute(self) -> Experiment:
        """Return the experiment with absolute paths; raise InputError that names all missing files and folders."""
        named: dict[str, Any] = {name: getattr(self, name) for name in ("data", "backbone", *STARTS)}
        others = [("data", path, task) for task, path in zip(self.eval_tasks, self.eval_data)]
        check_there([*((name, path, self.task) for name, path in named.items()), *others])
        paths: dict[str, Any] = {name: path and str(Path(path).absolute()) for name, path in named.items()}
        return replace(self, **paths, eval_data=tuple(str(Path(path).absolute()) for path in self.eval_data))

    @classmethod
    def from_json(cls, text: str) -> Experiment:
        values: dict[str, Any] = json.loads(text)
        values.update({name: tuple(value) for name, value in values.items() if isinstance(value, list)})
        return cls(**values)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def __str__(self) -> str:
        few = "" if self.k is None else f" K={self.k}"
        before = "" if self.supplementary_position is None else f"{self.supplementary_position}:"
        place = f"position {before}{self.prompt_position}"
        task = f"{self.source_task}{ARROW}{self.task}" if self.source_task else self.task
        return f"{task}{few} {self.row or self.method}, {place}, lr {self.lr:g}, seed {self.seed}"


def check_there(named: Iterable[tuple[str, str | None, str]]) -> None:
    """Raise InputError that names every missing file and folder; ``named``: option, path, task."""
    missing: dict[str, list[str]] = {}  # remedy -> files and folders
    for name, path, task in named:
        if path and not Path(path).exists():
            made = next((command for place, command in MADE_BY.items() if Path(path).is_relative_to(place)), None)
            hint = did_you_mean(task, TASKS, any_case=True) if name == "data" and known_task(task) is None else ""
            remedy = f"make it with {made}" if made else hint + REMEDIES.get(name, "give its path").format(task)
            missing.setdefault(remedy, []).append(f"{name} {path}")
    if missing:
        each = ((list(dict.fromkeys(paths)), remedy) for remedy, paths in missing.items())
        lines = (f"{', '.join(paths)} do{'' if paths[1:] else 'es'} not exist: {remedy}" for paths, remedy in each)
        raise InputError("; ".join(lines))


@cache
def own_facts(task: str, data: str, metric: str | None) -> Task:
    """Return what a folder of own data says of its task; raise InputError where the metric is not for its labels."""
    folder = DataFolder(Path(data))
    scored = metric or (OF_SCORES if folder.regression else "accuracy")
    if (scored == OF_SCORES) != folder.regression:
        kind, remedy = ("scores", OF_SCORES) if folder.regression else ("classes", "accuracy or acc_and_macro_f1")
        raise InputError(f"metrics: {{{task}: {metric}}}: {data} has {kind}: give {remedy}, or leave it out")
    large = "train" in folder.splits and len(folder.rows("input0", "train").lengths) > OWN_LARGE
    settings = "large" if large else "small"
    return own_task(task, len(folder.inputs) == 2, scored, folder.label_names, settings)


@cache
def backbone_digest(path: str) -> str:
    """Return the digest of the backbone's tensors, which the format of the file does not change.

    For a known file, it is read from a note (see saving/backbone_file.py). Raise InputError for another kind of file.
    """
    from fairseq_idpg.saving.backbone_file import read_backbone  # imports torch, which reports do without

    return read_backbone(path).fingerprint()


@cache
def file_digest(path: str) -> str:
    return sha256(Path(path))


def by_content(options: Sequence[str]) -> list[str]:
    """Return options of fairseq-train with digests for the paths of files; raise InputError where a file is missing."""
    found: list[str] = []
    for before, word in zip(("", *options), options):
        name, equals, value = word.partition("=")
        if before in READ:
            found.append(_digests(before, word))
        else:
            found.append(f"{name}={_digests(name, value)}" if equals and name in READ else word)
    return found


def _digests(option: str, paths: str) -> str:
    several = [path.strip() for path in paths.split(",") if path.strip()]
    for path in several:
        if not Path(path).is_file():
            raise InputError(f"{option} {path} does not exist: name a checkpoint that does")
    return ",".join(map(file_digest, several))


@cache
def folder_digest(path: str, word_vectors: bool) -> str:
    """Return the digest of the texts and labels in a binarized folder, and of the word vectors there."""
    return content_digest(Path(path), word_vectors)


# --- examples --------------------------------------------------------------------------------------------------------


class Splits(NamedTuple):
    """A binarized folder, the split that chooses the checkpoint, and the split that is reported."""

    folder: DataFolder
    dev: str
    reported: str


def splits_of(experiment: Experiment, place: Path) -> Splits:
    """Return the task's own folder, or a copy in ``place`` with a development set held out of its training set.

    Few-shot: K examples and a development set of 1,000, or of all others (CR has 775 beside K = 1,000), drawn anew for
    each seed (Section 4.4). Full data: ``valid`` of the published folder is reported. ``--selection paper`` selects on
    it too, as the paper; ``clean`` selects on a tenth of the training set, at most 1,000 examples. Where examples
    answer questions, the numbers count questions.
    """
    source = DataFolder(Path(experiment.data))
    if reports_on_its_choice(experiment):
        return Splits(source, REPORTED, REPORTED)
    choice = drawn(experiment, source)
    name = "K{}-dev{}-seed{}".format(*choice)
    digest = folder_digest(experiment.data, word_vectors=True)
    copy = place / f"{experiment.task}-{name}-{digest[:8]}-bin"
    place.mkdir(parents=True, exist_ok=True)
    with locked(place / f".{copy.name}.lock"):  # several runs may want it at once
        if not copy.exists():
            few_shot(source, *choice, per_class=False, out=copy)
    return Splits(DataFolder(copy), "valid", "test")


def drawn(experiment: Experiment, source: DataFolder) -> tuple[int, int, int]:
    """Return the numbers of training and development examples, and the seed that draws them."""
    examples = count_drawn(source)
    if experiment.k is not None:
        left = max(1, examples - experiment.k)
        return experiment.k, experiment.dev_examples or min(FEW_SHOT_DEV, left), experiment.seed
    dev = experiment.dev_examples or max(1, min(HELD_OUT_MOST, examples // HELD_OUT_SHARE))
    return max(1, examples - dev), dev, HELD_OUT_SEED


def of_each_split(experiments: Iterable[Experiment]) -> Iterable[Experiment]:
    """Return one experiment for each draw of examples to train and select on."""
    # Only few-shot runs draw by their seed.
    return {(e.data, e.k, e.dev_examples, e.selection, e.k and e.seed): e for e in experiments}.values()


def reports_on_its_choice(experiment: Experiment) -> bool:
    """Return whether the reported split also chooses the checkpoint, so that no examples are held out."""
    return experiment.supplementary or (experiment.k is None and experiment.selection == "paper")


# --- other tasks -----------------------------------------------------------------------------------------------------


def with_others(experiment: Experiment, option: str, folders: dict[str, str]) -> Experiment:
    """Return the experiment with other tasks, task -> folder, for its model to answer; see ``check_pair``."""
    for task in folders:
        check_pair(option, experiment.facts, find_task(task))
    return replace(experiment, eval_tasks=tuple(folders), eval_data=tuple(folders.values()))


def check_pair(option: str, source: Task, target: Task) -> None:
    """Raise InputError unless a model of the first task can answer the second, whose labels mean the same."""
    reason = ""
    if source is target:
        reason = f"its models are scored on {target.name} as it is: name other tasks"
    elif source.regression or target.regression:
        scored = source if source.regression else target
        reason = f"the labels of {scored.name} are scores, and no class means the same: name a task of classes"
    elif source.pairs != target.pairs:
        kinds = ("pairs", "single sentences")
        of_source, of_target = kinds if source.pairs else kinds[::-1]
        reason = f"{source.name} has {of_source} and {target.name} {of_target}: name a task of {of_source}"
    elif counterparts(source.name, source.labels, target.name, target.labels) is None:
        silent = target if source.meanings else source
        reason = f"preprocess/tasks.py does not say what the labels of {silent.name} mean: add them there"
    if reason:
        raise InputError(f"{option} {target.name}: {reason}")


def continued(experiments: Iterable[Experiment], ks: Sequence[int]) -> Iterator[Experiment]:
    """Yield the runs that go on from others, with their rate and seed, on K examples of each task that these answer.

    ID-SPAM does not describe the second training (Appendix C); here it is the few-shot training of this package.
    """
    for experiment in experiments:
        words = experiment.options  # all but another start
        pairs = zip(("", *words), words)
        options = tuple(word for before, word in pairs if before != START and word.partition("=")[0] != START)
        for (task, data), k in product(zip(experiment.eval_tasks, experiment.eval_data), ks):
            source: dict[str, Any] = {"source_task": experiment.task, "source_run": experiment.run}
            unset: dict[str, Any] = {**dict.fromkeys(STARTS), **dict.fromkeys(AFTERWARDS, ())}
            yield replace(experiment, task=task, data=data, k=k, options=options, **source, **unset)
