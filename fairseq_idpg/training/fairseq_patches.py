"""The functions of fairseq that are replaced, because fairseq has no extension point there.

Runs of other tasks in the same process stay as they are without this package. Some replacements suit every run; the
others check whether the run, or the file, is ours. What belongs to a training is bound to its own trainer.
"""

import functools
import logging
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.file_io import PathManager
from fairseq.optim import AMPOptimizer, FairseqOptimizer
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
from fairseq.trainer import Trainer
from omegaconf import DictConfig, OmegaConf, open_dict
from torch import Tensor
from torch.multiprocessing import ProcessRaisedException
from torch.optim import Optimizer

from preprocess.errors import InputError, end_at_once, find_input_error, one_line
from preprocess.writing import check_output

from ..errors import check_there
from ..models.roberta_idpg import RobertaIDPGModel
from ..models.short_form import complete_arguments
from ..names import TASK
from ..saving.reading import holds_ours, load_state
from ..saving.torch_files import copy_whole, leftovers, save_whole
from ..tasks.task import DIVERGED, REMEDY
from . import resuming
from .arguments import check_arguments, parse_overrides, trains
from .kept_options import KeptOptions
from .lock import NAME as LOCK
from .lock import hold

logger = logging.getLogger(__name__)

HIDDEN_FROM_COMPILER = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
PROGRESS = ("params", "lr", "lr_old")  # a group's entries that are no options; lr_old is nag's rate of the last update

# Messages without anything to read: what is trained, its progress, scores and files stay.
NOISY = (
    *("fairseq_cli.train", "fairseq_cli.validate", "fairseq.trainer", "fairseq.checkpoint_utils"),
    *("fairseq.tasks.fairseq_task", "fairseq.data.data_utils", "fairseq.data.iterators"),
)
NOISE = re.compile(
    r"(task|model|criterion): |num\. |loaded |can_reuse|reuse_|rebuild_|creating new|grouped total|detected shared"
    r"|Preparing to|Saving checkpoint to|Finished saving|Start iterating|begin dry-run"
)


class OwnRun:
    """A run of our task in this process: its checkpoints are read as ours, whatever stands in them."""

    validated: str | None = None  # the checkpoint that fairseq-validate was asked for
    training = False  # whether a training looks for the checkpoint that it begins with
    interrupted: str | None = None  # what Ctrl-C says; None: no such run has begun


def install() -> None:
    """Replace, once, for all runs:

    - ``PathManager.copy``: fairseq copies one checkpoint onto the next in place, so a kill leaves half a
      checkpoint_last.pt, with which training cannot go on.
    - ``checkpoint_utils.torch_persistent_save``: it renames a file whose bytes may not have reached the disk, and on a
      full disk it writes three times into the same file. A checkpoint of ours gets its checksums here.

    And for our own runs and files:

    - ``checkpoint_utils.load_checkpoint_to_cpu``: it builds whatever a file names and evaluates strings in it as
      Python. It keeps the criterion of the training where fairseq-validate asks for another.
    - ``checkpoint_utils.load_checkpoint``, which fairseq calls last before it trains: it lets two trainings write into
      one folder, starts anew where --restore-file is missing, and goes on with any other options.
    - ``convert_namespace_to_omegaconf`` of fairseq-train and fairseq-validate, the first that sees all arguments: it
      evaluates --model-overrides, and validates in a process for each GPU, whose batches may differ in number.
    - ``fairseq_cli.train.train``: a training that has ended, started again, makes one more update and saves it.
    - ``sys.excepthook``, if one of fairseq's commands runs in this process: bad input and Ctrl-C end in one line.

    And four methods of torch's optimizers, see ``import_no_compiler``. A filter leaves whole configurations and models
    of ours, and ``NOISE``, out of the log.
    """
    import_no_compiler()
    _replace(PathManager, "copy", copy_whole)
    _replace(checkpoint_utils, "torch_persistent_save", save_whole)
    _replace(checkpoint_utils, "load_checkpoint_to_cpu", _read_checkpoint)
    _replace(checkpoint_utils, "load_checkpoint", _start)
    for command in resuming.loaded_commands("convert_namespace_to_omegaconf"):
        _replace(command, "convert_namespace_to_omegaconf", _convert)
        _replace(sys, "excepthook", _say)
    for name in NOISY:
        logging.getLogger(name).addFilter(_is_short)
    for command in resuming.loaded_commands("should_stop_early"):
        _replace(command, "train", _train)


