"""Imports run one way between the top-level folders, and in no circle within any; read from the source."""

import ast
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BELOW = {  # folder: those that it may import
    "preprocess": set(),
    "fairseq_idpg": {"preprocess"},
    "checkpoints": {"fairseq_idpg", "preprocess"},
    "run_scripts": {"fairseq_idpg", "preprocess"},
    "benchmarks": {"checkpoints", "fairseq_idpg", "preprocess"},
    "tests": {"benchmarks", "checkpoints", "fairseq_idpg", "preprocess", "run_scripts"},
    # rooms; train.py and what else lies flat in run_scripts stands above them
    "run_scripts.run": set(),
    "run_scripts.report": {"run_scripts.run"},
    "run_scripts.sweep": {"run_scripts.report", "run_scripts.run"},  # it chooses a learning rate as reports do
}
LAYERS = (  # of fairseq_idpg: each imports those in front of it alone; the commands, which lie flat there, stand above
    *("errors", "names", "optim", "metrics", "out_of_memory", "backbone", "saving"),
    *("representations", "methods", "models", "criterions", "tasks", "training", "inference", "plugin", "serving"),
    "analysis",
)
BACK = {"fairseq_idpg/in_python.py: checkpoints.convert_hf.convert"}  # when it is called: ``train`` converts a backbone
UPWARD = {  # when it is called: fairseq asks a model's class for what stands above the models
    "fairseq_idpg.models.roberta_idpg: fairseq_idpg.inference.hub"
}


def files(folder: str) -> list[Path]:
    """Without hidden folders: benchmarks/.peers holds other people's."""
    found = (path.relative_to(ROOT) for path in sorted((ROOT / folder).rglob("*.py")))
    return [path for path in found if not any(part.startswith(".") for part in path.parts)]


def imported(text: str, package: tuple[str, ...]) -> Iterator[str]:
    """Dotted names that a module of ``package`` imports, wherever in it: of modules and of what is taken from them."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            source = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{source}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_module":
            name = node.args[0]
            if isinstance(name, ast.Constant):
                yield resolve_name(name.value, ".".join(package))


def imports_of(path: Path) -> list[str]:
    return list(imported((ROOT / path).read_text(encoding="utf-8"), path.parent.parts))


@pytest.mark.parametrize("folder", BELOW)
def test_direction(folder):
    found, depth = files(folder.replace(".", "/")), folder.count(".") + 1
    assert found
    flat = {f"run_scripts.{path.stem}" for path in (ROOT / "run_scripts").glob("*.py")}
    wrong = {
        f"{path}: {name}"
        for path in found
        for name in imports_of(path)
        if ".".join(name.split(".")[:depth]) in (BELOW.keys() | flat) - BELOW[folder] - {folder}
    }
    assert wrong <= BACK


def test_layers_of_the_plugin():
    assert {path.name for path in (ROOT / "fairseq_idpg").iterdir() if (path / "__init__.py").exists()} <= {*LAYERS}
    wrong = {
        f"{module}: {name}"
        for module, names in modules_of("fairseq_idpg").items()
        for name in names
        if (layer := part(module)) in LAYERS and part(name) not in LAYERS[: LAYERS.index(layer) + 1]
    }
    assert wrong == UPWARD


def part(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


def modules_of(folder: str) -> dict[str, set[str]]:
    """Each module of a folder and the others of it that it imports."""
    paths = {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in files(folder)}

    def module(name: str) -> str:
        return name if name in paths else name.rpartition(".")[0]

    return {each: {*map(module, imports_of(path))} & paths.keys() - {each} for each, path in paths.items()}


@pytest.mark.parametrize("folder", [folder for folder in BELOW if "." not in folder])
def test_no_circle(folder):
    left = modules_of(folder)
    while free := {module for module, names in left.items() if not names & left.keys()}:
        left = {module: names for module, names in left.items() if module not in free}
    assert not left
