"""Remedies over HTTP; figures are the founding page's: one GPU of 64 at 70 %, 30 + 300 + 80 ms."""

from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import func, select

from service.api.examples import PIPED
from service.db.engine import Database
from service.db.tables import audit_event
from service.jobs import remedies
from service.model import MODEL_VERSION
from service.model.kernel import Results
from service.model.remedy.remedy_gains import Gains, evaluated
from service.model.remedy.remedy_grid import RemedyGrid
from service.model.remedy.remedy_kinds import KINDS, OF_PIPELINE
from tests.api.access_keys import key_of

ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
Client = TestClient[Litestar]
Headers = dict[str, str]
URL = "/v1/evaluations/remedies"
LOST = 11_000.530503978778
SCENARIO: dict[str, Any] = {
    "num_gpus": 64,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
}
PRICED: dict[str, Any] = {
    "pricing": {"gpu_type": "H100"},
    "currency": "EUR",
    "start_on": "2026-12-01",
}
RATE = {
    "gpu_type": "H100",
    "price_per_gpu_hour": {"amount": "1.00", "currency": "EUR"},
    "valid_from": "2026-01-01",
    "source": "memo",
}


def ranked(client: Client, headers: Headers | None = None, **body: Any) -> dict[str, Any]:
    answer = client.post(URL, json={"scenario": SCENARIO, **body}, headers=headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def record_rate(client: Client, headers: Headers | None = None, **changes: Any) -> None:
    answer = client.post("/v1/gpu-hour-rates", json={**RATE, **changes}, headers=headers)
    assert answer.status_code == 201, answer.text


def refused(client: Client, problem_of: ProblemOf, **body: Any) -> dict[str, str]:
    answer = client.post(URL, json={"scenario": SCENARIO, **body})
    faults = problem_of(answer, "invalid-scenario")["errors"]
    return {fault["pointer"]: fault["code"] for fault in faults}


def test_replacing_the_slow_gpu_gives_back_11_001_gpu_hours(shared_client: Client) -> None:
    found = ranked(shared_client)
    best = next(each for each in found["remedies"] if each["kind"] == "replace_slow_gpus")
    assert best["kind"] == "replace_slow_gpus"
    assert best["overrides"] == {"slow_groups": []}
    assert best["gpu_hours_given_back"] == pytest.approx(LOST, rel=1e-12)
    assert best["break_even_gpu_hours"] == pytest.approx(LOST, rel=1e-12)
    assert (best["count"], best["setting"]) == (1, None)
    assert (best["step_mean_ms_after"], best["efficiency_fraction_after"]) == (410, 1)
    assert found["result"]["gpu_hours_lost"] == pytest.approx(LOST, rel=1e-12)
    assert found["result"]["remedy"] is None
    assert found["model_version"] == MODEL_VERSION
    assert found["warnings"] == []
    assert {each["kind"] for each in found["not_applicable"]} == {
        *("faster_detection", "balance_data", "checkpoint_optimal"),
        *("hierarchical_collective", "compress_gradients", *OF_PIPELINE),
    }


def test_the_best_comes_first_and_every_kind_is_named(shared_client: Client) -> None:
    found = ranked(shared_client)
    hours = [each["gpu_hours_given_back"] for each in found["remedies"]]
    assert hours == sorted(hours, reverse=True)
    named = [each["kind"] for each in found["remedies"] + found["not_applicable"]]
    assert set(named) == set(KINDS)


def test_every_remedy_can_be_repeated_from_its_overrides(shared_client: Client) -> None:
    found = ranked(shared_client)
    for remedy in found["remedies"]:
        body = {"scenario": found["scenario"], "overrides": remedy["overrides"], "ranks_limit": 0}
        alone = shared_client.post("/v1/evaluations", json=body).json()["result"]
        assert alone["step_mean_ms"] == remedy["step_mean_ms_after"]
        change = alone["gpu_hours_available"] - found["result"]["gpu_hours_available"]
        assert change == remedy["gpu_hours_held_change"]
        added = remedy["gpu_hours_effective_change"] - remedy["gpu_hours_held_change"]
        assert added == pytest.approx(remedy["gpu_hours_given_back"], rel=1e-12)


def test_a_spare_pays_for_itself(shared_client: Client) -> None:
    found = ranked(shared_client, remedies=[{"kind": "hot_spares", "counts": [1, 4]}])
    one, four = found["remedies"]
    assert one["gpu_hours_given_back"] == pytest.approx(LOST - 720, rel=1e-12)
    assert four["gpu_hours_given_back"] == pytest.approx(LOST - 4 * 720, rel=1e-12)
    assert four["setting"] == {"count": 4}
    assert four["count"] == 4
    # Each of the four may hold so much before it no longer pays.
    assert four["break_even_gpu_hours"] == pytest.approx(LOST / 4, rel=1e-12)
    assert found["not_applicable"] == []


def test_money_is_what_the_gpu_hours_cost(client: Client) -> None:
    record_rate(client)
    found = ranked(client, **PRICED)
    assert found["cost_status"] == "priced"
    assert [line["days"] for line in found["rates"]] == [30]
    assert found["unpriced_days"] == 0
    money = {each["kind"]: each["money_given_back"] for each in found["remedies"]}
    assert money["replace_slow_gpus"] == {"amount": "11000.53", "currency": "EUR"}
    assert money["hot_spares"] == {"amount": "10280.53", "currency": "EUR"}
    spare = next(each for each in found["remedies"] if each["kind"] == "hot_spares")
    assert spare["break_even_price"] == {"amount": "11000.53", "currency": "EUR"}


def test_no_rate_is_a_normal_state(client: Client) -> None:
    bodies: list[dict[str, Any]] = [{}, PRICED]
    for body in bodies:
        found = ranked(client, **body)
        assert found["cost_status"] == "no_rate"
        assert found["unpriced_days"] == 30
        assert found["remedies"][0]["money_given_back"] is None
    record_rate(client, valid_from="2026-12-11")
    found = ranked(client, **PRICED)
    assert found["cost_status"] == "partly_priced"
    assert found["unpriced_days"] == 10
    assert found["remedies"][0]["break_even_price"] is None


def test_a_profile_brings_its_gpu_type(client: Client) -> None:
    record_rate(client)
    profile = {"slug": "ours", "name": "Ours", "gpu_type": "H100", "defaults": SCENARIO}
    assert client.post("/v1/cluster-profiles", json=profile).status_code == 201
    body = {"profile": "ours", "currency": "EUR", "overrides": {"slow_groups.0.count": 2}}
    answer = client.post(URL, json=body)
    assert answer.status_code == 200, answer.text
    best = answer.json()["remedies"][0]
    assert (best["kind"], best["count"]) == ("replace_slow_gpus", 2)
    assert best["money_given_back"]["amount"] == "11000.53"
    assert best["break_even_price"]["amount"] == "5500.27"


def test_money_is_withheld_from_who_may_not_see_it(
    client: Client, sqlite_database: Database
) -> None:
    finance = key_of(sqlite_database, "finance")
    viewer = key_of(sqlite_database, "viewer")
    record_rate(client, finance)
    seen = ranked(client, finance, **PRICED)
    assert seen["remedies"][0]["money_given_back"]["amount"] == "11000.53"
    found = ranked(client, viewer, **PRICED)
    assert found["cost_status"] == "withheld"
    assert (found["rates"], found["unpriced_days"]) == ([], None)
    for remedy in found["remedies"]:
        assert remedy["money_given_back"] is None
        assert remedy["break_even_price"] is None
    hours = [each["gpu_hours_given_back"] for each in found["remedies"]]
    assert hours == [each["gpu_hours_given_back"] for each in seen["remedies"]]


def test_a_typed_price_is_the_callers_own(client: Client, sqlite_database: Database) -> None:
    typed = {"price_per_gpu_hour": {"amount": "2.00", "currency": "EUR"}}
    for role in ("viewer", "finance"):
        found = ranked(client, key_of(sqlite_database, role), **typed)
        assert (found["cost_status"], found["unpriced_days"]) == ("priced", 0)
        assert found["rates"] == [{"id": None, "days": 30, "is_typed": True}]
        money = {each["kind"]: each["money_given_back"] for each in found["remedies"]}
        assert money["replace_slow_gpus"] == {"amount": "22001.06", "currency": "EUR"}
        assert money["hot_spares"] == {"amount": "20561.06", "currency": "EUR"}
    with sqlite_database.read() as connection:
        assert connection.scalar(select(func.count()).select_from(audit_event)) == 0


def test_a_typed_price_is_taken_with_a_profile(client: Client) -> None:
    profile = {"slug": "ours", "name": "Ours", "gpu_type": "H100", "defaults": SCENARIO}
    assert client.post("/v1/cluster-profiles", json=profile).status_code == 201
    typed = {"amount": "2.00", "currency": "JPY"}
    answer = client.post(URL, json={"profile": "ours", "price_per_gpu_hour": typed})
    best = answer.json()["remedies"][0]
    assert best["money_given_back"] == {"amount": "22001", "currency": "JPY"}


def test_reading_money_is_recorded_and_reading_hours_is_not(
    client: Client, sqlite_database: Database
) -> None:
    finance = key_of(sqlite_database, "finance")
    record_rate(client, finance)

    def recorded() -> int:
        with sqlite_database.read() as connection:
            number = connection.scalar(select(func.count()).select_from(audit_event))
        return number or 0

    before = recorded()
    ranked(client, finance)
    assert recorded() == before
    ranked(client, finance, **PRICED)
    assert recorded() == before + 1


def test_what_is_approximate_is_said(shared_client: Client) -> None:
    lasting = {**SCENARIO, "variability": {"persistent": {"kind": "lognormal", "cv": 0.03}}}
    asked = [{"kind": "rebalance_work"}, {"kind": "replace_slow_gpus"}]
    found = ranked(shared_client, scenario=lasting, remedies=asked)
    place = [each["kind"] for each in found["remedies"]].index("rebalance_work")
    assert [(each["pointer"], each["code"]) for each in found["warnings"]] == [
        (f"/remedies/{place}", "second_order")
    ]


def test_sampled_gains_have_a_standard_error(shared_client: Client) -> None:
    lasting = {"transient": {"kind": "lognormal", "cv": 0.02}}
    lasting["persistent"] = {"kind": "lognormal", "cv": 0.03}
    scenario = {**SCENARIO, "slow_groups": [], "variability": lasting, "draws": 64}
    found = ranked(
        shared_client, scenario=scenario, remedies=[{"kind": "hot_spares", "counts": [2]}]
    )
    (spares,) = found["remedies"]
    assert spares["gpu_hours_given_back_se"] > 0
    assert [each["code"] for each in found["warnings"]] == ["sampled"]


def test_more_draws_than_can_be_answered_at_once_are_refused(
    shared_client: Client, problem_of: ProblemOf
) -> None:
    law = {"kind": "lognormal", "cv": 0.02}
    scenario = {**SCENARIO, "variability": {"persistent": law, "transient": law}}
    assert refused(shared_client, problem_of, scenario={**scenario, "draws": 100_000}) == {
        "/scenario/draws": "too_many_draws"
    }
    # Replacing GPUs draws nothing.
    asked = [{"kind": "replace_slow_gpus"}]
    ranked(shared_client, scenario={**SCENARIO, "draws": 100_000}, remedies=asked)


def test_a_remedy_that_cannot_be_computed_is_left_out(
    shared_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def uncovered(grid: RemedyGrid, *, with_spread: bool) -> tuple[Results, Gains]:
        results, gains = evaluated(grid, with_spread=with_spread)
        gains.given_back[1] = np.nan
        return results, gains

    monkeypatch.setattr(remedies, "evaluated", uncovered)
    found = ranked(
        shared_client, remedies=[{"kind": "replace_slow_gpus"}, {"kind": "rebalance_work"}]
    )
    assert [each["kind"] for each in found["remedies"]] == ["rebalance_work"]
    assert found["not_applicable"] == [
        {"kind": "replace_slow_gpus", "setting": None, "reason": remedies.NOT_COVERED}
    ]


def test_a_setting_that_the_kind_does_not_read_is_refused(
    shared_client: Client, problem_of: ProblemOf
) -> None:
    asked = [
        {"kind": "rebalance_work", "counts": [1]},
        {"kind": "hot_spares", "counts": [1], "mean_hours": [2]},
    ]
    assert refused(shared_client, problem_of, remedies=asked) == {
        "/remedies/0/counts": "setting_not_read",
        "/remedies/1/mean_hours": "setting_not_read",
    }


@pytest.mark.parametrize(
    "request_",
    [
        {"kind": "prayer"},
        {"kind": "hot_spares", "counts": []},
        {"kind": "hot_spares", "counts": [0]},
        {"kind": "hot_spares", "counts": [1025]},
        {"kind": "hot_spares", "counts": [1] * 13},
        {"kind": "balance_data", "cv_fractions": [1]},
        {"kind": "faster_detection", "mean_hours": [-1]},
        {"kind": "hot_spares", "unknown": 1},
    ],
)
def test_requests_out_of_bounds_are_refused(shared_client: Client, request_: Any) -> None:
    answer = shared_client.post(URL, json={"scenario": SCENARIO, "remedies": [request_]})
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"].startswith("/remedies/0")
    many = shared_client.post(
        URL, json={"scenario": SCENARIO, "remedies": [{"kind": "hot_spares"}] * 17}
    )
    assert many.status_code == 422


def test_faults_of_the_scenario_are_placed_in_the_request(
    shared_client: Client, problem_of: ProblemOf
) -> None:
    groups = [{"count": 70, "speed_fraction": 0.7}]
    assert refused(shared_client, problem_of, overrides={"slow_groups": groups}) == {
        "/overrides/slow_groups/0/count": "too_many_slow_gpus"
    }
    faulty = {**SCENARIO, "num_gpus": 0, "load_ms": -1}
    assert set(refused(shared_client, problem_of, scenario=faulty)) == {
        *("/scenario/num_gpus", "/scenario/load_ms")
    }


def test_what_takes_too_long_to_simulate_is_left_out_and_the_rest_is_answered(
    shared_client: Client,
) -> None:
    scenario = {
        **SCENARIO,
        "num_gpus": 131_072,
        "variability": {"transient": {"kind": "normal", "cv": 0.05}},
        "draws": 1_000_000,
    }
    asked = [{"kind": kind} for kind in ("delayed_update", "replace_slow_gpus", "local_steps")]
    found = ranked(shared_client, scenario=scenario, remedies=asked)
    kinds = [each["kind"] for each in found["remedies"]]
    assert sorted(kinds) == ["local_steps"] * 3 + ["replace_slow_gpus"]
    (left_out,) = found["not_applicable"]
    assert left_out["kind"] == "delayed_update"
    assert "takes too long" in left_out["reason"]
    # A shorter one is answered.
    shorter = {**scenario, "num_gpus": 64, "draws": 500}
    found = ranked(shared_client, scenario=shorter, remedies=asked[:1])
    assert [each["kind"] for each in found["remedies"]] == ["delayed_update"]
    fewer = ranked(shared_client, scenario={**shorter, "draws": 100_000}, remedies=asked[:1])
    assert "steps of single GPUs would be simulated" in fewer["not_applicable"][0]["reason"]


def test_remedies_of_a_pipeline_do_the_same_job_and_say_what_a_gpu_holds(
    shared_client: Client,
) -> None:
    found = ranked(shared_client, scenario=PIPED)
    by_kind = {each["kind"]: each for each in found["remedies"]}
    assert set(OF_PIPELINE) - set(by_kind) == {"rebalance_stages"}
    for remedy in found["remedies"]:
        body = {"scenario": found["scenario"], "overrides": remedy["overrides"], "ranks_limit": 0}
        alone = shared_client.post("/v1/evaluations", json=body).json()["result"]
        assert alone["step_mean_ms"] == pytest.approx(remedy["step_mean_ms_after"], rel=1e-9)
        of_pipeline = remedy["kind"] in OF_PIPELINE
        names = ("before", "after")
        peaks = [remedy[f"peak_microbatches_in_flight_{name}"] for name in names]
        if not of_pipeline:
            assert peaks == [None, None]
            assert (remedy["activation_ratio"], remedy["parameter_ratio"]) == (None, None)
            continue
        assert peaks[0] == found["result"]["peak_microbatches_in_flight"] == 4
        assert peaks[1] == alone["peak_microbatches_in_flight"]
        now = (body["scenario"] | {})["pipeline"]["microbatches"]
        after = remedy["overrides"].get("pipeline.microbatches", now)
        assert remedy["activation_ratio"] == pytest.approx(peaks[1] / after / (4 / now))
        fewer = remedy["kind"] == "fewer_stages"
        assert remedy["parameter_ratio"] == (2 if fewer else 1)
    codes = {each["code"] for each in found["warnings"]}
    assert codes == {"p2p_kept"}
    # 11 of 4 + 7 slots, with 4 times as many micro-batches 23 of 16 + 7; p2p by 1F1B's formula.
    four = next(each for each in found["remedies"] if each["setting"] == {"microbatch_factor": 4})
    by_hand = 23 * 300 / 16 + 2 * 0.5 * (23 * 7 // 8) + 80
    assert four["step_mean_ms_after"] == pytest.approx(by_hand, rel=1e-12)


def test_a_pipeline_that_takes_too_long_to_work_through_is_left_out(shared_client: Client) -> None:
    large = {"schedule": "zb1p", "stages": 8, "microbatches": 1_000}
    asked = {"kind": "more_microbatches", "microbatches": [1_200, 30_000, 32_768]}
    found = ranked(shared_client, scenario={**PIPED, "pipeline": large}, remedies=[asked])
    assert [each["setting"] for each in found["remedies"]] == [{"microbatches": 1_200}]
    left_out = [each["setting"] for each in found["not_applicable"]]
    assert left_out == [{"microbatches": 30_000}, {"microbatches": 32_768}]
    assert "pipelines worked through for as long" in found["not_applicable"][0]["reason"]


def test_work_that_is_shared_out_in_a_pipeline_is_taken_to_be_divisible(
    shared_client: Client,
) -> None:
    slow = [{"count": 8, "speed_fraction": 0.5, "placement": 0}]
    asked = [{"kind": "rebalance_work"}, {"kind": "rebalance_stages"}]
    found = ranked(shared_client, scenario={**PIPED, "slow_groups": slow}, remedies=asked)
    kinds = [each["kind"] for each in found["remedies"]]
    assert [(each["pointer"], each["code"]) for each in found["warnings"]] == [
        (f"/remedies/{kinds.index('rebalance_work')}", "work_divided")
    ]
    # Speeds by stage are known: all take 16 / 15 as long as nominal ones, either way.
    steps = [each["step_mean_ms_after"] for each in found["remedies"]]
    assert steps[0] == pytest.approx(steps[1], rel=1e-9)
