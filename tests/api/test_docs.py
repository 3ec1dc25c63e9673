import hashlib
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.api.docs import swagger_folder

Client = TestClient[Litestar]
OPENAPI = Path(__file__).parents[2] / "openapi" / "openapi.json"

# Swagger UI 5.24.2 as published on npm: a new version of the package must be looked at.
PINS = {
    "swagger-ui-bundle.js": "2c2e2bfe20fc",
    "swagger-ui.css": "4f76417253f3",
    "swagger-ui-standalone-preset.js": "8710b6d90ece",
}


@pytest.mark.parametrize(("name", "digest"), PINS.items())
def test_the_files_are_the_ones_that_were_looked_at(name: str, digest: str) -> None:
    content = (swagger_folder() / name).read_bytes()
    assert hashlib.sha256(content).hexdigest().startswith(digest)


def test_the_front_page_leads_to_the_docs(client: Client) -> None:
    assert '<a class="quiet" href="/docs">' in client.get("/").text


def test_the_page_names_only_files_of_this_host(client: Client) -> None:
    page = client.get("/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "://" not in page.text
    assert "<script>" not in page.text
    addresses = re.findall(r'(?:src|href)="(/docs/assets/[^"]+)"', page.text)
    assert len(addresses) == 3
    for address in addresses:
        answer = client.get(address)
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["content-type"].startswith(
            "text/css" if address.endswith(".css") else "text/javascript"
        )


@pytest.mark.parametrize("path", ["0000/docs.js", "0000/../../secret", "x/%2e%2e"])
def test_no_other_file_is_served(client: Client, path: str) -> None:
    assert client.get(f"/docs/assets/{path}").status_code == 404


def test_references_are_within_the_description_and_none_leads_back() -> None:
    """The page's own resolver (docs.js) follows them as they are."""
    document = msgspec.json.decode(OPENAPI.read_bytes())
    below = {
        f"#/components/{kind}/{name}": references(part)
        for kind, parts in document["components"].items()
        for name, part in parts.items()
    }
    assert references(document) <= below.keys()
    # Those whose references all end are taken away until none is left.
    while ended := {name for name, found in below.items() if not found & below.keys()}:
        below = {name: found for name, found in below.items() if name not in ended}
    assert below == {}


def references(part: Any) -> set[str]:
    if isinstance(part, list):
        return set[str]().union(*map(references, part))
    if not isinstance(part, dict):
        return set()
    found = set[str]().union(*map(references, part.values()))
    own = part.get("$ref")
    return found | {own} if isinstance(own, str) else found
