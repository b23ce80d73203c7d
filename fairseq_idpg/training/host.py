"""The functions of fairseq that are replaced, because fairseq has no extension point there."""

import functools
import logging
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

from fairseq import checkpoint_utils
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.file_io import PathManager
from fairseq.optim import AMPOptimizer, FairseqOptimizer, lr_scheduler
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
from fairseq.trainer import Trainer
from omegaconf import OmegaConf, open_dict
from torch.multiprocessing import ProcessRaisedException

from preprocess.errors import InputError, end_at_once, one_line, told
from preprocess.writing import check_output

from ..arguments import SAID_BY_FAIRSEQ, TASK, check_arguments, check_configuration, trains
from ..divergence import clip_grad_norm
from ..optim.choices import build_schedule, check_first_rate, check_optimizer_overrides
from ..optim.plateau import go_on, load_plateau, state_of_plateau
from ..optim.without_compiler import import_no_compiler
from ..out_of_memory import validate_batch
from ..saving.reading import load_state
from ..saving.whole_files import copy_whole, leftovers, save_whole
from .kept_options import KeptOptions
from .lock import hold
from .overrides import parse_overrides
from .resuming import (
    BEST,
    KeptPatience,
    ended,
    loaded_commands,
    tell_of_other_files,
    tell_of_unsaved_epochs,
    will_resume,
)

logger = logging.getLogger(__name__)


def install() -> None:
    """Replaces, once:

    - ``PathManager.copy``: fairseq copies one checkpoint onto the next in place, so a kill leaves half a
      checkpoint_last.pt, with which training cannot go on.
    - ``checkpoint_utils.torch_persistent_save``: it renames a file whose bytes may not have reached the disk, and on a
      full disk it writes three times into the same file. Checksums of the training's progress are added here.
    - ``checkpoint_utils.checkpoint_paths``: it does not see the files of scores below 0, a correlation's, so that
      --keep-best-checkpoints keeps them all.
    - ``checkpoint_utils.load_checkpoint_to_cpu``: what it reads is built as it says, strings in it evaluated as Python;
      fairseq-validate asks nobody in between.
    - ``checkpoint_utils.load_model_ensemble_and_task``: it ends in a traceback where --path is missing, and keeps the
      criterion of the training where another is asked for.
    - ``checkpoint_utils.load_checkpoint``, the last thing before training and the only one that knows its whole
      configuration, fairseq-hydra-train's too: it lets two trainings write into one folder, starts anew where
      --restore-file is missing, and goes on with options of any kind.
    - ``checkpoint_utils.verify_checkpoint_directory``: it ends in a traceback where --save-dir is a file.
    - ``FairseqOptimizer.load_state_dict``: weight decay, betas and the like are those of the checkpoint, not those that
      the options say today, which its own docstring prefers.
    - ``ReduceLROnPlateauLRSchedule.state_dict`` and ``load_state_dict``: see ``optim/plateau.py``.
    - ``lr_scheduler.build_lr_scheduler``: it ends in a traceback where options of a schedule contradict each other.
    - ``Trainer.load_checkpoint``: of whatever is wrong with the weights it says that they cannot be loaded.
    - ``Trainer.save_checkpoint``: whatever ends a training step leaves a crash.pt.
    - ``Trainer.train_step``: it leaves a whole group of --update-freq out of the count where its last batch is none.
    - ``Trainer.valid_step``: it ends in a traceback where a batch does not fit into memory.
    - ``AMPOptimizer.step``: it divides the gradient by the loss scale a second time.
    - ``Trainer.clip_grad_norm``: what follows a gradient that is not finite is a crash.pt and a traceback.
    - ``convert_namespace_to_omegaconf`` in fairseq-train and fairseq-validate, the first that sees all arguments; the
      latter starts a process for each GPU, and fails where their batches are not as many, and evaluates whatever
      --model-overrides says, and passes over names in it that are no options.
    - ``fairseq_cli.train.train`` (replaced by our ``load_checkpoint``, as it may not be imported earlier): a training
      with --max-update, --stop-time-hours or --patience, started again after its end, makes one more update or epoch
      and saves it.
    - what torch makes of its optimizers for its compiler, until there is one (``import_no_compiler``).
    - ``sys.excepthook``, if one of fairseq's commands runs in this process: they end in a traceback for bad input too.

    These commands then end as ours do (``end_at_once``).
    """
    import_no_compiler()
    _replace(PathManager, "copy", copy_whole, staticmethod)
    _replace(checkpoint_utils, "torch_persistent_save", save_whole)
    _replace(checkpoint_utils, "checkpoint_paths", _checkpoint_paths)
    _replace(checkpoint_utils, "load_checkpoint_to_cpu", _load_checkpoint)
    _replace(checkpoint_utils, "load_model_ensemble_and_task", _load_models)
    _replace(checkpoint_utils, "load_checkpoint", _start)
    _replace(checkpoint_utils, "verify_checkpoint_directory", _verify_folder)
    _replace(FairseqOptimizer, "load_state_dict", _load_optimizer)
    _replace(ReduceLROnPlateauLRSchedule, "state_dict", state_of_plateau)
    _replace(ReduceLROnPlateauLRSchedule, "load_state_dict", load_plateau)
    _replace(lr_scheduler, "build_lr_scheduler", build_schedule)
    _replace(Trainer, "load_checkpoint", _load_weights)
    _replace(Trainer, "save_checkpoint", _save_training)
    _replace(Trainer, "clip_grad_norm", clip_grad_norm)
    _replace(Trainer, "train_step", _train_step)
    _replace(Trainer, "valid_step", validate_batch)
    _replace(AMPOptimizer, "step", _step_of_amp)
    for command in loaded_commands("convert_namespace_to_omegaconf"):
        _replace(command, "convert_namespace_to_omegaconf", _convert)
        _replace(sys, "excepthook", _say)
        end_at_once()


