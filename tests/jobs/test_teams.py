import pytest

from service.db.audit import events_of
from service.db.engine import Database
from service.errors import ConflictError, InvalidError, NotFoundError
from service.jobs import teams
from service.jobs.actors import DEFAULT_TEAM_ID


def test_a_team_is_made_once(database: Database) -> None:
    with database.write() as connection:
        made = teams.create_team(connection, "team", slug="infra", name="Infrastructure")
        with pytest.raises(ConflictError, match="'infra'"):
            teams.create_team(connection, "team", slug="infra")
        assert teams.create_team(connection, "team", slug="a").name == "a"
    with database.read() as connection:
        assert teams.read_team(connection, "infra") == made
        assert [team.slug for team in teams.list_teams(connection)] == ["a", "default", "infra"]
        (event,) = events_of(connection, made.id)
    assert made.name == "Infrastructure"
    assert not made.rate_approval_required
    assert (event.action, event.subject, event.principal) == (
        *("create_team", "team/infra", "program:team"),
    )


def test_only_what_is_given_changes(database: Database) -> None:
    with database.write() as connection:
        named = teams.change_team(connection, "team", "default", name="All of us")
        strict = teams.change_team(connection, "team", "default", rate_approval_required=True)
        assert teams.change_team(connection, "team", "default") == strict
        lax = teams.change_team(connection, "team", "default", rate_approval_required=False)
    assert (named.name, named.rate_approval_required) == ("All of us", False)
    assert (strict.name, strict.rate_approval_required) == ("All of us", True)
    assert not lax.rate_approval_required
    with database.read() as connection:
        changed = [event.changed for event in events_of(connection, DEFAULT_TEAM_ID)]
    assert changed == [["name"], ["rate_approval_required"], ["rate_approval_required"]]


@pytest.mark.parametrize(
    ("slug", "name", "pointers"),
    [
        ("Infra", None, ["/slug"]),
        ("infra", "", ["/name"]),
        ("-", "x" * 201, ["/slug", "/name"]),
    ],
)
def test_malformed_names_are_refused(
    sqlite_database: Database, slug: str, name: str | None, pointers: list[str]
) -> None:
    with sqlite_database.write() as connection, pytest.raises(InvalidError) as refused:
        teams.create_team(connection, "team", slug=slug, name=name)
    assert [fault.pointer for fault in refused.value.errors] == pointers


def test_an_unknown_team_is_not_changed(sqlite_database: Database) -> None:
    with sqlite_database.write() as connection, pytest.raises(NotFoundError, match="'nobody'"):
        teams.change_team(connection, "team", "nobody", name="x")
