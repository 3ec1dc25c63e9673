"""Dated GPU-hour rates over HTTP, on both databases."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from httpx import Response
from litestar import Litestar
from litestar.testing import TestClient

from service.api.rates import CORRECTION_EXAMPLE, CSV_EXAMPLE, RATE_EXAMPLE
from service.db.engine import Database
from service.settings import Settings
from tests.api.reused_apps import app_over

URL = "/v1/gpu-hour-rates"
RATE: dict[str, Any] = {
    "gpu_type": "H100-SXM",
    "cost_center": None,
    "price_per_gpu_hour": {"amount": "2.10", "currency": "EUR"},
    "valid_from": "2026-10-01",
    "valid_until": None,
    "source": "finance memo 2026-09",
}


@pytest.fixture
def client(database: Database) -> Iterator[TestClient[Litestar]]:
    with (
        app_over(Settings(), database) as app,
        TestClient(app, base_url="http://127.0.0.1") as opened,
    ):
        yield opened


def codes(answer: Response) -> list[tuple[str | None, str]]:
    return [(fault.get("pointer"), fault["code"]) for fault in answer.json()["errors"]]


def send_csv(client: TestClient[Litestar], text: str, **params: str) -> Response:
    return client.post(
        f"{URL}/imports", content=text, params=params, headers={"Content-Type": "text/csv"}
    )


def test_record_and_read(client: TestClient[Litestar]) -> None:
    made = client.post(URL, json=RATE)
    assert made.status_code == 201
    document = made.json()
    assert document["price_per_gpu_hour"] == {"amount": "2.10", "currency": "EUR"}
    assert (document["valid_from"], document["valid_until"]) == ("2026-10-01", None)
    assert made.headers["location"] == f"{URL}/{document['id']}"
    read = client.get(made.headers["location"])
    assert (read.json(), read.headers["etag"]) == (document, made.headers["etag"])
    tag = {"If-None-Match": made.headers["etag"]}
    assert client.get(made.headers["location"], headers=tag).status_code == 304


def test_an_overlap_names_the_rows_in_the_way(client: TestClient[Litestar]) -> None:
    made = client.post(URL, json=RATE).json()
    problem = client.post(URL, json={**RATE, "valid_from": "2027-01-01"})
    assert problem.status_code == 409
    assert codes(problem) == [("/valid_from", "overlapping_rate")]
    told = problem.json()["errors"][0]["detail"]
    assert made["id"] in told
    assert "[2026-10-01, no end)" in told
    assert len(client.get(URL).json()["items"]) == 1


def test_faults_are_all_named(client: TestClient[Litestar]) -> None:
    answer = client.post(
        URL,
        json={
            **RATE,
            "gpu_type": 5,
            "price_per_gpu_hour": {"amount": 2.1, "currency": "euro"},
            "valid_from": "2026-13-01",
            "note": "x",
        },
    )
    assert answer.status_code == 422
    assert {pointer for pointer, _ in codes(answer)} == {
        "/gpu_type",
        "/price_per_gpu_hour/amount",
        "/price_per_gpu_hour/currency",
        "/valid_from",
        "/note",
    }
    broken = client.post(URL, json={**RATE, "valid_until": "2026-10-01", "source": " "})
    assert codes(broken) == [("/source", "malformed_label"), ("/valid_until", "empty_validity")]


def test_a_correction_supersedes(client: TestClient[Litestar]) -> None:
    old = client.post(URL, json=RATE).json()
    address = f"{URL}/{old['id']}/corrections"
    body = {"price_per_gpu_hour": {"amount": "2.05", "currency": "EUR"}, "reason": "typo"}
    assert client.post(address, json=body).status_code == 428
    assert client.post(address, json=body, headers={"If-Match": '"9"'}).status_code == 412
    matched = {"If-Match": '"1"'}
    no_reason = client.post(address, json={"source": "x"}, headers=matched)
    assert codes(no_reason) == [("/reason", "missing_field")]
    dollars = {"price_per_gpu_hour": {"amount": "2", "currency": "USD"}, "reason": "typo"}
    assert codes(client.post(address, json=dollars, headers=matched)) == [
        ("/price_per_gpu_hour/currency", "currency_changed")
    ]
    new = client.post(address, json=body, headers=matched)
    assert new.status_code == 201
    assert new.headers["location"] == f"{URL}/{new.json()['id']}"
    assert new.json()["price_per_gpu_hour"]["amount"] == "2.05"
    kept = client.get(f"{URL}/{old['id']}")
    assert kept.json()["superseded_by"] == new.json()["id"]
    assert kept.json()["price_per_gpu_hour"]["amount"] == "2.10"
    assert client.post(address, json=body, headers=matched).status_code == 412
    again = client.post(address, json=body, headers={"If-Match": kept.headers["etag"]})
    assert again.status_code == 409
    assert [item["id"] for item in client.get(URL).json()["items"]] == [new.json()["id"]]
    everything = client.get(URL, params={"include_superseded": "true"}).json()["items"]
    assert {item["id"] for item in everything} == {old["id"], new.json()["id"]}


def test_the_end_of_a_rate_can_be_set_and_taken_away(client: TestClient[Litestar]) -> None:
    old = client.post(URL, json=RATE).json()
    ended = client.post(
        f"{URL}/{old['id']}/corrections", json=CORRECTION_EXAMPLE, headers={"If-Match": '"1"'}
    ).json()
    assert ended["valid_until"] == CORRECTION_EXAMPLE["valid_until"]
    opened = client.post(
        f"{URL}/{ended['id']}/corrections",
        json={"valid_until": None, "reason": "prolonged"},
        headers={"If-Match": '"1"'},
    ).json()
    assert opened["valid_until"] is None


def test_resolution_says_why(client: TestClient[Litestar]) -> None:
    query = {
        "gpu_type": "H100-SXM",
        "currency": "EUR",
        "cost_center": "research",
        "on": "2026-12-01",
    }
    nothing = client.get(f"{URL}/resolution", params=query)
    assert (nothing.status_code, nothing.json()["rate"]) == (200, None)
    assert nothing.json()["code"] == "no_rate"
    general = client.post(URL, json=RATE).json()
    exact = client.post(URL, json=RATE_EXAMPLE).json()
    found = client.get(f"{URL}/resolution", params=query).json()
    assert found["rate"] == exact
    assert found["code"] == "exact_cost_center"
    assert [(lost["rate"]["id"], lost["code"]) for lost in found["lost"]] == [
        (general["id"], "less_specific")
    ]
    past = client.get(f"{URL}/resolution", params={**query, "as_of": general["recorded_at"]}).json()
    assert past["rate"] == general


MALFORMED_RESOLUTIONS = (
    "gpu_type=H100-SXM&currency=EUR",
    "gpu_type=H100-SXM&on=2026-01-01",
    "gpu_type=H100-SXM&currency=eur&on=2026-01-01",
    "gpu_type=%20&currency=EUR&on=2026-01-01",
    "gpu_type=H100-SXM&currency=EUR&on=1.1.2026",
    "gpu_type=H100-SXM&currency=EUR&on=2026-01-01&as_of=9999-12-31T23:59:59-14:00",
)


def test_a_malformed_resolution_is_refused(client: TestClient[Litestar]) -> None:
    for query in MALFORMED_RESOLUTIONS:
        assert client.get(f"{URL}/resolution?{query}").status_code == 400, query


def test_filters_and_pages(client: TestClient[Litestar]) -> None:
    for month in range(1, 6):
        span = {"valid_from": f"2026-0{month}-01", "valid_until": f"2026-0{month + 1}-01"}
        client.post(URL, json={**RATE, **span})
    page = client.get(URL, params={"page_size": 3, "gpu_type": "H100-SXM"})
    assert [item["valid_from"][5:7] for item in page.json()["items"]] == ["01", "02", "03"]
    rest = client.get(page.headers["link"].partition(">")[0][1:])
    assert [item["valid_from"][5:7] for item in rest.json()["items"]] == ["04", "05"]
    on = client.get(URL, params={"on": "2026-02-28"}).json()["items"]
    assert [item["valid_from"] for item in on] == ["2026-02-01"]
    assert client.get(URL, params={"cost_center": "x"}).json()["items"] == []


def test_an_import_is_all_or_nothing(client: TestClient[Litestar]) -> None:
    checked = send_csv(client, CSV_EXAMPLE, validate_only="true")
    assert (checked.status_code, checked.json()["num_rates"]) == (200, 2)
    assert client.get(URL).json()["items"] == []
    bad = send_csv(client, CSV_EXAMPLE + "B200-SXM,,EUR,1.00,tomorrow,,example amount\n")
    assert bad.status_code == 422
    assert codes(bad) == [("/rows/4/valid_from", "wrong_format")]
    assert client.get(URL).json()["items"] == []
    done = send_csv(client, CSV_EXAMPLE)
    assert (done.status_code, done.json()["validate_only"]) == (201, False)
    stored = client.get(URL).json()["items"]
    assert [item["id"] for item in stored] == [item["id"] for item in done.json()["items"]]
    again = send_csv(client, CSV_EXAMPLE)
    assert again.status_code == 409
    assert codes(again) == [
        ("/rows/2/valid_from", "overlapping_rate"),
        ("/rows/3/valid_from", "overlapping_rate"),
    ]


def test_an_import_reads_csv_only(client: TestClient[Litestar]) -> None:
    assert client.post(f"{URL}/imports", json={}).status_code == 415
    broken = client.post(
        f"{URL}/imports", content=b"\xff\xfe", headers={"Content-Type": "text/csv"}
    )
    assert broken.status_code == 400
    nul = send_csv(client, CSV_EXAMPLE.replace("B200-SXM,,", "B200\0SXM,,"))
    assert codes(nul) == [("/rows/2/gpu_type", "malformed_label")]


def test_racing_posts_store_one_rate(client: TestClient[Litestar]) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.post(URL, json=RATE).status_code, range(8)))
    assert sorted(answers) == [201, *[409] * 7]


def test_racing_posts_of_one_key_get_one_answer(client: TestClient[Litestar]) -> None:
    keyed = {"Idempotency-Key": "once"}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.post(URL, json=RATE, headers=keyed), range(8)))
    made = [answer.json()["id"] for answer in answers if answer.status_code == 201]
    assert len(set(made)) == 1
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert len(client.get(URL).json()["items"]) == 1


def test_an_unknown_rate_is_not_found(client: TestClient[Litestar]) -> None:
    for rate_id in ("00000000-0000-7000-8000-000000000009", "x", "%00"):
        assert client.get(f"{URL}/{rate_id}").status_code == 404
        problem = client.post(
            f"{URL}/{rate_id}/corrections", json=CORRECTION_EXAMPLE, headers={"If-Match": '"1"'}
        )
        assert problem.status_code == 404
        assert client.delete(f"{URL}/{rate_id}").status_code == 405
