"""The OpenAPI 3.1 document, derived from the routes and their contracts."""

import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec
from litestar import Litestar
from litestar.routes import HTTPRoute

from service.api.contract import (
    EVENT_STREAM,
    FILES,
    FILES_EXAMPLE,
    FORM,
    JSON,
    PROBLEM,
    TEXT,
    Answer,
    Contract,
    Events,
)
from service.api.openapi_parts import (
    HEADERS,
    IF_MATCH,
    IF_NONE_MATCH,
    INFO_DESCRIPTION,
    LIMIT_HEADERS,
    SECURITY_SCHEMES,
    TAGS,
    Part,
    problem_responses,
)
from service.api.openapi_webhooks import webhooks
from service.api.problems import Problem
from service.api.versions import PRODUCT_VERSION
from service.model.fields import Scenario

REFERENCE = "#/components/schemas/{name}"


def document(app: Litestar) -> Part:
    """The whole document as builtins; the order is stable: paths and schemas by name."""
    schemas = _Schemas()
    paths: dict[str, Part] = {}
    for path, method, contract in sorted(contracts(app), key=lambda found: found[:2]):
        paths.setdefault(path, {})[method.lower()] = _operation(path, contract, schemas)
    schemas.of(Problem)
    # Documents keep a scenario as an object that refers to this schema.
    schemas.of(Scenario)
    described = {
        "openapi": "3.1.0",
        "info": {
            "title": "Trainard",
            "version": PRODUCT_VERSION,
            "description": INFO_DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in TAGS],
        "paths": paths,
        "webhooks": webhooks(schemas.of),
        "components": {
            "headers": HEADERS,
            "responses": problem_responses(PROBLEM),
            "securitySchemes": SECURITY_SCHEMES,
            "schemas": dict(sorted(schemas.components.items())),
        },
    }
    # Defaults and examples in the declarations may be tuples, dates and other values of ours.
    plain: Part = msgspec.json.decode(msgspec.json.encode(described))
    return plain


def render(described: Part) -> bytes:
    """The document as it is served and committed."""
    return (json.dumps(described, indent=2, ensure_ascii=False) + "\n").encode()


class _Schemas:
    """The JSON schemas of all documents, each once."""

    def __init__(self) -> None:
        self.components: dict[str, Part] = {}

    def of(self, kind: Any) -> Part:
        """A schema that refers to the components; they are kept."""
        (schema,), components = msgspec.json.schema_components([kind], ref_template=REFERENCE)
        self._keep(components)
        return schema

    def fields_of(self, kind: type[msgspec.Struct]) -> dict[str, Part]:
        """The schema of each field of a Struct that is itself no component."""
        _, components = msgspec.json.schema_components([kind], ref_template=REFERENCE)
        properties: dict[str, Part] = components.pop(kind.__name__)["properties"]
        self._keep(components)
        return properties

    def _keep(self, components: dict[str, Part]) -> None:
        for name, schema in components.items():
            if self.components.setdefault(name, schema) != schema:
                raise ValueError(f"two different documents are named {name}")


def contracts(app: Litestar) -> Iterable[tuple[str, str, Contract]]:
    """Path, method and contract of every operation."""
    for route in app.routes:
        if isinstance(route, HTTPRoute):
            for handler in route.route_handlers:
                contract = handler.opt.get("contract")
                if isinstance(contract, Contract):
                    for method in handler.http_methods:
                        yield route.path_format, str(method), contract


def _operation(path: str, contract: Contract, schemas: _Schemas) -> Part:
    described: Part = {
        "operationId": contract.operation_id,
        "summary": contract.summary,
        "tags": [contract.tag],
    }
    if text := _description(contract):
        described["description"] = text
    described["security"] = [{"bearer": []}] if contract.scope else []
    if parameters := _parameters(path, contract, schemas):
        described["parameters"] = parameters
    if contract.has_body:
        described["requestBody"] = _request_body(contract, schemas)
    described["responses"] = _responses(contract, schemas)
    return described


def _description(contract: Contract) -> str:
    needs = f"Needs the scope `{contract.scope}`." if contract.scope else "Needs no key."
    return f"{contract.description} {needs}".strip()


def _parameters(path: str, contract: Contract, schemas: _Schemas) -> list[Part]:
    found = []
    if contract.path is not None:
        found += _declared("path", contract.path, schemas)
    names = re.findall(r"{(\w+)}", path)
    if sorted(names) != sorted(parameter["name"] for parameter in found):
        raise ValueError(f"{contract.operation_id}: the contract's path is not that of {path}")
    if contract.query is not None:
        found += _declared("query", contract.query, schemas)
    if contract.needs_if_match:
        found.append(IF_MATCH)
    if contract.conditional_get:
        found.append(IF_NONE_MATCH)
    found += [
        {
            "name": header.name,
            "in": "header",
            "required": header.required,
            "description": header.description,
            "schema": {"type": "string", "pattern": header.pattern},
        }
        for header in contract.checked_headers
    ]
    return found


