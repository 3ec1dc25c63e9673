import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from litestar import Litestar
from litestar.routes import HTTPRoute
from litestar.testing import TestClient
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate

from service.api.contract import Contract
from service.api.openapi import document, render
from service.db.engine import Database
from service.jobs.webhook_payloads import Event, EventType
from service.jobs.webhook_signatures import headers, mint
from service.model.results import COLUMNS
from tests.jobs.delivery_worlds import World

Client = TestClient[Litestar]
COMMITTED = Path(__file__).parents[2] / "openapi" / "openapi.json"


@pytest.fixture(scope="module")
def described(shared_client: Client) -> dict[str, Any]:
    return document(shared_client.app)


def operations(described: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_the_document_is_valid(described: dict[str, Any]) -> None:
    validate(described)


def test_the_committed_document_is_up_to_date(described: dict[str, Any]) -> None:
    assert COMMITTED.read_bytes() == render(described), "run make openapi and read the change"


def test_it_is_served_and_not_sent_twice(shared_client: Client, described: dict[str, Any]) -> None:
    answer = shared_client.get("/openapi.json")
    assert answer.content == render(described)
    again = shared_client.get("/openapi.json", headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_every_route_under_v1_has_a_contract(shared_client: Client) -> None:
    for route in shared_client.app.routes:
        if isinstance(route, HTTPRoute) and route.path.startswith("/v1"):
            for handler in route.route_handlers:
                if "OPTIONS" not in handler.http_methods:
                    assert isinstance(handler.opt.get("contract"), Contract), handler


def test_operation_ids_are_unique(described: dict[str, Any]) -> None:
    ids = [operation["operationId"] for *_, operation in operations(described)]
    assert len(ids) == len(set(ids))


def test_every_operation_is_under_a_described_tag(described: dict[str, Any]) -> None:
    tags = {tag["name"] for tag in described["tags"]}
    used = {tag for *_, operation in operations(described) for tag in operation["tags"]}
    assert used == tags


def test_every_body_has_an_example_and_refuses_unknown_fields(described: dict[str, Any]) -> None:
    for path, _, operation in operations(described):
        for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
            assert content.get("examples") or content.get("example"), path
            if media_type == "application/json":
                name = content["schema"]["$ref"].rpartition("/")[2]
                assert described["components"]["schemas"][name]["additionalProperties"] is False


def test_every_parameter_is_described(described: dict[str, Any]) -> None:
    for path, _, operation in operations(described):
        for parameter in operation.get("parameters", ()):
            assert parameter.get("description"), (path, parameter["name"])


def test_every_error_is_a_problem_document(described: dict[str, Any]) -> None:
    for _, _, operation in operations(described):
        for status, answer in operation["responses"].items():
            if status >= "400":
                assert answer == {"$ref": f"#/components/responses/Problem{status}"}
    for answer in described["components"]["responses"].values():
        assert list(answer["content"]) == ["application/problem+json"]


def test_all_references_lead_somewhere(described: dict[str, Any]) -> None:
    text = render(described).decode()
    for reference in set(re.findall(r'"#(/[^"]+)"', text)):
        found: Any = described
        for part in reference[1:].split("/"):
            found = found[part]


def test_the_results_are_the_models_columns(described: dict[str, Any]) -> None:
    fields = described["components"]["schemas"]["ResultColumns"]["properties"]
    assert list(fields) == [column.name for column in COLUMNS]
    for column in COLUMNS:
        assert column.sentence in fields[column.name]["anyOf"][0]["description"]


def test_pressing_try_it_works_on_an_empty_service(
    client: Client, described: dict[str, Any]
) -> None:
    num_tried = 0
    for path, method, operation in operations(described):
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        if "{" in path or method != "post":
            continue
        for name, example in content.get("examples", {}).items():
            answer = client.post(path, json=example["value"])
            if path == "/v1/api-keys":
                # The first one is made by command; tests/api/test_api_keys.py makes these.
                assert answer.status_code == 409
                continue
            if path == "/v1/session":
                # Nobody has to sign in; tests/api/test_session.py does.
                assert answer.status_code == 409
                continue
            if path == "/v1/back-tests":
                # A run is of a profile that is there; tests/api/test_back_tests.py makes it.
                assert answer.status_code == 422
                continue
            if path == "/v1/reports":
                # A report is of batches that are there; tests/api/test_reports.py makes it.
                assert answer.status_code == 404
                continue
            assert answer.is_success, (path, name, answer.text)
            num_tried += 1
    assert num_tried >= 5


def test_streams_describe_one_event(described: dict[str, Any]) -> None:
    operation = described["paths"]["/v1/scenario-batches/{batch_id}/events"]["get"]
    (event,) = [content["schema"] for content in operation["responses"]["200"]["content"].values()]
    assert event["properties"]["event"] == {"enum": ["progress", "ended"]}
    assert event["properties"]["data"]["contentSchema"] == {"$ref": "#/components/schemas/BatchOut"}
    assert "content" not in operation["responses"]["204"]


def test_an_answer_of_several_kinds_and_a_body_that_may_be_left_out(
    described: dict[str, Any],
) -> None:
    submit = described["paths"]["/v1/scenario-batches"]["post"]
    kinds = submit["responses"]["200"]["content"]["application/json"]["schema"]["anyOf"]
    assert [kind["$ref"].rpartition("/")[2] for kind in kinds] == ["BatchPlanOut", "FinishedBatch"]
    assert submit["requestBody"]["required"] is True
    retry = described["paths"]["/v1/scenario-batches/{batch_id}/retries"]["post"]
    assert retry["requestBody"]["required"] is False


def test_what_webhooks_are_sent_is_described(described: dict[str, Any]) -> None:
    assert set(described["webhooks"]) == set(get_args(EventType))
    for kind, methods in described["webhooks"].items():
        body = methods["post"]["requestBody"]["content"]["application/json"]
        assert body["schema"] == {"$ref": "#/components/schemas/Event"}
        event = msgspec.convert(body["example"], Event)
        assert event.type == kind
        sent = {parameter["name"] for parameter in methods["post"]["parameters"]}
        signed = headers(b"", message_id="m", sent_at=event.timestamp, secrets=[mint()])
        assert sent == set(signed)


def test_what_is_sent_is_as_it_is_described(described: dict[str, Any], database: Database) -> None:
    event = OAS31Validator({**described, "$ref": "#/components/schemas/Event"})
    for kind, methods in described["webhooks"].items():
        body = methods["post"]["requestBody"]["content"]["application/json"]
        assert not list(event.iter_errors(body["example"])), kind
    world = World(database)
    rows = [world.webhook("https://hooks.example.org/x", include_costs=True)]
    hook = {"kind": "webhook", "endpoint_id": str(rows[0].endpoint_id)}
    rows += world.plan(hook, run_id=world.new_run(), state="failed", reason="no rate")[-1:]
    for row in rows:
        assert row.payload is not None
        body = msgspec.json.decode(row.payload)
        assert body["type"] == row.event
        assert not list(event.iter_errors(body)), row.event
    links = described["components"]["schemas"]["EventData"]["properties"]["links"]["description"]
    named = msgspec.json.decode(rows[0].payload)["data"]["links"]
    assert all(f"`{name}`" in links for name in named)
    # The description forbids something: a report without its numbers.
    body = msgspec.json.decode(rows[0].payload)
    del body["data"]["report"]["gpu_hours_lost_per_30_days"]
    assert len(list(event.iter_errors(body))) == 1


@pytest.mark.parametrize(
    "name",
    [
        "ScheduleIn",
        "ScheduleChangeIn",
        "BatchTemplate",
        "Budget",
        "ChangeThreshold",
        "NamedRun",
        "DatedRun",
        "WebhookDelivery",
        "EmailDelivery",
        "DirectoryDelivery",
        "ReportSettings",
        "BackfillIn",
    ],
)
def test_every_field_of_a_schedule_is_described(described: dict[str, Any], name: str) -> None:
    fields = described["components"]["schemas"][name]["properties"]
    silent = {
        field
        for field, schema in fields.items()
        if field != "kind" and not schema.get("description")
    }
    assert silent == set()
