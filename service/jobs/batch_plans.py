"""From the body of a batch to its plan: decoded item by item, every fault of all of them named."""

from datetime import UTC, datetime
from itertools import islice
from typing import Any

import msgspec

from service.db.engine import Connection
from service.errors import FieldFault, InvalidError
from service.jobs.actors import Actor
from service.jobs.batch_documents import BatchIn, BatchItemIn
from service.jobs.deadlines import deadline_faults
from service.jobs.documents import MAX_FAULTS, faults_of
from service.jobs.planning import Plan, plan_items
from service.reports.money import MoneyError, minor_digits
from service.settings import Limits


def plan_batch(
    connection: Connection, actor: Actor, document: Any, limits: Limits
) -> tuple[BatchIn, Plan]:
    """Decode item by item, so that a fault in one item does not hide those of the others.

    Raises `InvalidError` with one entry for every fault.
    """
    _check_number_of_items(document, limits)
    now = datetime.now(UTC)
    faults = list(islice(faults_of(document, BatchIn), MAX_FAULTS))
    if faults:
        plan_items(
            connection,
            actor,
            _sound_items(document, faults),
            limits,
            start_on=now.date(),
            known_faults=faults,
        )
    body = msgspec.convert(document, BatchIn)
    return body, plan_items(
        connection,
        actor,
        list(enumerate(body.items)),
        limits,
        start_on=body.start_on or now.date(),
        known_faults=[
            *_currency_faults(body.currency),
            *deadline_faults(body.deadline_at, now),
        ],
    )


def _sound_items(document: Any, faults: list[FieldFault]) -> list[tuple[int, BatchItemIn]]:
    items = document.get("items") if isinstance(document, dict) else None
    if not isinstance(items, list):
        return []
    spoilt = {
        fault.pointer.split("/")[2] for fault in faults if fault.pointer.startswith("/items/")
    }
    return [
        (position, msgspec.convert(item, BatchItemIn))
        for position, item in enumerate(items)
        if str(position) not in spoilt and not any(faults_of(item, BatchItemIn))
    ]


def _check_number_of_items(document: Any, limits: Limits) -> None:
    items = document.get("items") if isinstance(document, dict) else None
    if isinstance(items, list) and len(items) > limits.items_per_batch:
        detail = f"{len(items)} items, but the limit is {limits.items_per_batch}"
        fault = FieldFault(pointer="/items", code="too_many_items", detail=detail)
        raise InvalidError(detail, errors=[fault])


def _currency_faults(currency: str | None) -> list[FieldFault]:
    if currency is not None:
        try:
            minor_digits(currency)
        except MoneyError as error:
            return [FieldFault(pointer="/currency", code=error.code, detail=str(error))]
    return []