def _replace(owner: Any, name: str, ours: Callable) -> None:
    """Replace ``owner.name`` with ``ours(theirs, ...)``, unless that was done before."""
    theirs = getattr(owner, name)
    if getattr(theirs, "func", None) is not ours:
        replacement = functools.partial(ours, theirs)
        setattr(owner, name, staticmethod(replacement) if isinstance(owner, type) else replacement)


def _is_short(record: logging.LogRecord) -> bool:
    """Return False for what only FAIRSEQ_IDPG_LOG=debug shows: our whole configurations and models, and ``NOISE``."""
    whole = record.msg
    ours = isinstance(whole, RobertaIDPGModel) or (isinstance(whole, DictConfig) and whole.task._name == TASK)
    noise = OwnRun.interrupted is not None and record.levelno == logging.INFO and NOISE.match(str(whole))
    return not (ours or noise) or os.environ.get("FAIRSEQ_IDPG_LOG") == "debug"


def _bind(owner: Any, name: str, ours: Callable) -> None:
    """Let ``owner.name(...)`` of this one object call ``ours(theirs, owner, ...)``."""
    setattr(owner, name, functools.partial(ours, getattr(owner, name), owner))


def bind_trainer(trainer: Trainer) -> None:
    """Bind to a trainer of ours, and to each optimizer and schedule that it builds, what fairseq does otherwise:

    - ``train_step``: fairseq leaves a whole group of --update-freq out of the count where its last batch is empty.
    - ``clip_grad_norm``: a gradient that is not finite leaves a crash.pt and a traceback. With --fp16 and --amp such a
      batch is skipped, and the loss scale lowered, as in fairseq.
    - ``save_checkpoint``: bad input that ends a training step leaves a crash.pt.
    - the optimizer's ``load_state_dict``: weight decay, betas and the like come from the checkpoint, not from today's
      options, which its own docstring prefers.
    - ``AMPOptimizer.step``: it divides the gradient by the loss scale a second time.
    - ``state_dict`` and ``load_state_dict`` of a plateau's schedule, see ``load_plateau``.
    """
    _bind(trainer, "train_step", _train_step)
    _bind(trainer, "clip_grad_norm", clip_grad_norm)
    _bind(trainer, "save_checkpoint", _save_training)
    _bind(trainer, "_build_optimizer", _build_optimizer)
    # what was built without them is built anew when it is asked for
    trainer._optimizer = trainer._lr_scheduler = None


def clip_grad_norm(clip: Callable, trainer: Any, clip_norm: float) -> Tensor:
    """Raise InputError for a gradient that is not finite; fairseq itself does, in its own way, with --fp16."""
    norm = clip(clip_norm)
    # fairseq reads the same number right afterwards, so this look at it makes nothing wait for the device.
    if not trainer.cfg.common.amp and not torch.isfinite(norm).all():
        update = trainer.get_num_updates() + 1
        raise InputError(f"{DIVERGED}: the loss is NaN, or its gradient is not finite, at update {update}: {REMEDY}")
    return norm


def _build_optimizer(build: Callable, trainer: Trainer) -> None:
    build()
    bind_optimizer(trainer._optimizer)
    if isinstance(trainer._lr_scheduler, ReduceLROnPlateauLRSchedule):
        _bind(trainer._lr_scheduler, "state_dict", resuming.plateau_state)
        _bind(trainer._lr_scheduler, "load_state_dict", resuming.load_plateau)


def bind_optimizer(optimizer: FairseqOptimizer) -> None:
    """See ``bind_trainer``; the optimizers of half precision wrap another, which loads the state."""
    if isinstance(optimizer, AMPOptimizer):
        _bind(optimizer, "step", _step_of_amp)
    while wrapped := getattr(optimizer, "fp32_optimizer", None) or getattr(optimizer, "wrapped_optimizer", None):
        optimizer = wrapped
    _bind(optimizer, "load_state_dict", _load_optimizer)


