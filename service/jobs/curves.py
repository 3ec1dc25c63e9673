"""The loss of a scenario along one axis, answered at once; nothing is stored."""

from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.db.engine import Connection
from service.errors import FieldFault, InvalidError
from service.jobs.actors import Actor
from service.jobs.batch_documents import Notice
from service.jobs.curve_documents import (
    MOST_POINTS,
    MOST_SPREADS,
    CurveIn,
    CurveOut,
    CurvePoint,
    DrawnPoint,
    PointFailure,
)
from service.jobs.evaluations import refuse_too_many_draws, refused
from service.jobs.planning import resolve_base
from service.jobs.point_costs import seconds_of
from service.jobs.results import shown_value
from service.model import MODEL_VERSION
from service.model.axes import decode_axes
from service.model.columns import Columns
from service.model.drawn_passes import TooManyOperationsError
from service.model.draws import draw_ranks
from service.model.fields import Scenario
from service.model.grid import Grid, build_grid
from service.model.kernel import Results, evaluate
from service.model.problems import InvalidScenario, Problem
from service.model.rules import describe_failure, failures
from service.model.scenario import apply_overrides, decode_scenario

SMALLEST_SIZE: Final = 8
LARGEST_SIZE: Final = 131_072
MOST_DRAWN_RANKS: Final = 4_000_000
"""Of all points together: half a second."""
FIGURES: Final = (
    "step_mean_ms",
    "efficiency_fraction",
    "gpu_hours_lost_per_day",
    "gpu_hours_lost",
    "gpu_hours_lost_p10",
    "gpu_hours_lost_p90",
)
BUDGET_S = 3.0
"""Estimated seconds of one core for all points of an answer together."""
TOO_LONG: Final = PointFailure(
    code="too_long_at_once",
    detail="with the shorter points of the curve this one would take too long to simulate; "
    "evaluate it by itself, or post the axis as a batch",
)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The points that can be computed or fail one by one, and what is asked of them."""

    grid: Grid
    document: CurveIn


def ask_stored(connection: Connection, actor: Actor, document: CurveIn) -> Asked:
    """About a scenario that may name a profile; raises `InvalidError` with every fault."""
    _, base = resolve_base(connection, actor, document.profile, document.scenario)
    return _asked(base, document)


def ask_inline(document: CurveIn) -> Asked | None:
    """About a scenario that needs no database; None when it does."""
    if document.scenario is None or document.profile is not None:
        return None
    return _asked(document.scenario, document)


def answer(asked: Asked) -> CurveOut:
    """Compute all points by one call of the model; raises `InvalidError` for too many draws."""
    grid, document = asked.grid, asked.document
    with_spread = "spread" not in document.leave_out
    columns = grid.columns(0, grid.num_points)
    if with_spread:
        refuse_too_many_draws(columns, document)
    in_time = _together_in_time(columns, with_spread=with_spread)
    found = evaluate(
        columns.part(np.flatnonzero(in_time)),
        with_spread=with_spread,
        with_causes=False,
        with_quantiles=False,
    )
    place = np.cumsum(in_time) - 1
    pen = _Pen()
    rows = []
    for point in range(grid.num_points):
        reason: PointFailure | None = TOO_LONG
        if in_time[point]:
            reason = _reason(grid, point, int(found.failure[place[point]]))
        if reason is not None:
            rows.append(_failed(grid, point, reason))
            continue
        drawn = pen.draw(grid, point) if document.single_draw else None
        rows.append(_row(grid, point, found, int(place[point]), drawn))
    return CurveOut(
        path=grid.axis_paths[0],
        rows=rows,
        warnings=[*_notices(grid), *pen.notices()],
        model_version=MODEL_VERSION,
    )


def _asked(base: dict[str, Any], document: CurveIn) -> Asked:
    try:
        scenario = decode_scenario(apply_overrides(base, document.overrides))
    except InvalidScenario as error:
        raise refused(error.problems, document) from error
    try:
        grid = _grid(scenario, document.axis)
    except InvalidScenario as error:
        faults = [
            FieldFault(pointer=_of_axis(fault.pointer), code=fault.code, detail=fault.detail)
            for fault in error.problems
        ]
        raise InvalidError(faults[0].detail, problem="invalid-scenario", errors=faults) from error
    if grid.num_points > MOST_SPREADS and "spread" not in document.leave_out:
        detail = (
            f"the spread of {grid.num_points} points takes too long for an answer at once, of "
            f"{MOST_SPREADS} it does not; leave it out, or post the axis as a batch"
        )
        fault = FieldFault(pointer="/leave_out", code="too_long_at_once", detail=detail)
        raise InvalidError(detail, problem="invalid-scenario", errors=[fault])
    return Asked(grid=grid, document=document)


def _together_in_time(columns: Columns, *, with_spread: bool) -> NDArray[np.bool_]:
    """(points,) which points are computed, the quickest first, in the time of one answer.

    What breaks a rule takes none of it, and fails with that reason.
    """
    needed_s = seconds_of(columns, with_spread=with_spread)
    needed_s[failures(columns) != 0] = 0.0
    order = np.argsort(needed_s, kind="stable")
    in_time = np.empty(columns.num_points, dtype=np.bool_)
    in_time[order] = np.cumsum(needed_s[order]) <= BUDGET_S
    return in_time


def _grid(scenario: Scenario, axis: dict[str, Any] | None) -> Grid:
    """Raises InvalidScenario with pointers that begin with `/axes/0`."""
    axes = decode_axes([_own_sizes(scenario) if axis is None else axis])
    if axes[0].zip is not None:
        detail = "a curve has one axis; axes that advance together are for a batch"
        raise InvalidScenario([Problem(pointer="/axes/0/zip", code="zip_shape", detail=detail)])
    return build_grid(scenario, axes, max_points=MOST_POINTS)


def _own_sizes(scenario: Scenario) -> dict[str, Any]:
    sizes = {SMALLEST_SIZE << doubled for doubled in range(LARGEST_SIZE.bit_length())}
    among = {size for size in sizes if size <= LARGEST_SIZE} | {scenario.num_gpus}
    return {"path": "num_gpus", "values": sorted(among)}


def _of_axis(pointer: str) -> str:
    """Of the only axis of a batch's axes, to that of a curve."""
    rest = pointer.removeprefix("/axes").removeprefix("/0")
    return f"/axis{rest}"


