"""Packaging of fairseq_idpg: ``pip install .``, ``pip install -e .``, or no install at all with --user-dir.

In the repository, and installed with -e, ``preprocess``, ``checkpoints`` and ``run_scripts`` stand beside fairseq_idpg;
the first imports neither torch nor fairseq. Names like these are nobody's, so a package that is built has them within
fairseq_idpg: ``fairseq_idpg.preprocess`` and so on. ``as_installed`` changes what their files say of each other.
"""

import ast
import re
import sys
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

README = Path(__file__).with_name("README.md")

CONVERT = ["transformers"]
SWEEPS = ["matplotlib", "pydantic", "pyyaml", "submitit", "tabulate"]
SERVE = ["prometheus-client", "starlette", "uvicorn"]

BESIDE = ("preprocess", "checkpoints", "run_scripts")  # in the repository; checkpoints has no __init__.py
WITHIN = "" if {"editable_wheel", "develop"} & {*sys.argv} else "fairseq_idpg."
COMMAND = re.compile(rf"\bpython -m (?={'|'.join(BESIDE)})")
SCRIPT = re.compile(r"\bpython checkpoints/(\w+)\.py\b")
DOWNLOAD = re.compile(r"\b(bash )?checkpoints/download\.sh\b")


def as_installed(source: str, name: str) -> str:
    """The text of a module as it stands in a package: imports and commands name BESIDE as parts of fairseq_idpg."""
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import) and any(alias.name.split(".")[0] in BESIDE for alias in node.names):
            raise ValueError(f"{name}:{node.lineno}: write from ... import, which can be packaged")
        if isinstance(node, ast.ImportFrom) and not node.level and str(node.module).split(".")[0] in BESIDE:
            line, start = lines[node.lineno - 1], node.col_offset
            lines[node.lineno - 1] = line[:start] + line[start:].replace("from ", "from fairseq_idpg.", 1)
    text = COMMAND.sub("python -m fairseq_idpg.", "".join(lines))
    return DOWNLOAD.sub("idpg-download", SCRIPT.sub(r"python -m fairseq_idpg.checkpoints.\1", text))


class BuildPy(build_py):
    """Modules as they stand in a package; not called for -e."""

    def build_module(self, module, module_file, package):
        outfile, copied = super().build_module(module, module_file, package)
        text = Path(module_file).read_text(encoding="utf-8")
        Path(outfile).write_text(as_installed(text, module_file), encoding="utf-8")
        return outfile, copied


setup(
    name="fairseq_idpg",
    version="0.2.0",
    description="IDPG: instance-dependent prompt generation on a frozen RoBERTa, in fairseq",
    long_description=README.read_text(encoding="utf-8") if README.exists() else "",
    long_description_content_type="text/markdown",
    license="MIT",
    author="fairseq_idpg contributors",
    keywords="prompt tuning, parameter-efficient fine-tuning, IDPG, fairseq, RoBERTa, LoRA, adapters",
    classifiers=[
        "Intended Audience :: Science/Research",
        "License :: OSI Approved :: MIT License",
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
    python_requires=">=3.10",
    cmdclass={"build_py": BuildPy},
    packages=[
        *find_packages(include=["fairseq_idpg", "fairseq_idpg.*"]),
        *(f"{WITHIN}{name}" for name in find_packages(include=[*BESIDE, *(f"{name}.*" for name in BESIDE)])),
        f"{WITHIN}checkpoints",
    ],
    package_dir={f"{WITHIN}{name}": name for name in BESIDE},
    package_data={
        "fairseq_idpg": ["py.typed", "*.md"],
        "fairseq_idpg.serving": ["page.css", "page.html", "page.js"],
        f"{WITHIN}preprocess": ["py.typed"],
        f"{WITHIN}checkpoints": ["download.sh"],
        f"{WITHIN}run_scripts": ["configs/*.yaml", "configs/*/*.yaml"],
    },
    entry_points={
        "console_scripts": [
            f"idpg-preprocess = {WITHIN}preprocess.cli:run",
            f"idpg-download = {WITHIN}checkpoints.download:main",
            f"idpg-sweep = {WITHIN}run_scripts.sweep.__main__:main",
            f"idpg-report = {WITHIN}run_scripts.report.__main__:main",
            "idpg-predict = fairseq_idpg.predict:main",
            "idpg-serve = fairseq_idpg.serve:main",
            "idpg-export = fairseq_idpg.export:main",
        ]
    },
    # fairseq-fixed is installed first, without its dependencies (README.md): the newest torchaudio breaks transformers
    install_requires=[
        "torch>=2.4",
        "bitarray",
        "hydra-core==1.3.2",
        "numpy",
        "omegaconf==2.3.0",
        "packaging",
        "regex",
        "sacrebleu",
        "safetensors",
        "scikit-learn",
        "scipy",
        "sentencepiece",
        "tokenizers",
        "tqdm",
    ],
    extras_require={
        "dev": ["pytest", "pytest-xdist", "hypothesis", "ruff", "mypy", "pyarrow", *SWEEPS, *CONVERT, *SERVE],
        "quickstart": CONVERT,
        "onnx": ["onnx", "onnxruntime", "onnxscript"],  # torch's exporter needs the last
        "serve": SERVE,
        "sweeps": SWEEPS,
        "tracking": ["tensorboardX", "wandb"],  # of fairseq-train's --tensorboard-logdir and --wandb-project
        **{"plots": ["matplotlib"], "parquet": ["pyarrow"], "hub": ["datasets>=4", "huggingface_hub"]},
    },
)