def _declared(place: str, kind: type[msgspec.Struct], schemas: _Schemas) -> list[Part]:
    fields = schemas.fields_of(kind)
    return [
        _parameter(place, field.encode_name, fields[field.encode_name], required=field.required)
        for field in msgspec.structs.fields(kind)
    ]


def _parameter(place: str, name: str, schema: Part, *, required: bool) -> Part:
    schema = _without_null(schema)
    description = str(schema.pop("description", ""))
    examples = schema.pop("examples", [])
    parameter: Part = {"name": name, "in": place, "required": required}
    if examples and place == "path":
        parameter["example"] = examples[0]
    elif examples:
        # The docs page would send a query parameter's example unless it is taken out by hand.
        shown = examples[0] if isinstance(examples[0], str) else json.dumps(examples[0])
        description = f"{description} Example: `{shown}`.".strip()
    if description:
        parameter["description"] = description
    return {**parameter, "schema": schema}


def _without_null(schema: Part) -> Part:
    """A parameter is there or not; it cannot be null."""
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    if not options:
        return dict(schema)
    rest = {key: value for key, value in schema.items() if key not in {"anyOf", "default"}}
    if schema.get("default") is not None:
        rest["default"] = schema["default"]
    return {**options[0], **rest} if len(options) == 1 else {**rest, "anyOf": options}


def _request_body(contract: Contract, schemas: _Schemas) -> Part:
    content: Part = {}
    if contract.body is not None:
        content[JSON] = {
            "schema": schemas.of(contract.body),
            "examples": {
                name: {"summary": name, "value": value}
                for name, value in contract.body_examples.items()
            },
        }
    if contract.text_body is not None:
        media_type, example = contract.text_body
        content[media_type] = {"schema": TEXT, "example": example}
    if contract.takes_files:
        content[FORM] = {"schema": FILES, "example": FILES_EXAMPLE}
    return {"required": contract.needs_body, "content": content}


def _responses(contract: Contract, schemas: _Schemas) -> Part:
    found = {
        status: _answer(answer, schemas, contract) for status, answer in contract.answers.items()
    }
    if contract.conditional_get:
        found[304] = {
            "description": "The caller has the current version.",
            "headers": _headers(["ETag"], contract),
        }
    for status in contract.problem_statuses:
        found[status] = {"$ref": f"#/components/responses/Problem{status}"}
    return {str(status): found[status] for status in sorted(found)}


def _answer(answer: Answer, schemas: _Schemas, contract: Contract) -> Part:
    names = [*answer.headers, *(["Idempotent-Replayed"] if contract.idempotent else [])]
    described: Part = {"description": answer.description, "headers": _headers(names, contract)}
    content: Part = {}
    if answer.body is not None:
        kinds = answer.body if isinstance(answer.body, tuple) else (answer.body,)
        found = [schemas.of(kind) for kind in kinds]
        content[JSON] = {"schema": found[0] if len(found) == 1 else {"anyOf": found}}
        if answer.example is not None:
            content[JSON]["example"] = msgspec.to_builtins(answer.example)
    for media_type in answer.media_types:
        content[media_type] = {"schema": TEXT}
    if answer.events is not None:
        content[EVENT_STREAM] = {"schema": _event(answer.events, schemas)}
    if content:
        described["content"] = content
    return described


def _event(events: Events, schemas: _Schemas) -> Part:
    """The schema of one event of a stream, as OpenAPI 3.2 describes them."""
    data = {"contentMediaType": JSON, "contentSchema": schemas.of(events.data)}
    return {
        "type": "object",
        "description": "One server-sent event.",
        "required": ["id", "event", "data"],
        "properties": {
            "id": {"type": "string", "description": "Send the last one back as Last-Event-ID."},
            "event": {"enum": list(events.names)},
            "data": {"type": "string", **data},
            "retry": {"type": "integer", "description": "Milliseconds before reconnecting."},
        },
    }


def _headers(names: Iterable[str], contract: Contract) -> Part:
    limits = LIMIT_HEADERS if contract.scope else ()
    return {
        name: {"$ref": f"#/components/headers/{name}"}
        for name in sorted({*names, *limits, "X-Request-Id"})
    }
