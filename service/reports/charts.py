"""The charts of a report as Vega-Lite dictionaries: one definition for the document and the page.

Every chart is made of horizontal bars with their label on the left and their number, already
written in the reader's language, on the right: readable with fifteen causes, and no axis is needed.
Colours are those of `COLOURS`, by name of what they mean.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from unicodedata import category, east_asian_width

from msgspec import Struct

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
FONT = "system-ui, sans-serif"

Tone = Literal["held", "nominal", "loss", "gain", "past", "new"]
Spec = dict[str, Any]

# No two names share a colour: images replace them by CSS variables, pages by what they are there.
COLOURS: Mapping[str, str] = {
    "held": "#35658c",
    "nominal": "#8895a1",
    "loss": "#c2410d",
    "gain": "#187a4b",
    "past": "#9aa6b3",
    "new": "#36658d",
    "ink": "#1b2530",
    "quiet": "#55616d",
    "line": "#c9d0d7",
}


class Bar(Struct, frozen=True):
    """A row: what it is, from where to where its bar goes, and what stands beside it."""

    label: str
    start: float
    end: float
    text: str
    tone: Tone
    low: float | None = None
    high: float | None = None


class Width(Struct, frozen=True):
    """How wide a chart is drawn: the same chart for a page and for a telephone."""

    name: str
    label: int
    plot: int
    text: int
    font: int


WIDE = Width("wide", 225, 335, 200, 13)
NARROW = Width("narrow", 116, 98, 126, 11)
# Rough widths of letters in the size of the font, as wide fonts have them (DejaVu Sans)
_SPACES = " \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
_NARROW_LETTERS = frozenset("iljIft.,:;'|!()[]" + _SPACES)
_WIDE_LETTERS = frozenset("MWmw@%ŒœÆ\N{EM DASH}\N{HORIZONTAL ELLIPSIS}")
_NARROW_EM, _LETTER_EM, _UPPER_EM, _WIDE_EM, _FULL_EM = 0.4, 0.64, 0.73, 0.99, 1.3
# From Devanagari on letters may be as wide as they like.
_OTHER_SCRIPTS, _PUNCTUATION = 0x0900, 0x1E00
_ROW = 27
_PAIRED_ROW = 15
_ROWS: Spec = {
    "field": "row",
    "type": "ordinal",
    "axis": None,
    "scale": {"paddingInner": 0.28, "paddingOuter": 0.1},
}
_GAP = 10


def bars(
    rows: Sequence[Bar],
    width: Width = WIDE,
    *,
    connected: bool = False,
    is_paired: bool = False,
) -> Spec:
    """A row a bar, in the order given; of pairs (before, now) rows are closer to each other.

    `connected` draws a thin line from the end of each bar to the next (a waterfall). Rows with
    `low` and `high` get an interval over their bar.
    """
    values = [
        {
            "row": row,
            "label": shortened(bar.label, width.label / width.font),
            "start": bar.start,
            "end": bar.end,
            "text": shortened(bar.text, width.text / width.font),
            "tone": bar.tone,
            **({"next": row + 1} if connected and row + 1 < len(rows) else {}),
            **({} if bar.low is None or bar.high is None else {"low": bar.low, "high": bar.high}),
        }
        for row, bar in enumerate(rows)
    ]
    layers = [_bar_layer(), _zero_line()]
    if connected:
        layers.append(_steps())
    if any("low" in value for value in values):
        layers += _intervals()
    layers += [
        _texts("label", -_GAP, "right", width),
        _texts("text", width.plot + _GAP, "left", width),
    ]
    return {
        "$schema": SCHEMA,
        "width": width.plot,
        "height": {"step": _PAIRED_ROW if is_paired else _ROW},
        "background": None,
        # Room for texts is fixed: their size is that of the reader's font, not of the renderer's.
        "autosize": "none",
        "padding": {"left": width.label + _GAP, "right": width.text, "top": 2, "bottom": 2},
        "data": {"values": values},
        "layer": layers,
        "config": {"aria": False, "font": FONT, "view": {"stroke": None}},
    }


def printable(text: str) -> str:
    """The text without what cannot be printed: control characters, reversals of direction.

    Spaces stay, also those that do not break a line.
    """
    return "".join(letter for letter in text if letter.isprintable() or category(letter) == "Zs")


def shortened(text: str, most_em: float) -> str:
    """So wide at most, with dots at its end where something is left out; only what can be printed.

    The renderer dies of control characters, and fails where it cuts a character in two.
    """
    shown = printable(text)
    if sum(map(_em, shown)) <= most_em:
        return shown
    left, kept = most_em - _WIDE_EM, 0
    while _em(shown[kept]) <= left:
        left -= _em(shown[kept])
        kept += 1
    return shown[:kept].rstrip() + "\N{HORIZONTAL ELLIPSIS}"


def _em(letter: str) -> float:
    """About how wide it is, in the size of the font: rather too much than too little."""
    if east_asian_width(letter) in {"W", "F"}:
        return _FULL_EM
    if letter in _NARROW_LETTERS:
        return _NARROW_EM
    if letter in _WIDE_LETTERS or _OTHER_SCRIPTS <= ord(letter) < _PUNCTUATION:
        return _WIDE_EM
    return _UPPER_EM if letter.isupper() else _LETTER_EM


def _zero_line() -> Spec:
    return {
        "mark": {"type": "rule", "color": COLOURS["line"]},
        "encoding": {"x": {"datum": 0, "type": "quantitative"}},
    }


def _bar_layer() -> Spec:
    tones = [name for name in COLOURS if name in {"held", "nominal", "loss", "gain", "past", "new"}]
    return {
        "mark": {"type": "bar", "cornerRadius": 2},
        "encoding": {
            "y": _ROWS,
            "x": {
                "field": "start",
                "type": "quantitative",
                "axis": None,
                "scale": {"nice": False, "zero": True},
            },
            "x2": {"field": "end"},
            "color": {
                "field": "tone",
                "type": "nominal",
                "legend": None,
                "scale": {"domain": tones, "range": [COLOURS[tone] for tone in tones]},
            },
        },
    }


def _steps() -> Spec:
    """From the end of each bar down to the next one."""
    return {
        "transform": [{"filter": "isValid(datum.next)"}],
        "mark": {"type": "rule", "color": COLOURS["quiet"], "strokeDash": [2, 2]},
        "encoding": {
            "x": {"field": "end", "type": "quantitative"},
            "y": _ROWS,
            "y2": {"field": "next"},
        },
    }


def _intervals() -> list[Spec]:
    has_interval = [{"filter": "isValid(datum.low)"}]
    place = {"y": _ROWS, "x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}}
    rule = {
        "transform": has_interval,
        "mark": {"type": "rule", "color": COLOURS["ink"], "strokeWidth": 1.5},
        "encoding": place,
    }
    ends = [
        {
            "transform": has_interval,
            "mark": {"type": "tick", "color": COLOURS["ink"], "height": 9, "thickness": 1.5},
            "encoding": {"y": _ROWS, "x": {"field": field, "type": "quantitative"}},
        }
        for field in ("low", "high")
    ]
    return [rule, *ends]


def _texts(field: str, x: int, align: str, width: Width) -> Spec:
    return {
        "mark": {
            "type": "text",
            "x": x,
            "align": align,
            "baseline": "middle",
            "color": COLOURS["ink"],
            "fontSize": width.font,
        },
        "encoding": {"y": _ROWS, "text": {"field": field, "type": "nominal"}},
    }
