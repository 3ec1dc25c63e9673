"""Sentences of runs and deliveries: said by a code and its values, and read back into them.

What is stored and answered is the English sentence. Beside it stand code and values, read from it,
so that whoever shows it in another language has them of old rows too.
"""

import re
from functools import cache, lru_cache
from typing import Annotated, Final

from msgspec import Meta, Struct

# What a value looks like, by its name; every other is one word.
_TEXT: Final = r"(?s:.+)"
_PATTERNS: Final = {
    "detail": _TEXT,
    "name": _TEXT,
    "folder": _TEXT,
    "team": _TEXT,
    "late": r"\d[\d a-z]*",
    **dict.fromkeys(
        ("at_once", "limit", "left", "points", "seconds", "slots", "waiting", "status"), r"\d+"
    ),
}
_WORD: Final = r"\S+?"

# Those that begin alike with the longer one first: the first that fits is taken.
SENTENCES: Final = {
    # Runs that wait
    "schedule_paused": "the schedule is paused",
    "waits_for_end": "it waits: the run of {local_time} ({run_id}) has not ended",
    "waits_for_begin": "it waits: the run of {local_time} ({run_id}) begins before it",
    "waits_for_backfill": "it waits: {waiting} of its backfill compute, and no more may at once "
    "(`max_running`)",
    "queue_full": "{waiting} batches wait or run already, the limit is {limit}",
    "quota_used": "{points} points, but {left} are left of the {limit} points that the team may "
    "compute in an hour; the next hour begins in {seconds} s",
    "internal_fault": "an internal fault; see the log",
    # Runs that never began
    "not_ended_forbid": "the run of {local_time} ({run_id}) had not ended, and the concurrency "
    "policy is `forbid`",
    "replaced": "the run of {local_time} ({run_id}) came before it had ended, and the concurrency "
    "policy is `replace`",
    "too_many_waiting": "{at_once} newer slots wait already, which is as many as may under the "
    "concurrency policy `queue`: its runs take longer than the time between its slots",
    "missed_skip": "nobody was there at the time: it was seen {late} late, at {at}, and the "
    "misfire policy `skip` runs no missed slot",
    "missed_run_latest": "nobody was there at the time: it was seen {late} late, at {at}, and the "
    "misfire policy `run_latest` runs the newest missed slot only",
    "missed_run_all": "nobody was there at the time: it was seen {late} late, at {at}, and the "
    "misfire policy `run_all` runs the newest {limit} missed slots only",
    "schedule_deleted": "the schedule was deleted",
    "backfill_canceled": "the backfill was canceled",
    "backfill_canceled_by": "its backfill was canceled by {name}",
    "canceled_by": "it was canceled by {name}",
    # Runs that failed
    "batch_refused": "the batch was refused: {detail}",
    "deadline_passed": "its batch passed its deadline",
    "report_failed": "its report: {detail}",
    "batch_deleted": "its batch was deleted before its report was made",
    "batch_canceled": "its batch was canceled before any headline point had a result",
    "batch_expired": "its batch passed its deadline before any headline point had a result",
    "no_point": "no point of its batch has a result",
    # Slots of a backfill
    "not_in_ledger": "it is not in the ledger",
    "not_ended": "it has not ended",
    "nothing_to_run": "none of the {slots} slots is to run: {local_time} is left since {detail}",
    "reprocess": "it is {state}, and `reprocess` is `{reprocess}`",
    # What runs tell beside
    "taken_up_late": "nobody was there at the time: it was taken up {late} late",
    "older_slots_left_out": "{left} slots before {at} were missed too and are not in the ledger, "
    "which takes the newest {limit} at a time",
    "dst_gap": "its wall time does not exist on that day, since clocks went forward: it came at "
    "the first moment after, {clock}",
    "dst_overlap": "clocks went back on that day, and {clock} was there twice",
    "profile_not_yet": "{slug} had no revision at the slot: {revision}, its first, is used",
    # Deliveries, and why they are called off
    "endpoint_gone": "Not sent: there is no webhook endpoint {endpoint_id} any more.",
    "endpoint_off": "Not sent: the webhook endpoint {name} is disabled.",
    "tried_by": "{name} tries the endpoint.",
    "endpoint_was_deleted": "the endpoint was deleted",
    "endpoint_was_disabled": "the endpoint was disabled",
    "endpoint_gone_410": "the endpoint was disabled: it answered 410 Gone",
    "endpoint_dead": "the endpoint was disabled: {limit} messages in a row could not be delivered",
    "endpoint_without_money": "the endpoint takes no money any more",
    # Endpoints
    "answered_gone": "it answered 410 Gone",
    "dead_in_a_row": "{limit} messages in a row could not be delivered",
    "disabled_by": "disabled by {name}",
    "private_only": "It is reached only while {host} leads to nothing but networks in "
    "TRAINARD_WEBHOOK_EGRESS: elsewhere webhooks go by https, to port 443 or from {port} on.",
    # Attempts
    "redirected": "answered {status}: redirects are not followed, change the endpoint's URL",
    "answered": "answered {status}",
    "answered_late": "the answer came too late",
    "no_answer": "no whole answer within {pause} s",
    "not_tried": "the time was over before an address was tried",
    "no_connection": "no connection to {host}: {detail}",
    "connection_broke": "the connection broke: {detail}",
    "no_address": "the name {host} has no address",
    "no_address_because": "the name {host} has no address: {detail}",
    "no_public_address": "{host} leads to {address}, which is no public address: webhooks go to "
    "the public internet, or to networks in TRAINARD_WEBHOOK_EGRESS",
    "database_away": "the database did not answer",
    "unexpected_error": "an unexpected error; it is in the service's log",
    "no_message": "it holds no message",
    "mail_off": "TRAINARD_SMTP_URL is not set any more",
    "folder_off": "TRAINARD_DELIVERY_FOLDER is not set any more",
    "report_gone": "the report is not there any more",
    "mail_unusable": "the mail server cannot be used: {detail}",
    "mail_not_sent": "it was not sent: {detail}",
    "folder_missing": "the folder {folder} is not there",
    "folder_refused": "the folder {folder} of {team} is refused",
    "files_not_written": "the files cannot be written or removed: {detail}",
    "secret_without_key": "the endpoint's secret is encrypted, but TRAINARD_SECRETS_KEY is not set",
    "secret_of_other_key": "the endpoint's secret was encrypted under another key than those in "
    "TRAINARD_SECRETS_KEY: rotate it",
}


