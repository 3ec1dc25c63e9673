"""`/v1/reports`: what a batch loses, against the one before, as a document in any format."""

import base64
import hashlib
import re
from functools import partial
from typing import Annotated, Any, Final
from uuid import UUID

from litestar.handlers import HTTPRouteHandler
from msgspec import Meta, Struct

from service.api.answers import empty_answer, json_answer, raw_answer
from service.api.bodies import read_body
from service.api.concurrency import etag_of, expected_version, not_modified
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.idempotency import Created, create_once
from service.api.list_queries import PageQuery
from service.api.pages import page_answer
from service.api.parameters import read_path, read_query, refuse_query
from service.api.transactions import actor_of, in_turn, read, write
from service.db.engine import Connection
from service.jobs import reports
from service.jobs.export_extracts import TRAINARD_VERSION
from service.jobs.report_documents import (
    ReportContentQuery,
    ReportDetail,
    ReportIn,
    ReportOut,
    ReportPage,
    ReportState,
)
from service.reports.loss_report import LossReport
from service.reports.report_formats import FORMATS

TAG = "Reports"
CHARSET: Final = "; charset=utf-8"
# Beside JSON, which is the document itself
MEDIA_TYPES: Final = tuple(
    dict.fromkeys(
        one.media_type.partition(";")[0] for name, one in FORMATS.items() if name != "json"
    )
)
_BATCH, _BEFORE = (
    "01934a5e-7d20-7c3a-9b1e-5f0c1a5e8b21",
    "0193453c-1b90-7e55-8d2f-6f0c1a5e8b21",
)
# Batches of the reader's own are needed: on an empty service these answer 404.
REPORT_EXAMPLES: dict[str, Any] = {
    "a batch against the one of the night before": {
        "batch_id": _BATCH,
        "baseline_batch_id": _BEFORE,
    },
    "in French, against a budget": {
        "batch_id": _BATCH,
        "report": {"language": "fr", "movers": 5},
        "budget": {
            "gpu_hours_lost_per_30_days": 200000,
            "cost_of_loss_per_30_days": {"amount": "250000.00", "currency": "EUR"},
        },
    },
}
# A report has one style sheet, and may have nothing else: no script, no request, no frame.
_STYLE: Final = re.compile(rb"<style>(.*?)</style>", re.DOTALL)
_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)


class ReportPath(Struct, frozen=True, kw_only=True):
    """The report in the path."""

    report_id: Annotated[UUID, Meta(description="Id of the report.")]


class ReportsQuery(PageQuery, frozen=True, kw_only=True):
    """Which reports, and where in the list."""

    schedule: (
        Annotated[str, Meta(max_length=64, description="Only of this schedule, by id or slug.")]
        | None
    ) = None
    run: Annotated[UUID, Meta(description="Only of this run.")] | None = None
    batch: Annotated[UUID, Meta(description="Only about this batch.")] | None = None
    state: Annotated[ReportState, Meta(description="Only in this state.")] | None = None


@operation(
    "POST",
    "/v1/reports",
    Contract(
        operation_id="create_report",
        scope="exports:create",
        summary="Have a report made of a batch, against another one",
        description="Runs of schedules get theirs by themselves. The report never changes: with "
        "the prices of a later pricing (`pricing`) it is another report, and the first one stays. "
        "It can be read when its batches are deleted. Another pricing than the first, and a budget "
        "of money, need the scope costs:read.",
        tag=TAG,
        body=ReportIn,
        body_examples=REPORT_EXAMPLES,
        idempotent=True,
        problems=(404, 409),
        answers={
            202: Answer(
                description="It will be made",
                body=ReportOut,
                headers=("Location", "ETag", "Retry-After"),
            )
        },
    ),
)
async def create_report(request: ApiRequest) -> ApiResponse:
    """Store what is asked for and wake the engine."""
    refuse_query(request)
    document = await read_body(request, ReportIn)
    actor = actor_of(request)

    def create(connection: Connection) -> Created:
        report = reports.create(connection, actor, document)
        return Created(
            document=report,
            status=202,
            headers={
                "Location": f"/v1/reports/{report.id}",
                "ETag": etag_of(report.version),
                "Retry-After": "1",
            },
        )

    answer = await create_once(request, create)
    request.app.state.engine.wake()
    return answer


@operation(
    "GET",
    "/v1/reports",
    Contract(
        operation_id="list_reports",
        scope="results:read",
        summary="List reports, newest first",
        tag=TAG,
        query=ReportsQuery,
        problems=(404,),
        answers={200: Answer(description="A page of reports", body=ReportPage, headers=("Link",))},
    ),
)
async def list_reports(request: ApiRequest) -> ApiResponse:
    """Answer with a page of reports."""
    query = read_query(request, ReportsQuery)
    actor = actor_of(request)
    chosen = reports.ReportChoice(
        schedule=query.schedule, run=query.run, batch=query.batch, state=query.state
    )
    return await page_answer(
        request,
        query,
        lambda c, size, token: reports.list_page(
            c, actor, chosen, page_size=size, page_token=token
        ),
    )


