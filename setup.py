"""Packaging of fairseq_idpg: `pip install -e .`, or no install at all with --user-dir."""

from pathlib import Path

from setuptools import find_packages, setup

README = Path(__file__).with_name("README.md")

CONVERT = ["transformers"]
SWEEPS = ["matplotlib", "pyyaml", "scikit-learn", "submitit", "tabulate"]
SERVE = ["prometheus-client", "starlette", "uvicorn"]
DATA = {"plots": ["matplotlib"], "parquet": ["pyarrow"], "hub": ["datasets"]}

setup(
    name="fairseq_idpg",
    version="0.1.0",
    description="IDPG: instance-dependent prompt generation on a frozen RoBERTa, in fairseq",
    long_description=README.read_text(encoding="utf-8") if README.exists() else "",
    long_description_content_type="text/markdown",
    license="MIT",
    author="fairseq_idpg contributors",
    python_requires=">=3.11",
    packages=find_packages(include=["fairseq_idpg", "fairseq_idpg.*", "preprocess", "preprocess.*"]),
    package_data={
        "fairseq_idpg": ["py.typed"],
        "fairseq_idpg.serving": ["page.css", "page.html", "page.js"],
        "preprocess": ["py.typed"],
    },
    install_requires=[
        "fairseq-fixed==0.12.3.1",
        "torch>=2.4",
        "numpy",
        "regex",
        "safetensors",
        "scipy",
        "sentencepiece",
        "tokenizers",
        "tqdm",
    ],
    extras_require={
        "dev": ["pytest", "pytest-xdist", "hypothesis", "ruff", "mypy", "pyarrow", *SWEEPS, *CONVERT, *SERVE],
        "quickstart": CONVERT,
        "serve": SERVE,
        "sweeps": SWEEPS,
        **DATA,
    },
)
