"""Export the results of a filtered list, or a comparison, as columns from one snapshot."""

from datetime import UTC

import msgspec

from service.db.engine import Connection
from service.errors import FieldFault, InvalidError
from service.jobs.actors import Actor
from service.jobs.export_comparisons import check_comparison, extract_comparison
from service.jobs.export_documents import ComparisonExportQuery, ComparisonIn, ExportIn, ExportQuery
from service.jobs.export_extracts import Extract
from service.jobs.export_results import extract_results
from service.jobs.result_queries import ResultFilters
from service.jobs.results import select


def extract(connection: Connection, actor: Actor, query: ExportIn) -> Extract:
    """What goes into the file.

    Money is in it only if the actor may see it. Raises `NotFoundError`, `ConflictError` (a batch
    that has not ended), `MalformedError` (filters, order, columns), `ForbiddenError` (filters or
    order by cost) and `InvalidError` (too many rows to sort, a key that a comparison meets twice),
    all before the first chunk.
    """
    if query.comparison is None:
        return extract_results(connection, actor, query)
    return extract_comparison(connection, actor, query.comparison)


def check(connection: Connection, actor: Actor, query: ExportIn) -> None:
    """Raise what `extract` raises, but for what only the rows can tell; reads none of them."""
    if query.comparison is None:
        select(connection, actor, query)
    else:
        check_comparison(connection, actor, query.comparison)


def of_results(query: ExportQuery) -> ExportIn:
    """The question as a file would be asked for with it."""
    return ExportIn(**msgspec.structs.asdict(query))


def of_comparison(query: ComparisonExportQuery) -> ExportIn:
    """The question as a file would be asked for with it."""
    asked = msgspec.structs.asdict(query)
    return ExportIn(format=asked.pop("format"), comparison=ComparisonIn(**asked))


def checked(query: ExportIn) -> ExportIn:
    """The question with its moments in UTC; raises `InvalidError` for what cannot be asked."""
    if query.comparison is not None:
        plain = ExportIn(format=query.format, comparison=query.comparison)
        if query != plain:
            mixed = [
                name
                for name in ResultFilters.__struct_fields__
                if getattr(query, name) != getattr(plain, name)
            ]
            raise _fault(
                f"/{mixed[0]}",
                "mixed_query",
                f"{mixed[0]} stands beside comparison: only one can be",
            )
        return query
    return msgspec.structs.replace(
        query,
        **{name: _in_utc(query, name) for name in ("created_after", "created_before")},
    )


def _in_utc(query: ExportIn, name: str) -> object:
    moment = getattr(query, name)
    try:
        return moment and moment.astimezone(UTC)
    except OverflowError:
        raise _fault(f"/{name}", "out_of_range", f"{moment} is beyond the calendar") from None


def _fault(pointer: str, code: str, detail: str) -> InvalidError:
    return InvalidError(detail, errors=[FieldFault(pointer=pointer, code=code, detail=detail)])
