"""What a command leaves out: the same configuration as with all of it typed."""

from pathlib import Path

import pytest
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from fairseq_idpg.errors import InputError
from fairseq_idpg.names import TASK
from fairseq_idpg.training.arguments import check_arguments
from tests.folders import SIZE, write_folder

ADAM = ["--optimizer=adam", "--adam-betas=(0.9, 0.98)", "--adam-eps=1e-6", "--weight-decay=0.1"]
TOKENS = ["--init-token=0", "--separator-token=2", "--max-positions=64"]
HIGHEST = ["--criterion=sentence_prediction", "--batch-size=16", "--maximize-best-checkpoint-metric"]
ACCURACY = [*HIGHEST, "--best-checkpoint-metric=accuracy"]
CORRELATION = [*HIGHEST, "--best-checkpoint-metric=pearson_and_spearman", "--report-pearson-and-spearman"]


@pytest.fixture
def files(tmp_path: Path, backbone: Path) -> list[str]:
    """The options that must be typed; positions of the backbone are not fairseq's 512, nor its sizes."""
    common = ["--task", TASK, "--arch", "roberta_idpg", "--backbone", str(backbone), "--lr", "1e-3"]
    return [str(tmp_path / "data"), "--user-dir", "fairseq_idpg", *common, "--save-dir", str(tmp_path / "run")]


def configuration(arguments: list[str]) -> dict:
    args = options.parse_args_and_arch(options.get_training_parser(), arguments)
    return OmegaConf.to_container(convert_namespace_to_omegaconf(args))


@pytest.mark.parametrize(
    ("folder", "typed"),
    [
        ({"classes": 3}, [*ACCURACY, "--num-classes=3"]),
        ({"regression": True, "pairs": False}, [*CORRELATION, "--num-classes=1", "--regression-target"]),
    ],
    ids=["classes", "scores"],
)
def test_equals_the_long_form(files: list[str], folder: dict, typed: list[str]):
    write_folder(Path(files[0]), **folder)
    assert configuration(files) == configuration([*files, *SIZE, *TOKENS, *ADAM, *typed])


def test_what_is_typed_stands(files: list[str]):
    write_folder(Path(files[0]))
    loss = ["--criterion=sentence_prediction", "--batch-size=8"]
    cfg = configuration([*files, *loss, "--optimizer=adam", "--init-token=0", "--encoder-layers=2"])
    best = (cfg["checkpoint"][f"{name}best_checkpoint_metric"] for name in ("", "maximize_"))
    assert [*best] == ["loss", False] and cfg["task"]["separator_token"] is None
    assert [cfg["dataset"]["batch_size"], cfg["optimizer"]["adam_eps"], cfg["model"]["encoder_layers"]] == [8, 1e-8, 2]
    # without the size of a batch, as an error of a method that adds to the loss asks for it
    cfg = configuration([*files, "--criterion=sentence_prediction_idpg"])
    assert (cfg["dataset"]["batch_size"], cfg["checkpoint"]["best_checkpoint_metric"]) == (16, "accuracy")


def test_a_rate_has_no_default(files: list[str]):
    write_folder(Path(files[0]))
    typed = [name for name in files if name not in ("--lr", "1e-3")]
    with pytest.raises(InputError, match="--lr"):
        check_arguments(options.parse_args_and_arch(options.get_training_parser(), typed))
