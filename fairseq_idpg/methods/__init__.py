"""What is trained beside a frozen backbone: one file per method, found here; each registers its presets."""

from importlib import import_module
from pkgutil import walk_packages

for _module in walk_packages(__path__, f"{__name__}."):  # by name, so that options stand in one order everywhere
    import_module(_module.name)
