"""The pages: their tables are the program's, README's commands run, those of others are parsed, named files exist."""

import json
import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from fairseq_idpg import options_table
from tests import page_commands
from tests.folders import ROOT
from tests.page_commands import commands, run_page, shell

PAGES = {
    page: (ROOT / page).read_text(encoding="utf-8")
    for page in (
        *("README.md", "CHANGELOG.md", "CONTRIBUTING.md"),
        *(f"fairseq_idpg/{name}.md" for name in ("METHODS", "OPTIONS", "PAPER", "USE")),
        *(f"run_scripts/{name}.md" for name in ("README", "RESULTS", "ROWS")),
        *(f"{folder}/README.md" for folder in ("preprocess", "checkpoints", "benchmarks")),
    )
}
README = PAGES["README.md"]
PARSED = (
    *(f"{folder}/README.md" for folder in ("preprocess", "checkpoints", "run_scripts", "benchmarks")),
    *("fairseq_idpg/PAPER.md", "fairseq_idpg/USE.md", "run_scripts/RESULTS.md"),
)


@pytest.mark.parametrize(("page", "marker", "made"), options_table.PARTS)
def test_tables_are_the_programs(page, marker, made):
    said = options_table.part_of(page, marker)[0]
    assert said == made() + "\n", "run: python -m fairseq_idpg.options_table --write"


def anchors(text: str) -> set[str]:
    """What GitHub calls the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_are_there(page):
    text = PAGES[page]
    folders = "fairseq_idpg|preprocess|checkpoints|run_scripts|benchmarks|tests"
    named = set(re.findall(rf"\b((?:{folders})/[\w./-]+\.(?:py|sh|yaml|md))\b", text))
    linked = set(re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", text))
    assert not [file for file in named if not (ROOT / file).is_file()]
    for file, anchor in linked:
        path = (ROOT / page).parent / file if file else ROOT / page
        assert path.is_file() and (not anchor or anchor in anchors(path.read_text(encoding="utf-8"))), (file, anchor)


def test_versions_are_those_that_the_tests_run_on():
    """README, setup.py and setup_env.sh allow the same; README names the Python and the torch that run this."""
    allowed = re.search(r"^Python >= (3\.\d+), torch >= (\S+) and fairseq-fixed (\d\S+)\. ", README, flags=re.MULTILINE)
    running = f"The whole test suite runs on Python 3.{sys.version_info.minor} with torch {version('torch')[:4]}."
    assert running in " ".join(README.split())
    packaged = (ROOT / "setup.py").read_text(encoding="utf-8")
    assert f'python_requires=">={allowed[1]}"' in packaged and f'"torch>={allowed[2]}"' in packaged
    pinned = (ROOT / "run_scripts" / "requirements.txt").read_text(encoding="utf-8")
    assert f"fairseq-fixed=={allowed[3]}\n" in pinned and version("fairseq-fixed") == allowed[3]
    assert f"(3, {allowed[1].split('.')[1]})" in (ROOT / "run_scripts" / "setup_env.sh").read_text(encoding="utf-8")


def test_every_page_with_commands_is_tested():
    assert {page for page, text in PAGES.items() if commands(text)} == {"README.md", "CONTRIBUTING.md", *PARSED}
    assert not [page for page, text in PAGES.items() if re.search(r"^    (python|bash|fairseq-)", text, re.MULTILINE)]


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory) -> Path:
    """The folder that README's first command leaves, on a few sentences."""
    out = tmp_path_factory.mktemp("quickstart")
    assert commands(README)[0] == "bash run_scripts/quickstart.sh"
    said = shell(f"{commands(README)[0]} --out {out}", ROOT)
    assert "largest difference from transformers" in said
    uses = [line for line in said.splitlines() if "a gorgeous film" in line]  # the folder to share
    answers = [shell(command, ROOT) for command in uses]
    assert len(answers) == 2
    assert "[Prediction(label=" in answers[0]
    assert all("a gorgeous film" in answer for answer in answers)
    return out


def test_quickstart_writes_its_rows(quickstart):
    rows = [json.loads(line) for line in (quickstart / "results.jsonl").read_text().splitlines()]
    assert [row["method"] for row in rows] == ["head-only", "prompt-tuning", "m-idpg-phm"]
    # 5 x 384; 2 x 16^3 + 384 + 16 + 16 x 1,920 / 16 + 6 x 1,920
    assert [row["trainable"] for row in rows] == [0, 1_920, 22_032]
    for row in rows:
        assert 0 <= row["accuracy"] <= 100 and row["seconds_per_epoch"] > 0
        assert row["checkpoint_bytes"] < row["backbone_params"]


def test_walkthrough(quickstart, tmp_path):
    """Every cell runs, and prints as many lines as the notebook shows."""
    (tmp_path / "quickstart").symlink_to(quickstart)
    cells = json.loads((ROOT / "run_scripts" / "walkthrough.ipynb").read_text(encoding="utf-8"))["cells"]
    codes = [cell for cell in cells if cell["cell_type"] == "code"]
    program = "\nprint(end='\\0')\n".join("".join(cell["source"]) for cell in codes)
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]
    shown = ["".join(out["text"]) for cell in codes for out in cell["outputs"] if out["output_type"] == "stream"]
    assert [said.count("\n") for said in ran.stdout.split("\0")] == [said.count("\n") for said in shown]


def test_readme(quickstart, tmp_path):
    (tmp_path / "quickstart").symlink_to(quickstart)
    said = run_page(README, tmp_path, after=1).values()
    tests, own_data, train, validate, sentence, served, asked = said
    assert re.search(r"^\d+ tests collected", tests, re.MULTILINE)
    assert re.search(r"train +40 ", own_data)
    assert "method m-idpg-phm: " in train
    assert re.search(r'"test_accuracy": "[\d.]+"', validate)
    assert re.search(r"^label\tprobability\tsentence\n\S+\t0\.\d+\tA film to remember\.$", sentence, re.MULTILINE)
    assert re.match(r"http://127\.0\.0\.1:\d+ answers for mine; Ctrl-C ends it\n", served)
    assert re.search(r'{"predictions":\[{"label":"[^"]+","probability":0.*"sentence":"A film to remember\."}]}', asked)
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    said = shell(f"python -c {shlex.quote(example)}", tmp_path)
    answers = re.findall(r"^\S+ \{.*\} (A film to remember\.|Dull .*) \[\(", said, re.MULTILINE)
    assert answers == ["A film to remember.", "Dull from start to end."]


@pytest.mark.parametrize("page", PARSED)
def test_the_commands_of_a_page_are_parsed(page, tmp_path, monkeypatch):
    page_commands.named_files(tmp_path)
    calls = page_commands.python_calls(PAGES[page], tmp_path)
    assert len(calls) >= len([command for command in commands(PAGES[page]) if "python " in command])
    monkeypatch.chdir(tmp_path)
    for words, variables in calls:
        try:
            page_commands.parse(words, variables, monkeypatch)
        except SystemExit as ended:
            pytest.fail(f"{words}: {ended}")
