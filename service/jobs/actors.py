"""Who acts: the team whose rows are touched, the name written beside them, and what they may do."""

from typing import Final
from uuid import UUID

import msgspec

from service.jobs.scopes import SCOPES, Role, Scope

DEFAULT_TEAM_ID = UUID("00000000-0000-7000-8000-000000000001")
# Whoever reaches a service that is open for a first try
LOCAL: Final = "local"


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """The acting team and person or program.

    - `principal`: what does not change when a key or person is renamed: `local`, `key:<id>`,
      `oidc:<digest of issuer and subject>`, `program:<command>`;
    - `request`, `trace_id`, `address`: of the request that is answered, for the audit trail.
    """

    team_id: UUID = DEFAULT_TEAM_ID
    name: str = LOCAL
    principal: str = LOCAL
    role: Role = "admin"
    scopes: frozenset[Scope] = frozenset(SCOPES)
    request: str | None = None
    trace_id: str | None = None
    address: str | None = None

    def may(self, scope: Scope) -> bool:
        """Whether the actor holds the scope."""
        return scope in self.scopes

    @property
    def sees_costs(self) -> bool:
        """Whether money may be shown; else it is withheld."""
        return self.may("costs:read")

    @property
    def is_local(self) -> bool:
        """Whether anybody on this machine acts, since no key exists yet."""
        return self.principal == LOCAL


def program(command: str, team_id: UUID = DEFAULT_TEAM_ID) -> Actor:
    """The actor of a command that works on the database itself."""
    return Actor(team_id=team_id, name=command, principal=f"program:{command}")
