"""Cluster profiles over HTTP, on both databases."""

from collections.abc import Iterator
from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.api.profiles import REVISION_EXAMPLE
from service.db.engine import Database
from service.settings import Limits, Settings
from tests.api.reused_apps import app_over

URL = "/v1/cluster-profiles"
PROFILE: dict[str, Any] = {"slug": "prod-h100", **REVISION_EXAMPLE}


@pytest.fixture
def client(database: Database) -> Iterator[TestClient[Litestar]]:
    with (
        app_over(Settings(limits=Limits(page_size=3)), database) as app,
        TestClient(app, base_url="http://127.0.0.1") as opened,
    ):
        yield opened


def codes(problem: dict[str, Any]) -> list[tuple[str | None, str]]:
    return [(fault.get("pointer"), fault["code"]) for fault in problem["errors"]]


def test_create_read_and_not_modified(client: TestClient[Litestar]) -> None:
    made = client.post(URL, json=PROFILE)
    assert made.status_code == 201
    assert made.headers["location"] == f"{URL}/prod-h100"
    read = client.get(made.headers["location"])
    assert read.json() == made.json()
    assert read.headers["etag"] == made.headers["etag"] == '"1"'
    document = read.json()
    assert document["defaults"]["num_gpus"] == 512
    assert document["defaults"]["slow_groups"] == []
    assert document["team"] == "default"
    again = client.get(f"{URL}/prod-h100", headers={"If-None-Match": '"1"'})
    assert (again.status_code, again.content) == (304, b"")


def test_the_same_key_makes_one_profile(client: TestClient[Litestar]) -> None:
    keyed = {"Idempotency-Key": "abc"}
    first = client.post(URL, json=PROFILE, headers=keyed)
    second = client.post(URL, json=PROFILE, headers=keyed)
    assert (second.status_code, second.json()) == (201, first.json())
    assert second.headers["location"] == first.headers["location"]
    assert second.headers["idempotent-replayed"] == "true"
    other = client.post(URL, json={**PROFILE, "name": "Other"}, headers=keyed)
    assert other.status_code == 422


def test_a_taken_slug_is_a_conflict_that_names_it(client: TestClient[Litestar]) -> None:
    client.post(URL, json=PROFILE)
    problem = client.post(URL, json=PROFILE)
    assert problem.status_code == 409
    assert problem.headers["content-type"] == "application/problem+json"
    assert codes(problem.json()) == [("/slug", "slug_taken")]
    assert "'prod-h100'" in problem.json()["detail"]


def test_every_fault_has_a_pointer(client: TestClient[Litestar]) -> None:
    bad = {**PROFILE, "slug": "No Slug", "defaults": {"num_gpus": "8", "compute_ms": 300}}
    problem = client.post(URL, json=bad)
    assert problem.status_code == 422
    pointers = [pointer for pointer, _ in codes(problem.json())]
    assert pointers == ["/slug", "/defaults/num_gpus"]
    unreadable = client.post(URL, json={"slug": 5, "nam": "x", "tags": {"a": 1}})
    assert unreadable.status_code == 422
    assert {pointer for pointer, _ in codes(unreadable.json())} == {
        "/slug",
        "/nam",
        "/name",
        "/gpu_type",
        "/defaults",
        "/tags/a",
    }
    assert client.get(URL).json()["items"] == []


def test_a_revision_needs_the_current_version(client: TestClient[Litestar]) -> None:
    client.post(URL, json=PROFILE)
    address = f"{URL}/prod-h100/revisions"
    body = {**REVISION_EXAMPLE, "name": "Renamed"}
    assert client.post(address, json=body).status_code == 428
    assert client.post(address, json=body, headers={"If-Match": "*"}).status_code == 428
    assert client.post(address, json=body, headers={"If-Match": '"7"'}).status_code == 412
    made = client.post(address, json=body, headers={"If-Match": '"1"'})
    assert (made.status_code, made.headers["etag"]) == (201, '"2"')
    assert made.headers["location"] == f"{address}/2"
    assert (made.json()["revision"], made.json()["name"]) == (2, "Renamed")
    assert client.post(address, json=body, headers={"If-Match": '"1"'}).status_code == 412
    assert client.get(f"{URL}/prod-h100").json() == made.json()


