"""The charts of a report as Vega-Lite dictionaries: one definition for the document and the page.

Every chart is made of horizontal bars with their label on the left and their number, already
written in the reader's language, on the right: readable with fifteen causes, and no axis is needed.
Colours are those of `COLOURS`, by name of what they mean.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from unicodedata import category, east_asian_width

from msgspec import Struct

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
FONT = "system-ui, sans-serif"

Tone = Literal["held", "nominal", "loss", "gain", "past", "new"]
TONES: tuple[Tone, ...] = ("held", "nominal", "loss", "gain", "past", "new")
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
    "exchange": "#7a57b0",
    "backward": "#0c6b72",
    "weight": "#5b7a1f",
    "pair": "#a33a7c",
    "paper": "#fefefe",
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
    """How wide a chart of a document is drawn: the same for a screen and for a telephone.

    `is_stacked`: labels stand above their bars, where beside them they would be cut off.
    """

    name: str
    label: int
    plot: int
    text: int
    font: int
    is_stacked: bool = False

    @property
    def left(self) -> int:
        """What is to the left of the bars."""
        return 1 if self.is_stacked else self.label + _GAP


# Labels are beside the bars of a screen, and begin where they do: they need a gap.
_GAP = 10
WIDE = Width("wide", 225, 335, 200, 13)
# As wide as a telephone of 360 pixels shows it, so that letters have their size
NARROW = Width("narrow", 296, 158, 137, 11, is_stacked=True)
# Rough widths of letters in the size of the font, as wide fonts have them (DejaVu Sans)
_SPACES = " \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
_NARROW_LETTERS = frozenset("iljIft.,:;'|!()[]" + _SPACES)
_WIDE_LETTERS = frozenset("MWmw@%ŒœÆ\N{EM DASH}\N{HORIZONTAL ELLIPSIS}")
_NARROW_EM, _LETTER_EM, _UPPER_EM, _WIDE_EM, _FULL_EM = 0.4, 0.64, 0.73, 0.99, 1.3
# From Devanagari on letters may be as wide as they like.
_OTHER_SCRIPTS, _PUNCTUATION = 0x0900, 0x1E00
# What joins or parts the letters of some scripts, and joins pictures to one: nothing between others
_JOINERS = "\u200c\u200d"
_JOINED = re.compile(
    r"(?<=[^\s\u0000-\u02ff\u2000-\u206f])[\u200c\u200d](?=[^\s\u0000-\u02ff\u2000-\u206f])"
)
_ROW = 27
_PAIRED_ROW = 15
_ROWS: Spec = {
    "field": "row",
    "type": "ordinal",
    "axis": None,
    "scale": {"paddingInner": 0.28, "paddingOuter": 0.1},
}
_LIVE_ROWS: Spec = _ROWS | {
    "scale": {"paddingInner": {"expr": "is_narrow ? 0.6 : 0.28"}, "paddingOuter": 0.1}
}
_STACKED_ROW = 36
_STACKED_ROWS: Spec = _ROWS | {"scale": {"paddingInner": 0.6, "paddingOuter": 0.1}}
# Of a label above its bar, in the size of the font; as much is left free above the first one
_ABOVE = 1.55
# A mark stays the same one when its row changes.
_LIVE: Spec = {"key": {"field": "row"}}
_LIVE_ENDS = [{"name": "from", "value": 0}, {"name": "to", "value": 1}]
_LIVE_SCALE: Spec = {"nice": False, "domain": [{"expr": "from"}, {"expr": "to"}]}
# Until the page has measured its element
_LIVE_WIDTH = 300


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
    return bar_chart(
        {"values": values},
        width,
        connected=connected,
        is_paired=is_paired,
        has_intervals=any("low" in value for value in values),
    )


def page_bars(*, connected: bool = False, is_paired: bool = False) -> Spec:
    """The same chart without rows and sizes: a page gives both, and again whenever they change."""
    return bar_chart(
        {"name": "rows"},
        None,
        connected=connected,
        is_paired=is_paired,
        has_intervals=not is_paired,
    )


def bar_chart(
    data: Spec, width: Width | None, *, connected: bool, is_paired: bool, has_intervals: bool
) -> Spec:
    """The chart of these rows; of a page where there is no `width`, which it has as parameters."""
    is_stacked = width is not None and width.is_stacked
    # A pair has its label in the empty row above it.
    stacked = _ROWS if is_paired else _STACKED_ROWS
    rows = _LIVE_ROWS if width is None else stacked if is_stacked else _ROWS
    step = _PAIRED_ROW if is_paired else _STACKED_ROW if is_stacked else _ROW
    layers = [_bar_layer(rows, is_live=width is None), _zero_line()]
    if connected:
        layers.append(_steps(rows))
    if has_intervals:
        layers += _intervals(rows)
    layers += _labels_and_texts(rows, width)
    return {
        "$schema": SCHEMA,
        "width": width.plot if width else _LIVE_WIDTH,
        "height": {"step": step},
        "background": None,
        # Room for texts is fixed: their size is that of the reader's font, not of the renderer's.
        "autosize": "none",
        "padding": {
            "left": width.left if width else _GAP,
            "right": width.text if width else 0,
            "top": 20 if is_stacked else 2,
            "bottom": 2,
        },
        **({} if width else {"params": [*live_parameters(), *_LIVE_ENDS]}),
        "data": data,
        "layer": layers,
        "config": {"aria": False, "font": FONT, "view": {"stroke": None}},
    }


def live_parameters() -> list[Spec]:
    """What a page sets by the room it has; in a narrow one labels stand above their bars."""
    return [
        {"name": "font", "value": 13},
        {"name": "label_room", "value": 200},
        {"name": "text_room", "value": 200},
        {"name": "is_narrow", "value": False},
    ]


def printable(text: str) -> str:
    """The text without what cannot be printed: control characters, reversals of direction.

    Spaces stay, also those that do not break a line, and what joins two letters or pictures.
    """
    joins = {at.start() for at in _JOINED.finditer(text)}
    return "".join(
        letter
        for place, letter in enumerate(text)
        if letter.isprintable() or category(letter) == "Zs" or place in joins
    )


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
    while kept and _belongs(shown, kept):
        kept -= 1
    return shown[:kept].rstrip() + "\N{HORIZONTAL ELLIPSIS}"


def _belongs(text: str, place: int) -> bool:
    """Whether this letter is part of the one before it: an accent, a joined picture."""
    is_part = category(text[place])[0] == "M" or text[place] in _JOINERS
    return is_part or text[place - 1] in _JOINERS


def _em(letter: str) -> float:
    """About how wide it is, in the size of the font: rather too much than too little."""
    if letter in _JOINERS:
        return 0
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


def _bar_layer(rows: Spec, *, is_live: bool) -> Spec:
    return {
        "mark": {"type": "bar", "cornerRadius": 2},
        "encoding": {
            "y": rows,
            "x": {
                "field": "start",
                "type": "quantitative",
                "axis": None,
                "scale": _LIVE_SCALE if is_live else {"nice": False, "zero": True},
            },
            "x2": {"field": "end"},
            "color": {
                "field": "tone",
                "type": "nominal",
                "legend": None,
                "scale": {"domain": [*TONES], "range": [COLOURS[tone] for tone in TONES]},
            },
            **(_LIVE if is_live else {}),
        },
    }


def _steps(rows: Spec) -> Spec:
    """From the end of each bar down to the next one."""
    return {
        "transform": [{"filter": "isValid(datum.next)"}],
        "mark": {"type": "rule", "color": COLOURS["quiet"], "strokeDash": [2, 2]},
        "encoding": {
            "x": {"field": "end", "type": "quantitative"},
            "y": rows,
            "y2": {"field": "next"},
        },
    }


def _intervals(rows: Spec) -> list[Spec]:
    has_interval = [{"filter": "isValid(datum.low)"}]
    place = {"y": rows, "x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}}
    rule = {
        "transform": has_interval,
        "mark": {"type": "rule", "color": COLOURS["ink"], "strokeWidth": 1.5},
        "encoding": place,
    }
    ends = [
        {
            "transform": has_interval,
            "mark": {"type": "tick", "color": COLOURS["ink"], "height": 9, "thickness": 1.5},
            "encoding": {"y": rows, "x": {"field": field, "type": "quantitative"}},
        }
        for field in ("low", "high")
    ]
    return [rule, *ends]


def _labels_and_texts(rows: Spec, width: Width | None) -> list[Spec]:
    if width:
        beside: Spec = {"x": -_GAP, "align": "right"}
        above: Spec = {"x": 0, "dy": -_ABOVE * width.font, "align": "left"}
        place = above if width.is_stacked else beside
        return [
            _text(rows, "label", place | {"fontSize": width.font}),
            _text(rows, "text", {"x": width.plot + _GAP, "align": "left", "fontSize": width.font}),
        ]
    font = {"expr": "font"}
    label = {
        "x": {"expr": f"is_narrow ? 0 : -{_GAP}"},
        "dy": {"expr": f"is_narrow ? -{_ABOVE} * font : 0"},
        "align": {"expr": "is_narrow ? 'left' : 'right'"},
        "limit": {"expr": "label_room"},
        "fontSize": font,
    }
    text = {
        "x": {"expr": f"width + {_GAP}"},
        "align": "left",
        "limit": {"expr": "text_room"},
        "fontSize": font,
    }
    return [_text(rows, "label", label), _text(rows, "text", text)]


def _text(rows: Spec, field: str, how: Spec) -> Spec:
    return {
        "mark": {"type": "text", "baseline": "middle", "color": COLOURS["ink"], **how},
        "encoding": {"y": rows, "text": {"field": field, "type": "nominal"}},
    }