def _read_checkpoint(
    read: Callable, path: str, arg_overrides: dict[str, Any] | None = None, load_on_all_ranks: bool | None = None
) -> dict[str, Any]:
    local = PathManager.get_local_path(path)
    # fairseq-validate passes the --task that was typed on, also to processes that it starts.
    validates = path == OwnRun.validated or (arg_overrides or {}).get("task") == TASK
    if not (OwnRun.training or validates or holds_ours(local)):
        return read(path, arg_overrides, bool(load_on_all_ranks))
    # The trainer alone says on which ranks it loads. It takes weights and progress and builds nothing; other processes
    # get them through torch.load, which takes no OmegaConf object.
    if load_on_all_ranks is not None:
        return {**load_state(local, "checkpoint", arg_overrides, builds=False), "cfg": None}
    state, overrides = load_state(local, "checkpoint", arg_overrides), arg_overrides or {}
    criterion, cfg = overrides.get("criterion"), state["cfg"]
    # fairseq-validate may ask for another criterion, of which fairseq takes over the options and not the name
    if criterion in CRITERION_DATACLASS_REGISTRY and criterion != cfg.criterion._name:
        options = OmegaConf.structured(CRITERION_DATACLASS_REGISTRY[criterion])
        with open_dict(options):
            options._name = criterion
        cfg.criterion = OmegaConf.merge(options, {name: overrides[name] for name in options if name in overrides})
    return state


def is_ours(trainer: Any) -> bool:
    return getattr(trainer.cfg.task, "_name", None) == TASK


def _start(load_checkpoint: Callable, cfg: Any, trainer: Any, **iterator: Any) -> Any:
    if not is_ours(trainer):
        return load_checkpoint(cfg, trainer, **iterator)
    install()  # fairseq-train may not have been imported before
    bind_trainer(trainer)
    resumes = resuming.will_resume(cfg, trainer.checkpoint_suffix)
    # One process writes to a folder; it removes what a kill has left there.
    writes = not cfg.no_save and trainer.is_data_parallel_master
    if writes:
        hold(cfg.save_dir)
        for leftover in leftovers(cfg.save_dir):
            leftover.unlink()
    # fairseq keeps the best score as an attribute of a function: another training of this process may have left one.
    memory = vars(checkpoint_utils.save_checkpoint)
    memory.pop(resuming.BEST, None)
    # The model's checkpoints hold these sections, which compare and restore as they are loaded.
    kept = getattr(trainer.get_model(), "kept", None)
    if kept is not None:
        kept["run"] = KeptOptions(trainer.cfg, resumes)
        kept["patience"] = resuming.KeptPatience(resumes and not cfg.reset_meters)
    OwnRun.training = True
    try:
        extra_state, epoch_itr = load_checkpoint(cfg, trainer, **iterator)
    finally:
        OwnRun.training = False
    if trainer.cfg.dataset.curriculum:  # one loader for all epochs would shuffle none
        epoch_itr.reuse_dataloader = False
    # Within an update fairseq would leave out the epoch's last batch, and then train all of the epoch.
    epoch, batches = epoch_itr.epoch, epoch_itr.iterations_in_epoch
    update_freq = trainer.cfg.optimization.update_freq
    frequency = update_freq[min(epoch, len(update_freq)) - 1]
    if batches % frequency:
        raise InputError(
            f"the checkpoint to go on from stands after {batches} batches of epoch {epoch}, within an update of "
            f"--update-freq {frequency}: give the one it was trained with, or another --save-dir"
        )
    # The trainer counts updates in the optimizer's state, which a checkpoint may lack.
    history = trainer._optim_history if resumes else []
    trainer.updates_before = history[-1]["num_updates"] if history else 0
    if resumes:
        resuming.catch_up_plateau(trainer, extra_state, anew=cfg.reset_lr_scheduler)
    else:
        # fairseq would go on with hours and best score of the training whose weights are the start
        trainer._previous_training_time = 0
        memory.pop(resuming.BEST, None)
    if writes:
        resuming.warn_of_lost_files(cfg, trainer.checkpoint_suffix, memory.get(resuming.BEST))
    return extra_state, epoch_itr


def _train(train_epoch: Callable, cfg: Any, trainer: Any, task: Any, epoch_itr: Any) -> Any:
    if is_ours(trainer):
        updates = max(trainer.get_num_updates(), trainer.updates_before)
        reason = resuming.ended(cfg, updates, trainer._previous_training_time / 3600)
        if reason is not None:
            logger.info("this training has ended already: %s", reason)
            return [None], True
    return train_epoch(cfg, trainer, task, epoch_itr)


