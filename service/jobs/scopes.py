"""Who may do what: the scopes that operations demand, and the roles that hold them.

The table is that of the design (api.md "Who may do what"; reference service.md 8.6).
"""

from typing import Final, Literal, get_args

Scope = Literal[
    "service:read",
    "metrics:read",
    "profiles:read",
    "batches:read",
    "results:read",
    "evaluations:run",
    "exports:create",
    "profiles:write",
    "batches:write",
    "calibrations:read",
    "calibrations:write",
    "schedules:read",
    "schedules:write",
    "webhooks:write",
    "costs:read",
    "costs:write",
    "costs:approve",
    "keys:read",
    "keys:write",
    "audit:read",
]
Role = Literal["viewer", "planner", "finance", "admin"]

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
ROLES: Final[tuple[Role, ...]] = get_args(Role)


def _only(*scopes: Scope) -> frozenset[Scope]:
    return frozenset(scopes)


_READING: Final[frozenset[Scope]] = _only(
    "service:read",
    "profiles:read",
    "batches:read",
    "results:read",
    "evaluations:run",
    "exports:create",
    "schedules:read",
    "calibrations:read",
)
_NIGHTLY: Final[frozenset[Scope]] = _only("schedules:write", "webhooks:write")
_PLANNING: Final[frozenset[Scope]] = (
    _READING | _NIGHTLY | _only("profiles:write", "batches:write", "calibrations:write")
)
_FINANCE: Final[frozenset[Scope]] = (
    _READING | _NIGHTLY | _only("batches:write", "costs:read", "costs:write", "costs:approve")
)

# What a role holds when nothing else is said.
ROLE_SCOPES: Final[dict[Role, frozenset[Scope]]] = {
    "viewer": _READING,
    "planner": _PLANNING,
    "finance": _FINANCE,
    "admin": frozenset(SCOPES),
}
# What may be granted to a role beside that.
GRANTABLE: Final[dict[Role, frozenset[Scope]]] = {
    "viewer": _only("metrics:read"),
    "planner": _only("costs:read", "metrics:read"),
    "finance": _only("metrics:read"),
    "admin": frozenset(),
}


def widest(role: Role) -> frozenset[Scope]:
    """All scopes that a key of the role can have."""
    return ROLE_SCOPES[role] | GRANTABLE[role]
