"""When a schedule would come that is being written: nothing is stored, nothing else is checked."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from service.errors import InvalidError
from service.jobs import occurrences
from service.jobs.cron_words import words_of
from service.jobs.occurrences import slots_ahead
from service.jobs.schedule_documents import Cron, Zone
from service.jobs.schedule_views import OccurrenceList, occurrence_of
from service.jobs.zone_data import TZDATA_VERSION


class OccurrencePreviewIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The two fields of a schedule that say when it comes."""

    cron: Annotated[Cron, Meta(description="Expression, as a schedule has it.")]
    zone: Annotated[Zone, Meta(description="IANA time zone of its wall time.")]


def preview(
    body: OccurrencePreviewIn, *, after: datetime, count: int, shortest_minutes: int
) -> OccurrenceList:
    """The next slots after a moment; raises `InvalidError` as a schedule of them would."""
    cron = " ".join(body.cron.split())
    faults = occurrences.check(cron, body.zone, shortest_minutes=shortest_minutes)
    if faults:
        raise InvalidError(faults[0].detail, problem="invalid-schedule", errors=faults)
    return OccurrenceList(
        items=[occurrence_of(slot) for slot in slots_ahead(cron, body.zone, after, count=count)],
        cron=cron,
        cron_words=words_of(cron),
        zone=body.zone,
        paused=False,
        tzdata_version=TZDATA_VERSION,
    )
