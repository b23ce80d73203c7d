"""Trainable parameters of every preset, beside the paper's Table 2: ``python -m fairseq_idpg.count --arch ARCH``.

The modules are built on torch's meta device, so nothing is loaded or allocated. The head is not counted. The paper's K
is 1,024. With options of methods, such as --prompt-length 10, only presets that take them are listed.
"""

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

from .errors import command_parser, logged_command

ARCHITECTURES = ("roberta_idpg", *(f"roberta_idpg_{size}" for size in ("base", "large", "minilm")))
GLOVE_WIDTH = 300
ROBERTA_SYMBOLS = 50265
SYMBOLS = {"roberta_idpg_minilm": 30522}  # symbols with <mask>, where the dictionary is not RoBERTa's


def architecture(name: str, method: str, **options: Any) -> argparse.Namespace:
    """Return the options of ``--arch NAME --method METHOD``, with ``options`` in place of the preset's."""
    from . import plugin  # noqa: F401  torch and fairseq, which --help does without
    from .methods.registry import find_preset
    from .models.config import fill_method_options, open_options
    from .models.roberta_idpg import ARCH_CONFIG_REGISTRY, GLOVE, base_architecture

    args = open_options(method=method, **{"max_positions": 512, **options})
    ARCH_CONFIG_REGISTRY[name](args)
    base_architecture(args)
    if find_preset(method).defaults.get("representation") == GLOVE:
        args.representation_width = GLOVE_WIDTH
    fill_method_options(args)
    return args


class Count(NamedTuple):
    preset: str
    own: int  # of the method itself
    of_backbone: int  # weights of the backbone that are trained with it
    share: float  # both together, as a part of the backbone
    paper: str  # the paper's count for RoBERTa-large
    folded: int  # numbers of ``own`` that a trained method still needs


def backbone_sizes(args: argparse.Namespace, symbols: int = ROBERTA_SYMBOLS) -> dict[str, int]:
    """Return name -> size of the encoder's parameters, embeddings and layers, without its LM head."""
    width, inner = args.encoder_embed_dim, args.encoder_ffn_embed_dim
    attention = [(f"self_attn.{part}_proj", width, width) for part in ("k", "v", "q", "out")]
    norms = [(f"{place}_layer_norm", width, 1) for place in ("self_attn", "final")]
    in_layer = [*attention, ("fc1", inner, width), ("fc2", width, inner), *norms]
    parts = [(f"layers.{i}.{name}", *shape) for i in range(args.encoder_layers) for name, *shape in in_layer]
    sizes = {"embed_tokens.weight": symbols * width, "embed_positions.weight": (args.max_positions + 2) * width}
    for name, outputs, inputs in [("layernorm_embedding", width, 1), *parts]:
        sizes.update({f"{name}.weight": outputs * inputs, f"{name}.bias": outputs})
    return sizes


def count_preset(arch: str, preset: str, symbols: int | None = None, **options: Any) -> Count:
    """Count one preset, or several joined by +; ``options`` override its own, ``symbols`` (V) the architecture's."""
    args = architecture(arch, preset, **options)
    from .methods.registry import find_preset
    from .models.size import method_of

    method, sizes = method_of(args), backbone_sizes(args, symbols or SYMBOLS.get(arch, ROBERTA_SYMBOLS))
    of_backbone = sum(sizes.values()) if args.no_freeze_backbone else 0
    own = folded = 0
    if method is not None:
        own = folded = sum(parameter.numel() for parameter in method.parameters())
        if method.own_encoder:
            own = folded = own + sum(sizes.values())
        of_backbone = of_backbone or sum(size for name, size in sizes.items() if method.trains(name))
        if method.training_only:
            kept = [each for name, each in method.state_dict().items() if not name.startswith(method.training_only)]
            folded = sum(each.numel() for each in kept)
    paper = find_preset(preset).paper if arch == "roberta_idpg_large" else ""
    return Count(preset, own, of_backbone, (own + of_backbone) / sum(sizes.values()), paper, folded)


def counts(arch: str, presets: Sequence[str] = (), **options: Any) -> list[Count]:
    from . import plugin  # noqa: F401
    from .methods.registry import PRESETS

    return sorted((count_preset(arch, name, **options) for name in presets or PRESETS), key=lambda row: row.share)


def backbone_options(path: str) -> dict[str, Any]:
    """Return the sizes of a backbone's file, for ``count_preset``."""
    from .saving.backbone_file import backbone_path, read_backbone

    backbone = read_backbone(backbone_path(path))
    tables = {name.rpartition("embed_")[2]: len(table) for name, table in backbone.weights.items() if ".embed_" in name}
    rows = {"symbols": tables["tokens.weight"], "max_positions": tables["positions.weight"] - 2}
    return {**backbone.sizes, **rows}


@logged_command()
def main(argv: Sequence[str] | None = None) -> None:
    parser = command_parser("count", __doc__, "--arch roberta_idpg_base")
    size = "size of the backbone (default: %(default)s)"
    parser.add_argument("--arch", choices=ARCHITECTURES, default="roberta_idpg_large", help=size)
    parser.add_argument("--backbone", metavar="FILE", help="model.pt whose sizes are taken instead")
    parser.add_argument("--method", metavar="NAME", help="this preset alone, or several joined by +")
    parser.add_argument("--method-file", metavar="FILE", help="Python file of a method outside of the package")
    args, words = parser.parse_known_args(argv)
    from fairseq.dataclass.utils import gen_parser_from_dataclass

    from . import plugin  # noqa: F401
    from .methods.registry import PRESETS
    from .models.config import METHOD_OPTIONS, RobertaIDPGConfig, use_method_file

    use_method_file(args.method_file)
    of_methods = argparse.ArgumentParser(parser.prog, allow_abbrev=False)
    gen_parser_from_dataclass(of_methods, RobertaIDPGConfig())
    given = vars(of_methods.parse_args(words))
    options = {name: given[name] for name in METHOD_OPTIONS if given.get(name) is not None}
    presets = [name for name, preset in PRESETS.items() if options.keys() <= preset.options.keys()]
    sizes = backbone_options(args.backbone) if args.backbone else {}
    rows = counts(args.arch, [args.method] if args.method else presets, **sizes, **options)
    print(f"{'method':28}{'own':>14}{'of backbone':>14}{'share':>10}{'folded':>12}{'paper':>8}")
    for row in rows:
        folded = f"{row.folded:,}" if row.folded != row.own else ""
        print(f"{row.preset:28}{row.own:14,}{row.of_backbone:14,}{row.share:10.3%}{folded:>12}{row.paper:>8}")


if __name__ == "__main__":
    main()
