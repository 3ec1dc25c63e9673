"""The audit trail: who changed what, who was refused, who read money."""

import hashlib
from typing import Any, Literal

import msgspec
import rfc8785

from service.db.audit import append_event
from service.db.engine import Connection
from service.jobs.actors import Actor

Outcome = Literal["done", "refused", "read"]

_encoder = msgspec.json.Encoder(decimal_format="string")

MAX_SUBJECT_LENGTH = 300
MAX_DETAIL_LENGTH = 500


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
        actor=actor.name,
        principal=actor.principal,
        role=actor.role,
        action=action,
        outcome=outcome,
        subject=subject[:MAX_SUBJECT_LENGTH],
        changed=_changed(before, after),
        before_digest=_digest(before),
        after_digest=_digest(after),
        request=actor.request,
        trace_id=actor.trace_id,
        address=actor.address,
        detail=detail[:MAX_DETAIL_LENGTH] if detail else None,
    )


def _builtins(document: Any) -> Any:
    # Through JSON: dates, decimals and ids become what was sent or answered.
    return msgspec.json.decode(_encoder.encode(document))


def _digest(document: Any) -> str | None:
    if document is None:
        return None
    return "sha256:" + hashlib.sha256(rfc8785.dumps(_builtins(document))).hexdigest()


def _changed(before: Any, after: Any) -> list[str]:
    if before is None or after is None:
        return []
    old, new = _builtins(before), _builtins(after)
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
