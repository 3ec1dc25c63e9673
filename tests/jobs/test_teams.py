from datetime import date

import pytest

from service.db.audit import events_of
from service.db.engine import Database
from service.errors import ConflictError, InvalidError, NotFoundError
from service.jobs import teams
from service.jobs.actors import DEFAULT_TEAM_ID, Actor
from service.jobs.rate_approvals import approve_rate
from service.jobs.rate_corrections import correct_rate
from service.jobs.rate_documents import CorrectionIn, RateIn, RateOut
from service.jobs.rates import create_rate
from service.reports.money import Money

ANNA = Actor(name="anna", principal="key:anna", role="finance")
BERT = Actor(name="bert", principal="key:bert", role="finance")


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


def rate(database: Database, gpu_type: str) -> RateOut:
    document = RateIn(
        gpu_type=gpu_type,
        cost_center=None,
        price_per_gpu_hour=Money(amount="2.00", currency="EUR"),
        valid_from=date(2027, 1, 1),
        valid_until=None,
        source="memo",
    )
    with database.write() as connection:
        return create_rate(connection, ANNA, document)


def effect(database: Database, *, required: bool) -> tuple[int, int, int]:
    with database.read() as connection:
        found = teams.demand_effect(connection, "default", required=required)
    return found.num_current, found.num_unapproved, found.num_corrected


def test_what_a_demand_changes_is_counted(database: Database) -> None:
    first, second, _ = (rate(database, gpu_type) for gpu_type in ("A", "B", "C"))
    with database.write() as connection:
        approve_rate(connection, BERT, first.id, version=1)
        approve_rate(connection, BERT, second.id, version=1)
        change = CorrectionIn(reason="wrong", valid_until=date(2027, 6, 1))
        correct_rate(connection, ANNA, second.id, change, version=2)
    assert effect(database, required=True) == (3, 2, 1)
    assert effect(database, required=False) == (0, 0, 0)
    with database.write() as connection:
        teams.change_team(connection, "team", "default", rate_approval_required=True)
    assert effect(database, required=True) == (0, 0, 0)
    assert effect(database, required=False) == (3, 2, 1)


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
