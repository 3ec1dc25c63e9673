"""API keys of a team: make, read, change and revoke them; none is ever deleted."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET, UnsetType

from service.db import api_keys as rows
from service.db import web_sessions
from service.db.engine import Connection, Row
from service.db.tables import utc_now
from service.errors import (
    ConflictError,
    FieldFault,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    PreconditionFailedError,
)
from service.jobs import audit
from service.jobs.actors import Actor
from service.jobs.key_documents import KeyChangeIn, KeyIn, KeyOut, KeyPage, NewKeyOut
from service.jobs.key_tokens import digest, mint
from service.jobs.labels import label_faults
from service.jobs.page_tokens import make_token, read_token
from service.jobs.scopes import GRANTABLE, ROLE_SCOPES, SCOPES, Role, Scope

LIFETIME_DAYS: Final = 365
NOTED_EVERY_S: Final = 60
MAX_NAME_LENGTH: Final = 100
_QUERY: Final = ["api-keys"]
_SHOWN: Final = frozenset(KeyOut.__struct_fields__) - {"scopes"}


def create_key(connection: Connection, actor: Actor, document: KeyIn) -> NewKeyOut:
    """Make a key of the actor's team; the answer is the only place where it stands.

    Raises `InvalidError` with every fault, `ForbiddenError` when it would hold more than the
    actor, and `ConflictError` `first-key-by-cli` while the service is open.
    """
    if actor.is_local:
        # Else whoever comes by first would take the service over.
        raise ConflictError(
            "the first key is made on the machine of the service: trainard key create --role admin",
            problem="first-key-by-cli",
        )
    _refuse(
        [
            *_name_faults(document.name),
            *_expiry_faults(document.expires_at),
            *_scope_faults(document),
        ]
    )
    expires_at = document.expires_at
    if isinstance(expires_at, UnsetType):
        expires_at = utc_now() + timedelta(days=LIFETIME_DAYS)
    scopes = resolved_scopes(document.role, document.grant, document.only)
    _refuse_wider(actor, scopes)
    token = mint()
    key_id = rows.insert_key(
        connection,
        team_id=actor.team_id,
        created_by=actor.name,
        public_id=token.public_id,
        secret_digest=digest(token.secret),
        name=document.name,
        role=document.role,
        scopes=list(scopes),
        expires_at=expires_at,
    )
    made = read_key(connection, actor, key_id)
    _record(connection, actor, "create_api_key", after=made)
    shown = {name: getattr(made, name) for name in KeyOut.__struct_fields__}
    return NewKeyOut(key=token.text, **shown)


def read_key(connection: Connection, actor: Actor, key_id: UUID) -> KeyOut:
    """A key of the actor's team, usable or not; raises `NotFoundError`."""
    row = rows.get_key(connection, actor.team_id, key_id)
    if row is None:
        raise NotFoundError(f"there is no API key {key_id}")
    return key_out(row)


def find_key(connection: Connection, actor: Actor, text: str) -> KeyOut:
    """A key by its id or by the middle part of `trn_<id>_<secret>`; raises `NotFoundError`."""
    try:
        key_id = UUID(text)
    except ValueError:
        row = rows.find_by_public_id(connection, text)
        if row is None or row.team_id != actor.team_id:
            raise NotFoundError(f"there is no API key {text!r} in the team") from None
        return key_out(row)
    return read_key(connection, actor, key_id)


def list_page(
    connection: Connection, actor: Actor, *, page_size: int, page_token: str | None
) -> KeyPage:
    """A page of the team's keys, the oldest first; raises `MalformedError` for a foreign token."""
    after = read_token(page_token, _QUERY, UUID)
    found = rows.list_keys(connection, actor.team_id, after=after, limit=page_size + 1)
    shown = found[:page_size]
    token = None
    if len(found) > page_size:
        token = make_token(_QUERY, shown[-1].id)
    return KeyPage(items=[key_out(row) for row in shown], next_page_token=token)


def change_key(
    connection: Connection, actor: Actor, key_id: UUID, change: KeyChangeIn, *, version: int
) -> KeyOut:
    """Rename the key that still has this version, or move its end.

    Raises `NotFoundError`, `PreconditionFailedError`, `ConflictError` when it is revoked,
    `ForbiddenError` when it holds more than the actor, `InvalidError` with every fault.
    """
    current = read_key(connection, actor, key_id)
    if current.version != version:
        raise _stale(current)
    if current.revoked_at is not None:
        raise ConflictError(f"the API key {current.public_id} is revoked, for ever: make another")
    _refuse_wider(actor, current.scopes)
    wanted = {"name": change.name, "expires_at": change.expires_at}
    values = {column: value for column, value in wanted.items() if value is not UNSET}
    name = current.name if isinstance(change.name, UnsetType) else change.name
    _refuse([*_name_faults(name), *_expiry_faults(change.expires_at)])
    if not rows.change_key(connection, key_id, version=version, values=values):
        raise _stale(current)
    changed = read_key(connection, actor, key_id)
    _record(connection, actor, "change_api_key", before=current, after=changed)
    return changed


