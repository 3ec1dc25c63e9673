"""The page of inputs: every leaf of a scenario once, with what its declaration says, and words."""

import json
import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.model.fields import Scenario
from service.model.leaves import leaves
from service.reports.language import LANGUAGES, Language
from service.web import input_bounds, inputs_document
from service.web.input_lines import input_lines
from service.web.inputs import InputField, key_of, sections
from service.web.shell import coded

ROOT = Path(__file__).parents[2]
UNTYPOGRAPHIC = re.compile(
    r"[^\s\u00a0\u202f;:!?/][;!?](?:\s|$)|[^\s\u00a0\u202f\d/:][:](?=\s|$)|\w'\w"
)


def fields(language: Language = "en") -> dict[str, InputField]:
    return {one.path: one for section in sections(language) for one in section.fields}


def words(language: Language) -> dict[str, dict[str, str]]:
    source = files("service.web") / "input_words" / f"{language}.toml"
    found: dict[str, dict[str, str]] = tomllib.loads(source.read_text("utf-8"))["fields"]
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_leaf_is_missing_and_none_is_invented(language: Language) -> None:
    listed = [one.path for section in sections(language) for one in section.fields]
    assert sorted(listed) == sorted(leaves())
    assert {key_of(path, words(language)) for path in leaves()} == set(words(language))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_field_says_what_it_is_where_it_is_and_what_is_lost_without(
    language: Language,
) -> None:
    for one in fields(language).values():
        assert one.what, one.path
        assert len(one.where) > 40, one.path
        assert len(one.unknown) > 40, one.path
    if language != "en":
        assert all(said.get("what") for said in words(language).values())
        assert set(words(language)) == set(words("en"))


def test_french_words_are_set_as_french() -> None:
    faults = {
        f"{key}.{name}": text
        for key, said in words("fr").items()
        for name, text in said.items()
        if UNTYPOGRAPHIC.search(re.sub(r"`[^`]*`", "", text))
    }
    assert faults == {}


def schema() -> dict[str, Any]:
    """The JSON schema that the API publishes: another reading of the same declarations."""
    found: dict[str, Any] = msgspec.json.schema(Scenario)
    return found


def published(path: str) -> list[dict[str, Any]]:
    """Every schema that the path may lead to."""
    whole = schema()

    def opened(node: dict[str, Any]) -> list[dict[str, Any]]:
        if "$ref" in node:
            return opened(whole["$defs"][node["$ref"].rpartition("/")[2]])
        parts = [one for part in node.get("anyOf", []) for one in opened({**part})]
        inside = opened(node["items"]) if "items" in node else []
        return [node, *parts, *inside]

    found = opened(whole)
    for part in path.split("."):
        found = [
            one
            for node in found
            if part in node.get("properties", {})
            for one in opened(node["properties"][part])
        ]
    return found


def test_bounds_are_those_of_the_published_schema() -> None:
    compared = 0
    for one in fields().values():
        nodes = published(one.path)
        for name, keyword in (
            ("least", "minimum"),
            ("above", "exclusiveMinimum"),
            ("most", "maximum"),
            ("below", "exclusiveMaximum"),
        ):
            stated = {node[keyword] for node in nodes if keyword in node}
            mine = {getattr(given, name) for given in (one.bounds, *one.bounds_of_kinds.values())}
            assert stated == mine - {None}, (one.path, name)
            compared += len(stated)
    assert compared > 100


def test_defaults_are_those_of_a_decoded_scenario() -> None:
    bare = msgspec.to_builtins(
        msgspec.convert({"num_gpus": 8, "compute_ms": 300, "failures": {}}, Scenario)
    )
    checked = 0
    for path, one in fields().items():
        value: Any = bare
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if path in {"num_gpus", "compute_ms"} or value is None:
            continue
        assert one.default == value, path
        checked += 1
    assert checked == 20
    assert fields()["num_gpus"].is_needed
    assert fields()["compute_ms"].default is None


def test_kinds_say_which_document_has_a_field() -> None:
    found = fields()
    assert found["communication.tree_efficiency_fraction"].only_with == ("tree", "auto")
    assert found["communication.intra_link.latency_us"].only_with == (
        "hierarchical",
        "auto",
        "nccl",
    )
    assert found["overlap.load_prefetch"].only_with == ()
    assert found["synchronization.delay_ms"].only_with == ("bounded_staleness", "delayed_update")
    assert found["variability.node.skew"].only_with == ("shifted_gamma",)


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (0.999, "0.999"),
        (1024, "1\u00a0024"),
        (10_000_000, "10\u00a0000\u00a0000"),
        (1e-9, "10\u207b⁹"),
        (1e12, "10¹²"),
        (2.5e9, "2.5 \u00d7 10⁹"),
        (2**53 - 1, "2⁵³ \u2212 1"),
    ],
)
def test_bounds_are_written_for_people(number: float, shown: str) -> None:
    assert input_bounds.shown(number) == shown


def test_the_documentation_is_the_page() -> None:
    written = (ROOT / ".github" / "inputs.md").read_text("utf-8")
    assert written == inputs_document.markdown(), "python -m service.web.inputs_document"
    assert written.count("\n### `") == len(leaves())


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_has_an_anchor_for_every_leaf(
    shared_client: TestClient[Litestar], language: Language
) -> None:
    html = shared_client.get("/inputs", headers={"Accept-Language": language}).text
    assert re.findall(r'<article class="input" id="([^"]+)"', html) == [
        line.path for section in input_lines(language) for line in section.lines
    ]
    assert "<code>nvidia-smi -L | wc -l</code>" in html
    assert "`" not in re.sub(r'id="texts">.*?</script>', "", html, flags=re.DOTALL)
    (data,) = re.findall(r'id="texts">(.*?)</script>', html, re.DOTALL)
    assert len(json.dumps(json.loads(data))) < 20_000
    assert html.count('href="#section-') == len(input_lines(language))


def test_code_in_words_is_marked_and_never_read_as_html() -> None:
    shown = coded("a <b> `x < <i>` & `y`")
    assert shown == "a &lt;b&gt; <code>x &lt; &lt;i&gt;</code> &amp; <code>y</code>"