def _value(grid: Grid, point: int) -> Any:
    return grid.inputs_at(point)[grid.axis_paths[0]]


class _Pen:
    """Draws the single step of one point after the other, as long as it does not take too long."""

    def __init__(self) -> None:
        self._ranks_left = MOST_DRAWN_RANKS
        self._undrawn: list[str] = []

    def draw(self, grid: Grid, point: int) -> DrawnPoint | None:
        """None without a barrier, and where it would take too long."""
        scenario = grid.point_scenario(point)
        self._ranks_left -= scenario.num_gpus + scenario.num_spare_gpus
        try:
            if self._ranks_left >= 0:
                return _drawn(scenario)
            reason = f"at most {MOST_DRAWN_RANKS} GPUs of all points together are drawn at once"
        except TooManyOperationsError as error:
            reason = str(error)
        self._undrawn.append(f"{_value(grid, point)}: {reason}")
        return None

    def notices(self) -> list[Notice]:
        """What was not drawn, if anything."""
        if not self._undrawn:
            return []
        detail = f"the single draw is left out at {self._undrawn[0]}"
        if len(self._undrawn) > 1:
            detail += f"; and at {len(self._undrawn) - 1} more"
        return [Notice(pointer="/single_draw", code="ranks_not_drawn", detail=detail)]


def _drawn(scenario: Scenario) -> DrawnPoint | None:
    draw = draw_ranks(scenario, 0)
    if draw.step_ms is None or draw.efficiency_fraction is None:
        return None
    per_day = draw.gpu_hours_lost_per_day or 0.0
    return DrawnPoint(
        step_ms=draw.step_ms,
        efficiency_fraction=draw.efficiency_fraction,
        gpu_hours_lost_per_day=per_day,
        gpu_hours_lost=per_day * scenario.period_days,
    )


def _reason(grid: Grid, point: int, code: int) -> PointFailure | None:
    """The rule that the point breaks; None where it breaks none."""
    if not code:
        return None
    problem = describe_failure(code, grid.point_scenario(point))
    return PointFailure(code=problem.code, detail=problem.detail)


def _row(
    grid: Grid, point: int, found: Results, place: int, drawn: DrawnPoint | None
) -> CurvePoint:
    figures = {name: shown_value(name, found.columns[name][place]) for name in FIGURES}
    return CurvePoint(value=_value(grid, point), **figures, drawn=drawn, failure=None)


def _failed(grid: Grid, point: int, reason: PointFailure) -> CurvePoint:
    nothing = dict.fromkeys(FIGURES)
    return CurvePoint(value=_value(grid, point), **nothing, drawn=None, failure=reason)


def _notices(grid: Grid) -> list[Notice]:
    return [
        Notice(pointer=_of_axis(warning.pointer), code=warning.code, detail=warning.detail)
        for warning in grid.warnings
    ]
