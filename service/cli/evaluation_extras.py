"""What `trainard evaluate --show` adds to one scenario: tables, and the same as JSON."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from service.jobs.evaluation_extras import (
    IndependentRanks,
    ModelSpread,
    MovedOut,
    SensitivityIn,
    SensitivityOut,
    independent_ranks_of,
    model_spread_of,
    sensitivity_of,
)
from service.model.fields import Scenario
from service.reports.digits import gpu_hours, whole
from service.reports.tables import Heading, text_table

EXTRAS: dict[str, Callable[[Scenario], Any]] = {
    "sensitivity": lambda scenario: sensitivity_of(scenario, SensitivityIn()),
    "model-spread": model_spread_of,
    "independent-ranks": independent_ranks_of,
}
LOST = "lost [GPU-hours]"


def extras_of(scenario: Scenario, asked: Iterable[str]) -> dict[str, Any]:
    """What is asked for, by its name; raises InvalidScenario for draws that are too many."""
    return {name: EXTRAS[name](scenario) for name in asked}


def extras_json(found: Mapping[str, Any]) -> bytes:
    """As further fields of a JSON document, named as in the answer of `POST /v1/evaluations`."""
    return b"".join(
        f',\n"{name.replace("-", "_")}": '.encode() + msgspec.json.encode(part)
        for name, part in found.items()
    )


def extras_tables(found: Mapping[str, Any]) -> str:
    """Each under its label."""
    return "\n\n".join(_TABLES[name](part) for name, part in found.items())


def _sensitivity(found: SensitivityOut) -> str:
    headings = [
        Heading("input", words=True),
        Heading("value"),
        Heading("low"),
        Heading(LOST),
        Heading("high"),
        Heading(LOST),
        Heading("change [GPU-hours]"),
        Heading("elasticity"),
    ]
    lines = [
        [
            row.path,
            _number(row.value),
            *_end(row.low),
            *_end(row.high),
            gpu_hours(row.gpu_hours_change),
            "-" if row.elasticity is None else f"{row.elasticity:.3f}",
        ]
        for row in found.inputs
    ]
    kept = [f"not moved: {part.path}: {part.detail}" for part in found.unmoved]
    label = f"Sensitivity of the {gpu_hours(found.gpu_hours_lost)} GPU-hours lost"
    return "\n".join([label, text_table(headings, lines), *kept])


def _end(end: MovedOut | None) -> tuple[str, str]:
    if end is None:
        return "-", "-"
    lost = end.reason.code if end.reason else gpu_hours(end.gpu_hours_lost)
    return _number(end.value), lost


def _model_spread(found: ModelSpread) -> str:
    headings = [Heading("family", words=True), Heading(LOST), Heading("refused", words=True)]
    lines = [
        [
            choice.family,
            gpu_hours(choice.gpu_hours_lost),
            choice.reason.detail if choice.reason else "",
        ]
        for choice in found.families
    ]
    lowest, highest = gpu_hours(found.lowest), gpu_hours(found.highest)
    label = f"Choice of the tail: {lowest} to {highest} GPU-hours lost"
    return f"{label}\n{text_table(headings, lines)}"


def _independent_ranks(found: list[IndependentRanks]) -> str:
    headings = [
        Heading("source", words=True),
        Heading("independent"),
        Heading("shared by", words=True),
        Heading("shrinks over the window", words=True),
        Heading("removed by", words=True),
    ]
    lines = [
        [
            row.source,
            whole(row.independent_ranks),
            row.shared_by,
            row.shrinks_over_window.replace("_", " "),
            row.removed_by or "-",
        ]
        for row in found
    ]
    return f"Independent draws\n{text_table(headings, lines)}"


def _number(value: float) -> str:
    return whole(value) if isinstance(value, int) else f"{value:.6g}"


_TABLES: dict[str, Callable[[Any], str]] = {
    "sensitivity": _sensitivity,
    "model-spread": _model_spread,
    "independent-ranks": _independent_ranks,
}
