"""The words of the pages: the same keys and parameters in every language, and all there."""

import re
import tomllib
from pathlib import Path

import pytest

from service.reports.language import LANGUAGES
from service.web.pages import PAGES
from service.web.shell import Page

WEB = Path(__file__).parents[2] / "service" / "web"
FILES = sorted(path.stem for path in (WEB / "texts" / "en").glob("*.toml"))
# Forms of plural that a language has beside `_one` and `_other`
PLURALS = re.compile(r"_(zero|two|few|many)$")
# French sets ; : ! ? off by a space that does not break the line, and has no straight apostrophe.
UNTYPOGRAPHIC = re.compile(
    r"[^\s\u00a0\u202f;:!?/][;!?](?:\s|$)|[^\s\u00a0\u202f\d/:][:](?=\s|$)|\w'\w"
)


def texts(language: str, name: str) -> dict[str, str]:
    return tomllib.loads((WEB / "texts" / language / f"{name}.toml").read_text("utf-8"))


def parameters(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", text))


@pytest.mark.parametrize("name", FILES)
def test_every_language_says_the_same(name: str) -> None:
    english = texts("en", name)
    for language in LANGUAGES:
        other = texts(language, name)
        extra = {key for key in other.keys() - english.keys() if not PLURALS.search(key)}
        assert (extra, english.keys() - other.keys()) == (set(), set()), language
        for key, text in english.items():
            assert parameters(other[key]) == parameters(text), f"{language} {name}.{key}"
            assert other[key].strip(), key


@pytest.mark.parametrize("name", FILES)
def test_french_is_set_as_french(name: str) -> None:
    faults = {
        key: text
        for key, text in texts("fr", name).items()
        if UNTYPOGRAPHIC.search(re.sub(r"`[^`]*`|https?://\S+|[\w-]+:[\w-]+", "", text))
    }
    assert faults == {}


def test_every_text_that_is_asked_for_exists() -> None:
    """By pages and by their modules; a missing one would show when somebody gets there."""
    known = {f"{name}.{key}" for name in FILES for key in texts("en", name)}
    asked: dict[str, str] = {}
    for path in sorted([*WEB.glob("templates/*.j2"), *WEB.glob("static/*.js")]):
        for key in re.findall(
            r"\b(?:t|text)\(\s*\"([a-z_]+\.[a-z0-9_]+)\"\s*[,)]", path.read_text("utf-8")
        ):
            asked[key] = path.name
    assert len(asked) > 100
    assert {key: where for key, where in asked.items() if key not in known} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_has_the_words_of_its_modules(page: Page) -> None:
    """Modules import others: all that they ask for comes with the page."""
    given = {"common", *page.words}
    for module in modules(f"{page.name}.js"):
        source = (WEB / "static" / module).read_text("utf-8")
        used = {
            key.partition(".")[0]
            for key in re.findall(r"\bt\(\s*\"([a-z_]+\.[a-z0-9_]+)\"\s*[,)]", source)
        }
        assert used <= given, f"{page.name} lacks words of {module}"


def modules(first: str) -> set[str]:
    found: set[str] = set()
    left = [first]
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        source = (WEB / "static" / name).read_text("utf-8")
        left += re.findall(r"(?:from|import)\s*\(?\s*\"\./([\w.]+)\"", source)
    return found
