"""Teams: made and changed by whoever works on the machine of the service, by commands only."""

from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import Struct

from service.db import teams as rows
from service.db.engine import Connection, Row
from service.db.rates import list_states
from service.errors import ConflictError, FieldFault, InvalidError, NotFoundError
from service.jobs import audit
from service.jobs.actors import Actor, program
from service.jobs.labels import label_faults, slug_faults
from service.jobs.rate_approvals import pricing_rows

MAX_NAME_LENGTH = 200


class TeamOut(Struct, frozen=True, kw_only=True):
    """A team; without `rate_approval_required` a rate prices as soon as it is recorded."""

    id: UUID
    slug: str
    name: str
    created_at: datetime
    rate_approval_required: bool


class DemandEffect(Struct, frozen=True, kw_only=True):
    """What rates price after a change of the demand, and not before, or the other way round."""

    required: bool
    num_current: int
    # Current rates that nobody has approved
    num_unapproved: int
    # Approved rates whose correction is not approved: they price under the demand only
    num_corrected: int

    @property
    def changes_prices(self) -> bool:
        """Whether any rate begins or ceases to price."""
        return self.num_unapproved > 0


def create_team(
    connection: Connection, command: str, *, slug: str, name: str | None = None
) -> TeamOut:
    """Make a team, named by its slug unless a name is given.

    Raises `InvalidError` with every fault and `ConflictError` when the slug is taken. The event
    is the first of the new team's audit trail; `command` is who acts there.
    """
    _refuse([*slug_faults("/slug", slug), *_name_faults(name)])
    if rows.insert_team(connection, slug=slug, name=name or slug) is None:
        raise ConflictError(f"there is a team {slug!r} already")
    made = read_team(connection, slug)
    _record(connection, program(command, made.id), "create_team", after=made)
    return made


def read_team(connection: Connection, slug: str) -> TeamOut:
    """The team of this slug; raises `NotFoundError`."""
    row = rows.find_team(connection, slug)
    if row is None:
        raise NotFoundError(f"there is no team {slug!r}")
    return _team_out(row)


def list_teams(connection: Connection) -> list[TeamOut]:
    """All teams by slug."""
    return [_team_out(row) for row in rows.list_teams(connection)]


def demand_effect(connection: Connection, slug: str, *, required: bool) -> DemandEffect:
    """What it changes to demand approval of the team's rates from now on, or not to.

    Nothing where that is so already. Raises `NotFoundError`.
    """
    team = read_team(connection, slug)
    found = [] if team.rate_approval_required == required else list_states(connection, team.id)
    current = {row.id for row in pricing_rows(found, None, approval_required=False)}
    approved = {row.id for row in pricing_rows(found, None, approval_required=True)}
    return DemandEffect(
        required=required,
        num_current=len(current),
        num_unapproved=len(current - approved),
        num_corrected=len(approved - current),
    )


def change_team(
    connection: Connection,
    command: str,
    slug: str,
    *,
    name: str | None = None,
    rate_approval_required: bool | None = None,
) -> TeamOut:
    """Change what is given; raises `NotFoundError` and `InvalidError`."""
    _refuse(_name_faults(name))
    current = read_team(connection, slug)
    wanted = {"name": name, "rate_approval_required": rate_approval_required}
    values = {column: value for column, value in wanted.items() if value is not None}
    if not values:
        return current
    rows.change_team(connection, current.id, values)
    changed = read_team(connection, slug)
    _record(connection, program(command, current.id), "change_team", before=current, after=changed)
    return changed


def _team_out(row: Row[Any]) -> TeamOut:
    return TeamOut(**{name: getattr(row, name) for name in TeamOut.__struct_fields__})


def _name_faults(name: str | None) -> list[FieldFault]:
    faults = label_faults({"/name": name})
    if name is not None and len(name) > MAX_NAME_LENGTH:
        detail = f"the name has {len(name)} characters; at most {MAX_NAME_LENGTH} are kept"
        faults.append(FieldFault(pointer="/name", code="too_long", detail=detail))
    return faults


def _refuse(faults: list[FieldFault]) -> None:
    if faults:
        raise InvalidError("; ".join(fault.detail for fault in faults), errors=faults)


def _record(
    connection: Connection,
    actor: Actor,
    action: str,
    *,
    after: TeamOut,
    before: TeamOut | None = None,
) -> None:
    subject = f"team/{after.slug}"
    audit.record(connection, actor, action=action, subject=subject, before=before, after=after)