REPLACED_BY = "replaced_by"
GLOO = "gloo/transport/"  # the file of torch that tells of a lost connection between processes
PROGRESS = ("params", "lr", "lr_old")  # what is no option in a group; nag remembers the rate of its last update


def _replace(owner: Any, name: str, ours: Callable, kind: Callable = lambda function: function) -> None:
    """Puts ``ours(theirs, ...)`` in the place of ``owner.name``, unless it is there already."""
    theirs = getattr(owner, name)
    if getattr(theirs, REPLACED_BY, None) is ours:
        return

    @functools.wraps(theirs)
    def replacement(*args: Any, **kwargs: Any) -> Any:
        return ours(theirs, *args, **kwargs)

    setattr(replacement, REPLACED_BY, ours)
    setattr(owner, name, kind(replacement))


def _checkpoint_paths(
    theirs: Callable, path: str, pattern: str = r"checkpoint(\d+)\.pt", keep_match: bool = False
) -> Any:
    return theirs(path, pattern.replace(r"(\d+\.?\d*)", r"(-?\d+\.?\d*)"), keep_match)


def _load_checkpoint(
    theirs: Callable,
    path: str,
    arg_overrides: Optional[Dict[str, Any]] = None,
    load_on_all_ranks: Optional[bool] = None,
) -> Dict[str, Any]:
    local = PathManager.get_local_path(path)
    # the trainer alone says on which ranks it loads; it takes weights and progress and builds nothing
    if load_on_all_ranks is None:
        return load_state(local, "checkpoint", arg_overrides)
    try:
        state = load_state(local, "checkpoint", arg_overrides, builds=False)
    except InputError as error:
        if not Path(path).name.startswith("checkpoint_last"):
            raise
        best = Path(path).with_name("checkpoint_best.pt")
        raise InputError(
            f"{error} with --restore-file, such as {best}, or remove it: training then starts anew"
        ) from None
    # what the first process hands to the others passes through torch.load, which takes no OmegaConf object
    return {**state, "cfg": None}


