"""Rates of one key that share a day."""

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any
from uuid import UUID

from msgspec import Struct

from service.db.engine import Row
from service.errors import FieldFault
from service.jobs.rate_documents import RateIn


class Span(Struct, frozen=True, kw_only=True):
    """The days `[valid_from, valid_until)` of one rate; `label` names it in sentences.

    `line` is the line of the import that it comes from, None when it is stored already.
    """

    valid_from: date
    valid_until: date | None
    label: str
    line: int | None = None

    def text(self) -> str:
        """The days, for a person."""
        return f"[{self.valid_from}, {self.valid_until or 'no end'})"


def span_of(row: Row[Any]) -> Span:
    """The days of a stored rate."""
    return Span(
        valid_from=row.valid_from,
        valid_until=row.valid_until,
        label=f"rate {row.id} (from {row.source!r})",
    )


def overlapping(
    rows: Iterable[Row[Any]], rate: RateIn, *, but: UUID | None = None
) -> list[FieldFault]:
    """One fault for every stored rate of the same key, other than `but`, that shares a day."""
    new = Span(valid_from=rate.valid_from, valid_until=rate.valid_until, label="the new rate")
    return clashes((row for row in rows if row.id != but), new)


def clashes(rows: Iterable[Row[Any]], new: Span) -> list[FieldFault]:
    """One fault for every stored rate of the same key that shares a day with the span."""
    return [_clash("", new, span) for row in rows if _share_a_day(new, span := span_of(row))]


def sweep_overlaps(spans: Sequence[Span]) -> list[FieldFault]:
    """Faults of the imported spans of one key that share a day with another span of the key.

    In the order of the first days each span is held against the one before it that reaches
    furthest, so any number of spans needs one pass; a fault is found if and only if two share
    a day. Stored spans never share a day with each other.
    """
    faults: list[FieldFault] = []
    furthest: Span | None = None
    for span in sorted(spans, key=lambda span: (span.valid_from, span.line or 0)):
        if furthest is None:
            furthest = span
            continue
        if _share_a_day(furthest, span):
            blamed, other = (span, furthest) if span.line is not None else (furthest, span)
            faults.append(_clash(f"/rows/{blamed.line}", blamed, other))
        furthest = max(furthest, span, key=_end)
    return faults


def _share_a_day(one: Span, other: Span) -> bool:
    return one.valid_from < _end(other) and other.valid_from < _end(one)


def _end(span: Span) -> date:
    # No rate starts on the last date of the calendar, so it can stand for an open end.
    return span.valid_until or date.max


def _clash(prefix: str, new: Span, other: Span) -> FieldFault:
    return FieldFault(
        pointer=f"{prefix}/valid_from",
        code="overlapping_rate",
        detail=f"{new.text()} shares days with {other.text()} of {other.label}",
    )
