"""On the path of a process, the plugin starts as it did before: every weight is copied, the file read whole.

It also ends as before, with a search for garbage among all objects. For benchmarks/startup.py alone, which sets
FAIRSEQ_IDPG_CACHE=off besides.
"""

import gc
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder

MODEL = "fairseq_idpg.models.roberta_idpg"


def as_before(model) -> None:
    from fairseq_idpg.models import checkpoint
    from fairseq_idpg.saving import backbone_file

    checkpoint.as_own = lambda weights, parameters: weights
    read, load = backbone_file.read_checkpoint, checkpoint.SavesTrainableOnly.load_state_dict_as_is
    backbone_file.read_checkpoint = lambda path, option, **how: read(path, option)
    checkpoint.SavesTrainableOnly.load_state_dict_as_is = lambda self, state, assign=False: load(self, state)


class Old(MetaPathFinder):
    """Changes the model's module once it is imported."""

    def find_spec(self, name, path=None, target=None):
        if name != MODEL:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_change(module) -> None:
            execute(module)
            as_before(module)

        spec.loader.exec_module = execute_and_change
        return spec


gc.freeze = lambda: None
sys.meta_path.insert(0, Old())
