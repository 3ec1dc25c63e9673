"""Batches, results, comparisons and exports over HTTP, the background runner included."""

import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.api.examples import BATCH_EXAMPLES

Check = Callable[[httpx.Response, str], dict[str, Any]]
SLOW, FIXED, *_ = BATCH_EXAMPLES.values()


def finished(client: TestClient[Litestar], accepted: httpx.Response) -> dict[str, Any]:
    assert accepted.status_code == 202, accepted.text
    location = accepted.headers["location"]
    for _ in range(600):
        batch: dict[str, Any] = client.get(location).json()
        if batch["ended_at"] is not None:
            return batch
        time.sleep(0.1)
    pytest.fail(f"{location} did not end")


def post(client: TestClient[Litestar], body: Any, **headers: str) -> httpx.Response:
    return client.post("/v1/scenario-batches", json=body, headers=headers)


def test_from_post_to_comparison(client: TestClient[Litestar]) -> None:
    past = finished(client, post(client, SLOW))
    new = finished(client, post(client, FIXED))
    assert (past["state"], past["counts"]["succeeded"], past["points_done"]) == ("succeeded", 1, 30)
    page = client.get(past["results_url"], params={"order_by": "-gpu_hours_lost", "page_size": 2})
    first, second = page.json()["items"]
    assert first["inputs"]["num_gpus"] == 131072
    assert first["result"]["gpu_hours_lost"] >= second["result"]["gpu_hours_lost"]
    link = page.headers["link"]
    following = client.get(link[1 : link.index(">")]).json()["items"]
    assert following[0]["result"]["gpu_hours_lost"] <= second["result"]["gpu_hours_lost"]
    compared = client.get(
        "/v1/comparisons", params={"baseline": past["id"], "candidate": new["id"]}
    ).json()
    assert round(compared["summary"]["gpu_hours_lost"]["difference"]) == -176_008
    history = client.get("/v1/loss-history", params={"scenario": "one slow GPU"}).json()
    assert [round(row["gpu_hours_lost_per_30_days"]) for row in history["items"]] == [176_008, 0]
    listed = client.get("/v1/results", params={"name": "one slow GPU", "page_size": 1000}).json()
    assert len(listed["items"]) == 60
    detail = client.get(f"/v1/results/{first['id']}")
    again = client.post(
        "/v1/evaluations", json={**detail.json()["provenance"]["reproduce"], "ranks_limit": 0}
    )
    for name, value in first["result"].items():
        # Another path to the same point: within 1e-9 (decisions, 4).
        same = pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
        assert again.json()["result"][name] == same, name
    unchanged = client.get(
        f"/v1/results/{first['id']}", headers={"If-None-Match": detail.headers["etag"]}
    )
    assert unchanged.status_code == 304


def test_a_batch_is_read_conditionally(client: TestClient[Litestar]) -> None:
    batch = finished(client, post(client, SLOW))
    answer = client.get(f"/v1/scenario-batches/{batch['id']}")
    same = client.get(
        f"/v1/scenario-batches/{batch['id']}", headers={"If-None-Match": answer.headers["etag"]}
    )
    assert same.status_code == 304
    assert client.get("/v1/scenario-batches", params={"page_size": 1}).json()["items"] == [batch]


def test_validate_only_stores_nothing(client: TestClient[Litestar]) -> None:
    plan = client.post("/v1/scenario-batches?validate_only=true", json=SLOW)
    assert plan.status_code == 200
    assert (plan.json()["points_total"], plan.json()["items"][0]["headline_point"]) == (30, 14)
    assert client.get("/v1/scenario-batches").json()["items"] == []


def test_the_same_key_makes_one_batch(client: TestClient[Litestar], problem_of: Check) -> None:
    answers = [post(client, SLOW, **{"Idempotency-Key": "k-1"}) for _ in range(3)]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert answers[2].headers["idempotent-replayed"] == "true"
    other = post(client, FIXED, **{"Idempotency-Key": "k-1"})
    assert other.status_code == 422
    problem_of(other, "idempotency-key-reused")


def test_faulty_items_are_all_named(client: TestClient[Litestar], problem_of: Check) -> None:
    item = SLOW["items"][0]
    broken = {**item, "custom_id": "b", "overrides": {"compute_ms": 0, "colour": 1}}
    odd = {**item, "custom_id": "c", "axes": [{"path": "num_gpus", "values": [8, -1]}], "extra": 1}
    answer = post(client, {"name": "x", "items": [item, broken, odd]})
    assert answer.status_code == 422
    problem = problem_of(answer, "invalid-scenario")
    pointers = {error["pointer"] for error in problem["errors"]}
    assert "/items/1/overrides/compute_ms" in pointers
    assert "/items/1/overrides/colour" in pointers
    assert "/items/2/extra" in pointers


def test_batches_are_listed_by_a_part_of_their_name(client: TestClient[Litestar]) -> None:
    made = [finished(client, post(client, {**SLOW, "name": name})) for name in ("Past", "new")]
    found = client.get("/v1/scenario-batches", params={"name_contains": "AS"}).json()["items"]
    assert [batch["id"] for batch in found] == [made[0]["id"]]
    for text in ("", "a" * 201):
        answer = client.get("/v1/scenario-batches", params={"name_contains": text})
        assert answer.status_code == 400


def test_a_batch_is_priced_again(client: TestClient[Litestar], problem_of: Check) -> None:
    batch = finished(client, post(client, SLOW))
    url = f"/v1/scenario-batches/{batch['id']}"
    old = client.get(url)
    made = client.post(f"{url}/repricings", json={"currency": "EUR"})
    assert (made.status_code, made.json()["pricing"]) == (201, 2)
    new = client.get(url, headers={"If-None-Match": old.headers["etag"]})
    assert (new.status_code, new.json()["rates_as_of"]) == (200, made.json()["rates_as_of"])
    refused = client.delete(url, headers={"If-Match": old.headers["etag"]})
    versions = f"is at version {new.json()['version']}, not {old.json()['version']}"
    assert problem_of(refused, "precondition-failed")["detail"].endswith(versions)
    assert new.json()["version"] == old.json()["version"] + 1
    assert len(client.get(f"{url}/pricings").json()["items"]) == 2
    refused = client.post(f"{url}/repricings", json={})
    assert refused.status_code == 422
    assert problem_of(refused, "invalid-input")["errors"][0]["pointer"] == "/currency"


def test_failed_points_are_listed(client: TestClient[Litestar]) -> None:
    item = {
        **SLOW["items"][0],
        "overrides": {"slow_groups": [{"count": 20, "speed_fraction": 0.7}]},
    }
    batch = finished(client, post(client, {"name": "x", "items": [item]}))
    assert (batch["state"], batch["points_failed"]) == ("partially_failed", 4)
    page = client.get(batch["errors_url"], params={"page_size": 1})
    assert page.json()["errors_total"] == 4
    assert page.json()["items"][0]["detail"] == "20 slow GPUs, but num_gpus is 8"
    assert 'rel="next"' in page.headers["link"]
