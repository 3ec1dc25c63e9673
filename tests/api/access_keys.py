"""Keys and teams for tests, made where the command line makes them: in the database."""

from collections.abc import Iterable
from uuid import UUID

from sqlalchemy import insert

from service.db.api_keys import insert_key
from service.db.engine import Database
from service.db.tables import team
from service.jobs import audit
from service.jobs.actors import DEFAULT_TEAM_ID, program
from service.jobs.key_tokens import digest, mint
from service.jobs.scopes import ROLE_SCOPES, Role, Scope


def new_team(database: Database, slug: str) -> UUID:
    """Another team; its id."""
    made = UUID(bytes=slug.encode().ljust(16, b"-")[:16])
    with database.write() as connection:
        connection.execute(insert(team).values(id=made, slug=slug, name=slug))
    return made


def key_of(
    database: Database,
    role: Role,
    team_id: UUID = DEFAULT_TEAM_ID,
    scopes: Iterable[Scope] | None = None,
    *,
    recorded: bool = False,
) -> dict[str, str]:
    """The header of a new key of the role; `recorded` with the event that each real key has."""
    token = mint()
    with database.write() as connection:
        insert_key(
            connection,
            team_id=team_id,
            created_by="test",
            public_id=token.public_id,
            secret_digest=digest(token.secret),
            name=f"{role} of a test",
            role=role,
            scopes=sorted(ROLE_SCOPES[role] if scopes is None else scopes),
        )
        if recorded:
            audit.record(
                connection,
                program("key", team_id),
                action="create_api_key",
                subject=f"api-key/{token.public_id}",
            )
    return {"Authorization": f"Bearer {token.text}"}
