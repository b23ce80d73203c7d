"""Tables of the pages, made from the dataclasses and the registry: ``python -m fairseq_idpg.options_table``.

``fairseq-train --help`` does not show options of plugins, so OPTIONS.md holds what this prints. ``--write`` puts that
and METHODS.md's table into the pages, between their comments; a test compares them.
"""

# ruff: noqa: E402
import inspect
import re
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Sequence
from dataclasses import Field, fields
from enum import Enum
from itertools import product
from pathlib import Path
from typing import Any, get_args

from .errors import InputError, command_parser, logged_command


def build_parser() -> ArgumentParser:
    parser = command_parser("options_table", __doc__, "> options.md")
    parser.add_argument("--write", action="store_true", help="write the tables into the pages of this checkout")
    return parser


if __name__ == "__main__":  # --help and a slip come before torch and fairseq, which take seconds
    build_parser().parse_args()

from . import plugin  # noqa: F401  before fairseq, whose messages it keeps off

# isort: split
import torch
from fairseq.criterions.sentence_prediction import SentencePredictionConfig as CriterionConfig
from fairseq.optim.adam import FairseqAdamConfig
from fairseq.tasks.sentence_prediction import SentencePredictionConfig

from preprocess.flags import flag_name

from .count import architecture, count_preset
from .criterions.sentence_prediction_idpg import SentencePredictionIDPGCriterionConfig
from .methods.base import Geometry
from .methods.prompts.base import PromptMethod
from .methods.prompts.idpg import IDPG
from .methods.prompts.task_prompts import NETWORKS
from .methods.registry import PRESETS, Preset, find_preset
from .models.config import METHOD_OPTIONS, RobertaIDPGConfig, fill_method_options, open_options
from .models.prepare import check_method_effects
from .models.size import method_of
from .optim.grouped_adam import GroupedAdamConfig
from .representations.kinds import GLOVE
from .tasks.config import SentencePredictionIDPGConfig

BAR = r"\|"  # a bar inside a cell
LARGE = "roberta_idpg_large"
PLACES_SAY = (
    "What a prompt is made of and where it enters (`--prompt-insertion` `--prompt-layers`) are chosen apart. A list of "
    "layers may stand where `all` does, a single one where `middle` does; `add` and `replace` need layer 0, the input. "
    "What is refused ends with the line of that number:"
)
FAMILIES = {
    "IDPG": "a generator makes the prompt from M(x), the frozen backbone's state of a text, or a state below a layer",
    "Other prompts made from the input": "other networks read the input, or weigh or choose among stored prompts",
    "One prompt for all inputs": "rows, or keys and values, that no input changes",
    "Adapters and weights": "small layers within the backbone, or changes of its weights",
    "Baselines": "the head alone, or the whole backbone",
}
TITLES = (
    "Task `sentence_prediction_idpg`, besides fairseq's `sentence_prediction`:",
    "Criterion `sentence_prediction_idpg`, besides fairseq's `sentence_prediction`:",
    "Model `roberta_idpg` (sizes are those of `--arch roberta_idpg` and `roberta_idpg_base`):",
    "Optimizer `grouped_adam`, besides those of fairseq's `adam`:",
    "Methods; an option that the chosen `--method` does not have is refused:",
)


def values_of(field: Field) -> list[str]:
    """Return the values of an option with a choice, and an empty list for other options."""
    kind: Any = next(iter(get_args(field.type)), field.type)
    return [str(value.value) for value in kind] if isinstance(kind, type) and issubclass(kind, Enum) else []


def option_row(field: Field) -> str:
    """Return name, default and help of an option, and its values if the help does not name them all."""
    default: Any = field.metadata.get("preset_default", field.default)
    if str(default).startswith("${"):  # the value of another option
        default = "none"
    default = "off" if default is False else f"{default:g}" if isinstance(default, float) else str(default)
    text = field.metadata["help"]
    values = values_of(field)
    if any(value != default and not re.search(rf"\b{value}\b", text) for value in values):
        text = f"{text}: {', '.join(values)}"
    return f"| `{flag_name(field.name)}` | {default} | {text.replace('|', BAR)} |"