@operation(
    "GET",
    "/v1/reports/{report_id:str}",
    Contract(
        operation_id="get_report",
        scope="results:read",
        reveals_costs=True,
        summary="Read a report's state, headline and budget",
        description="`headline` is what all headline points lose on 30 days, with the change "
        "against the baseline and its causes; null until the report has succeeded. Without the "
        "scope costs:read money is withheld.",
        tag=TAG,
        path=ReportPath,
        answers={200: Answer(description="The report", body=ReportDetail, headers=("ETag",))},
    ),
)
async def get_report(request: ApiRequest) -> ApiResponse:
    """Answer with state and headline."""
    refuse_query(request)
    report_id = read_path(request, ReportPath).report_id
    actor = actor_of(request)
    found = await read(request, lambda c: reports.get(c, actor, report_id))
    # For If-Match alone: what is shown of a version depends on who reads it.
    return json_answer(found, headers={"ETag": etag_of(found.version)})


@operation(
    "GET",
    "/v1/reports/{report_id:str}/content",
    Contract(
        operation_id="read_report",
        scope="results:read",
        reveals_costs=True,
        summary="Read a report as HTML, JSON, CSV, Parquet or FOCUS",
        description="`html` is one document without scripts or requests, to read, print or send; "
        "`json` is the whole document; `csv` and `parquet` are its items, one row each; `focus` is "
        "a FOCUS 1.2 CSV of the loss by item, day (of windows longer than 31 days by month) and "
        "cause, flagged as a forecast. All have the same numbers. Without the scope costs:read "
        "money is withheld in every format.",
        tag=TAG,
        path=ReportPath,
        query=ReportContentQuery,
        conditional_get=True,
        problems=(409,),
        answers={
            200: Answer(
                description="The report",
                body=LossReport,
                media_types=MEDIA_TYPES,
                headers=("Content-Disposition", "ETag"),
            )
        },
    ),
)
async def read_report(request: ApiRequest) -> ApiResponse:
    """Write the report in the format and language asked for."""
    query = read_query(request, ReportContentQuery)
    report_id = read_path(request, ReportPath).report_id
    actor = actor_of(request)
    known = await read(request, lambda c: reports.require_ended(c, actor, report_id))
    language = query.language or known.language
    # It never changes: the same question has the same answer, as long as the same code writes it.
    seen = "all" if actor.sees_costs else "withheld"
    etag = etag_of(f"{report_id}-{query.format}-{language}-{seen}-{TRAINARD_VERSION}")
    if unchanged := not_modified(request, etag):
        return unchanged
    report = await read(request, lambda c: reports.read_document(c, actor, report_id))
    shape = FORMATS[query.format]
    content = await in_turn(request, partial(shape.write, report, language))
    headers = {
        "Content-Disposition": _disposition(report, shape.extension, query.format),
        "ETag": etag,
    }
    if query.format == "html":
        headers["Content-Security-Policy"] = content_policy(content)
        # The page of a report shows it in a frame.
        headers["X-Frame-Options"] = "SAMEORIGIN"
    # Litestar says the charset of texts itself.
    media_type = shape.media_type.replace(CHARSET, "")
    return raw_answer(content, media_type=media_type, headers=headers)


@operation(
    "DELETE",
    "/v1/reports/{report_id:str}",
    Contract(
        operation_id="delete_report",
        scope="exports:create",
        summary="Delete a report; its batches stay",
        tag=TAG,
        path=ReportPath,
        needs_if_match=True,
        problems=(409,),
        answers={204: Answer(description="It is deleted")},
    ),
)
async def delete_report(request: ApiRequest) -> ApiResponse:
    """Delete the report."""
    refuse_query(request)
    report_id = read_path(request, ReportPath).report_id
    version = expected_version(request)
    actor = actor_of(request)
    await write(request, lambda c: reports.delete(c, actor, report_id, expected_version=version))
    return empty_answer(204)


def content_policy(document: bytes) -> str:
    """What the document may do: show its own style sheets, known by their digests; nothing else.

    It may stand in a frame of this service's own pages.
    """
    styles = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(style).digest()).decode()}'"
        for style in _STYLE.findall(document)
    )
    return (
        f"default-src 'none'; style-src {styles or chr(39) + 'none' + chr(39)}; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'self'; sandbox"
    )


def _disposition(report: LossReport, extension: str, chosen: str) -> str:
    """HTML is looked at, the other formats are files."""
    name = _IN_NAMES.sub("-", report.name).strip("-.")[:80] or "report"
    how = "inline" if chosen == "html" else "attachment"
    return f'{how}; filename="{name}-{report.report_id}.{extension}"'


routes: list[HTTPRouteHandler] = [
    create_report,
    list_reports,
    get_report,
    read_report,
    delete_report,
]