def _load_optimizer(
    load: Callable, optimizer: Any, state_dict: dict[str, Any], optimizer_overrides: dict[str, Any] | None = None
) -> None:
    today = [{name: group[name] for name in group if name not in PROGRESS} for group in optimizer.param_groups]
    unknown = next((name for name in optimizer_overrides or {} if name not in today[0]), None)
    if unknown is not None:  # it would change nothing
        raise InputError(f"--optimizer-overrides: {unknown!r:.80} is unknown: give one of {', '.join(today[0])}")
    load(state_dict, optimizer_overrides)
    for group, options in zip(optimizer.param_groups, today):
        group.update({**options, **(optimizer_overrides or {})})


def _save_training(save: Callable, trainer: Trainer, filename: str, extra_state: dict[str, Any]) -> None:
    if not (filename.endswith("crash.pt") and isinstance(sys.exc_info()[1], InputError)):
        save(filename, extra_state)


def _train_step(step: Callable, trainer: Trainer, samples: list[Any], *args: Any, **kwargs: Any) -> Any:
    # A process with fewer batches than the others gets empty ones. fairseq asks the last batch of the group whether the
    # group counts; our task counts nothing of an empty one, so these come first.
    return step(sorted(samples, key=bool), *args, **kwargs)


def _step_of_amp(step: Callable, optimizer: AMPOptimizer) -> None:
    # ``clip_grad_norm`` has divided for torch's optimizer. fairseq steps with its own, so torch would divide again.
    optimizer.scaler.step(optimizer.optimizer)
    optimizer.scaler.update()


def _convert(convert: Callable, args: Any) -> Any:
    OwnRun.validated = OwnRun.interrupted = None
    if getattr(args, "task", None) != TASK:
        return convert(args)
    end_at_once()
    # what fairseq's own calls of torch make it warn of
    warnings.filterwarnings("ignore", "'pin_memory'")
    warnings.filterwarnings("ignore", ".torch.cuda.amp.autocast")
    logging.getLogger("hydra").setLevel(logging.WARNING)
    complete_arguments(args)
    check_arguments(args)
    OwnRun.interrupted = "interrupted"
    if trains(args):
        OwnRun.interrupted += f"; the same command goes on from the last checkpoint in --save-dir {args.save_dir}"
        if args.restore_file != CheckpointConfig.restore_file:
            OwnRun.interrupted += " without --restore-file"
        # fairseq opens these only after it has read the data
        for option, path in {"--save-dir": os.path.join(args.save_dir, LOCK), "--log-file": args.log_file}.items():
            if path:
                check_output(Path(path), option)
    else:
        check_there("--path", str(args.path))
        OwnRun.validated = args.path
        parse_overrides(args.model_overrides)  # fairseq evaluates it as Python next
        if args.distributed_init_method is None:
            args.distributed_world_size = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # hydra's, of what fairseq calls
        return convert(args)


def _say(show_traceback: Callable, kind: Any, error: BaseException, trace: Any) -> None:
    """Print one line for an interruption of our run, or for bad input that this process or one it started met."""
    if isinstance(error, ProcessRaisedException):
        line = find_input_error(str(error))
    elif isinstance(error, KeyboardInterrupt):
        line = OwnRun.interrupted if "cli_main" in {each.name for each in traceback.extract_tb(trace)} else None
    else:
        # fairseq's trainer wraps any error of a checkpoint in another one
        line = next((str(each) for each in (error, error.__context__) if isinstance(each, InputError)), None)
    if error.args == (None,) and traceback.extract_tb(trace)[-1].name == "parse_args_and_arch":
        line = f"--task is missing: give --task {TASK}"  # of fairseq-validate
    if line is None:
        return show_traceback(kind, error, trace)
    print(f"fairseq_idpg: {one_line(line)}", file=sys.stderr)


def import_no_compiler() -> None:
    """Let optimizers not import torch's compiler, which takes longer than the rest of a short training's start.

    torch hides some methods of an optimizer from its compiler, and imports all of it at the first call of one. Where it
    keeps what it hides, it now finds the method itself.
    """
    for name in HIDDEN_FROM_COMPILER:
        method = getattr(getattr(Optimizer, name), "__wrapped__", None)
        if method is not None and not hasattr(method, "__dynamo_disable"):
            setattr(method, "__dynamo_disable", method)
