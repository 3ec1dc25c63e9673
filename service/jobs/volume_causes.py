"""Evaluates what stands between two runs of the same items, to tell why their loss moved.

Only what is needed: nothing where nothing moved, or only one thing did.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from service.db.engine import Connection, Row
from service.db.histories import defaults_of_revisions, revisions_between
from service.jobs.chunks import grid_of
from service.jobs.point_costs import work_of
from service.model import MODEL_VERSION
from service.model.columns import Columns, columns_of, joined
from service.model.fields import Scenario
from service.model.grid import Grid
from service.model.kernel import evaluate
from service.model.problems import InvalidScenario
from service.model.remedy.remedy_grid import RemedyGrid
from service.model.scenario import apply_overrides, decode_scenario, full, put
from service.reports.loss_report import VolumeCause
from service.reports.origins import Revised
from service.reports.volume import (
    MONTH_DAYS,
    WINDOW,
    Loss,
    Pair,
    Side,
    Step,
    causes_of,
    merged,
    steps_between,
)

LONGEST_S = 60.0
"""Estimated seconds of one core that all of them may take; what is beyond is not told apart."""
POINTS_AT_ONCE = 1_000

_Document = dict[str, Any]


class _Plan(NamedTuple):
    """The steps of a pair, and the scenarios that stand after each of them but the last."""

    steps: list[Step]
    between: list[Scenario]


def side_of(batch: Row[Any], item: Row[Any], summary: Row[Any]) -> Side:
    """The side of a stored item whose headline point has a summary."""
    return Side(
        scenario=item.scenario,
        axes=item.axes,
        point=summary.point - item.first_point,
        profile_slug=item.profile_slug,
        profile_revision=item.profile_revision,
        profile_revision_id=item.profile_revision_id,
        model_version=batch.model_version,
        gpu_hours_lost=summary.gpu_hours_lost,
        gpu_hours_lost_se=summary.gpu_hours_lost_se,
    )


def volume_causes(
    connection: Connection, pairs: Sequence[Pair], *, longest_s: float = LONGEST_S
) -> list[list[VolumeCause]]:
    """Why the loss of each pair moved, in the order of the pairs; nothing where it did not.

    The losses of a pair on 30 days differ by exactly the sum of its causes. Steps after which no
    valid scenario stands are told together with the next ones, as `joint`; so is everything whose
    evaluation would take more than `longest_s` in all.
    """
    defaults = _defaults(connection, pairs)
    revised = _revised(connection, pairs)
    plans = [
        _plan(pair, _defaults_of(pair, defaults), revised.get(_revision_ids(pair), ()))
        for pair in pairs
    ]
    left_s = longest_s
    for place, plan in enumerate(plans):
        needed_s = sum(_core_s(scenario) for scenario in plan.between)
        if needed_s > left_s:
            plans[place] = _Plan([merged(plan.steps)], [])
        else:
            left_s -= needed_s
    losses = iter(_losses([scenario for plan in plans for scenario in plan.between]))
    return [
        causes_of(pair, plan.steps, [next(losses) for _ in plan.between])
        for pair, plan in zip(pairs, plans, strict=True)
    ]


def _defaults(connection: Connection, pairs: Sequence[Pair]) -> dict[UUID, _Document]:
    """Of all revisions that are not the same on both sides."""
    needed = {
        side.profile_revision_id
        for pair in pairs
        if pair.past.profile_revision_id != pair.new.profile_revision_id
        for side in (pair.past, pair.new)
    }
    return defaults_of_revisions(connection, {found for found in needed if found is not None})


def _defaults_of(
    pair: Pair, defaults: Mapping[UUID, _Document]
) -> tuple[_Document, _Document] | None:
    past, new = pair.past.profile_revision_id, pair.new.profile_revision_id
    if past is None or new is None or past == new:
        return None
    return defaults[past], defaults[new]


def _revision_ids(pair: Pair) -> tuple[UUID | None, UUID | None]:
    return pair.past.profile_revision_id, pair.new.profile_revision_id


def _revised(
    connection: Connection, pairs: Sequence[Pair]
) -> dict[tuple[UUID | None, UUID | None], list[Revised]]:
    """All revisions from that of the past to that of now, where a calibration is behind any."""
    found: dict[tuple[UUID | None, UUID | None], list[Revised]] = {}
    for past, new in {_revision_ids(pair) for pair in pairs}:
        if past is None or new is None or past == new:
            continue
        rows = revisions_between(connection, past, new)
        if any(row.provenance is not None for row in rows[1:]):
            found[(past, new)] = [_revised_of(row) for row in rows]
    return found


def _revised_of(row: Row[Any]) -> Revised:
    provenance = row.provenance
    if provenance is None:
        return Revised(revision=row.revision, defaults=row.defaults)
    return Revised(
        revision=row.revision,
        defaults=row.defaults,
        calibration=provenance["calibration_name"],
        paths=tuple(provenance["paths"]),
    )


def _plan(
    pair: Pair,
    defaults: tuple[_Document, _Document] | None,
    revisions: Sequence[Revised],
) -> _Plan:
    past, new = pair.past, pair.new
    same = (past.scenario, past.axes, past.point) == (new.scenario, new.axes, new.point)
    if same and past.model_version == new.model_version:
        return _Plan([], [])
    document = _point_of(past)
    steps = steps_between(pair, document, document if same else _point_of(new), defaults, revisions)
    if len(steps) <= 1:
        return _Plan(steps, [])
    if new.model_version != MODEL_VERSION:
        # Nobody can say any more what the model of then made of a scenario in between.
        return _Plan([merged(steps)], [])
    return _told_apart(document, steps)


def _point_of(side: Side) -> _Document:
    """The whole scenario of the headline point."""
    grid: Grid = grid_of(msgspec.json.encode(side.scenario), msgspec.json.encode(side.axes))
    if isinstance(grid, RemedyGrid) or not grid.dimensions:
        return side.scenario
    return full(grid.point_scenario(side.point))


def _told_apart(document: _Document, steps: Sequence[Step]) -> _Plan:
    """The steps, those that lead through scenarios that are refused with the ones after them."""
    # A copy: what is put into it must not change what is stored.
    standing = apply_overrides(document, {})
    found, between, waiting = [], [], list[Step]()
    for step in steps:
        waiting.append(step)
        for move in step.moves:
            put(standing, move.path, move.new)
        if step is steps[-1]:
            break
        try:
            scenario = decode_scenario(standing)
        except InvalidScenario:
            continue
        found.append(_one(waiting))
        between.append(scenario)
        waiting = []
    return _Plan([*found, _one(waiting)], between)


def _one(steps: Sequence[Step]) -> Step:
    return steps[0] if len(steps) == 1 else merged(steps)


def _core_s(scenario: Scenario) -> float:
    grid = Grid(base=scenario, dimensions=(), num_points=1, warnings=())
    return work_of(grid, with_spread=False).core_s


def _losses(scenarios: Sequence[Scenario]) -> Iterator[Loss]:
    """What each of them loses in 30 days under the model of now."""
    for start in range(0, len(scenarios), POINTS_AT_ONCE):
        columns = joined([columns_of(one) for one in scenarios[start : start + POINTS_AT_ONCE]])
        yield from _evaluated(columns)


def _evaluated(columns: Columns) -> Iterator[Loss]:
    found = evaluate(columns, with_spread=False, with_causes=False, with_quantiles=False).columns
    days = MONTH_DAYS / columns[WINDOW]
    hours, errors = found["gpu_hours_lost"] * days, found["gpu_hours_lost_se"] * days
    for loss, error in zip(hours.tolist(), errors.tolist(), strict=True):
        yield Loss(loss, error)
