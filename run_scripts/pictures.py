"""Draws the pages' pictures as SVG: ``python -m run_scripts.pictures``.

``idea.svg``: how a prompt is made from an input, and where it stands. ``families.svg``: where each family of methods
enters a layer.
"""

from html import escape
from pathlib import Path

FOLDER = Path(__file__).with_name("pictures")
FROZEN, TRAINED, TEXT, PLAIN = "#dbe7f3", "#f6b26b", "#222222", "#f4f4f4"
LINE, FAINT = "#555555", "#8a8a8a"


class Drawing:
    """Boxes, arrows and words on a white ground; all sizes in pixels."""

    def __init__(self, width: int, height: int, title: str):
        self.width, self.height, self.title = width, height, title
        self.parts: list[str] = []

    def box(
        self, x: float, y: float, width: float, height: float, words: str, fill: str = PLAIN, size: int = 14
    ) -> None:
        """A rounded box with one line of words, or several that are separated by a bar."""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" stroke="{LINE}"/>'
        )
        lines = words.split("|")
        for number, line in enumerate(lines):
            middle = y + height / 2 + (number - (len(lines) - 1) / 2) * (size + 3) + size * 0.35
            self.words(x + width / 2, middle, line, size)

    def words(self, x: float, y: float, words: str, size: int = 14, anchor: str = "middle", fill: str = TEXT) -> None:
        self.parts.append(
            f'<text x="{x}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{fill}">{escape(words)}</text>'
        )

    def arrow(self, *points: tuple[float, float]) -> None:
        """A line through the points, with a head at the last."""
        path = " ".join(f"{x},{y}" for x, y in points)
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{LINE}" stroke-width="1.5" marker-end="url(#head)"/>'
        )

    def svg(self) -> str:
        head = (
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto">'
            f'<path d="M0,0 L8,4 L0,8 z" fill="{LINE}"/></marker></defs>'
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" font-family="Helvetica, Arial, sans-serif" role="img">\n'
            f"<title>{escape(self.title)}</title>\n{head}\n"
            f'<rect width="{self.width}" height="{self.height}" fill="white"/>\n' + "\n".join(self.parts) + "\n</svg>\n"
        )


def idea() -> Drawing:
    """Input, frozen RoBERTa, M(x), generator, prompt rows, the same RoBERTa, label; and the places 0 to 4."""
    drawing = Drawing(860, 330, "A prompt is made from each input and read by the same frozen RoBERTa")
    top, height = 40, 54
    drawing.box(20, top, 110, height, "input x")
    drawing.box(180, top, 130, height, "RoBERTa|(frozen)", FROZEN)
    drawing.box(360, top, 90, height, "M(x)")
    drawing.box(500, top, 130, height, "generator|(trained)", TRAINED)
    for row in range(5):
        drawing.box(690 + 26 * row, top + 14, 22, 26, "", TRAINED)
    drawing.words(753, top + 58, "prompt: t rows of width d", 13)
    for start, end in ((130, 180), (310, 360), (450, 500), (630, 684)):
        drawing.arrow((start, top + height / 2), (end, top + height / 2))
    # The sequence that the second pass reads: the prompt stands at one of the places 0 to 4.
    left, level = 20, 160
    places: list[float] = []
    for words in ("<s>", "0", "sentence A", "1", "</s>", "2", "sentence B", "3", "</s>", "4"):
        if words.isdigit():
            drawing.box(left, level, 28, 36, words, TRAINED)
            places.append(left + 14)
            left += 34
        else:
            width = 96 if words.startswith("sentence") else 44
            drawing.box(left, level, width, 36, words)
            left += width + 6
    drawing.arrow((753, 106), (753, 130), (places[0], 130), (places[0], level - 2))
    drawing.words(places[0] + 12, 146, "one of five places: 0 to 4", 13, "start", FAINT)
    middle = (left + 20) / 2
    drawing.box(
        20, 230, left - 26, 44, "the same RoBERTa (frozen): the prompt enters the input, or every layer", FROZEN
    )
    drawing.arrow((middle, level + 36), (middle, 228))
    drawing.box(left + 44, 225, 100, 54, "head|(trained)", TRAINED)
    drawing.arrow((left - 6, 252), (left + 42, 252))
    drawing.words(left + 18, 244, "<s>", 12)
    drawing.box(left + 190, 230, 80, 44, "label")
    drawing.arrow((left + 144, 252), (left + 188, 252))
    drawing.box(20, 296, 16, 16, "", FROZEN)
    drawing.words(44, 309, "frozen", 13, "start")
    drawing.box(110, 296, 16, 16, "", TRAINED)
    drawing.words(134, 309, "trained: 137,232 numbers beside RoBERTa-large's 355 million (M-IDPG-PHM)", 13, "start")
    return drawing


def families() -> Drawing:
    """One layer of the encoder, from the states below it to those above, with the slots and who fills them."""
    drawing = Drawing(860, 420, "Where each family of methods enters a layer of the frozen encoder")
    x, width = 325, 220
    blocks = [(340, "states that enter the layer"), (250, "attention: q, k, v, out"), (180, "+ and LayerNorm")]
    blocks += [(110, "feed-forward: fc1, fc2"), (40, "+ and LayerNorm")]
    for y, words in blocks:
        drawing.box(x, y, width, 44, words, PLAIN if y == 340 else FROZEN)
    for (lower, _), (upper, _) in zip(blocks, blocks[1:]):
        drawing.arrow((x + width / 2, lower), (x + width / 2, upper + 46))
    drawing.arrow((x + width / 2, 40), (x + width / 2, 14))
    entries = [
        (340, "left", "rows of the input, or of every layer:|IDPG, prompt-tuning, P-tuning v2, SMoP"),
        (250, "left", "keys and values: prefix-tuning,|p-tuning-v2-kv, MAM"),
        (250, "right", "beside projections: LoRA;|beside heads: multi-head adapters"),
        (180, "right", "after attention: adapter, compacter"),
        (110, "right", "beside it: parallel adapters;|after it: adapter, compacter, AdaMix"),
        (340, "right", "late rows, from one layer on:|LPT, ID-SPAM"),
        (40, "right", "biases, LayerNorms: BitFit"),
    ]
    for y, side, words in entries:
        start, end = (275, x - 2) if side == "left" else (595, x + width + 2)
        drawing.box(10 if side == "left" else 595, y - 4, 265 if side == "left" else 255, 52, words, "white", 12)
        drawing.arrow((start, y + 22), (end, y + 22))
    return drawing


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for draw in (idea, families):
        (FOLDER / f"{draw.__name__}.svg").write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
