"""torch's compiler and what answers sentences are imported by those who want them alone, and work then."""

import subprocess
import sys

from tests.folders import OF_TASK, ROOT, TRAINING, write_backbone, write_folder

SAYS = """
import atexit, sys
atexit.register(lambda: print("loaded:", {"torch._dynamo", "fairseq_idpg.inference"} & {*sys.modules}))
"""
TRAIN = "from fairseq_cli.train import cli_main; cli_main()"
COMPILED = """
import torch, fairseq_idpg.training.fairseq_patches as module
module.import_no_compiler()
weight = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([weight], lr=1.0)
optimizer.zero_grad()
assert "torch._dynamo" not in sys.modules
import torch._dynamo
torch.compile(optimizer.zero_grad, backend="eager")()
optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})
state = optimizer.state_dict()
optimizer.load_state_dict(state)
print(len(state["param_groups"]))
"""


def output(code, *words):
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.check_output(command, cwd=ROOT, text=True).splitlines()[-1]


def test_optimizers_work_where_somebody_imports_it():
    assert output("import sys\n" + COMPILED) == "2"


def test_a_training_ends_without_it(tmp_path):
    words = [*OF_TASK, *TRAINING, "--cpu", "--max-update", 2]
    words += ["--backbone", write_backbone(tmp_path / "model.pt"), "--save-dir", tmp_path / "run"]
    assert output(SAYS + TRAIN, write_folder(tmp_path / "data"), *words) == "loaded: set()"
