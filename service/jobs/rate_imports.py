"""Import of many rates from CSV text: all of them or none, with every bad line named."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from service.db import rates as rows
from service.db.engine import Connection
from service.db.rates import RateKey
from service.db.tables import utc_now
from service.errors import ConflictError, FieldFault, InvalidError, TooLargeError
from service.jobs import audit
from service.jobs.actors import Actor
from service.jobs.documents import MAX_FAULTS, decode_document
from service.jobs.rate_documents import ImportedRate, ImportOut, RateIn
from service.jobs.rate_entries import entry_faults, key_of, new_row
from service.jobs.rate_overlaps import Span, span_of, sweep_overlaps

REQUIRED_COLUMNS = ("gpu_type", "currency", "price_per_gpu_hour", "valid_from", "source")
OPTIONAL_COLUMNS = ("cost_center", "valid_until")
MAX_ROWS = 10_000

# The price is an object in JSON and two columns in CSV.
_COLUMN_POINTERS = {
    "/price_per_gpu_hour/amount": "/price_per_gpu_hour",
    "/price_per_gpu_hour/currency": "/currency",
}


class Line(Struct, frozen=True, kw_only=True):
    """A rate and the line of the text on which it starts; the header is line 1."""

    number: int
    rate: RateIn


def import_rates(
    connection: Connection, actor: Actor, text: str, *, dry_run: bool = False
) -> ImportOut:
    """Record all rates of the text, or with `dry_run` only say whether that would work.

    Raises `InvalidError` (or `ConflictError`, when overlaps are the only faults) with one entry
    for every fault, pointing at `/rows/<line>/<column>`; nothing is stored then.
    """
    faults: list[FieldFault] = []
    lines = list(_read_lines(text, faults))
    by_key: dict[RateKey, list[Line]] = defaultdict(list)
    for line in lines:
        by_key[key_of(line.rate)].append(line)
    if not dry_run and not faults:
        rows.lock_keys(connection, actor.team_id, list(by_key))
    overlaps = [fault for key in by_key for fault in _overlaps(connection, actor, key, by_key[key])]
    _refuse(faults, overlaps)
    recorded_at = utc_now()
    entries = [new_row(actor, line.rate, recorded_at) for line in lines]
    if not dry_run:
        rows.insert_rates(connection, entries)
    imported = ImportOut(
        validate_only=dry_run,
        num_rates=len(lines),
        items=[
            ImportedRate(
                line=line.number,
                id=None if dry_run else entry["id"],
                gpu_type=line.rate.gpu_type,
                cost_center=line.rate.cost_center,
                price_per_gpu_hour=line.rate.price_per_gpu_hour,
                valid_from=line.rate.valid_from,
                valid_until=line.rate.valid_until,
            )
            for line, entry in zip(lines, entries, strict=True)
        ],
    )
    if not dry_run:
        audit.record(
            connection,
            actor,
            action="import_rates",
            subject="gpu-hour-rates",
            after=imported,
            detail=f"{imported.num_rates} rates",
        )
    return imported


def _read_lines(text: str, faults: list[FieldFault]) -> Iterator[Line]:
    """The good lines; the faults of the bad ones are appended to `faults`."""
    cells = _cells(text, faults)
    _, header = next(cells, (1, []))
    header = [name.strip() for name in header]
    faults += _header_faults(header)
    if faults:
        return
    count = 0
    for number, row in cells:
        count += 1
        if count > MAX_ROWS:
            raise TooLargeError(f"more than {MAX_ROWS} rates in one import; split the file")
        if len(row) != len(header):
            detail = f"{len(row)} cells, but the header has {len(header)}"
            faults.append(
                FieldFault(pointer=f"/rows/{number}", code="wrong_number_of_cells", detail=detail)
            )
            continue
        found = _decode(dict(zip(header, row, strict=True)))
        if isinstance(found, RateIn):
            yield Line(number=number, rate=found)
        else:
            faults += [_at_line(number, fault) for fault in found]
    if not count and not faults:
        faults.append(
            FieldFault(pointer="/rows", code="no_rows", detail="the text has no line with a rate")
        )


def _cells(text: str, faults: list[FieldFault]) -> Iterator[tuple[int, list[str]]]:
    """Each row that is not blank, with the line on which it starts."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    number = 1
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            faults.append(
                FieldFault(pointer=f"/rows/{number}", code="malformed_csv", detail=str(error))
            )
            return
        if row is None:
            return
        if row:
            yield number, row
        number = reader.line_num + 1


def _header_faults(header: list[str]) -> list[FieldFault]:
    known = REQUIRED_COLUMNS + OPTIONAL_COLUMNS
    wrong = [
        *(f"column {name!r} is missing" for name in REQUIRED_COLUMNS if name not in header),
        *(f"column {name[:64]!r} is unknown" for name in header if name not in known),
        *(f"column {name!r} is there twice" for name in known if header.count(name) > 1),
    ]
    needed = f"the first line must name {', '.join(REQUIRED_COLUMNS)}"
    return [
        FieldFault(
            pointer="/header",
            code="wrong_header",
            detail=f"{sentence}; {needed}, and may name {' and '.join(OPTIONAL_COLUMNS)}",
        )
        for sentence in wrong
    ]


def _decode(row: dict[str, str]) -> RateIn | list[FieldFault]:
    value: dict[str, Any] = {
        "gpu_type": row["gpu_type"],
        "cost_center": row.get("cost_center") or None,
        "price_per_gpu_hour": {"amount": row["price_per_gpu_hour"], "currency": row["currency"]},
        "valid_from": row["valid_from"],
        "valid_until": row.get("valid_until") or None,
        "source": row["source"],
    }
    try:
        rate = decode_document(value, RateIn)
    except InvalidError as error:
        return [
            FieldFault(pointer=fault.pointer, code=fault.code, detail=fault.detail)
            for fault in error.errors
        ]
    return entry_faults(rate) or rate


def _at_line(number: int, fault: FieldFault) -> FieldFault:
    column = _COLUMN_POINTERS.get(fault.pointer, fault.pointer)
    return FieldFault(pointer=f"/rows/{number}{column}", code=fault.code, detail=fault.detail)


def _overlaps(
    connection: Connection, actor: Actor, key: RateKey, lines: list[Line]
) -> list[FieldFault]:
    stored = [span_of(row) for row in rows.list_of_key(connection, actor.team_id, key)]
    new = [
        Span(
            valid_from=line.rate.valid_from,
            valid_until=line.rate.valid_until,
            label=f"line {line.number}",
            line=line.number,
        )
        for line in lines
    ]
    return sweep_overlaps([*stored, *new])


def _refuse(faults: list[FieldFault], overlaps: list[FieldFault]) -> None:
    found = sorted([*faults, *overlaps], key=_line_of)
    if not found:
        return
    shown = "" if len(found) <= MAX_FAULTS else f"; the first {MAX_FAULTS} are listed"
    detail = f"nothing was imported: {len(found)} fault(s){shown}"
    if faults:
        raise InvalidError(detail, errors=found[:MAX_FAULTS])
    raise ConflictError(detail, errors=found[:MAX_FAULTS])


def _line_of(fault: FieldFault) -> int:
    parts = fault.pointer.split("/")
    return int(parts[2]) if len(parts) > 2 else 0
