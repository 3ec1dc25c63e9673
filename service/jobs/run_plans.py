"""From a schedule and a slot to the batch of the run: its body, its plan and its settings."""

from datetime import date, datetime
from typing import Any
from uuid import UUID

import msgspec

from service.db.engine import Connection, Row
from service.db.slot_profiles import revisions_at
from service.jobs.batch_documents import BatchIn, BatchItemIn, Notice
from service.jobs.batch_plans import plan_batch
from service.jobs.planning import Plan
from service.jobs.reason_sentences import say
from service.jobs.run_documents import RunSettings
from service.jobs.schedule_actors import schedule_actor
from service.jobs.schedule_documents import ScheduleIn
from service.settings import Limits


class SlotToPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What planning needs of a run: of one that is only thought of."""

    team_id: UUID
    scheduled_for: datetime
    start_on: date
    id: UUID | None = None


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The batch of a run as it would be stored, and what must be said of it."""

    body: BatchIn
    plan: Plan
    warnings: list[Notice]


def plan_run(
    connection: Connection,
    schedule: Row[Any],
    definition: ScheduleIn,
    run: Row[Any] | SlotToPlan,
    limits: Limits,
) -> RunPlan:
    """Plan the batch of a run; raises `InvalidError` with every fault."""
    template = definition.batch
    items, warnings = template.items, list[Notice]()
    if definition.profiles_as_of == "slot":
        items, warnings = _pinned(connection, items, run)
    body = BatchIn(
        name=definition.name,
        items=items,
        start_on=run.start_on,
        currency=template.currency,
        metadata=template.metadata,
        priority=template.priority,
        reuse=template.reuse,
    )
    actor = schedule_actor(schedule.team_id, schedule.slug)
    body, plan = plan_batch(connection, actor, msgspec.to_builtins(body), limits)
    return RunPlan(body=_labelled(body, schedule, run), plan=plan, warnings=warnings)


def settings_of(definition: ScheduleIn, *, deliver: bool) -> RunSettings:
    """What a run keeps of its schedule when it begins."""
    return RunSettings(
        report=definition.report,
        deliveries=definition.deliveries if deliver else [],
        budget=definition.budget,
        baseline=definition.baseline,
        currency=definition.batch.currency,
    )


def _labelled(body: BatchIn, schedule: Row[Any], run: Row[Any] | SlotToPlan) -> BatchIn:
    """The batch says which run it is of, whatever the template calls so."""
    labels = {
        "schedule": schedule.slug,
        "scheduled_for": f"{run.scheduled_for:%Y-%m-%dT%H:%M:%SZ}",
        "run": str(run.id),
    }
    return msgspec.structs.replace(body, metadata={**body.metadata, **labels})


def _pinned(
    connection: Connection, items: list[BatchItemIn], run: Row[Any] | SlotToPlan
) -> tuple[list[BatchItemIn], list[Notice]]:
    """The items with those revisions that were the newest at the slot."""
    free = {item.profile for item in items if item.profile and "@" not in item.profile}
    then = revisions_at(connection, run.team_id, free, run.scheduled_for)
    pinned, warnings = [], []
    for position, item in enumerate(items):
        found = then.get(item.profile) if item.profile else None
        if found is None:
            # Inline or pinned; or there is no such profile, as planning will say
            pinned.append(item)
            continue
        pinned.append(msgspec.structs.replace(item, profile=f"{item.profile}@{found.revision}"))
        if not found.existed:
            warnings.append(
                Notice(
                    pointer=f"/items/{position}/profile",
                    code="profile_not_yet",
                    detail=say(
                        "profile_not_yet",
                        slug=item.profile,
                        revision=f"{item.profile}@{found.revision}",
                    ),
                )
            )
    return pinned, warnings
