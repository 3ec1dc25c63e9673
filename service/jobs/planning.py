"""From the items of a batch to resolved scenarios and grids, with every fault named."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import Any
from uuid import UUID

import msgspec
import numpy as np

from service.db.encoded_blocks import BLOCK_POINTS
from service.db.engine import Connection
from service.errors import Fault, FieldFault, InvalidError, NotFoundError
from service.jobs.actors import Actor
from service.jobs.batch_documents import BatchItemIn, Notice
from service.jobs.chunks import CHUNK_POINTS
from service.jobs.digests import digest
from service.jobs.documents import escaped
from service.jobs.drift import drift_notice
from service.jobs.point_costs import Work, work_of
from service.jobs.profiles import ResolvedProfile, resolve_profile
from service.jobs.remedy_items import grid_of_remedies, refuse_unfit
from service.model.axes import decode_axes
from service.model.grid import Grid, build_grid
from service.model.problems import InvalidScenario
from service.model.remedy.remedy_grid import RemedyGrid, stored_axes
from service.model.rules import describe_failure
from service.model.scenario import apply_overrides, decode_scenario, full, normalised
from service.settings import Limits

# A chunk that would take longer is cut, down to a block, so that progress is seen and a
# cancellation soon heeded. A batch shorter than the other is over before either matters.
LONG_CHUNK_S = 5.0
SHORT_BATCH_S = 0.3


class PlannedItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item that can be computed: `scenario` is whole, `grid` expands it by `axes`."""

    source: BatchItemIn
    profile: ResolvedProfile | None
    scenario: dict[str, Any]
    axes: list[dict[str, Any]]
    grid: Grid
    points_failing: int
    work: Work
    headline: int | None
    input_digest: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All items of a batch, in order."""

    items: tuple[PlannedItem, ...]
    warnings: list[Notice]
    input_digest: str

    @property
    def num_points(self) -> int:
        """Points of the whole batch."""
        return sum(item.grid.num_points for item in self.items)

    @property
    def core_s(self) -> float:
        """Estimated seconds of one core."""
        return sum(item.work.core_s for item in self.items)

    @property
    def chunk_points(self) -> int:
        """How many points a chunk of the batch has: few where those of an item take long."""
        longest_s = max(item.work.core_s / item.grid.num_points for item in self.items)
        if self.core_s <= SHORT_BATCH_S or longest_s * CHUNK_POINTS <= LONG_CHUNK_S:
            return CHUNK_POINTS
        return BLOCK_POINTS


def plan_items(
    connection: Connection,
    actor: Actor,
    items: Sequence[tuple[int, BatchItemIn]],
    limits: Limits,
    *,
    start_on: date,
    known_faults: Sequence[FieldFault] = (),
) -> Plan:
    """Resolve and check the items, each with its position in the batch.

    Raises `InvalidError` with one entry for every fault of every item, `known_faults` (those of
    items that could not even be decoded) first.
    """
    faults = [*known_faults, *_repeated_ids(items)]
    planned: list[PlannedItem] = []
    for position, item in items:
        try:
            planned.append(
                plan_item(
                    connection,
                    actor,
                    item,
                    max_points=limits.points_per_batch,
                    start_on=item.start_on or start_on,
                )
            )
        except InvalidError as error:
            faults.extend(_below(f"/items/{position}", error))
    total = sum(item.grid.num_points for item in planned)
    if total > limits.points_per_batch:
        faults.append(
            FieldFault(
                pointer="/items",
                code="too_many_points",
                detail=f"{total} points, but the limit is {limits.points_per_batch}",
            )
        )
    draws = sum(item.work.draws for item in planned)
    if draws > limits.draws_per_batch:
        faults.append(
            FieldFault(
                pointer="/items",
                code="too_many_draws",
                detail=f"{draws} clusters to draw (`draws` of every point whose spread is "
                "sampled, and one for 125 steps of single GPUs that are simulated), but the limit "
                f"is {limits.draws_per_batch}",
            )
        )
    if faults:
        raise InvalidError(_summary(faults), problem="invalid-scenario", errors=faults)
    warnings = [
        Notice(
            pointer=f"/items/{position}{warning.pointer}", code=warning.code, detail=warning.detail
        )
        for position, item in enumerate(planned)
        for warning in item.grid.warnings
    ]
    return Plan(
        items=tuple(planned),
        warnings=[*warnings, *_drifts(connection, actor, planned)],
        input_digest=digest([[item.source.custom_id, item.input_digest] for item in planned]),
    )


def _drifts(
    connection: Connection, actor: Actor, planned: Sequence[PlannedItem]
) -> Iterator[Notice]:
    """What runs tell of the profiles, once of each revision: at the first item that names it."""
    first: dict[UUID, tuple[int, ResolvedProfile]] = {}
    for position, item in enumerate(planned):
        if item.profile is not None:
            first.setdefault(item.profile.revision_id, (position, item.profile))
    for position, profile in first.values():
        yield from drift_notice(connection, actor, profile, f"/items/{position}/profile")


def _summary(faults: Sequence[FieldFault]) -> str:
    items = {fault.pointer.split("/")[2] for fault in faults if fault.pointer.startswith("/items/")}
    if not items:
        return faults[0].detail
    return f"{len(items)} item{'s are' if len(items) > 1 else ' is'} invalid"


def plan_item(
    connection: Connection,
    actor: Actor,
    item: BatchItemIn,
    *,
    max_points: int,
    start_on: date,
) -> PlannedItem:
    """Resolve one item; raises `InvalidError` with pointers relative to the item."""
    refuse_unfit(item)
    profile, base = resolve_base(connection, actor, item.profile, item.scenario)
    try:
        scenario = decode_scenario(apply_overrides(base, item.overrides))
    except InvalidScenario as error:
        raise InvalidError(
            str(error),
            problem="invalid-scenario",
            errors=[_placed(fault, item) for fault in error.problems],
        ) from error
    try:
        grid = (
            grid_of_remedies(scenario, item)
            if item.analysis == "remedies"
            else build_grid(scenario, decode_axes(item.axes), max_points=max_points)
        )
    except InvalidScenario as error:
        raise InvalidError(
            str(error),
            problem="invalid-scenario",
            errors=[
                FieldFault(pointer=fault.pointer, code=fault.code, detail=fault.detail)
                for fault in error.problems
            ],
        ) from error
    if scenario.period_days > (date.max - start_on).days:
        raise InvalidError(
            "the window ends after the last date",
            errors=[
                FieldFault(
                    pointer="/start_on",
                    code="window_too_late",
                    detail=f"{scenario.period_days} days from {start_on} end after {date.max}",
                )
            ],
        )
    failing = count_failing(grid)
    if failing == grid.num_points:
        raise InvalidError(
            "no point can be computed", problem="invalid-scenario", errors=[_first_rule(grid, item)]
        )
    axes = stored_axes(grid.changes) if isinstance(grid, RemedyGrid) else item.axes
    return PlannedItem(
        source=item,
        profile=profile,
        scenario=full(scenario),
        axes=axes,
        grid=grid,
        points_failing=failing,
        work=work_of(grid),
        headline=_headline(grid, item, scenario.num_gpus),
        input_digest=digest([normalised(scenario), axes]),
    )


def resolve_base(
    connection: Connection, actor: Actor, profile: str | None, scenario: dict[str, Any] | None
) -> tuple[ResolvedProfile | None, dict[str, Any]]:
    """The scenario before overrides: of the profile or inline, exactly one of the two."""
    if (profile is None) == (scenario is None):
        raise InvalidError(
            "give either profile or scenario",
            errors=[
                FieldFault(
                    pointer="/profile" if profile is not None else "",
                    code="profile_or_scenario",
                    detail="give exactly one of profile and scenario",
                )
            ],
        )
    if scenario is not None:
        return None, scenario
    assert profile is not None  # noqa: S101 - for the type checker; decided above
    try:
        resolved = resolve_profile(connection, actor, profile)
    except (NotFoundError, InvalidError) as error:
        raise InvalidError(
            error.detail,
            errors=[
                FieldFault(
                    pointer="/profile", code=error.problem.replace("-", "_"), detail=error.detail
                )
            ],
        ) from error
    return resolved, resolved.defaults


def count_failing(grid: Grid) -> int:
    """How many points of the grid break a cross-field rule."""
    return sum(
        int(np.count_nonzero(grid.failures(start, min(start + CHUNK_POINTS, grid.num_points))))
        for start in range(0, grid.num_points, CHUNK_POINTS)
    )


def _first_rule(grid: Grid, item: BatchItemIn) -> FieldFault:
    fault = describe_failure(int(grid.failures(0, 1)[0]), grid.point_scenario(0))
    return _placed(fault, item)


def _headline(grid: Grid, item: BatchItemIn, num_gpus: int) -> int | None:
    """The headline point (decisions 9): as named, else the profile's size on a pure size axis."""
    if item.headline is not None:
        point = grid.find(item.headline)
        if point is None:
            raise InvalidError(
                "the headline is not on the grid",
                errors=[
                    FieldFault(
                        pointer="/headline",
                        code="headline_not_on_grid",
                        detail=f"{item.headline} is no point of the axes "
                        f"{', '.join(grid.axis_paths) or '(none)'}",
                    )
                ],
            )
        return point
    if not grid.axis_paths or isinstance(grid, RemedyGrid):
        return 0
    if tuple(grid.axis_paths) == ("num_gpus",):
        return grid.find({"num_gpus": num_gpus})
    return None