def test_revisions_are_read_for_ever(client: TestClient[Litestar]) -> None:
    client.post(URL, json=PROFILE)
    address = f"{URL}/prod-h100/revisions"
    for version in (1, 2, 3):
        body = {**REVISION_EXAMPLE, "name": f"After {version}"}
        client.post(address, json=body, headers={"If-Match": f'"{version}"'})
    first = client.get(f"{address}/1")
    assert (first.json()["name"], first.json()["revision"]) == (PROFILE["name"], 1)
    tag = {"If-None-Match": first.headers["etag"]}
    assert client.get(f"{address}/1", headers=tag).status_code == 304
    for unknown in ("5", "0", "x", "9" * 30, "4294967296"):
        assert client.get(f"{address}/{unknown}").status_code == 404, unknown
    page = client.get(address, params={"page_size": 2})
    assert [item["revision"] for item in page.json()["items"]] == [4, 3]
    rest = client.get(page.headers["link"].partition(">")[0][1:])
    assert [item["revision"] for item in rest.json()["items"]] == [2, 1]
    assert "link" not in rest.headers


def test_archive_and_restore(client: TestClient[Litestar]) -> None:
    client.post(URL, json=PROFILE)
    address = f"{URL}/prod-h100/archival"
    assert client.post(address).status_code == 428
    gone = client.post(address, headers={"If-Match": '"1"'})
    assert (gone.status_code, gone.headers["etag"]) == (200, '"2"')
    assert gone.json()["archived_at"].endswith("Z")
    assert client.get(f"{URL}/prod-h100").json() == gone.json()
    assert client.get(URL).json()["items"] == []
    shown = client.get(URL, params={"include_archived": "true"}).json()["items"]
    assert [item["slug"] for item in shown] == ["prod-h100"]
    problem = client.post(
        f"{URL}/prod-h100/revisions", json=REVISION_EXAMPLE, headers={"If-Match": '"2"'}
    )
    assert problem.status_code == 409
    assert client.delete(address).status_code == 428
    assert client.delete(address, headers={"If-Match": '"1"'}).status_code == 412
    back = client.delete(address, headers={"If-Match": '"2"'})
    assert (back.status_code, back.json()["archived_at"]) == (200, None)
    assert client.delete(f"{URL}/prod-h100").status_code == 405


def test_the_list_is_filtered_and_paged(client: TestClient[Litestar]) -> None:
    for number in range(5):
        tags = {"site": "par1", "odd": str(number % 2)}
        client.post(URL, json={**PROFILE, "slug": f"p{number}", "tags": tags})
    page = client.get(URL, params={"page_size": 5000})
    assert [item["slug"] for item in page.json()["items"]] == ["p0", "p1", "p2"]
    assert page.headers["link"].endswith('; rel="next"')
    rest = client.get(page.headers["link"].partition(">")[0][1:])
    assert [item["slug"] for item in rest.json()["items"]] == ["p3", "p4"]
    assert rest.json()["next_page_token"] is None
    token = page.json()["next_page_token"]
    other = client.get(URL, params={"page_token": token, "gpu_type": "A100"})
    assert other.status_code == 400
    tagged = client.get(URL, params={"tag": ["site:par1", "odd:1"]})
    assert [item["slug"] for item in tagged.json()["items"]] == ["p1", "p3"]
    middle = page.json()["items"][1]["created_at"]
    later = client.get(
        URL, params={"created_after": middle, "created_before": "2999-01-01T00:00:00Z"}
    )
    assert [item["slug"] for item in later.json()["items"]] == ["p2", "p3", "p4"]


MALFORMED_QUERIES = (
    "page_size=0",
    "page_size=-1",
    "page_size=x",
    "page_size=1&page_size=2",
    "page_token=nonsense",
    "gpu_typ=x",
    "gpu_type=%00",
    "gpu_type=",
    "gpu_type=%20H100",
    "cost_center=a%0Ab",
    "tag=nocolon",
    "tag=%22x%22:1",
    "created_after=2026-01-01",
    "created_after=2026-01-01T00:00:00",
    "created_after=0001-01-01T00:00:00%2B14:00",
    "include_archived=1",
)


def test_a_malformed_parameter_is_named(client: TestClient[Litestar]) -> None:
    for query in MALFORMED_QUERIES:
        problem = client.get(f"{URL}?{query}")
        assert problem.status_code == 400, query
        assert query.partition("=")[0] in problem.json()["detail"]


def test_an_unknown_profile_is_not_found(client: TestClient[Litestar]) -> None:
    matched = {"If-Match": '"1"'}
    for slug in ("nothing", "%00", "A", "a%0A"):
        answers = [
            client.get(f"{URL}/{slug}"),
            client.get(f"{URL}/{slug}/revisions"),
            client.get(f"{URL}/{slug}/revisions/1"),
            client.post(f"{URL}/{slug}/revisions", json=REVISION_EXAMPLE, headers=matched),
            client.post(f"{URL}/{slug}/archival", headers=matched),
            client.delete(f"{URL}/{slug}/archival", headers=matched),
        ]
        assert {answer.status_code for answer in answers} == {404}
        assert {answer.json()["type"] for answer in answers} == {"/problems/unknown-profile"}
