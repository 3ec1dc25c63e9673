"""Money in schedules, on both databases: who may not see it neither sets, loses nor sends it."""

from typing import Any

import msgspec
import pytest
from sqlalchemy import update

from service.db.engine import Database
from service.db.schedule_tables import webhook_endpoint
from service.errors import ForbiddenError, InvalidError
from service.jobs import webhook_endpoints
from service.jobs.schedule_changes import plan_schedule
from service.jobs.webhook_documents import EndpointIn
from service.settings import Deliveries, Settings
from tests.jobs.audit_trails import events
from tests.jobs.batch_bodies import item
from tests.jobs.schedule_bodies import (
    ACTOR,
    NOW,
    PLANNER,
    SETTINGS,
    body,
    change,
    create,
    money,
    read,
)

FOLDER = Settings(deliveries=Deliveries(folder="/srv/reports"))
FILES = {"kind": "directory", "folder": "finance"}


def test_who_sees_no_money_makes_none(database: Database) -> None:
    for document in (body(budget=money()), body(deliveries=[{**FILES, "include_costs": True}])):
        with pytest.raises(ForbiddenError, match="costs:read"):
            create(database, document, actor=PLANNER, settings=FOLDER)
    made = create(database, body(budget={"gpu_hours_lost_per_30_days": 5}), actor=PLANNER)
    assert made.budget is not None
    with pytest.raises(ForbiddenError, match="costs:read"):
        change(database, {"budget": money()}, actor=PLANNER)


def test_a_budget_of_money_is_withheld_and_kept_by_who_does_not_see_it(database: Database) -> None:
    both = {"gpu_hours_lost_per_30_days": 5, **money("12.50")}
    create(database, body(budget=both))
    seen = read(database, actor=PLANNER)
    assert seen.budget_withheld
    assert msgspec.to_builtins(seen.budget) == {
        "gpu_hours_lost_per_30_days": 5,
        "cost_of_loss_per_30_days": None,
    }

    def stored() -> Any:
        found = read(database)
        assert not found.budget_withheld
        return msgspec.to_builtins(found.budget)

    # What they send back is what they have seen.
    sent = msgspec.to_builtins(seen.budget)
    assert change(database, {"name": "x", "budget": sent}, actor=PLANNER).budget_withheld
    assert stored() == both
    change(database, {"budget": {"gpu_hours_lost_per_30_days": 6}}, actor=PLANNER)
    assert stored() == {**both, "gpu_hours_lost_per_30_days": 6}
    assert change(database, {"budget": None}, actor=PLANNER).budget is None
    assert stored() == {"gpu_hours_lost_per_30_days": None, **money("12.50")}
    # The very budget too: else whoever tries amounts finds it.
    for other in (money("13"), money("12.50", "USD"), money("12.50"), money("12.5")):
        with pytest.raises(ForbiddenError, match="costs:read"):
            change(database, {"budget": other}, actor=PLANNER)
        with pytest.raises(ForbiddenError, match="costs:read"):
            change(database, {"budget": {**both, **other}}, actor=PLANNER)
    for currency in ("USD", "GBP", None):
        # Whatever it is: "the budget is in EUR" would tell.
        batch = {**body()["batch"], "currency": currency}
        with pytest.raises(ForbiddenError, match="costs:read"):
            change(database, {"batch": batch}, actor=PLANNER)
    with pytest.raises(InvalidError):
        change(database, {"budget": "none"}, actor=PLANNER)
    assert stored()["cost_of_loss_per_30_days"]["amount"] == "12.50"
    assert change(database, {"budget": None}).budget is None
    assert not read(database, actor=PLANNER).budget_withheld
    assert "12.50" not in str(events(database))


def test_who_sees_no_money_redirects_none(database: Database) -> None:
    sends = {**FILES, "include_costs": True}
    create(database, body(deliveries=[sends]), settings=FOLDER)
    refused: list[dict[str, Any]] = [
        {"deliveries": []},
        {"deliveries": [{**sends, "folder": "mine"}]},
        {"deliveries": [sends, FILES]},
        {"batch": {"items": [item(custom_id="another")], "currency": "EUR"}},
    ]
    for sent in refused:
        with pytest.raises(ForbiddenError, match="costs:read"):
            change(database, sent, actor=PLANNER, settings=FOLDER)
    same = {"deliveries": [sends], "batch": body()["batch"], "name": "renamed"}
    changed = change(database, same, actor=PLANNER, settings=FOLDER)
    assert (changed.name, changed.version) == ("renamed", 2)
    changed = change(database, {"deliveries": [FILES]}, settings=FOLDER)
    assert not changed.deliveries[0].include_costs
    with pytest.raises(ForbiddenError, match="costs:read"):
        change(database, {"deliveries": [sends]}, actor=PLANNER, settings=FOLDER)
    change(database, {"deliveries": []}, actor=PLANNER, settings=FOLDER)


