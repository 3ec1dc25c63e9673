"""What a report says in a language: sentences by key, and names of codes."""

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Literal, get_args

from babel import Locale
from msgspec import Struct

from service.reports.loss_report import ReportNotice
from service.reports.report_numbers import Numbers

Language = Literal["en", "fr"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

Catalog = Mapping[str, Mapping[str, str]]


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

    def notice(self, notice: ReportNotice) -> Sentence:
        """A warning in the reader's language, or in English where there is no translation.

        The English sentence comes with the report.
        """
        text = self.catalog.get("notice", {}).get(notice.code)
        if text is None:
            return Sentence(notice.detail, is_foreign=self.language != "en")
        try:
            return Sentence(text.format_map(self._shown(notice.params)))
        except KeyError:
            # A report of another version, with other parameters: its own sentence is right.
            return Sentence(notice.detail, is_foreign=True)

    def _shown(self, params: Mapping[str, str | int | float | None]) -> dict[str, str]:
        return {name: self._shown_one(value) for name, value in params.items()}

    def _shown_one(self, value: str | int | float | None) -> str:  # noqa: PYI041 - both are told apart
        if isinstance(value, int):
            return self.numbers.count(value)
        if isinstance(value, float):
            return self.numbers.hours(value)
        return value or self.say("none")


@lru_cache(maxsize=len(LANGUAGES))
def words(language: Language) -> Words:
    """The words of a language, read once."""
    text = files("service.reports").joinpath("languages", f"{language}.toml").read_text("utf-8")
    return Words(language, tomllib.loads(text), Numbers(Locale(language)))
