"""Bearer tokens of an OpenID Connect issuer: who is it, of which team and role."""

import hashlib
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

import jwt
import msgspec

from service.api.issuer_keys import IssuerKeys
from service.api.transactions import in_thread
from service.db.engine import Connection, Database
from service.db.teams import find_team
from service.errors import ForbiddenError, UnauthenticatedError
from service.jobs.actors import Actor
from service.jobs.labels import is_slug
from service.jobs.scopes import ROLE_SCOPES, ROLES, Role, Scope, widest
from service.settings import Oidc

LEEWAY_S: Final = 60
NO_ROLE: Final = "no-role"
MAX_NAME_LENGTH: Final = 100
SHOWN_DIGITS: Final = 12
_REQUIRED: Final = ("exp", "iat", "iss", "aud", "sub")
# The end of the year 9999
LAST_SECOND: Final = 253_402_300_799
_HALF_A_PAIR = re.compile(r"[\ud800-\udfff]")
_NOT_PRINTED = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# What a token can make PyJWT raise before its signature is known to be right
_BAD_TOKEN: Final = (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError)


class Mapped(msgspec.Struct, frozen=True, kw_only=True):
    """The role and scopes that a value of the role claim stands for."""

    role: Role
    scopes: frozenset[Scope]


class OidcTokens:
    """Checks tokens of one issuer; raises `ValueError` when its roles are none of ours."""

    def __init__(self, oidc: Oidc, database: Database) -> None:
        self._oidc = oidc
        self._database = database
        self._keys = IssuerKeys(oidc)
        self._roles = {value: _mapped(text) for value, text in oidc.roles.items()}

    async def actor(self, token: str) -> Actor:
        """Whose token it is.

        Raises `UnauthenticatedError`, `ForbiddenError` `no-role` when it gives no role or team,
        and `UnavailableError` while the issuer's keys were never read.
        """
        claims = await self._claims(token)
        mapped = self._mapped(claims)
        slug = self._team_of(claims)
        team = await in_thread(partial(self._read, partial(find_team, slug=slug)))
        if team is None:
            raise ForbiddenError(
                f"the token is of the team {slug!r}, which does not exist", problem=NO_ROLE
            )
        digest = hashlib.sha256(f"{self._oidc.issuer}\0{claims['sub']}".encode()).hexdigest()
        return Actor(
            team_id=team.id,
            name=f"{self._name_of(claims)} [oidc:{digest[:SHOWN_DIGITS]}]",
            principal=f"oidc:{digest}",
            role=mapped.role,
            scopes=mapped.scopes,
        )

    async def _claims(self, token: str) -> dict[str, Any]:
        try:
            header = jwt.get_unverified_header(token)
        except _BAD_TOKEN:
            raise UnauthenticatedError(
                "the bearer token is neither an API key (trn_<id>_<secret>) nor a signed token"
            ) from None
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in self._oidc.algorithms:
            raise UnauthenticatedError(
                f"the bearer token must be signed by {' or '.join(self._oidc.algorithms)}"
            )
        key = await self._keys.key(key_id, algorithm)
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=list(self._oidc.algorithms),
                audience=self._oidc.audience,
                issuer=self._oidc.issuer,
                leeway=LEEWAY_S,
                options={"require": list(_REQUIRED), "enforce_minimum_key_length": True},
            )
        except _BAD_TOKEN as error:
            raise UnauthenticatedError(f"the bearer token is refused: {_reason(error)}") from None
        if not isinstance(claims["exp"], int) or claims["exp"] > LAST_SECOND:
            raise UnauthenticatedError("the bearer token is refused: its exp is no moment")
        if _HALF_A_PAIR.search(claims["sub"]):
            raise UnauthenticatedError("the bearer token is refused: its sub is no text")
        if not claims["sub"].strip():
            raise UnauthenticatedError("the bearer token is refused: it names no subject")
        return claims

    def _mapped(self, claims: dict[str, Any]) -> Mapped:
        """The widest of the roles that the token's values stand for."""
        found = _claim(claims, self._oidc.role_claim)
        values = found if isinstance(found, list) else [found]
        mapped = [self._roles[value] for value in values if _is_in(self._roles, value)]
        if not mapped:
            raise ForbiddenError(
                f"no value of the token's claim {self._oidc.role_claim!r} is a role here "
                "(TRAINARD_OIDC_ROLES)",
                problem=NO_ROLE,
            )
        return max(mapped, key=lambda one: (len(one.scopes), ROLES.index(one.role)))

    def _team_of(self, claims: dict[str, Any]) -> str:
        slug = _claim(claims, self._oidc.team_claim)
        if slug is None:
            slug = self._oidc.team
        if not isinstance(slug, str) or not is_slug(slug):
            raise ForbiddenError(
                f"the token's claim {self._oidc.team_claim!r} names no team, and no other is set "
                "(TRAINARD_OIDC_TEAM)",
                problem=NO_ROLE,
            )
        return slug

    def _name_of(self, claims: dict[str, Any]) -> str:
        found = _claim(claims, self._oidc.name_claim)
        name = found if isinstance(found, str) and found.strip() else claims["sub"]
        return _NOT_PRINTED.sub("", name).strip()[:MAX_NAME_LENGTH] or "unnamed"

    def _read(self, use_case: Callable[[Connection], Any]) -> Any:
        with self._database.read() as connection:
            return use_case(connection)


def _mapped(text: str) -> Mapped:
    """The role `planner`, or `planner+costs:read` with a scope beside what it holds."""
    role, *more = (part.strip() for part in text.split("+"))
    if role not in ROLES:
        raise ValueError(
            f"TRAINARD_OIDC_ROLES has the role {role!r}, but must be one of {', '.join(ROLES)}"
        )
    for scope in more:
        if scope not in widest(role):
            raise ValueError(f"TRAINARD_OIDC_ROLES: {scope!r} cannot be granted to a {role}")
    scopes = ROLE_SCOPES[role] | frozenset(cast("list[Scope]", more))
    return Mapped(role=role, scopes=scopes)


def _claim(claims: dict[str, Any], name: str) -> Any:
    """A claim by its name, else by its path, such as `realm_access.roles`."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _is_in(roles: dict[str, Mapped], value: Any) -> bool:
    return isinstance(value, str) and value in roles


def _reason(error: Exception) -> str:
    """A sentence of ours for what PyJWT found, since its own may show parts of the token."""
    reasons: dict[type[Exception], str] = {
        jwt.ExpiredSignatureError: "it has expired",
        jwt.ImmatureSignatureError: "it is not valid yet",
        jwt.InvalidAudienceError: "it is for another audience",
        jwt.InvalidIssuerError: "it is of another issuer",
        jwt.InvalidSignatureError: "its signature is wrong",
        jwt.InvalidKeyError: "its key is too weak or of another kind",
        jwt.MissingRequiredClaimError: f"it needs the claims {', '.join(_REQUIRED)}",
    }
    return next((text for kind, text in reasons.items() if isinstance(error, kind)), "it is broken")
