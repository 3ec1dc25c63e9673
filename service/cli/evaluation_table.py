"""One evaluated scenario as tables: the step, both views of the loss, its spread."""

from collections.abc import Iterable, Iterator, Mapping

from service.model.results import (
    ATTRIBUTION_COLUMNS,
    COLUMNS,
    COMMUNICATION_COLUMNS,
    PIPELINE_COLUMNS,
    Column,
)
from service.reports.digits import milliseconds, percent, whole
from service.reports.export_fields import Cell
from service.reports.tables import Heading, shown_value, text_table

_BY_NAME = {column.name: column for column in COLUMNS}
_USEFUL = "gpu_hours_useful"
_WORK = (
    "days_to_finish",
    "gpu_hours_for_total_steps",
    "gpu_hours_extra_for_total_steps",
    "gpu_hours_per_1000_steps",
)
_QUANTILES = ("p10", "p50", "p90")
_LOST = "gpu_hours_lost"
_SPREAD = (
    *(
        f"{_LOST}_{name}{suffix}"
        for name in (*_QUANTILES, "cluster_mean")
        for suffix in ("", "_se")
    ),
    *(f"efficiency_fraction_{name}" for name in _QUANTILES),
    f"{_LOST}_sd",
    "spread_method",
)

_LOAD = "exposed_load_ms"
_COMMUNICATION = tuple(name for name in COMMUNICATION_COLUMNS if name != _LOAD)
_MAKESPAN = "pipeline_makespan_ms"

Result = Mapping[str, Cell]


def scenario_tables(result: Result, *, period_days: int, total_steps: int | None) -> str:
    """Every result that the scenario has, with its unit and meaning, under labels.

    Causes of the loss that cost nothing have no row.
    """
    hours = [name for name in _BY_NAME if name.startswith("gpu_hours")]
    elsewhere = {*_SPREAD, *_WORK, *_COMMUNICATION, *PIPELINE_COLUMNS}
    window = [name for name in hours if name not in elsewhere]
    step = [name for name in _BY_NAME if name not in {*hours, *elsewhere}]
    parts = [("The step", _table(_rows(result, step)))]
    if result.get(_MAKESPAN) is not None:
        parts.append(("The pipeline", _pipeline(result)))
    if result.get("communication_ms") or result.get("break_even_extra_steps_fraction") is not None:
        parts.append(("Communication", _table(_rows(result, _COMMUNICATION))))
    parts += [
        (f"Fixed window: {whole(period_days)} days", _table(_rows(result, window))),
    ]
    work = "Fixed work: a thousand steps"
    if total_steps is not None:
        work = f"Fixed work: {whole(total_steps)} steps"
    parts.append((work, _table(_rows(result, _WORK))))
    sections = [f"{label}\n{table}" for label, table in parts]
    return "\n\n".join([*sections, *_spread(result)])


def _rows(result: Result, names: Iterable[str]) -> Iterator[tuple[Column, Cell]]:
    for name in names:
        value = result.get(name)
        is_absent = value == 0 and name in ATTRIBUTION_COLUMNS and name != _USEFUL
        # Standard errors of what is exact tell nothing.
        is_exact = value == 0 and name.endswith("_se")
        if value is not None and not is_absent and not is_exact:
            yield _BY_NAME[name], value


def _table(rows: Iterable[tuple[Column, Cell]]) -> str:
    lines = [[column.name, *shown_value(column, value), column.sentence] for column, value in rows]
    return _with_headings(lines)


def _pipeline(result: Result) -> str:
    """The makespan with its standard error in one line."""
    error = _number(result, f"{_MAKESPAN}_se")
    lines = []
    for column, value in _rows(result, PIPELINE_COLUMNS):
        shown, unit = shown_value(column, value)
        if column.name == _MAKESPAN and error:
            shown += f" ± {milliseconds(error)}"
        if column.name != f"{_MAKESPAN}_se":
            lines.append([column.name, shown, unit, column.sentence])
    return _with_headings(lines)


def _with_headings(lines: list[list[str]]) -> str:
    headings = [
        Heading("result", words=True),
        Heading("value"),
        Heading("unit", words=True),
        Heading("meaning", words=True),
    ]
    return text_table(headings, lines)


def _spread(result: Result) -> Iterator[str]:
    """Quantiles over clusters, with what sampling may have them off by; nothing where all agree."""
    if not result.get(f"{_LOST}_sd"):
        return
    headings = [
        Heading("clusters", words=True),
        Heading("lost [GPU-hours]"),
        Heading("standard error [GPU-hours]"),
        Heading("efficiency [%]"),
    ]
    lines = []
    for place, name in enumerate(_QUANTILES):
        # Who loses least is most efficient.
        efficiency = f"efficiency_fraction_{_QUANTILES[-1 - place]}"
        names = (f"{_LOST}_{name}", f"{_LOST}_{name}_se")
        shown = [_shown(result, part) for part in names]
        lines.append([name, *shown, percent(_number(result, efficiency))])
    mean = (f"{_LOST}_cluster_mean", f"{_LOST}_cluster_mean_se")
    lines.append(["mean", *(_shown(result, part) for part in mean), ""])
    deviation = _shown(result, f"{_LOST}_sd")
    how = _shown(result, "spread_method").replace("_", " ")
    yield (
        f"Spread over clusters: standard deviation {deviation} GPU-hours ({how})\n"
        f"{text_table(headings, lines)}"
    )


def _number(result: Result, name: str) -> float | None:
    value = result.get(name)
    return value if isinstance(value, float) else None


def _shown(result: Result, name: str) -> str:
    return shown_value(_BY_NAME[name], result.get(name))[0]
