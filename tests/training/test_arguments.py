"""Numbers and names of the command line that can only end badly."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from fairseq_idpg.errors import InputError
from fairseq_idpg.tasks.prompt_position import check_tokens
from fairseq_idpg.training.arguments import (
    BACKENDS,
    LAUNCHERS,
    UNSUPPORTED,
    check_arguments,
    check_configuration,
)
from fairseq_idpg.training.fairseq_patches import _convert
from tests.folders import ROOT, training_arguments
from tests.helpers import dictionary

DICTIONARY = dictionary()
DECAY = ("--lr-scheduler", "polynomial_decay", "--total-num-update", "9")
ON_CPUS = ("--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp")


def composed(args):
    """Without our own look at the arguments, which comes before."""
    return getattr(convert_namespace_to_omegaconf, "__wrapped__", convert_namespace_to_omegaconf)(args)


def test_usual_arguments_pass():
    check_arguments(training_arguments())
    check_arguments(training_arguments("--optimizer", "grouped_adam", *DECAY))
    check_arguments(training_arguments("--optimizer", "grouped_adam", "--lr", "1e-3,1e-4"))
    for precision in (["--fp16", "--fp16-no-flatten-grads"], ["--memory-efficient-fp16"], ["--bf16"], ["--amp"]):
        check_arguments(training_arguments(*precision))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--lr", "1e999"], "--lr inf is no finite number"),
        (["--save-dir", "runs/${x}"], "--save-dir runs/${x}: omegaconf takes ??? and ${ for its own: give another"),
        (["--prompt-init-text", "???"], "--prompt-init-text ???: omegaconf takes ??? and ${ for its own"),
        (["--lr=-1e-3"], "--lr -0.001 is too small: give 0 or more"),
        (["--dropout", "nan"], "--dropout nan is no finite number"),
        (["--dropout", "1"], "--dropout 1.0 is no share"),
        (["--generator-dropout", "-0.1"], "--generator-dropout -0.1 is no share"),
        (["--weight-decay", "inf"], "--weight-decay inf is no finite number"),
        (["--clip-norm", "nan"], "--clip-norm nan is no finite number"),
        (["--optimizer", "grouped_adam", "--head-lr", "nan"], "--head-lr nan is no finite number"),
        (["--seed", "-1"], "--seed -1 is too small"),
        (["--lr-shrink=-1"], "--lr-shrink -1.0 is too small: give 0 or more"),
        ([*DECAY, "--end-learning-rate=-1"], "--end-learning-rate -1.0 is too small: give 0 or more"),
        (["--seed", "4294967296"], "--seed 4294967296 is too large"),
        (["--batch-size", "0"], "--batch-size 0 is too small: give 1 or more"),
        (["--update-freq", "0"], "--update-freq 0 is too small: give 1 or more"),
        (["--max-epoch", "-1"], "--max-epoch -1 is too small"),
        (["--separator-token", "-1"], "--separator-token -1 is too small"),
        (["--fp16"], "--fp16 with --cpu: give --fp16-no-flatten-grads as well, or leave it out"),
        (["--bf16", "--amp"], "--bf16 with --amp: a run has one precision: leave one out"),
        (["--fp16", "--fp16-no-flatten-grads", "--amp"], "--fp16 with --amp: a run has one precision: leave one out"),
        (["--best-checkpoint-metric", "nothing"], "--best-checkpoint-metric nothing is unknown: give one of loss, "),
        (["--add-prev-output-tokens"], "--add-prev-output-tokens is not supported: this model has no decoder: leave"),
        (["--d2v2-multi"], "--d2v2-multi is not supported: it names what a batch holds as data2vec reads it: leave"),
        (["--train-subset", "dev"], "--train-subset dev is not taken for training: give a name that begins with train"),
        (["--valid-subset", "valid,train"], "--valid-subset valid,train is not supported: train is read as training"),
        (["--valid-subset", ""], "--valid-subset '' has an empty name in it: give valid, or valid,test"),
        (["--valid-subset", "valid,"], "--valid-subset 'valid,' has an empty name in it"),
        (["--combine-valid-subsets", "--valid-subset", "test"], "--combine-valid-subsets with --valid-subset test: va"),
        (["--update-epoch-batch-itr", "true"], "--update-epoch-batch-itr true is neither True nor False: give one"),
        (["--max-tokens-valid", "4k"], "--max-tokens-valid 4k is no whole number: give one"),
        (["--batch-size-valid", "2.5"], "--batch-size-valid 2.5 is no whole number: give one"),
        (["--batch-size-valid", "0"], "--batch-size-valid 0 is too small: give 1 or more"),
        (
            ["--shorten-data-split-list", "train"],
            "--shorten-data-split-list train has no effect with --shorten-method none: leave it out",
        ),
        (["--fp16-init-scale", "0"], "--fp16-init-scale 0 is too small: give 1 or more"),
        (["--fp16-scale-window", "0"], "--fp16-scale-window 0 is too small: give 1 or more"),
        (["--optimizer", "sgd", "--momentum", "-1"], "--momentum -1.0 is too small: give 0 or more"),
        (["--criterion", "cross_entropy"], "--criterion cross_entropy does not fit --task sentence_prediction_idpg"),
    ],
)
def test_refused(given, message):
    with pytest.raises(InputError) as refused:
        check_arguments(training_arguments(*given))
    assert message in str(refused.value)


def test_options_whose_text_is_python():
    check_arguments(
        training_arguments("--update-epoch-batch-itr", "True", "--batch-size-valid", 64, "--max-tokens-valid", 512)
    )


def test_a_folder_whose_name_fairseq_would_cut():
    args = training_arguments()
    args.data = "my:data"
    with pytest.raises(InputError, match="data folder my:data: fairseq-train ends its name at the colon"):
        check_arguments(args)


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "adadelta", "adamax", "adafactor", "nag"])
def test_parts_of_fairseq_that_declare_no_dataclass(optimizer):
    check_configuration(composed(training_arguments("--optimizer", optimizer, "--lr-scheduler", "manual")))


@pytest.mark.parametrize("given", [["--lr", "1e999"], ["--store-ema"], ["--fp16"], ["--seed", "-1"]])
def test_refused_when_composed_by_hydra(given):
    """As fairseq-hydra-train has it; with the same words."""
    check_configuration(composed(training_arguments()))
    args = training_arguments(*given)
    with pytest.raises(InputError) as expected:
        check_arguments(args)
    with pytest.raises(InputError) as refused:
        check_configuration(composed(args))
    assert str(refused.value) == str(expected.value)


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("--ddp-backend", ["fully_sharded"]),
        ("--ddp-backend", ["slowmo"]),
        ("--zero-sharding", ["os"]),
        ("--cpu-offload", []),
        ("--use-sharded-state", []),
        ("--no-reshard-after-forward", []),
        ("--fp32-reduce-scatter", []),
        ("--not-fsdp-flatten-parameters", []),
        ("--checkpoint-shard-count", ["2"]),
        ("--slowmo-momentum", ["0.5"]),
        ("--slowmo-base-algorithm", ["sgp"]),
        ("--localsgd-frequency", ["4"]),
        ("--use-bmuf", []),
        ("--store-ema", []),
        ("--ema-decay", ["0.5"]),
        ("--ema-start-update", ["1"]),
        ("--ema-seed-model", ["A.pt"]),
        ("--ema-update-freq", ["2"]),
        ("--ema-fp32", []),
        ("--model-parallel-size", ["2"]),
        ("--pipeline-model-parallel", []),
        ("--pipeline-balance", ["[1]"]),
        ("--pipeline-devices", ["[0]"]),
        ("--pipeline-chunks", ["2"]),
        ("--pipeline-checkpoint", ["always"]),
        ("--pipeline-encoder-balance", ["[1]"]),
        ("--pipeline-decoder-devices", ["[0]"]),
        ("--quantization-config-path", ["A.yaml"]),
        ("--required-seq-len-multiple", ["8"]),
        ("--num-shards", ["2"]),
        ("--shard-id", ["1"]),
        ("--max-valid-steps", ["5"]),
        ("--update-ordered-indices-seed", []),
        ("--use-plasma-view", []),
        ("--amp-init-scale", ["64"]),
        ("--amp-scale-window", ["64"]),
        ("--on-cpu-convert-precision", []),
        ("--write-checkpoints-asynchronously", []),
        ("--tpu", []),
    ],
)
def test_options_of_fairseq_that_do_not_fit(option, values):
    with pytest.raises(InputError) as refused:
        check_arguments(training_arguments(option, *values))
    assert str(refused.value).startswith(" ".join([option, *values, "is not supported: "]))


def test_every_option_that_does_not_fit_is_one_of_fairseq():
    known = vars(training_arguments())
    assert UNSUPPORTED.keys() <= known.keys()


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("--offload-activations", []),
        ("--encoder-layerdrop", ["0.5"]),
        ("--encoder-layers-to-keep", ["0,1"]),
        ("--quant-noise-pq", ["0.1"]),
        ("--quant-noise-pq-block-size", ["4"]),
        ("--quant-noise-scalar", ["0.1"]),
        ("--untie-weights-roberta", []),
        ("--spectral-norm-classification-head", []),
        ("--min-params-to-wrap", ["1"]),
        ("--load-checkpoint-heads", []),
        ("--encoder-normalize-before", []),
        ("--encoder-learned-pos", []),
        ("--layernorm-embedding", []),
        ("--no-token-positional-embeddings", []),
        ("--encoder-embed-path", ["A"]),
        ("--xformers-att-config", ["A"]),
    ],
)
def test_options_of_fairseqs_encoders_that_the_model_does_not_have(option, values, capsys):
    with pytest.raises(SystemExit) as ended:
        training_arguments(option, *values)
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: unrecognized arguments: {' '.join([option, *values])}\n")


@pytest.mark.parametrize("backend", BACKENDS)
def test_backends_that_give_each_process_the_whole_model(backend):
    check_arguments(training_arguments("--ddp-backend", backend))


def test_a_profile_needs_a_gpu():
    with pytest.raises(InputError, match="^--profile marks what a GPU does, and there is none: leave it out$"):
        check_arguments(training_arguments("--profile"))


def test_a_gpu_that_another_machine_has(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    args = training_arguments("--fp16", "--profile")
    with pytest.raises(InputError, match="there is none"):
        check_arguments(args, gpu=True)  # --cpu
    args.cpu = False
    check_arguments(args, gpu=True)
    for gpu in (None, False):
        with pytest.raises(InputError, match="there is none"):
            check_arguments(args, gpu=gpu)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ({"init_token": None}, "--init-token is missing"),
        ({"init_token": 55}, "--init-token 55 is none of the 55 symbols"),
        ({"separator_token": 100}, "--separator-token 100 is none of the 55 symbols"),
        ({"init_token": 1}, "--init-token 1 is padding"),
        ({"init_token": 4}, "--init-token 4 is w0, and the backbone's sentences begin with <s>: give 0 for <s>$"),
        ({"separator_token": 1}, "--separator-token 1 is padding, .*: give 2 for </s>, or 0 for <s>$"),
    ],
)
def test_tokens(tokens, message):
    with pytest.raises(InputError, match=message):
        check_tokens(SimpleNamespace(**{"init_token": 0, "separator_token": None, **tokens}), DICTIONARY)
    check_tokens(SimpleNamespace(init_token=0, separator_token=54), DICTIONARY)


@pytest.mark.parametrize("total", [None, 8])
def test_no_batch_size(total):
    args = training_arguments("--max-tokens", 100)
    args.batch_size, args.total_batch_size = None, total
    check_arguments(args)
    args.max_tokens = None
    with pytest.raises(InputError, match="--batch-size is missing: give it, or --max-tokens"):
        check_arguments(args)


def test_validation_in_half_precision_needs_no_gpu():
    parser = options.get_validation_parser()
    usual = ["DATA", "--user-dir", str(ROOT / "fairseq_idpg"), "--task", "sentence_prediction_idpg", "--cpu", "--fp16"]
    usual += ["--batch-size", "8"]
    args = options.parse_args_and_arch(parser, [*usual, "--criterion", "sentence_prediction", "--path", "A.pt"])
    check_arguments(args)


def test_other_tasks_are_left_alone():
    args = training_arguments("--criterion", "cross_entropy", "--dropout", "nan")
    args.task = "translation"
    check_arguments(args)


def test_processes_that_nothing_starts(monkeypatch):
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    args = training_arguments("--distributed-world-size", "3", *ON_CPUS)
    with pytest.raises(InputError, match="--distributed-world-size 3 with 2 GPUs on this machine: give less, or start"):
        check_arguments(args)
    check_arguments(training_arguments("--distributed-world-size", "2", *ON_CPUS))
    check_arguments(
        training_arguments("--distributed-world-size", "3", "--distributed-init-method", "tcp://localhost:9", *ON_CPUS)
    )
    monkeypatch.setenv(LAUNCHERS[0], "localhost")
    check_arguments(args)


@pytest.mark.parametrize(("option", "value"), [ON_CPUS[:2], ON_CPUS[2:]])
def test_several_processes_without_a_gpu(option, value):
    usual = [part for part in ON_CPUS if part not in (option, value)]
    several = training_arguments(
        "--distributed-world-size", "2", "--distributed-init-method", "tcp://localhost:9", *usual
    )
    with pytest.raises(InputError, match=f"^{option} [a-z_]+ of 2 processes is for GPUs alone: give {option} {value}"):
        check_arguments(several)
    several.cpu = False
    check_arguments(several, gpu=True)


def test_processes_that_would_each_train_alone(monkeypatch):
    """On a node with one GPU, which is fairseq's default for the number of all processes."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    args = training_arguments("--distributed-world-size", "1")
    with pytest.raises(InputError, match="--distributed-world-size 1 in one of 2 processes that torchrun started"):
        check_arguments(args)
    monkeypatch.setenv("WORLD_SIZE", "1")
    check_arguments(args)


def test_validation_is_of_one_process(tmp_path, monkeypatch):
    """Whose number fairseq takes from the GPUs there are."""
    usual = ["DATA", "--task", "sentence_prediction_idpg", "--criterion", "sentence_prediction", "--init-token", "0"]
    args = options.parse_args_and_arch(
        options.get_validation_parser(),
        input_args=[*usual, "--num-classes", "2", "--path", str(tmp_path), "--batch-size", "8"],
    )
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    args.distributed_world_size = 2
    assert _convert(lambda args: args, args).distributed_world_size == 1
    args.distributed_world_size, args.task = 2, "sentence_prediction"
    assert _convert(lambda args: args, args).distributed_world_size == 2
    args.task, args.distributed_init_method = "sentence_prediction_idpg", "tcp://localhost:9"
    assert _convert(lambda args: args, args).distributed_world_size == 2


def test_the_largest_seed_is_taken():
    check_arguments(training_arguments("--seed", str(2**32 - 1)))