def revoke_key(connection: Connection, actor: Actor, key_id: UUID) -> KeyOut:
    """Refuse the key from now on, whatever became of it meanwhile; repeating it is harmless."""
    current = read_key(connection, actor, key_id)
    if not rows.revoke_key(connection, key_id, revoked_by=actor.name):
        # Also by another request since it was read above.
        return read_key(connection, actor, key_id)
    web_sessions.end_of_key(connection, key_id)
    revoked = read_key(connection, actor, key_id)
    _record(connection, actor, "revoke_api_key", before=current, after=revoked)
    return revoked


def touch(connection: Connection, public_id: str, now: datetime) -> None:
    """Note that the key was used, unless that was noted less than a minute ago."""
    noted_before = now - timedelta(seconds=NOTED_EVERY_S)
    rows.touch_key(connection, public_id, used_at=now, noted_before=noted_before)


def resolved_scopes(
    role: Role, grant: tuple[Scope, ...], only: tuple[Scope, ...] | None
) -> tuple[Scope, ...]:
    """What the role holds with the grants, of that the wanted ones, in the order of `SCOPES`."""
    held = ROLE_SCOPES[role] | frozenset(grant)
    wanted = held if only is None else held & frozenset(only)
    return tuple(scope for scope in SCOPES if scope in wanted)


def key_out(row: Row[Any]) -> KeyOut:
    """The document of a stored key."""
    return KeyOut(scopes=tuple(row.scopes), **{name: getattr(row, name) for name in _SHOWN})


def _scope_faults(document: KeyIn) -> list[FieldFault]:
    role = document.role
    faults = [
        FieldFault(
            pointer=f"/grant/{position}",
            code="not_grantable",
            detail=f"{scope} cannot be granted to a {role}; "
            + (f"only {', '.join(sorted(GRANTABLE[role]))} can" if GRANTABLE[role] else "none can"),
        )
        for position, scope in enumerate(document.grant)
        if scope not in GRANTABLE[role] | ROLE_SCOPES[role]
    ]
    held = ROLE_SCOPES[role] | frozenset(document.grant)
    faults += [
        FieldFault(
            pointer=f"/only/{position}",
            code="not_held",
            detail=f"{scope} is no scope of a {role}, so it cannot be kept",
        )
        for position, scope in enumerate(document.only or ())
        if scope not in held
    ]
    kept = frozenset(resolved_scopes(role, document.grant, document.only))
    if kept & {"costs:write", "costs:approve"} and "costs:read" not in kept:
        faults.append(
            FieldFault(
                pointer="/only",
                code="needs_costs_read",
                detail="who writes or approves rates is shown those that they clash with: "
                "costs:read must be kept too",
            )
        )
    return faults


def _name_faults(name: str) -> list[FieldFault]:
    faults = label_faults({"/name": name})
    if len(name) > MAX_NAME_LENGTH:
        detail = f"the name has {len(name)} characters; at most {MAX_NAME_LENGTH} are kept"
        faults.append(FieldFault(pointer="/name", code="too_long", detail=detail))
    return faults


def _expiry_faults(expires_at: datetime | UnsetType | None) -> list[FieldFault]:
    if expires_at is None or isinstance(expires_at, UnsetType):
        return []
    try:
        if expires_at.astimezone(UTC) > utc_now():
            return []
        code, rule = "in_the_past", "must be in the future"
    except OverflowError:
        # The zone pushes it over the end.
        code, rule = "out_of_range", "must be within the calendar in UTC"
    detail = f"expires_at is {expires_at.isoformat()}, but {rule}"
    return [FieldFault(pointer="/expires_at", code=code, detail=detail)]


def _refuse(faults: list[FieldFault]) -> None:
    if faults:
        details = "; ".join(fault.detail for fault in faults[:5])
        raise InvalidError(details, errors=faults)


def _refuse_wider(actor: Actor, scopes: tuple[Scope, ...]) -> None:
    missing = [scope for scope in scopes if not actor.may(scope)]
    if missing:
        raise ForbiddenError(
            f"the key holds {', '.join(missing)}, which {actor.name} has not: "
            "nobody hands out more than they hold"
        )


def _stale(current: KeyOut) -> PreconditionFailedError:
    return PreconditionFailedError(
        f"the API key {current.public_id} has changed since it was read; read it again"
    )


def _record(
    connection: Connection,
    actor: Actor,
    action: str,
    *,
    after: KeyOut,
    before: KeyOut | None = None,
) -> None:
    subject = f"api-key/{after.public_id}"
    audit.record(connection, actor, action=action, subject=subject, before=before, after=after)
