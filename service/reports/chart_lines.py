"""Lines as Vega-Lite dictionaries: loss against the number of GPUs, and loss over runs.

A page fills `rows` (points in order; `low` and `high` where there is a range), `draws` (single
draws) and `notes` (places on the axis with a word), and sets the ends of the scales. Numbers on
axes are written by the page's locale, days by the page itself.
"""

from service.reports.charts import COLOURS, FONT, SCHEMA, Spec

_LINE: Spec = {"type": "line", "color": COLOURS["loss"], "strokeWidth": 2}


def loss_curve() -> Spec:
    """Expected loss as a line, a single draw as diamonds, powers of two on the axis."""
    x = {
        "type": "quantitative",
        "scale": {"type": "log", "base": 2, "domain": _ends("x"), "nice": False},
        "axis": {
            "title": None,
            "values": {"expr": "x_ticks"},
            "labelExpr": "format(datum.value, ',')",
            "labelOverlap": False,
            "labelFlush": True,
            "grid": False,
        },
    }
    draws: Spec = {
        "data": {"name": "draws"},
        "mark": {
            "type": "point",
            "shape": "diamond",
            "filled": False,
            "color": COLOURS["ink"],
            "size": 42,
            "strokeWidth": 1.5,
        },
        "encoding": {"x": {"field": "x", **x}, "y": _loss("y"), "key": {"field": "x"}},
    }
    return _lines(x, [draws])


def history() -> Spec:
    """Loss over runs: each run is a point, changes of what it was computed from are notes."""
    x = {
        "type": "quantitative",
        "scale": {"domain": _ends("x"), "nice": False},
        "axis": {
            "title": None,
            "values": {"expr": "x_ticks"},
            "labelExpr": "x_labels[indexof(x_ticks, datum.value)]",
            # Whoever draws it leaves out what has no room: a moment with its zone is not cut.
            "labelLimit": 400,
            "labelOverlap": False,
            "labelFlush": True,
            "grid": False,
        },
    }
    return _lines(x, [])


def _lines(x: Spec, more: list[Spec]) -> Spec:
    return {
        "$schema": SCHEMA,
        "width": 300,
        "height": 240,
        "background": None,
        "autosize": "none",
        "padding": 40,
        "params": [
            {"name": "x_from", "value": 1},
            {"name": "x_to", "value": 2},
            {"name": "x_ticks", "value": []},
            {"name": "x_labels", "value": []},
            {"name": "y_from", "value": 0},
            {"name": "y_to", "value": 1},
            {"name": "y_format", "value": "~s"},
            # Efficiency is drawn downwards and written as the share that is lost.
            {"name": "is_share", "value": False},
        ],
        "layer": [_range(x), *_notes(x), *_expected(x), *more],
        "config": {
            "aria": False,
            "font": FONT,
            "view": {"stroke": None},
            "axis": {
                "domainColor": COLOURS["line"],
                "gridColor": COLOURS["line"],
                "tickColor": COLOURS["line"],
                "labelColor": COLOURS["quiet"],
                "labelFontSize": 12,
            },
        },
    }


def _ends(axis: str) -> list[Spec]:
    return [{"expr": f"{axis}_from"}, {"expr": f"{axis}_to"}]


def _loss(field: str) -> Spec:
    return {
        "field": field,
        "type": "quantitative",
        "scale": {"domain": _ends("y"), "nice": False},
        "axis": {
            "title": None,
            "domain": False,
            "ticks": False,
            "labelPadding": 8,
            "tickCount": 5,
            "labelExpr": "format(is_share ? 1 - datum.value : datum.value, y_format)",
        },
    }


def _range(x: Spec) -> Spec:
    return {
        "data": {"name": "ranges"},
        "mark": {"type": "area", "color": COLOURS["loss"], "opacity": 0.16},
        "encoding": {
            "x": {"field": "x", **x},
            "y": _loss("low"),
            "y2": {"field": "high"},
        },
    }


def _expected(x: Spec) -> list[Spec]:
    place = {"x": {"field": "x", **x}, "y": _loss("y")}
    point = {"type": "point", "filled": True, "color": COLOURS["loss"], "size": 30, "opacity": 1}
    return [
        {"data": {"name": "rows"}, "mark": _LINE, "encoding": place},
        {
            "data": {"name": "rows"},
            "mark": point,
            "encoding": {**place, "key": {"field": "x"}},
        },
    ]


def _notes(x: Spec) -> list[Spec]:
    """A dashed line over the whole height, and its word at the top."""
    place = {"x": {"field": "x", **x}, "key": {"field": "key"}}
    rule = {"type": "rule", "color": COLOURS["quiet"], "strokeDash": [4, 3]}
    word = {
        "type": "text",
        "y": -8,
        "color": COLOURS["quiet"],
        "fontSize": 12,
        "align": {"expr": "datum.align"},
    }
    return [
        {"data": {"name": "notes"}, "mark": rule, "encoding": place},
        {
            "data": {"name": "notes"},
            "mark": word,
            "encoding": {**place, "text": {"field": "text", "type": "nominal"}},
        },
    ]
