"""A whole training step on torch's meta device, which has shapes and no numbers: whatever asks for one fails."""

from unittest import mock

import numpy as np
import pytest
from fairseq.optim import FP16Optimizer

from fairseq_idpg.representations.cache import RowCache

from .cases import CASES, IDPG
from .steps import batch, started, step
from .watch import ASKED, META, NUMBER, Watch

FP16 = {"fp16": True, "fp16_no_flatten_grads": True}
# draws of the host, which no device waits for: case -> who draws how often
ADAMIX, DROP = (f"fairseq_idpg/methods/adapters/{name}" for name in ("adamix.py draw", "drop.py injection"))
DRAWN = {
    **{"adamix": {(ADAMIX, "randint"): 2}, "AdaMix, none shared": {(ADAMIX, "randint"): 4}},
    **{"AdaMix, one pass": {(ADAMIX, "randint"): 1}},
    **{"n drawn": {(DROP, "randint"): 1, (DROP, NUMBER): 1}},
}
FLAT = mock.patch("torch.cuda.current_device", lambda: None)  # fp16_optimizer.py, build_fp32_params: for a GPU alone


def watched(trainer, samples=None):
    watch = Watch(trainer.device, ASKED)
    step(trainer, batch(trainer) if samples is None else samples, watch)
    return watch


def asked(watch, drawn=()):
    """Who read numbers, but for draws of the host."""
    return {who for who, _ in watch.reads} - {who for who, _ in drawn}


@pytest.mark.parametrize("case", CASES)
def test_a_step_reads_no_number(place, case):
    trainer, drawn = started(place, device="meta", common=FP16, **CASES[case]), DRAWN.get(case, {})
    samples = batch(trainer)
    assert samples["net_input"]["padded"]
    watch = watched(trainer, samples)
    assert asked(watch, drawn) <= ASKED.keys() and watch.strays == drawn
    assert trainer.get_num_updates() == 1
    assert not drawn or trainer.model.method.redrawn  # or a recorded step would draw the same again and again
    gradients = [p.grad for p in trainer.model.parameters() if p.grad is not None]
    moments = [state["exp_avg"] for state in trainer.optimizer.optimizer.state.values()]
    assert gradients and moments and {tensor.device.type for tensor in [*gradients, *moments]} == {"meta"}


def test_what_a_step_waits_for(place):
    """One number, and others that are there once it is: none of them before the last gradient."""
    before = ["fairseq_idpg/training/fairseq_patches.py clip_grad_norm", "fairseq/trainer.py train_step"]
    after = ["fairseq/trainer.py _reduce_and_log_stats", *["fairseq/logging/meters.py safe_round"] * 3]
    scaled = ["fairseq/optim/fp16_optimizer.py clip_grad_norm"]
    scaled += ["fairseq/optim/dynamic_loss_scaler.py check_overflow"] * 2
    for precision, expected in (({}, []), (FP16, scaled)):
        watch = watched(started(place, device="meta", common=precision, **IDPG))
        assert sorted(watch.reads.elements()) == sorted((who, NUMBER) for who in [*before, *after, *expected])


@pytest.mark.parametrize(
    "common", [{"fp16": True}, {"fp16": True, "memory_efficient_fp16": True}, {"bf16": True}, FP16], ids=str
)
def test_other_optimizers(place, common):
    """And gradients that are clipped, of which fairseq makes a number of the log."""
    with FLAT:
        trainer = started(place, device="meta", common=common, optimization={"clip_norm": 0.5}, **IDPG)
        watch = watched(trainer)
    assert asked(watch) <= ASKED.keys() and not set(watch.strays)
    assert isinstance(trainer.optimizer, FP16Optimizer) != ("memory_efficient_fp16" in common)


def no_numbers(cache, rows, index):
    """For ``RowCache._finite``, which fetches the rows of a batch: zeros of their number."""
    assert rows.is_meta and rows.shape == ((cache.starts[index + 1] - cache.starts[index]).sum(), cache.key.width)
    return np.zeros(rows.shape, "float32" if cache.key.dtype == "float32" else "float16")


NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0}
CACHES = {
    "M(x)": ("representation_cache", IDPG),
    "states": ("state_cache", {"method": "lpt-npg", "prompt_layers": "2", **NO_DROPOUT}),
    "states under a generator of words": ("state_cache", {"method": "lpt-appg", "prompt_layers": "2", **NO_DROPOUT}),
}


@pytest.mark.parametrize("precision", [{}, FP16], ids=["float32", "float16"])
@pytest.mark.parametrize("what", CACHES)
def test_caches_are_filled_and_read(place, tmp_path, what, precision):
    """Filling waits once a batch, for the rows that go to the disk."""
    option, case = CACHES[what]
    trainer = started(place, device="meta", common=precision, **{**case, "task": {option: str(tmp_path)}})
    watch = Watch(META)
    with mock.patch.object(RowCache, "_finite", no_numbers), watch:
        trainer.task.begin_epoch(1, trainer.model)
    assert list(tmp_path.glob("*.npy")) and not watch.reads
    told = {(f"fairseq_idpg/representations/{who}", "_to_copy") for who in ("cache.py encode", "states.py compute")}
    assert watch.crossings.keys() <= told  # tokens, and which of them are no pads
    samples = batch(trainer)
    assert ("states" if "states" in what else "representation") in samples["net_input"]
    watch = watched(trainer, samples)
    assert asked(watch) <= ASKED.keys() and not watch.strays
