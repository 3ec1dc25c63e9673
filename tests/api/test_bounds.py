"""Nothing that a caller sends is without bounds: the OpenAPI document is walked for what is."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.api.openapi import document
from service.db.engine import Database
from service.settings import Limits, Settings
from tests.api.conftest import BASE_URL
from tests.api.reused_apps import app_over

Part = dict[str, Any]
Client = TestClient[Litestar]
ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]

STRING_BOUNDS = {"maxLength", "pattern", "enum", "const", "format"}
ALTERNATIVES = ("anyOf", "oneOf", "allOf")
# What is bounded by a setting, and refused with it: see the tests named.
BY_SETTING = {
    "BatchIn.items": "items_per_batch (tests/jobs/test_batches.py)",
    "BatchTemplate.items": "items_per_batch (tests/jobs/test_schedules.py)",
    "audit_overlap_of_files multipart/form-data.file": "calibration_files (test_uploads.py)",
    "create_calibration multipart/form-data.file": "calibration_files (test_uploads.py)",
    "import_rates text/csv": "body_bytes (tests/api/test_bodies.py)",
}


@pytest.fixture
def described(app: Litestar) -> Part:
    return document(app)


def unbounded(described: Part) -> Iterator[str]:
    """The places of all parts of requests that have no end."""
    walk = Walk(described["components"]["schemas"])
    for operation in (op for path in described["paths"].values() for op in path.values()):
        name = operation["operationId"]
        for parameter in operation.get("parameters", ()):
            # Header fields are bounded together, by header_bytes.
            if parameter["in"] != "header":
                yield from walk.parts(parameter["schema"], f"{name} {parameter['name']}")
        for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
            yield from walk.parts(content["schema"], f"{name} {media_type}")
    # Batches and evaluations take it as an object, and decode its parts.
    yield from walk.parts({"$ref": "#/components/schemas/Scenario"}, "Scenario")


class Walk:
    """Through schemas, each component once."""

    def __init__(self, schemas: dict[str, Part]) -> None:
        self._schemas = schemas
        self._seen: set[str] = set()

    def parts(self, schema: Part, place: str) -> Iterator[str]:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name not in self._seen:
                self._seen.add(name)
                yield from self.parts(self._schemas[name], name)
            return
        if not is_bounded(schema):
            yield place
        for inner, part in inner_parts(schema):
            yield from self.parts(part, place + inner)


def inner_parts(schema: Part) -> Iterator[tuple[str, Part]]:
    for name in ALTERNATIVES:
        for option in schema.get(name, ()):
            yield "", option
    for name, part in schema.get("properties", {}).items():
        yield f".{name}", part
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield f".{name}", schema[name]


def is_bounded(schema: Part) -> bool:
    """Whether the part itself is: a string, a list, a map or a number without end is not."""
    kind = schema.get("type")
    if "enum" in schema or "const" in schema:
        return True
    if kind == "string":
        return bool(STRING_BOUNDS & schema.keys())
    if kind == "array":
        return "maxItems" in schema
    if kind in {"integer", "number"}:
        return bool({"maximum", "exclusiveMaximum"} & schema.keys()) and bool(
            {"minimum", "exclusiveMinimum"} & schema.keys()
        )
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return "maxProperties" in schema
    return kind in {"object", "boolean", "null"} or any(part in schema for part in ALTERNATIVES)


def test_every_string_list_map_and_number_is_bounded(described: Part) -> None:
    assert sorted(unbounded(described)) == sorted(BY_SETTING)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": "array", "items": {"type": "null"}},
        {"type": "integer", "minimum": 1},
        {"type": "number", "exclusiveMaximum": 1},
        {"type": "object", "additionalProperties": {"type": "null"}},
        {},
    ],
)
def test_the_walk_finds_what_is_unbounded(schema: Part) -> None:
    operation = {"operationId": "x", "parameters": [{"in": "query", "name": "a", "schema": schema}]}
    found: Part = {
        "paths": {"/x": {"get": operation}},
        "components": {"schemas": {"Scenario": {"type": "object"}}},
    }
    assert list(unbounded(found)) == ["x a"]


def test_the_limits_are_shown(app: Litestar, limits: Limits) -> None:
    with TestClient(app, base_url=BASE_URL) as client:
        shown = client.get("/v1/meta").json()["limits"]
    assert {name: shown[name] for name in Limits.__struct_fields__} == {
        name: getattr(limits, name) for name in Limits.__struct_fields__
    }
    assert shown["nesting"] == 64


@pytest.fixture
def either(database: Database) -> Iterator[Client]:
    """A service over each kind of database."""
    with app_over(Settings(), database) as app, TestClient(app, base_url=BASE_URL) as client:
        yield client


NUMBERED = (
    "/v1/results?pricing={}",
    "/v1/results?num_gpus_min={}",
    "/v1/results?page_size={}",
    "/v1/exports?format=csv&pricing={}",
    "/v1/scenario-batches?page_size={}",
)


def test_numbers_that_no_database_stores_are_refused(either: Client, problem_of: ProblemOf) -> None:
    for number in ("2147483648", "9223372036854775808", "9" * 19):
        for path in NUMBERED:
            problem_of(either.get(path.format(number)), "malformed-request")
        revision = either.get(f"/v1/cluster-profiles/a/revisions/{number}")
        problem_of(revision, "not-found")


def test_the_largest_numbers_are_looked_up(either: Client) -> None:
    for path in ("/v1/results?pricing=2147483647", "/v1/results?num_gpus_min=2147483647"):
        assert either.get(path).json()["items"] == []


def test_a_query_and_its_filters_are_bounded(client: Client, problem_of: ProblemOf) -> None:
    long = client.get("/v1/results?name=" + "a" * 16_380)
    found = problem_of(long, "malformed-request")
    assert "16385 bytes, but the limit is 16384" in found["detail"]
    many = client.get("/v1/results", params=[("where", "num_gpus:gt:1")] * 21)
    found = problem_of(many, "malformed-request")
    assert "stands 21 times, but the limit is 20" in found["detail"]