def _load_models(
    theirs: Callable, filenames: List[str], arg_overrides: Optional[Dict[str, Any]] = None, *args: Any, **kwargs: Any
) -> Any:
    for path in filenames:
        if not path:
            raise InputError("--path is missing: give a checkpoint that fairseq-train saved")
        if not PathManager.exists(path) and kwargs.get("num_shards", 1) == 1 and not kwargs.get("suffix"):
            raise InputError(f"--path {path} is not a file: give a checkpoint that fairseq-train saved")
    models, cfg, *more = theirs(filenames, arg_overrides, *args, **kwargs)
    overrides = arg_overrides or {}
    asked = overrides.get("criterion")
    if asked in CRITERION_DATACLASS_REGISTRY and asked != cfg.criterion._name:  # fairseq takes options alone over
        options = OmegaConf.structured(CRITERION_DATACLASS_REGISTRY[asked])
        with open_dict(options):
            options._name = asked
        cfg.criterion = OmegaConf.merge(options, {name: overrides[name] for name in options if name in overrides})
    return (models, cfg, *more)


def _start(theirs: Callable, cfg: Any, trainer: Any, **iterator: Any) -> Any:
    check_configuration(trainer.cfg)
    resumes = will_resume(cfg, trainer.checkpoint_suffix)
    if not cfg.no_save and trainer.is_data_parallel_master:
        hold(cfg.save_dir)
        for leftover in leftovers(cfg.save_dir):
            leftover.unlink()
    memory = vars(checkpoint_utils.save_checkpoint)
    memory.pop(BEST, None)  # of another training of this process
    kept = getattr(trainer.get_model(), "kept", None)
    if kept is not None:
        kept.update(run=KeptOptions(trainer.cfg, resumes), patience=KeptPatience(resumes and not cfg.reset_meters))
    for command in loaded_commands("should_stop_early"):
        _replace(command, "train", _train)
    extra_state, epoch_itr = theirs(cfg, trainer, **iterator)
    if trainer.cfg.dataset.curriculum:  # fairseq's one loader for all epochs would shuffle none of them
        epoch_itr.reuse_dataloader = False
    _check_whole_updates(epoch_itr, trainer.cfg.optimization.update_freq)
    history = trainer._optim_history if resumes else []  # the count itself needs the optimizer's state
    trainer.updates_before = max((part["num_updates"] for part in history[-1:]), default=0)
    if resumes:
        go_on(trainer, extra_state, anew=cfg.reset_lr_scheduler)
    else:
        trainer._previous_training_time = 0  # fairseq adds that of the training whose weights are the start
        memory.pop(BEST, None)  # with --reset-dataloader alone it is that of other data
    if extra_state is None or not resumes:
        check_first_rate(trainer.get_lr(), trainer.cfg.optimization.stop_min_lr)
    if not cfg.no_save and trainer.is_data_parallel_master:
        tell_of_unsaved_epochs(trainer.cfg)
        tell_of_other_files(cfg, trainer.checkpoint_suffix, (extra_state or {}).get(BEST), memory.get(BEST))
    return extra_state, epoch_itr


def _check_whole_updates(epoch_itr: Any, update_freq: Sequence[int]) -> None:
    """From within an update, fairseq would leave out the last batch of the epoch, and then train the whole of it."""
    epoch, batches = epoch_itr.epoch, epoch_itr.iterations_in_epoch
    frequency = update_freq[min(epoch, len(update_freq)) - 1]
    if batches % frequency:
        raise InputError(
            f"the checkpoint to go on from stands after {batches} batches of epoch {epoch}, within an update of "
            f"--update-freq {frequency}: give the one it was trained with, or another --save-dir"
        )


def _train(theirs: Callable, cfg: Any, trainer: Any, task: Any, epoch_itr: Any) -> Any:
    updates = max(trainer.get_num_updates(), trainer.updates_before)
    reason = ended(cfg, updates, trainer._previous_training_time / 3600)
    if reason is None:
        most = max(cfg.optimization.update_freq)
        if cfg.optimization.skip_remainder_batch and len(epoch_itr) <= most:
            raise InputError(
                f"--skip-remainder-batch leaves out the last of {len(epoch_itr)} batches, and what is left is no "
                f"update of --update-freq {most}: leave it out, or give a smaller --batch-size"
            )
        return theirs(cfg, trainer, task, epoch_itr)
    logger.info("this training has ended already: %s", reason)
    return [None], True