def options_markdown() -> str:
    """Return the options of task, criterion, model and methods, and the places where prompts may stand."""
    of_model = new_fields(RobertaIDPGConfig)
    parts = (
        new_fields(SentencePredictionIDPGConfig, SentencePredictionConfig),
        new_fields(SentencePredictionIDPGCriterionConfig, CriterionConfig),
        [field for field in of_model if field.name not in METHOD_OPTIONS],
        new_fields(GroupedAdamConfig, FairseqAdamConfig),
        [field for field in of_model if field.name in METHOD_OPTIONS],
    )
    head = ["", "| option | default | |", "| --- | --- | --- |"]
    lines = [line for title, part in zip(TITLES, parts) for line in (title, *head, *map(option_row, part), "")]
    return "\n".join([*lines, PLACES_SAY, "", places_markdown()])


def new_fields(config: type, fairseqs: type | None = None) -> list[Field]:
    """Return the options of a dataclass with a help text that fairseq's own does not have."""
    inherited = set() if fairseqs is None else {field.name for field in fields(fairseqs)}
    return [field for field in fields(config) if "help" in field.metadata and field.name not in inherited]


PREFIXED = product(("key-value", "key-value-input", "late"), ("first", "middle", "all"))
COLUMNS = [("add", "first"), ("add", "all"), ("replace", "all"), *PREFIXED]  # --prompt-insertion, --prompt-layers
INPUTS = ("states", "words", "embeddings", "last")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def refusal(generator: dict[str, Any], insertion: str, layers: str) -> str | None:
    """Return the line with which a run of these options ends, None if it starts."""
    sizes = Geometry(layers=3, width=64, inner=64)  # small: refusals do not depend on them
    args: Any = open_options(**generator, prompt_insertion=insertion, prompt_layers=layers)
    if find_preset(args.method).defaults.get("representation") == GLOVE:
        args.representation_width = sizes.width
    try:
        fill_method_options(args)
        with torch.device("meta"):
            check_method_effects(args, find_preset(args.method).build(args, sizes))
    except InputError as error:
        return str(error)
    return None


def places_markdown() -> str:
    """Return a row for the presets of prompts with the same places, a column for each place, and numbered refusals."""
    known: dict[str, int] = {}
    rows: dict[tuple[str, ...], list[str]] = {}
    for name, preset in sorted(PRESETS.items()):
        if not preset.methods or not all(issubclass(method, PromptMethod) for method in preset.methods):
            continue
        reads = [{"generator_input": read} for read in INPUTS] if "generator_input" in preset.options else [{}]
        for options in reads:
            lines = [refusal({"method": name, **options}, *place) for place in COLUMNS]
            cells = ["yes" if line is None else f"no ({known.setdefault(line, len(known) + 1)})" for line in lines]
            typed = [f"{flag_name(option)} {value}" for option, value in options.items()]
            rows.setdefault(tuple(cells), []).append(f"`{' '.join([name, *typed])}`")
    head = ["`--method`", *(f"`{insertion}` `{layers}`" for insertion, layers in COLUMNS)]
    numbered = [f"{number}. `{line}`" for line, number in known.items()]
    return "\n".join([table(head, ([", ".join(alike), *cells] for cells, alike in rows.items())), "", *numbered])


def equation(preset: Preset) -> str:
    """Return the first paragraphs of the docstrings of a preset's classes and of the network that makes its prompt."""
    if not preset.methods:
        return "all weights of the backbone are trained" if preset.trains_backbone else "nothing is injected"
    make = NETWORKS.get(str(preset.defaults.get("prompt_reparameterization")))
    parts = [inspect.cleandoc(each.__doc__ or "").split("\n\n")[0] for each in preset.methods]
    parts += [] if make is None else [f"In training {(make(1, 2, 2, 1).__doc__ or '').splitlines()[0]}"]
    text = re.sub(r" (Trainable|No) parameters.*", "", " ".join(" ".join(parts).split()))
    return text.replace("``", "`").replace("|", BAR)


def as_range(layers: re.Match) -> str:
    """``3,4,5`` -> ``3 to 5``."""
    first, *_, last = numbers = list(map(int, layers[0].split(",")))
    return f"{first} to {last}" if numbers == list(range(first, last + 1)) else layers[0]


