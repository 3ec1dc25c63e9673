"""What a delivery holds: the report as its receivers may see it, as a letter and as files."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from html import escape
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct

from service.db import reports, schedule_runs, teams
from service.db.engine import Connection, Row
from service.errors import NotFoundError
from service.jobs.delivery_reasons import hours_text
from service.jobs.mail import Attachment, Letter
from service.jobs.report_store import read_stored
from service.jobs.schedule_documents import (
    DirectoryDelivery,
    EmailDelivery,
    Language,
    ReportFormat,
)
from service.reports.charts import printable
from service.reports.language import words
from service.reports.loss_report import LossReport
from service.reports.report_formats import FORMATS
from service.reports.report_text import report_text
from service.settings import Deliveries

# All attachments of a message together; what does not fit is a link.
MAX_ATTACHED_BYTES: Final = 10 * 1024 * 1024
SHORT_ID_LENGTH: Final = 12
_WORDS: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "subject": "{name}: {hours} GPU-hours lost in 30 days",
        "subject_over": "{name}: over budget, {hours} GPU-hours lost in 30 days",
        "subject_failed": "{name}: the run failed",
        "slot": "Run of {slot} ({zone})",
        "schedule": "The schedule and its runs",
        "report": "The report",
        "link": "{label}: {address}",
        "left_out": "Not attached, since all together have more than {limit} MB: {names}.",
        "too_big": "Not attached, since the mail server takes no message as big as that: {names}.",
        "why": "Why you get this: {reason}",
    },
    "fr": {
        "subject": "{name} : {hours} heures GPU perdues en 30 jours",
        "subject_over": "{name} : budget dépassé, {hours} heures GPU perdues en 30 jours",
        "subject_failed": "{name} : échec de l'exécution",
        "slot": "Exécution du {slot} ({zone})",
        "schedule": "La planification et ses exécutions",
        "report": "Le rapport",
        "link": "{label} : {address}",
        "left_out": "Non joint, car l'ensemble dépasse {limit} Mo : {names}.",
        "too_big": "Non joint, car le serveur de messagerie refuse un message si gros : {names}.",
        "why": "Motif de ce message : {reason}",
    },
}


class Told(Struct, frozen=True, kw_only=True):
    """What a delivery tells of: a run, its schedule, and the report where one was made."""

    team: str
    run: Any
    schedule: Any
    report: LossReport | None


class SidecarFile(Struct, frozen=True, kw_only=True):
    """A file beside the sidecar."""

    name: str
    format: str
    media_type: str
    bytes: int
    sha256: str


class Sidecar(Struct, frozen=True, kw_only=True):
    """What lies beside the files of a directory delivery; written last, so that it ends them."""

    message_id: str
    event: str
    team: str
    schedule: str
    run_id: UUID
    attempt: int
    scheduled_for: datetime
    local_time: str
    state: str
    reason: str
    report_id: UUID | None
    includes_costs: bool
    files: list[SidecarFile]


def read_told(connection: Connection, delivery: Row[Any]) -> Told | None:
    """What the delivery tells of; None when the report was deleted meanwhile."""
    report = None
    if delivery.report_id is not None:
        try:
            report = read_stored(connection, delivery.report_id, with_costs=delivery.include_costs)
        except NotFoundError:
            return None
    return Told(
        team=teams.slug_of(connection, delivery.team_id),
        run=schedule_runs.find_run(connection, delivery.run_id),
        schedule=reports.schedule_of(connection, delivery.schedule_id),
        report=report,
    )


def file_stem(told: Told) -> str:
    """`<schedule>-<date and time of the slot>-<short id of the run>`: the same at each repetition.

    The last part of the id: the first ones of all runs of a night are the same moment.
    """
    local = datetime.fromisoformat(told.run.local_time)
    return f"{told.schedule.slug}-{local:%Y-%m-%d-%H%M}-{told.run.id.hex[-SHORT_ID_LENGTH:]}"


def dropped_files(
    delivery: Row[Any], target: DirectoryDelivery, told: Told
) -> list[tuple[str, bytes]]:
    """The files of a directory delivery, the sidecar last; of a failed run the sidecar only."""
    stem = file_stem(told)
    formats = target.formats if told.report is not None else []
    files = [(name, *_file(stem, name, told, target.language)) for name in formats]
    sidecar = Sidecar(
        message_id=delivery.message_id,
        event=delivery.event,
        team=told.team,
        schedule=told.schedule.slug,
        run_id=told.run.id,
        attempt=told.run.attempt,
        scheduled_for=told.run.scheduled_for,
        local_time=told.run.local_time,
        state=told.run.state,
        reason=delivery.reason,
        report_id=delivery.report_id,
        includes_costs=delivery.include_costs,
        files=[
            SidecarFile(
                name=file_name,
                format=name,
                media_type=FORMATS[name].media_type,
                bytes=len(content),
                sha256=hashlib.sha256(content).hexdigest(),
            )
            for name, file_name, content in files
        ],
    )
    ending = msgspec.json.format(msgspec.json.encode(sidecar), indent=2) + b"\n"
    return [*((name, content) for _, name, content in files), (f"{stem}.sidecar.json", ending)]


def letter_of(
    delivery: Row[Any],
    target: EmailDelivery,
    told: Told,
    settings: Deliveries,
    *,
    attaches: bool = True,
) -> Letter:
    """The message: text with the headline, the same in HTML, and the files that were wished.

    Without `attaches` the files are only named: for a mail server that takes no more.
    """
    language: Language = target.language or "en"
    attached, left_out = list[Attachment](), list[str]()
    if attaches:
        attached, left_out = _attachments(target, told, language)
    elif told.report is not None:
        left_out = [_file_name(file_stem(told), name) for name in target.attach]
    lines = [_say(language, "why", reason=delivery.reason)]
    if left_out:
        code, limit = "left_out" if attaches else "too_big", str(MAX_ATTACHED_BYTES // 2**20)
        lines.insert(0, _say(language, code, limit=limit, names=", ".join(left_out)))
    links = _links(told, settings.public_url, language)
    return Letter(
        message_id=delivery.message_id,
        sent_at=delivery.created_at,
        sender=settings.email_from,
        list_slug=told.schedule.slug,
        subject=_subject(told, language),
        text=_text(told, language, lines, links),
        html=_html(told, language, lines, links),
        attachments=attached,
    )


def _file(
    stem: str, name: ReportFormat, told: Told, language: Language | None
) -> tuple[str, bytes]:
    if told.report is None:
        raise ValueError("a run without a report has no files")
    return _file_name(stem, name), FORMATS[name].write(told.report, language or "en")


def _file_name(stem: str, name: ReportFormat) -> str:
    return f"{stem}.{FORMATS[name].extension}"


def _attachments(
    target: EmailDelivery, told: Told, language: Language
) -> tuple[list[Attachment], list[str]]:
    """The files that fit into a message, and the names of those that do not."""
    attached: list[Attachment] = []
    left_out: list[str] = []
    free = MAX_ATTACHED_BYTES
    for name in target.attach if told.report is not None else []:
        file_name, content = _file(file_stem(told), name, told, language)
        if len(content) > free:
            left_out.append(file_name)
            continue
        free -= len(content)
        attached.append(
            Attachment(name=file_name, media_type=FORMATS[name].media_type, content=content)
        )
    return attached, left_out


def _subject(told: Told, language: Language) -> str:
    name = f"{printable(told.schedule.name)}, {_slot(told, language)}"
    if told.report is None:
        return _say(language, "subject_failed", name=name)
    hours = hours_text(told.report.headline.gpu_hours_lost_per_30_days, language)
    budget = told.report.budget
    code = "subject_over" if budget is not None and budget.status == "over" else "subject"
    return _say(language, code, name=name, hours=hours)


def _slot(told: Told, language: Language) -> str:
    return words(language).numbers.local(told.run.local_time)


def _links(told: Told, public_url: str, language: Language) -> dict[str, str]:
    """By what they are called; without a public address there are none to click on.

    To pages: who reads mail has no key for the API, and can sign in there.
    """
    if not public_url:
        return {}
    schedule = {_say(language, "schedule"): f"{public_url}/schedules/{told.schedule.id}"}
    if told.report is None:
        return schedule
    return {_say(language, "report"): f"{public_url}/reports/{told.report.report_id}", **schedule}


def _paragraphs(told: Told, language: Language, lines: list[str]) -> list[str]:
    """What the message says, without its links."""
    slot = _say(language, "slot", slot=_slot(told, language), zone=told.run.zone)
    said = "" if told.report is None else report_text(told.report, language)
    return [slot, *lines, *(part for part in said.strip().split("\n\n") if part)]


def _text(told: Told, language: Language, lines: list[str], links: Mapping[str, str]) -> str:
    shown = [_say(language, "link", label=name, address=link) for name, link in links.items()]
    parts = [_subject(told, language), *_paragraphs(told, language, lines), *shown]
    return "\n\n".join(parts) + "\n"


def _html(told: Told, language: Language, lines: list[str], links: Mapping[str, str]) -> str:
    """Plain paragraphs: what all mail programs show alike. The whole report is an attachment."""
    shown = [
        f'<p><a href="{escape(link)}">{escape(label)}</a></p>' for label, link in links.items()
    ]
    paragraphs = [
        f"<p>{escape(part)}</p>".replace("\n", "<br>\n")
        for part in _paragraphs(told, language, lines)
    ]
    title = escape(_subject(told, language))
    body = "\n".join([f"<h1><bdi>{title}</bdi></h1>", *paragraphs, *shown])
    return (
        f'<!DOCTYPE html>\n<html lang="{language}"><head><meta charset="utf-8">'
        f"<title>{title}</title></head>\n"
        f'<body style="font-family: sans-serif">\n{body}\n</body></html>\n'
    )


def _say(language: Language, code: str, **params: str) -> str:
    # French sets its colon off, and never at the beginning of a line.
    sentence = _WORDS[language][code].replace(" :", "\N{NO-BREAK SPACE}:")
    return sentence.format(**params)
