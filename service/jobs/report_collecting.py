"""Collect what a loss report says: both batches, their prices, causes, remedies and warnings."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from service.db import batches, reports, schedule_runs
from service.db.engine import Connection, Row
from service.jobs.actors import Actor
from service.jobs.batch_documents import TERMINAL_STATES
from service.jobs.drift import CODE as DRIFTED
from service.jobs.report_documents import MakingSettings
from service.jobs.report_reading import Rates, ReadBatch, read_batch, read_rates, read_side
from service.jobs.report_remedies import Ranked, rank
from service.jobs.report_reproduction import reproduction_of
from service.jobs.volume_causes import side_of, volume_causes
from service.reports.budgets import outcome_of
from service.reports.loss_report import (
    SCHEMA,
    LossReport,
    ReportBatch,
    ReportNotice,
    ReportRun,
    VolumeCause,
)
from service.reports.report_notices import (
    notice,
    notices_of_budget,
    notices_of_comparison,
    notices_of_profiles,
    notices_of_side,
)
from service.reports.report_sides import Paired, ReportSide, paired
from service.reports.report_totals import Compared, numbers_of
from service.reports.volume import Pair

BASELINE_DELETED = "batch_deleted"
NOT_COUNTED = ("failed", "not_computed")


class Change(Struct, frozen=True, kw_only=True):
    """What moved the loss of one scenario, as histories keep it."""

    point: int
    past_point: int
    name: str
    profile_slug: str | None
    past_gpu_hours_lost: float
    new_gpu_hours_lost: float
    causes: list[VolumeCause]


class Collected(Struct, frozen=True, kw_only=True):
    """The report, and what histories keep of it."""

    report: LossReport
    changes: list[Change]


class _Baseline(Struct, frozen=True, kw_only=True):
    read: ReadBatch
    side: ReportSide
    compared: Compared


def collect(connection: Connection, actor: Actor, row: Row[Any], now: datetime) -> Collected:
    """The report that the row asks for, from one snapshot.

    Raises `NotFoundError` and `ConflictError` when the batch is not there any more, or has not
    ended. A baseline that was deleted is none.
    """
    settings = msgspec.convert(row.settings, MakingSettings)
    read = read_batch(connection, actor, row.batch_id, row.pricing)
    past = _past(connection, actor, row)
    rates = read_rates(connection, [read, *([past] if past else [])])
    side = read_side(connection, read, rates)
    baseline = _compared(connection, read, side, past, rates) if past else None
    compared = baseline.compared if baseline else None
    numbers = numbers_of(read.batch.id, side, compared, movers=settings.report.movers)
    ranked = rank(side, read.items) if settings.report.remedies else Ranked([], [], [])
    run = None if row.run_id is None else schedule_runs.find_run(connection, row.run_id)
    num_missing = _num_missing(side)
    budget = settings.budget
    outcome = None
    if budget is not None:
        outcome = outcome_of(
            numbers.headline,
            gpu_hours=budget.gpu_hours_lost_per_30_days,
            cost=budget.cost_of_loss_per_30_days,
            is_complete=not num_missing,
            exact=numbers.exact_cost,
        )
    warnings = [
        *_of_run(run),
        *_of_batch(read, side),
        *(
            notices_of_comparison(baseline.side, side, compared.paired)
            if baseline and compared
            else []
        ),
        *ranked.notices,
        *notices_of_budget(outcome, num_missing),
    ]
    missing = settings.baseline_missing
    if baseline is None and missing is None:
        missing = BASELINE_DELETED if row.baseline_batch_id is not None else "none_asked"
    return Collected(
        report=LossReport(
            report_id=row.id,
            schema=SCHEMA,
            name=row.name,
            made_at=now,
            run=None if run is None else _run(connection, run),
            batch=_batch(read, side, run, row.pricing),
            baseline=None
            if baseline is None
            else _batch(
                baseline.read,
                baseline.side,
                schedule_runs.run_of_batch(connection, baseline.read.batch.id),
                row.baseline_pricing,
            ),
            baseline_missing=None if baseline is not None else missing,
            headline=numbers.headline,
            waterfall=numbers.waterfall,
            items=numbers.items,
            movers=numbers.movers,
            profiles=numbers.profiles,
            remedies=ranked.remedies,
            remedies_left_out=ranked.left_out,
            warnings=warnings,
            budget=outcome,
            reproduce=reproduction_of(row.id, read, side, past),
        ),
        changes=[] if baseline is None else list(_changes(baseline.compared)),
    )


def _num_missing(side: ReportSide) -> int:
    """Items that a budget is not held against, although it should be.

    A grid of alternatives is in no sum by its author's will, but a batch of nothing else says
    nothing of a budget.
    """
    if not side.counted:
        return len(side.items)
    return sum(item.missing in NOT_COUNTED for item in side.items)


def _past(connection: Connection, actor: Actor, row: Row[Any]) -> ReadBatch | None:
    """The batch that is compared with, if it is still there."""
    if row.baseline_batch_id is None:
        return None
    found = batches.get_batch(connection, row.team_id, row.baseline_batch_id)
    if found is None or found.state not in TERMINAL_STATES:
        return None
    return read_batch(connection, actor, row.baseline_batch_id, row.baseline_pricing)


def _compared(
    connection: Connection,
    read: ReadBatch,
    side: ReportSide,
    past: ReadBatch,
    rates: Rates,
) -> _Baseline:
    past_side = read_side(connection, past, rates)
    pairs = paired(past_side, side)
    causes = volume_causes(connection, list(_pairs(past, read, pairs)))
    return _Baseline(
        read=past,
        side=past_side,
        compared=Compared(past=past_side, paired=pairs, volume=causes, keys=rates.keys),
    )


def _pairs(past: ReadBatch, new: ReadBatch, found: Paired) -> Iterator[Pair]:
    past_rows, new_rows = _by_id(past), _by_id(new)
    for old, item in found.pairs:
        past_row, new_row = past_rows[old.custom_id], new_rows[item.custom_id]
        yield Pair(
            past=side_of(past.batch, past_row, past.summaries[past_row.id]),
            new=side_of(new.batch, new_row, new.summaries[new_row.id]),
        )


def _by_id(read: ReadBatch) -> Mapping[str, Row[Any]]:
    return {item.custom_id: item for item in read.items}


def _changes(compared: Compared) -> Iterator[Change]:
    for (old, item), causes in zip(compared.paired.pairs, compared.volume, strict=True):
        if old.found is not None and item.found is not None:
            yield Change(
                point=item.found.point,
                past_point=old.found.point,
                name=item.name,
                profile_slug=item.profile,
                past_gpu_hours_lost=old.lost_per_30_days,
                new_gpu_hours_lost=item.lost_per_30_days,
                causes=list(causes),
            )


def _run(connection: Connection, run: Row[Any]) -> ReportRun:
    schedule = reports.schedule_of(connection, run.schedule_id)
    return ReportRun(
        schedule_id=run.schedule_id,
        schedule=schedule.slug,
        run_id=run.id,
        kind=run.kind,
        attempt=run.attempt,
        scheduled_for=run.scheduled_for,
        local_time=run.local_time,
        zone=run.zone,
        tzdata_version=run.tzdata_version,
    )


def _batch(read: ReadBatch, side: ReportSide, run: Row[Any] | None, pricing: int) -> ReportBatch:
    batch, prices = read.batch, read.prices
    return ReportBatch(
        batch_id=batch.id,
        name=batch.name,
        state=batch.state,
        start_on=batch.start_on,
        currency=side.currency,
        pricing=pricing,
        rates_as_of=None if prices is None else prices.rates_as_of,
        model_version=batch.model_version,
        input_digest=batch.input_digest,
        created_at=batch.created_at,
        ended_at=batch.ended_at,
        items_total=batch.items_total,
        points_total=batch.points_total,
        points_failed=batch.points_failed,
        items_without_headline=sum(item.missing == "no_headline" for item in side.items),
        run_id=None if run is None else run.id,
        scheduled_for=None if run is None else run.scheduled_for,
        reused_from=batch.reused_from,
        local_time=None if run is None else run.local_time,
        zone=None if run is None else run.zone,
    )


def _of_run(run: Row[Any] | None) -> Iterator[ReportNotice]:
    """What the ledger says of the run: late, moved by the clock, another revision taken."""
    for warning in [] if run is None else run.warnings:
        yield ReportNotice(
            code=warning["code"],
            detail=warning["detail"],
            params=warning.get("params", {}),
            pointer=warning.get("pointer", ""),
        )


def _of_batch(read: ReadBatch, side: ReportSide) -> Iterator[ReportNotice]:
    batch = read.batch
    yield from notices_of_side(
        side,
        state=batch.state,
        points_failed=batch.points_failed,
        points_total=batch.points_total,
    )
    yield from notices_of_profiles(_drifted(read))
    if batch.reused_from is not None:
        yield notice("reused", batch=str(batch.reused_from))


def _drifted(read: ReadBatch) -> list[str]:
    """Slugs of the profiles of which runs told otherwise when the batch was taken."""
    slugs = {f"/items/{item.position}/profile": item.profile_slug for item in read.items}
    warned = [warning for warning in read.batch.warnings if warning["code"] == DRIFTED]
    return sorted({slugs[warning["pointer"]] for warning in warned if warning["pointer"] in slugs})
