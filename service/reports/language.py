"""What a report says in a language: sentences by key, and names of codes."""

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Literal, get_args
from unicodedata import bidirectional

from babel import Locale
from msgspec import Struct

from service.reports.charts import printable
from service.reports.loss_report import ReportNotice
from service.reports.report_numbers import Numbers

Language = Literal["en", "fr"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

Catalog = Mapping[str, Mapping[str, str]]
_ISOLATE, _ISOLATED = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"


class Sentence(Struct, frozen=True):
    """A sentence, and whether it is in English although the reader asked for another language."""

    text: str
    is_foreign: bool = False


class Words(Struct, frozen=True):
    """Sentences, names and numbers of one language."""

    language: Language
    catalog: Catalog
    numbers: Numbers

    def say(self, key: str, **filled: object) -> str:
        """The sentence with its parameters, which come formatted."""
        return self.catalog["text"][key].format_map(filled)

    def counted(self, key: str, number: int) -> str:
        """A sentence about a number of things: `key`_one or `key`_other."""
        form = self.numbers.plural(number)
        return self.say(f"{key}_{form}", count=self.numbers.count(number))

    def name(self, kind: str, code: str) -> str:
        """The name of a code; one that is newer than the catalog reads as words."""
        return self.catalog[kind].get(code) or code.removeprefix("gpu_hours_").replace("_", " ")

    def param(self, text: str) -> str:
        """A word or phrase that stands in a document in English, where there is another for it."""
        return self.catalog.get("param", {}).get(text, text)

    def input_name(self, path: str) -> str:
        """What an input is called, beside its path; empty where only its path says it.

        That of the longest beginning of the path that has a name.
        """
        parts = path.split(".")
        for length in range(len(parts), 0, -1):
            found = self.catalog.get("input", {}).get(".".join(parts[:length]))
            if found:
                return found
        return ""

    def notice(self, notice: ReportNotice) -> Sentence:
        """A warning in the reader's language, or in English where there is no translation.

        The English sentence comes with the report.
        """
        text = self.catalog.get("notice", {}).get(notice.code)
        if text is None:
            return Sentence(_english(notice), is_foreign=self.language != "en")
        try:
            return Sentence(text.format_map(self._shown(notice.params)))
        except KeyError:
            # A report of another version, with other parameters: its own sentence is right.
            return Sentence(_english(notice), is_foreign=True)

    def _shown(self, params: Mapping[str, str | int | float | None]) -> dict[str, str]:
        return {name: self._shown_one(value) for name, value in params.items()}

    def _shown_one(self, value: str | int | float | None) -> str:  # noqa: PYI041 - both are told apart
        if isinstance(value, int):
            return self.numbers.count(value)
        if isinstance(value, float):
            return self.numbers.hours(value)
        return isolated(self.param(value)) if value else self.say("none")


def _english(notice: ReportNotice) -> str:
    """The sentence of the document, with its names as `isolated` writes them."""
    text = printable(notice.detail)
    for value in notice.params.values():
        if isinstance(value, str) and value:
            text = text.replace(printable(value), isolated(value))
    return text


def isolated(text: str) -> str:
    """A name within a sentence: one that is written from right to left turns nothing around it."""
    shown = printable(text)
    if any(bidirectional(letter) in {"R", "AL"} for letter in shown):
        return f"{_ISOLATE}{shown}{_ISOLATED}"
    return shown


@lru_cache(maxsize=len(LANGUAGES))
def words(language: Language) -> Words:
    """The words of a language, read once."""
    text = files("service.reports").joinpath("languages", f"{language}.toml").read_text("utf-8")
    return Words(language, tomllib.loads(text), Numbers(Locale(language)))