class Coded(Struct, frozen=True, kw_only=True):
    """A sentence as a code and what stands in it, to be said in another language."""

    code: str
    values: Annotated[
        dict[str, str],
        Meta(
            description="By name. Numbers are decimal digits with a point, shares end in %, money "
            "is an amount and its currency, moments are ISO 8601; `detail` is English."
        ),
    ] = {}


def say(code: str, **values: object) -> str:
    """The English sentence."""
    return SENTENCES[code].format(**values)


@lru_cache(maxsize=4096)
def coded(sentence: str | None) -> Coded | None:
    """Code and values of a sentence; None of what is said by nobody here."""
    if not sentence:
        return None
    for code, pattern in _patterns():
        found = pattern.fullmatch(sentence)
        if found is not None:
            return Coded(code=code, values=found.groupdict())
    return None


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((code, sentence_pattern(text)) for code, text in SENTENCES.items())


def sentence_pattern(text: str, patterns: dict[str, str] | None = None) -> re.Pattern[str]:
    """What the sentence fits with any values, which are named groups."""
    found = {**_PATTERNS, **(patterns or {})}
    parts = re.split(r"\{(\w+)\}", text)
    return re.compile(
        "".join(
            f"(?P<{part}>{found.get(part, _WORD)})" if place % 2 else re.escape(part)
            for place, part in enumerate(parts)
        )
    )