def _load_optimizer(
    theirs: Callable, optimizer: Any, state_dict: Dict[str, Any], optimizer_overrides: Optional[Dict[str, Any]] = None
) -> None:
    both = (state_dict["param_groups"], optimizer.param_groups)
    found, wanted = ([len(group["params"]) for group in groups] for groups in both)
    if found != wanted:
        raise InputError(
            f"the optimizer of the checkpoint to go on from has groups of {found} parameters, this one of {wanted}: "
            "give the options it was trained with (to --no-decay-biases of an earlier version those of adapters were "
            "weights), --reset-optimizer, or another --save-dir"
        )
    own = [{name: group[name] for name in group if name not in PROGRESS} for group in optimizer.param_groups]
    check_optimizer_overrides(optimizer_overrides or {}, own[0])
    theirs(optimizer, state_dict, optimizer_overrides)
    for group, options in zip(optimizer.param_groups, own):
        group.update({**options, **(optimizer_overrides or {})})


def _load_weights(theirs: Callable, *args: Any, **kwargs: Any) -> Any:
    try:
        return theirs(*args, **kwargs)
    except Exception as error:
        if isinstance(error, InputError) or not isinstance(error.__context__, InputError):
            raise
        raise error.__context__ from None


def _save_training(theirs: Callable, trainer: Trainer, filename: str, extra_state: Dict[str, Any]) -> None:
    if not filename.endswith("crash.pt"):
        return theirs(trainer, filename, extra_state)
    if isinstance(sys.exc_info()[1], InputError):
        return  # no crash
    try:
        theirs(trainer, filename, extra_state)
    except InputError as error:
        logger.warning(error)  # the error that it tells of must not be hidden


def _say(theirs: Callable, kind: Any, error: BaseException, trace: Any) -> None:
    """One line for bad input, whether this process met it or one that it started."""
    line = told(str(error)) if isinstance(error, ProcessRaisedException) else SAID_BY_FAIRSEQ.get(str(error))
    if isinstance(error, InputError):
        line = str(error)
    elif isinstance(error, RuntimeError) and GLOO in str(error):
        line = "another process of this training has ended, and says why"
    if line is None:
        return theirs(kind, error, trace)
    print(f"fairseq_idpg: {one_line(line)}", file=sys.stderr)


def _verify_folder(theirs: Callable, save_dir: str) -> None:
    try:
        theirs(save_dir)
    except OSError as error:
        raise InputError(
            f"--save-dir {save_dir} cannot be written to ({error.strerror}): give another folder"
        ) from None


def _train_step(theirs: Callable, trainer: Trainer, samples: List[Any], *args: Any, **kwargs: Any) -> Any:
    """Batches that are none, of a process that has fewer than others, go first: our task counts nothing of them."""
    ours = getattr(trainer.cfg.task, "_name", None) == TASK
    return theirs(trainer, sorted(samples, key=bool) if ours else samples, *args, **kwargs)


def _step_of_amp(theirs: Callable, optimizer: AMPOptimizer) -> None:
    """``clip_grad_norm`` has divided in the name of torch's optimizer, and theirs asks in that of fairseq's."""
    optimizer.scaler.step(optimizer.optimizer)
    optimizer.scaler.update()


def _convert(theirs: Callable, args: Any) -> Any:
    check_arguments(args)
    if getattr(args, "task", None) == TASK and not trains(args):
        parse_overrides(args.model_overrides)  # which is evaluated as Python next
        if args.distributed_init_method is None:
            args.distributed_world_size = 1
    elif getattr(args, "task", None) == TASK and args.log_file:
        check_output(Path(args.log_file), "--log-file")  # fairseq opens it in the midst of its own work
    return theirs(args)