def placed(fault: Fault, overrides: Iterable[str], *, inline: bool) -> FieldFault:
    """Point at the part of the request that the faulty value of the scenario came from."""
    path = fault.pointer.lstrip("/").split("/")
    pointer = f"/scenario{fault.pointer}" if inline else "/profile"
    for override in overrides:
        parts = override.split(".")
        if path[: len(parts)] == parts:
            rest = "".join(f"/{part}" for part in path[len(parts) :])
            pointer = f"/overrides/{escaped(override)}{rest}"
            break
        if parts[: len(path)] == path:
            pointer = f"/overrides/{escaped(override)}"
            break
    return FieldFault(pointer=pointer, code=fault.code, detail=fault.detail)


def _placed(fault: Fault, item: BatchItemIn) -> FieldFault:
    return placed(fault, item.overrides, inline=item.scenario is not None)


def _below(prefix: str, error: InvalidError) -> list[FieldFault]:
    return [
        FieldFault(pointer=prefix + fault.pointer, code=fault.code, detail=fault.detail)
        for fault in error.errors
    ]


def _repeated_ids(items: Sequence[tuple[int, BatchItemIn]]) -> list[FieldFault]:
    first: dict[str, int] = {}
    faults = []
    for position, item in items:
        earlier = first.setdefault(item.custom_id, position)
        if earlier != position:
            faults.append(
                FieldFault(
                    pointer=f"/items/{position}/custom_id",
                    code="duplicate_custom_id",
                    detail=f"{item.custom_id!r} is already the custom_id of item {earlier}",
                )
            )
    return faults
