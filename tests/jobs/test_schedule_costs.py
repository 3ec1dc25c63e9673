"""Money in schedules, on both databases: who may not see it neither sets, loses nor sends it."""

from typing import Any

import msgspec
import pytest

from service.db.engine import Database
from service.errors import ForbiddenError, InvalidError
from service.settings import Deliveries, Settings
from tests.jobs.audit_trails import events
from tests.jobs.batch_bodies import item
from tests.jobs.schedule_bodies import PLANNER, body, change, create, money, read

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
