"""The audit trail: who changed what, who was refused, who read money."""

import hashlib
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
import rfc8785

from service.db.audit import append_event, append_events
from service.db.engine import Connection
from service.jobs.actors import Actor, program
from service.jobs.audit_documents import Outcome

__all__ = ["PROGRAM_ACTIONS", "RETENTION", "Outcome", "digest_of", "record", "record_program"]

# Fields that hold a price
PRICES: Final = frozenset(("price_per_gpu_hour", "amount"))

_encoder = msgspec.json.Encoder(decimal_format="string")

MAX_ACTOR_LENGTH = 200
MAX_SUBJECT_LENGTH = 300
MAX_REQUEST_LENGTH = 500
MAX_DETAIL_LENGTH = 500
MAX_TRACE_ID_LENGTH = 128
MAX_ADDRESS_LENGTH = 64

# The program that removes what is past its time by itself
RETENTION: Final = "retention"
# What programs do beside the operations of the API, whose ids they use where they do the same
# (`retention` and `prune` delete batches and files, `import-rates` imports rates).
PROGRAM_ACTIONS: Final = {
    "create_team": "a team was made",
    "change_team": "a team was changed",
    "backup": "the database was copied",
    "restore": "a copy took the place of the database",
    "prune_audit_events": "old events were removed",
    "remove_delivered_files": "files of a delivery were removed",
    "encrypt_webhook_secrets": "secrets of an endpoint that lay plain were encrypted",
    "disable_webhook_endpoint": "an endpoint was disabled that could not be reached or is gone",
    "prune_reports": "old reports were removed",
    "prune_deliveries": "old deliveries were removed from the log",
    "leave_out_slots": "of slots that nobody was there for, the oldest were not kept",
}


def record(
    connection: Connection,
    actor: Actor,
    *,
    action: str,
    subject: str = "",
    outcome: Outcome = "done",
    before: Any = None,
    after: Any = None,
    detail: str | None = None,
) -> None:
    """Append one event to the actor's team, in the transaction of what it is about.

    Call it as the last thing of the transaction: it locks the team's chain until the end.

    - `action`: verb and noun such as `create_rate`; for HTTP the operation's id;
    - `subject`: what it is about, such as `gpu-hour-rate/0199…`;
    - `before`, `after`: documents of which digests and the names of the changed top-level fields
      are stored, but no values.
    """
    append_event(
        connection,
        actor.team_id,
        **_columns(actor, action, subject, outcome, detail),
        changed=_changed(before, after),
        before_digest=digest_of(before),
        after_digest=digest_of(after),
    )


def record_program(
    connection: Connection,
    command: str,
    *,
    action: str,
    subjects: Sequence[tuple[UUID, str]],
) -> None:
    """Append an event for each team and subject that a program has changed; many cost few.

    The chains of several teams are always locked in the same order.
    """
    nothing: dict[str, Any] = {"changed": [], "before_digest": None, "after_digest": None}
    of_teams: dict[UUID, list[str]] = {}
    for team_id, subject in sorted(subjects):
        of_teams.setdefault(team_id, []).append(subject)
    for team_id, found in of_teams.items():
        actor = program(command, team_id)
        events = [{**_columns(actor, action, one, "done", None), **nothing} for one in found]
        append_events(connection, team_id, events)


def _columns(
    actor: Actor, action: str, subject: str, outcome: Outcome, detail: str | None
) -> dict[str, Any]:
    return {
        "actor": _text(actor.name, MAX_ACTOR_LENGTH),
        "principal": _text(actor.principal, MAX_ACTOR_LENGTH),
        "role": actor.role,
        "action": action,
        "outcome": outcome,
        "subject": _text(subject, MAX_SUBJECT_LENGTH),
        "request": _text(actor.request, MAX_REQUEST_LENGTH),
        "trace_id": _text(actor.trace_id, MAX_TRACE_ID_LENGTH),
        "address": _text(actor.address, MAX_ADDRESS_LENGTH),
        "detail": _text(detail, MAX_DETAIL_LENGTH),
    }


def _text(text: str | None, length: int) -> str | None:
    """The text as every database takes it: neither U+0000 nor half of a surrogate pair."""
    if text is None:
        return None
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")[:length]


def _builtins(document: Any) -> Any:
    # Through JSON: dates, decimals and ids become what was sent or answered.
    return msgspec.json.decode(_encoder.encode(document))


def digest_of(document: Any) -> str | None:
    """What is stored of a document: SHA-256 of its canonical JSON (RFC 8785).

    Without prices: whoever knows the rest of a rate could try all amounts in a second.
    """
    if document is None:
        return None
    plain = _without_prices(_builtins(document))
    return "sha256:" + hashlib.sha256(rfc8785.dumps(plain)).hexdigest()


def _without_prices(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_prices(part) for part in value]
    if isinstance(value, dict):
        return {
            name: None if name in PRICES else _without_prices(part) for name, part in value.items()
        }
    return value


def _changed(before: Any, after: Any) -> list[str]:
    if before is None or after is None:
        return []
    old, new = _builtins(before), _builtins(after)
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
