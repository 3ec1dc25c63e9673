"""A price typed with an evaluation, in place of stored rates; and parts of it left out."""

from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import func, select

from service.db.engine import Database
from service.db.tables import audit_event, gpu_hour_rate
from service.model.answer_parts import PART_COLUMNS
from tests.api.access_keys import key_of
from tests.api.test_evaluation_prices import PRICED, SCENARIO, costs, record_rate

Client = TestClient[Litestar]
URL = "/v1/evaluations"
PRICING_URLS = (URL, f"{URL}/remedies", f"{URL}/pipeline-search")
TYPED = {"price_per_gpu_hour": {"amount": "2.10", "currency": "EUR"}}


def test_a_typed_price_is_a_rate_of_all_days(client: Client) -> None:
    found = costs(client, {"scenario": SCENARIO, **TYPED, "start_on": "2026-12-01"})
    # 176 008.488 GPU-hours at 2.10.
    assert found["cost_of_loss"] == {"amount": "369617.82", "currency": "EUR"}
    assert found["cost_status"] == found["cost_of_extra_work_status"] == "priced"
    assert found["rates"] == [{"id": None, "days": 30, "is_typed": True}]
    assert (found["unpriced_days"], found["unpriced_days_of_job"]) == (0, 0)
    record_rate(client, "2.10", "2026-12-01", None)
    stored = costs(client, {"scenario": SCENARIO, **PRICED})
    assert [line["is_typed"] for line in stored.pop("rates")] == [False]
    found.pop("rates")
    assert stored == found


def test_a_price_finer_than_a_cent_is_kept_until_the_end(client: Client) -> None:
    fine = {"price_per_gpu_hour": {"amount": "0.000000000001", "currency": "KWD"}}
    assert costs(client, {"scenario": SCENARIO, **fine})["cost_of_loss"]["amount"] == "0.000"
    yen = {"price_per_gpu_hour": {"amount": "2.105", "currency": "JPY"}}
    assert costs(client, {"scenario": SCENARIO, **yen})["cost_of_loss"]["amount"] == "370498"


def test_it_is_the_callers_own_and_nothing_is_recorded(
    client: Client, sqlite_database: Database
) -> None:
    finance, viewer = key_of(sqlite_database, "finance"), key_of(sqlite_database, "viewer")
    record_rate(client, "1.00", "2026-12-01", None, **finance)

    def stored() -> list[int]:
        with sqlite_database.read() as connection:
            return [
                connection.scalar(select(func.count()).select_from(table)) or 0
                for table in (audit_event, gpu_hour_rate)
            ]

    before = stored()
    for key in (viewer, finance):
        found = costs(client, {"scenario": SCENARIO, **TYPED}, **key)
        assert found["cost_of_loss"]["amount"] == "369617.82"
    assert stored() == before


def test_a_profile_may_be_priced_by_a_typed_price(client: Client) -> None:
    profile = {"slug": "ours", "name": "Ours", "gpu_type": "H100", "defaults": SCENARIO}
    assert client.post("/v1/cluster-profiles", json=profile).status_code == 201
    found = costs(client, {"profile": "ours", **TYPED})
    assert found["cost_of_loss"]["amount"] == "369617.82"


@pytest.mark.parametrize(
    ("changes", "pointer", "code"),
    [
        ({"amount": "0.0"}, "/price_per_gpu_hour/amount", "not_positive"),
        ({"amount": "-1"}, "/price_per_gpu_hour/amount", "malformed_amount"),
        ({"amount": "1" * 13}, "/price_per_gpu_hour/amount", "malformed_amount"),
        ({"amount": "1." + "1" * 13}, "/price_per_gpu_hour/amount", "malformed_amount"),
        ({"currency": "XAU"}, "/price_per_gpu_hour/currency", "not_monetary"),
        ({"currency": "ZZZ"}, "/price_per_gpu_hour/currency", "unknown_currency"),
    ],
)
def test_a_price_that_no_rate_could_have(
    client: Client, changes: dict[str, Any], pointer: str, code: str
) -> None:
    price = {**TYPED["price_per_gpu_hour"], **changes}
    answer = client.post(URL, json={"scenario": SCENARIO, "price_per_gpu_hour": price})
    assert answer.status_code == 422, answer.text
    (fault,) = answer.json()["errors"]
    assert (fault["pointer"], fault["code"]) == (pointer, code)


@pytest.mark.parametrize("url", PRICING_URLS)
@pytest.mark.parametrize("amount", [2.1, "0"])
def test_a_float_is_no_price_and_nothing_is_none(
    client: Client, url: str, amount: float | str
) -> None:
    price = {"amount": amount, "currency": "EUR"}
    answer = client.post(url, json={"scenario": SCENARIO, "price_per_gpu_hour": price})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/price_per_gpu_hour/amount"


@pytest.mark.parametrize("url", PRICING_URLS)
@pytest.mark.parametrize("beside", ["currency", "pricing"])
def test_it_stands_instead_of_stored_rates(client: Client, url: str, beside: str) -> None:
    body = {"scenario": SCENARIO, **TYPED, beside: PRICED[beside]}
    answer = client.post(url, json=body)
    assert answer.status_code == 422
    (fault,) = answer.json()["errors"]
    assert (fault["pointer"], fault["code"]) == (f"/{beside}", "price_is_typed")


@pytest.mark.parametrize("url", PRICING_URLS)
def test_the_window_ends_on_a_date(client: Client, url: str) -> None:
    body = {"scenario": SCENARIO, **TYPED, "start_on": "9999-12-20"}
    answer = client.post(url, json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["code"] == "window_too_late"


def test_what_is_left_out_is_null_and_all_else_is_the_same(client: Client) -> None:
    varied = {**SCENARIO, "variability": {"transient": {"kind": "normal", "cv": 0.05}}}
    body = {"scenario": varied, "ranks_limit": 3, **TYPED}
    whole = client.post(URL, json=body).json()
    parts = list(PART_COLUMNS)
    short = client.post(URL, json={**body, "leave_out": parts}).json()
    left_out = {column for part in parts for column in PART_COLUMNS[part]}
    for column, value in whole["result"].items():
        expected = None if column in left_out else value
        assert short["result"][column] == expected, column
    for name in ("ranks", "costs", "warnings", "scenario"):
        assert short[name] == whole[name]


def cv(value: float) -> dict[str, Any]:
    return {"kind": "normal", "cv": value}


def test_a_spread_that_is_left_out_is_no_warning(client: Client) -> None:
    slow_backup = {
        **SCENARIO,
        "variability": {"persistent": cv(0.02), "transient": cv(0.05)},
        "synchronization": {"kind": "backup_workers", "count": 1},
    }
    body = {"scenario": slow_backup, "ranks_limit": 0}
    codes = [
        {notice["code"] for notice in client.post(URL, json=asked).json()["warnings"]}
        for asked in (body, {**body, "leave_out": ["spread"]})
    ]
    assert codes[0] - codes[1] == {"spread_not_computed"}
