"""Money of one evaluated scenario: of the loss of the window, and of the extra work of the job.

One GPU at 70 % among 1 024: 176 008 GPU-hours lost in 30 days; a million steps take 6.23 days and
36 571 GPU-hours more than at the ideal step.
"""

from fractions import Fraction
from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import func, select

from service.db.engine import Database
from service.db.tables import audit_event
from service.jobs.evaluations import EvaluationIn, resolve_inline
from tests.api.access_keys import key_of

Client = TestClient[Litestar]
URL = "/v1/evaluations"
RATES = "/v1/gpu-hour-rates"
SCENARIO: dict[str, Any] = {
    "num_gpus": 1024,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
    "total_steps": 1_000_000,
}
STEP = 110 + 300 / 0.7
DAYS = 1_000_000 * STEP / 86.4e6
EXTRA = 1024 * 1_000_000 * (STEP - 410) / 3.6e6
PRICED = {"pricing": {"gpu_type": "H100"}, "currency": "EUR", "start_on": "2026-12-01"}


def record_rate(
    client: Client, amount: str, valid_from: str, valid_until: str | None, **headers: str
) -> None:
    body = {
        "gpu_type": "H100",
        "price_per_gpu_hour": {"amount": amount, "currency": "EUR"},
        "valid_from": valid_from,
        "valid_until": valid_until,
        "source": "an example amount",
    }
    answer = client.post(RATES, json=body, headers=headers)
    assert answer.status_code == 201, answer.text


