"""What GLUE and SuperGLUE take: a zip archive with a file for each test set.

Sources. Names of files and labels: the toolkit of the benchmarks' authors, nyu-mll/jiant at 00b121b, jiant/evaluate.py
("exact file names per task required by the GLUE evaluation server"), and the T5 authors' script for submissions, which
agree. Numbers of examples: huggingface/datasets at 0401021, datasets/glue/README.md and datasets/super_glue/README.md.
All files or none, and the sample: keras-team/keras-hub at 63b7e4b, examples/glue_benchmark/README.md. The model of MNLI
for AX: the same README of GLUE. The model of RTE for SuperGLUE's diagnostics, and that all its files are wanted: its
FAQ as russiansuperglue.com/faq repeats it.
"""

from __future__ import annotations

from dataclasses import dataclass

from preprocess.tasks import TASKS, Task


@dataclass(frozen=True)
class Sheet:
    """A file of answers.

    Attributes:
        file: its name in the archive.
        examples: of the test set; questions, where one answer is chosen of each.
        of: the task whose model answers it.
        data: the name of its binarized folder, without ``-bin``; by default the task's.
        split: of that folder.
    """

    file: str
    examples: int
    of: str
    data: str = ""
    split: str = "test"

    @property
    def task(self) -> Task:
        return TASKS[self.of]

    @property
    def folder(self) -> str:
        return f"{self.data or self.of}-bin"


@dataclass(frozen=True)
class Benchmark:
    """A benchmark's name, its files, and what it says of incomplete submissions."""

    title: str
    sheets: tuple[Sheet, ...]
    rule: str

    @property
    def tasks(self) -> tuple[str, ...]:
        """Those whose models answer something."""
        return tuple(dict.fromkeys(sheet.of for sheet in self.sheets))


BENCHMARKS = {
    "glue": Benchmark(
        "GLUE",
        (
            Sheet("CoLA.tsv", 1063, "CoLA"),
            Sheet("SST-2.tsv", 1821, "SST-2"),
            Sheet("MRPC.tsv", 1725, "MRPC"),
            Sheet("STS-B.tsv", 1379, "STS-B"),
            Sheet("QQP.tsv", 390_965, "QQP"),
            Sheet("MNLI-m.tsv", 9796, "MNLI"),
            Sheet("MNLI-mm.tsv", 9847, "MNLI", split="test1"),
            Sheet("QNLI.tsv", 5463, "QNLI"),
            Sheet("RTE.tsv", 3000, "RTE"),
            Sheet("WNLI.tsv", 146, "WNLI"),
            Sheet("AX.tsv", 1104, "MNLI", data="AX"),
        ),
        "GLUE's site fails submissions without all files: add those of its sample, gluebenchmark.com/assets/CBOW.zip",
    ),
    "superglue": Benchmark(
        "SuperGLUE",
        (
            Sheet("BoolQ.jsonl", 3245, "BoolQ"),
            Sheet("CB.jsonl", 250, "CB"),
            Sheet("COPA.jsonl", 500, "COPA"),
            Sheet("MultiRC.jsonl", 9693, "MultiRC"),
            Sheet("ReCoRD.jsonl", 10_000, "ReCoRD"),
            Sheet("RTE.jsonl", 3000, "RTE", data="RTE-SuperGLUE"),
            Sheet("WiC.jsonl", 1400, "WiC"),
            Sheet("WSC.jsonl", 146, "WSC"),
            Sheet("AX-b.jsonl", 1104, "RTE", data="AX-b"),
            Sheet("AX-g.jsonl", 356, "RTE", data="AX-g"),
        ),
        "SuperGLUE's site asks for all files: add those of its sample, super.gluebenchmark.com/faq",
    ),
}
