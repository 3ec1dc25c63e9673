"""Timelines as Vega-Lite dictionaries: rows of GPUs or of pipeline stages over time.

Rows are placed in pixels, not by a list of their names: a thousand of them may be thinner than one.
A page fills `rows` (a label and a text for each) and `segments` (what is done from when to when);
its parameters are those of the bars, which time is shown, and how high rows are.
"""

from service.reports.charts import COLOURS, FONT, SCHEMA, Spec, live_parameters

GPU_KINDS = {"load": "nominal", "compute": "held", "wait": "loss", "exchange": "exchange"}
OPERATION_KINDS = {
    "load": "nominal",
    "pass": "past",
    "wait": "loss",
    "exchange": "exchange",
    "forward": "held",
    "backward": "backward",
    "backward_input": "backward",
    "backward_weight": "weight",
    "forward_backward": "pair",
}
_GAP = 10


def gpu_timeline() -> Spec:
    """A row a GPU: loading, compute, waiting, exchange; the slowest has a frame."""
    return _timeline(GPU_KINDS)


def pipeline_timeline() -> Spec:
    """A row a stage: its operations, with their micro-batches; gaps are bubbles."""
    return _timeline(OPERATION_KINDS)


def _timeline(kinds: dict[str, str]) -> Spec:
    return {
        "$schema": SCHEMA,
        "width": 300,
        "height": 100,
        "background": None,
        "autosize": "none",
        "padding": {"left": _GAP, "right": 0, "top": 26, "bottom": 2},
        "params": [
            *live_parameters(),
            {"name": "row_height", "value": 20},
            {"name": "begin", "value": 0},
            {"name": "end", "value": 1},
        ],
        "layer": [_bands(kinds), _segments(kinds), _frame(), _names(), *_labels_and_texts()],
        "config": {
            "aria": False,
            "font": FONT,
            "view": {"stroke": None},
            "axis": {
                "domain": False,
                "gridColor": COLOURS["line"],
                "tickColor": COLOURS["line"],
                "labelColor": COLOURS["quiet"],
                "labelFontSize": 12,
            },
        },
    }


def _rows(field: str) -> Spec:
    return {
        "field": field,
        "type": "quantitative",
        "axis": None,
        "scale": {"domain": [0, {"expr": "height"}], "reverse": True, "nice": False},
    }


def _time(field: str) -> Spec:
    return {
        "field": field,
        "type": "quantitative",
        "scale": {"domain": [{"expr": "begin"}, {"expr": "end"}], "nice": False},
        "axis": {
            "orient": "top",
            "title": None,
            "tickCount": {"expr": "max(2, floor(width / 100))"},
            "tickSize": 4,
            "labelFlush": True,
            "labelExpr": "format(datum.value, ',.10~g') + ' ms'",
        },
    }


def _kind(kinds: dict[str, str]) -> Spec:
    return {
        "field": "kind",
        "type": "nominal",
        "legend": None,
        "scale": {"domain": [*kinds], "range": [COLOURS[colour] for colour in kinds.values()]},
    }


def _bands(kinds: dict[str, str]) -> Spec:
    """Rows too thin to be told apart: one shape a kind, of which each row is a step."""
    return {
        "data": {"name": "bands"},
        "mark": {"type": "area", "orient": "horizontal", "interpolate": "step-before"},
        "encoding": {
            "x": _time("start"),
            "x2": {"field": "end"},
            "y": _rows("row"),
            "color": _kind(kinds),
        },
    }


def _segments(kinds: dict[str, str]) -> Spec:
    return {
        "data": {"name": "segments"},
        "mark": {
            "type": "rect",
            "cornerRadius": {"expr": "row_height > 12 ? 2 : 0"},
            # Neighbours of one kind are told apart.
            "stroke": COLOURS["paper"],
            "strokeWidth": {"expr": "row_height > 12 ? min(0.75, width / 1000) : 0"},
        },
        "encoding": {
            "x": _time("start"),
            "x2": {"field": "end"},
            "y": _rows("top"),
            "y2": {"field": "bottom"},
            "color": _kind(kinds),
            "key": {"field": "key"},
        },
    }


def _frame() -> Spec:
    """Around what is slowest: not by colour alone."""
    return {
        "data": {"name": "marked"},
        "mark": {
            "type": "rect",
            "filled": False,
            "stroke": COLOURS["ink"],
            "strokeWidth": 1.5,
            "cornerRadius": 2,
        },
        "encoding": {
            "x": _time("start"),
            "x2": {"field": "end"},
            "y": _rows("top"),
            "y2": {"field": "bottom"},
            "key": {"field": "row"},
        },
    }


def _names() -> Spec:
    """In segments that have room for one."""
    return {
        "data": {"name": "names"},
        "mark": {
            "type": "text",
            "baseline": "middle",
            "align": "center",
            "color": COLOURS["paper"],
            "fontSize": 11,
        },
        "encoding": {
            "x": _time("middle"),
            "y": _rows("row"),
            "text": {"field": "name", "type": "nominal"},
            "key": {"field": "key"},
        },
    }


def _labels_and_texts() -> list[Spec]:
    label = {"x": -_GAP, "align": "right", "limit": {"expr": "label_room"}}
    text = {"x": {"expr": f"width + {_GAP}"}, "align": "left", "limit": {"expr": "text_room"}}
    return [
        {
            "data": {"name": "rows"},
            "mark": {
                "type": "text",
                "baseline": "middle",
                "color": COLOURS["ink"],
                "fontSize": {"expr": "font"},
                "fontWeight": {"expr": "datum.is_marked ? 700 : 400"},
                **how,
            },
            "encoding": {
                "y": _rows("row"),
                "text": {"field": field, "type": "nominal"},
                "key": {"field": "key"},
            },
        }
        for field, how in (("label", label), ("text", text))
    ]