def costs(client: Client, body: dict[str, Any], **headers: str) -> dict[str, Any]:
    answer = client.post(URL, json={"ranks_limit": 0, **body}, headers=headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["costs"]
    return found


def test_loss_and_extra_work_are_priced_day_by_day(client: Client) -> None:
    record_rate(client, "1.00", "2026-12-01", "2026-12-04")
    record_rate(client, "2.00", "2026-12-04", None)
    found = costs(client, {"scenario": SCENARIO, **PRICED})
    lost = 1024 * 24 * 30 * (1 - 410 / STEP)
    assert found["cost_status"] == "priced"
    assert float(found["cost_of_loss"]["amount"]) == pytest.approx(
        lost * (3 * 1 + 27 * 2) / 30, abs=0.006
    )
    assert [line["days"] for line in found["rates"]] == [3, 27]
    assert found["unpriced_days"] == 0
    # 3 days at 1.00 and 3.23 at 2.00.
    expected = EXTRA / DAYS * (3 * 1 + (DAYS - 3) * 2)
    assert found["cost_of_extra_work"]["currency"] == "EUR"
    assert float(found["cost_of_extra_work"]["amount"]) == pytest.approx(expected, abs=0.006)
    assert found["cost_of_extra_work_status"] == "priced"
    assert found["unpriced_days_of_job"] == 0


def test_what_the_pipeline_loses_has_a_price(client: Client) -> None:
    record_rate(client, "2.00", "2026-12-01", None)
    pipeline = {"schedule": "gpipe", "stages": 8, "microbatches": 4}
    scenario = {"num_gpus": 8, "load_ms": 100, "compute_ms": 400, "pipeline": pipeline}
    found = costs(client, {"scenario": scenario, **PRICED})
    # Of 100 + 11/4 x 400 ms a step the bubble is 700.
    assert float(found["cost_of_pipeline"]["amount"]) == pytest.approx(
        2 * 8 * 720 * 700 / 1200, abs=0.006
    )
    assert costs(client, {"scenario": SCENARIO, **PRICED})["cost_of_pipeline"] is None


def test_days_without_a_rate_leave_the_cost_open(client: Client) -> None:
    record_rate(client, "1.00", "2026-12-01", "2026-12-07")
    found = costs(client, {"scenario": SCENARIO, **PRICED})
    assert found["cost_of_loss"] is None
    assert (found["cost_status"], found["unpriced_days"]) == ("partly_priced", 24)
    # The job ends on its seventh day.
    assert found["cost_of_extra_work"] is None
    assert found["cost_of_extra_work_status"] == "partly_priced"
    assert found["unpriced_days_of_job"] == 1


def test_a_job_of_whole_days_and_one_without_end(client: Client) -> None:
    record_rate(client, "1.00", "2026-12-01", None)
    # 432 ms a step: 200 000 steps are a day.
    scenario = {"num_gpus": 10, "compute_ms": 432, "total_steps": 400_000}
    found = costs(client, {"scenario": scenario, **PRICED})
    assert found["cost_of_extra_work"]["amount"] == "0.00"
    assert found["unpriced_days_of_job"] == 0
    endless = {**SCENARIO, "total_steps": 10**15}
    found = costs(client, {"scenario": endless, **PRICED})
    assert found["cost_of_extra_work_status"] == "partly_priced"
    assert found["unpriced_days_of_job"] > 10**9


def test_no_rate_and_no_currency_are_normal_states(client: Client) -> None:
    found = costs(client, {"scenario": SCENARIO, **PRICED})
    assert (found["cost_status"], found["unpriced_days"]) == ("no_rate", 30)
    assert found["cost_of_extra_work_status"] == "no_rate"
    without = costs(client, {"scenario": SCENARIO, "pricing": {"gpu_type": "H100"}})
    assert (without["currency"], without["cost_status"]) == (None, "no_rate")
    bare = costs(client, {"scenario": SCENARIO, "currency": "EUR"})
    assert (bare["currency"], bare["cost_status"]) == ("EUR", "no_rate")


def test_without_total_steps_there_is_no_extra_work(client: Client) -> None:
    record_rate(client, "1.00", "2026-12-01", None)
    found = costs(client, {"scenario": {**SCENARIO, "total_steps": None}, **PRICED})
    assert found["cost_status"] == "priced"
    assert found["cost_of_extra_work"] is None
    assert found["cost_of_extra_work_status"] is None
    assert found["unpriced_days_of_job"] is None


def test_the_profile_brings_its_gpu_type(client: Client) -> None:
    record_rate(client, "1.00", "2026-12-01", None)
    profile = {"slug": "ours", "name": "Ours", "gpu_type": "H100", "defaults": SCENARIO}
    assert client.post("/v1/cluster-profiles", json=profile).status_code == 201
    body = {"profile": "ours", "currency": "EUR", "start_on": "2026-12-01"}
    assert costs(client, body)["cost_of_loss"] == {"amount": "176008.49", "currency": "EUR"}


@pytest.mark.parametrize(
    ("changes", "pointer", "code"),
    [
        ({"currency": "XAU"}, "/currency", "not_monetary"),
        ({"currency": "ZZZ"}, "/currency", "unknown_currency"),
        ({"start_on": "9999-12-15"}, "/start_on", "window_too_late"),
        ({"start_on": "2026-13-01"}, "/start_on", "wrong_type"),
    ],
)
def test_what_has_no_price_is_named(
    shared_client: Client, changes: dict[str, Any], pointer: str, code: str
) -> None:
    answer = shared_client.post(URL, json={"scenario": SCENARIO, **PRICED, **changes})
    assert answer.status_code == 422, answer.text
    (fault,) = answer.json()["errors"]
    assert fault["pointer"] == pointer
    assert fault["code"] in {code, "wrong_format"}


def test_money_is_withheld_from_who_may_not_see_it(
    client: Client, sqlite_database: Database
) -> None:
    finance, viewer = key_of(sqlite_database, "finance"), key_of(sqlite_database, "viewer")
    record_rate(client, "1.00", "2026-12-01", None, **finance)
    pipeline = {"schedule": "gpipe", "stages": 8, "microbatches": 4}
    body = {"scenario": SCENARIO, **PRICED}
    assert costs(client, body, **finance)["cost_of_loss"]["amount"] == "176008.49"
    piped = {**body, "scenario": {**SCENARIO, "pipeline": pipeline}}
    assert costs(client, piped, **finance)["cost_of_pipeline"] is not None
    assert costs(client, piped, **viewer)["cost_of_pipeline"] is None
    hidden = costs(client, body, **viewer)
    assert hidden["cost_of_loss"] is None
    assert hidden["cost_of_extra_work"] is None
    assert {hidden["cost_status"], hidden["cost_of_extra_work_status"]} == {"withheld"}
    assert (hidden["rates"], hidden["unpriced_days"]) == ([], None)
    assert hidden["unpriced_days_of_job"] is None


def test_reading_money_is_recorded_and_reading_hours_is_not(
    client: Client, sqlite_database: Database
) -> None:
    finance = key_of(sqlite_database, "finance")

    def recorded() -> int:
        with sqlite_database.read() as connection:
            number = connection.scalar(select(func.count()).select_from(audit_event))
        return number or 0

    before = recorded()
    costs(client, {"scenario": SCENARIO}, **finance)
    assert recorded() == before
    costs(client, {"scenario": SCENARIO, **PRICED}, **finance)
    assert recorded() == before + 1


def test_a_scenario_without_a_price_needs_no_database() -> None:
    plain = EvaluationIn(scenario=SCENARIO)
    assert resolve_inline(plain) is not None
    assert resolve_inline(EvaluationIn(scenario=SCENARIO, currency="EUR")) is None
    assert resolve_inline(EvaluationIn(profile="ours")) is None


def test_the_part_of_the_last_day_is_exact(client: Client) -> None:
    """Two prices that no binary fraction holds: the sum is that of exact fractions."""
    record_rate(client, "0.10", "2026-12-01", "2026-12-02")
    record_rate(client, "0.30", "2026-12-02", None)
    # 432 ms a step with a loss of 108 ms: 1.5 days for 300 000 steps, 0.3 of them lost.
    scenario = {
        "num_gpus": 1000,
        "compute_ms": 324,
        "slow_groups": [{"count": 1, "speed_fraction": 0.75}],
        "total_steps": 300_000,
    }
    found = costs(client, {"scenario": scenario, **PRICED})
    # 9 000 GPU-hours: 6 000 on the first day, 3 000 on half of the second.
    exact = Fraction(6_000) * Fraction(1, 10) + Fraction(3_000) * Fraction(3, 10)
    assert found["cost_of_extra_work"]["amount"] == f"{float(exact):.2f}"