def test_a_budget_of_money_that_tells_nobody_is_warned_of(database: Database) -> None:
    """Deliveries without costs are neither sent because of money, nor say anything of it."""
    sends = {**FILES, "folder": "money", "include_costs": True}
    quiet = body(budget=money("98765.43"), deliveries=[FILES])
    with database.read() as connection:
        plan = plan_schedule(connection, ACTOR, quiet, FOLDER, now=NOW)
    (notice,) = plan.warnings
    assert (notice.pointer, notice.code) == (
        "/budget/cost_of_loss_per_30_days",
        "budget_tells_nobody",
    )
    assert create(database, quiet, settings=FOLDER).warnings == [notice]
    # Who sees no money learns that there is a budget, as before, and nothing more.
    seen = read(database, actor=PLANNER)
    assert (seen.budget_withheld, seen.warnings) == (True, [notice])
    assert "98765" not in notice.detail
    assert "EUR" not in notice.detail
    changed = change(database, {"deliveries": [FILES, sends]}, settings=FOLDER)
    assert changed.warnings == read(database).warnings == []
    hours = change(
        database,
        {"deliveries": [], "budget": {"gpu_hours_lost_per_30_days": 5}},
        settings=FOLDER,
    )
    assert hours.warnings == []
    assert len(change(database, {"budget": money()}).warnings) == 1


@pytest.mark.parametrize("what", ["include_costs", "disabled_at", "deleted_at"])
def test_an_endpoint_that_takes_no_money_any_more_tells_nobody(
    database: Database, what: str
) -> None:
    with database.write() as connection:
        endpoint = EndpointIn(name="chat", url="https://chat.example/hook", include_costs=True)
        made = webhook_endpoints.create_endpoint(connection, ACTOR, endpoint, SETTINGS, now=NOW)
    tells = {"kind": "webhook", "endpoint_id": str(made.id), "include_costs": True}
    assert create(database, body(budget=money(), deliveries=[tells])).warnings == []
    with database.write() as connection:
        value = False if what == "include_costs" else NOW
        connection.execute(update(webhook_endpoint).values(**{what: value}))
    gone = {"disabled_at": ["endpoint_disabled"], "deleted_at": ["endpoint_deleted"]}
    codes = [notice.code for notice in read(database).warnings]
    assert codes == [*gone.get(what, []), "budget_tells_nobody"]


def test_what_becomes_of_a_delivery_other_than_it_says_is_warned_of(database: Database) -> None:
    with database.write() as connection:
        endpoint = EndpointIn(name="chat", url="https://chat.example/hook")
        made = webhook_endpoints.create_endpoint(connection, ACTOR, endpoint, SETTINGS, now=NOW)
    change_rule = {"when": "on_change", "threshold": {"relative": 0.1}}
    hook = {"kind": "webhook", "endpoint_id": str(made.id)}
    wanted = body(deliveries=[{**FILES, **change_rule}, hook], baseline=None)
    (notice,) = create(database, wanted, settings=FOLDER).warnings
    assert (notice.pointer, notice.code) == ("/deliveries/0/when", "change_of_nothing")
    assert change(database, {"baseline": {"kind": "previous"}}, settings=FOLDER).warnings == []
    priceless = {"items": [item()], "currency": None}
    sends = [{**FILES, "include_costs": True}, hook]
    (notice,) = change(
        database, {"batch": priceless, "deliveries": sends}, settings=FOLDER
    ).warnings
    assert (notice.pointer, notice.code) == (
        "/deliveries/0/include_costs",
        "costs_without_currency",
    )
    change(database, {"deliveries": [FILES, hook]}, settings=FOLDER)
    with database.write() as connection:
        connection.execute(update(webhook_endpoint).values(disabled_at=NOW))
    (notice,) = read(database).warnings
    assert (notice.pointer, notice.code) == ("/deliveries/1/endpoint_id", "endpoint_disabled")
    assert notice.detail == "nobody is told by this: the webhook endpoint 'chat' is disabled"