def methods_markdown() -> str:
    """Return a row for each preset: its equation, place, settings, counts and file."""
    head = ("`--method`", "equation", "where it enters", "sets", "trainable, RoBERTa-large", "paper", "file")
    rows = []
    for name, preset in sorted(PRESETS.items()):
        row, method = count_preset(LARGE, name), method_of(architecture(LARGE, name))
        place = "" if method is None else re.sub(r"\d+(,\d+){2,}", as_range, method.describe())
        trained = f"{row.own:,}" + (f" and {row.of_backbone:,} of the backbone" if row.of_backbone else "")
        trained += f", folded {row.folded:,}" if row.folded != row.own else ""
        settings = " ".join(f"`{flag_name(key)} {value}`" for key, value in preset.settings.items())
        file = preset.module.partition(".methods.")[2].replace(".", "/")
        link = f"[{file}](methods/{file}.py)"
        rows.append((f"`{name}`", equation(preset), place, settings, trained, preset.paper, link))
    return table(head, rows)


def family(preset: Preset) -> str:
    """Return the family of methods under which README lists a preset, one of ``FAMILIES``."""
    methods = preset.methods
    if not methods or any(method.hides_pass for method in methods):
        return "Baselines"
    if not all(issubclass(method, PromptMethod) for method in methods):
        return "Adapters and weights"
    if any(issubclass(method, IDPG) for method in methods):
        return "IDPG"
    # a method whose prompt depends on the input has its own way to show rows without an example
    fixed: Any = PromptMethod.shows_no_example
    alike = all(method.shows_no_example == fixed for method in methods if issubclass(method, PromptMethod))
    return "One prompt for all inputs" if alike else "Other prompts made from the input"


def families_markdown() -> str:
    """Return a row for each family: what it trains, and its presets."""
    names: dict[str, list[str]] = {kind: [] for kind in FAMILIES}
    for name, preset in sorted(PRESETS.items()):
        names[family(preset)].append(f"`{name}`")
    rows = [(kind, FAMILIES[kind], ", ".join(each)) for kind, each in names.items()]
    return table(("family", "what is trained", "`--method`"), rows)


READS = {  # kind of M(x), or what a generator reads in the pass
    "backbone": "M(x), the frozen backbone's last `<s>` state",
    "previous-layer": "`<s>` below each layer of this pass",
    "mean-pooled": "the mean of the frozen backbone's last states",
    GLOVE: "word vectors",
    "words": "the text's word embeddings",
    "states": "the states below the layer of the prompt",
}


def tree_markdown() -> str:
    """Return a row for each preset whose prompt depends on the input, by what it reads and how it is made."""
    rows = []
    for name, preset in PRESETS.items():
        if family(preset) not in ("IDPG", "Other prompts made from the input"):
            continue
        method: Any = method_of(architecture(LARGE, name))
        reads = READS[method.representation or preset.defaults.get("generator_input", "words")]
        own = method.shared and method.shared != IDPG.shared
        choice = method.describe().removeprefix(PromptMethod.describe(method))  # of rows, as smop's
        made = f"from stored rows{choice}" if choice else f"from {method.shared}" if own else "every row, for the input"
        place = "late" if method.insertion == "late" else "input" if method.places == (0,) else "every layer"
        source = re.search(r"https://\S*\w", sys.modules[preset.module].__doc__ or "")
        link = f"<{source[0]}>" if source else ""
        rows.append((reads, made, place, f"`{name}`", f"{count_preset(LARGE, name).own:,}", link))
    head = ("the prompt reads", "how it is made", "where it enters", "`--method`", "trainable, RoBERTa-large", "source")
    return table(head, sorted(rows, key=lambda row: (list(READS.values()).index(row[0]), row[1:])))


# --- the pages

HERE = Path(__file__).parent
PARTS: list[tuple[Path, str, Callable[[], str]]] = [  # page, the comment in front of a part, what makes the part
    (HERE / "OPTIONS.md", "options", options_markdown),
    (HERE / "METHODS.md", "methods", methods_markdown),
    (HERE / "METHODS.md", "tree", tree_markdown),
    (HERE.parent / "README.md", "methods", families_markdown),
]


def part_of(page: Path, marker: str) -> re.Match:
    """Return the match of all between ``<!-- marker -->`` and ``<!-- end -->`` in a page."""
    part = re.search(rf"(?<=<!-- {marker} -->\n).*?(?=<!-- end -->)", page.read_text("utf-8"), flags=re.DOTALL)
    assert part, f"{page} has no {marker}"
    return part


def main(argv: Sequence[str] | None = None) -> None:
    if not build_parser().parse_args(argv).write:
        print(options_markdown())
        return
    for page, marker, make in PARTS:
        part = part_of(page, marker)
        page.write_text(f"{part.string[: part.start()]}{make()}\n{part.string[part.end() :]}", "utf-8")


if __name__ == "__main__":
    with logged_command():
        main()
