"""What is trained beside a frozen backbone: one file per method, found here; each registers its presets.

Installed packages add methods by an entry point ``fairseq_idpg.methods``, users by ``--method-file FILE``.
"""

import os
import sys
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import walk_packages

from .registry import register_file

for _module in walk_packages(__path__, f"{__name__}."):  # by name, so that options stand in one order everywhere
    import_module(_module.name)
for _point in entry_points(group="fairseq_idpg.methods"):
    _point.load()
# fairseq-train asks for the options of methods before it has parsed its command line.
for _before, _word in zip(sys.argv, [*sys.argv[1:], ""]):
    _path = _word if _before == "--method-file" else _before.removeprefix("--method-file=")
    if _path != _before and os.path.isfile(_path):
        register_file(_path)
