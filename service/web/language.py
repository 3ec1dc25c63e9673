"""The language of a page: asked for by `?lang=`, chosen before (a cookie), or the browser's."""

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Final

from babel import negotiate_locale
from msgspec import Struct

from service.reports.language import LANGUAGES, Language

COOKIE: Final = "trainard_language"
_YEAR_S: Final = 365 * 86_400
# A browser lists some ten languages; more is no wish.
_MOST_WISHES: Final = 32

Texts = Mapping[str, str]


class Choice(Struct, frozen=True):
    """The language of an answer, and whether it was asked for and so is to be kept."""

    language: Language
    is_asked_for: bool

    @property
    def cookie(self) -> str:
        """The value of Set-Cookie that keeps it."""
        return f"{COOKIE}={self.language}; Path=/; Max-Age={_YEAR_S}; SameSite=Lax"


def choose(asked: str | None, kept: str | None, accepted: str) -> Choice:
    """Decide; a language that there is not counts as not asked for."""
    for language in LANGUAGES:
        if asked == language:
            return Choice(language, is_asked_for=True)
    for language in LANGUAGES:
        if kept == language:
            return Choice(language, is_asked_for=False)
    wished = negotiate_locale(_wishes(accepted), list(LANGUAGES), sep="-") or LANGUAGES[0]
    return Choice("fr" if wished == "fr" else "en", is_asked_for=False)


@lru_cache
def texts(language: Language, name: str) -> Texts:
    """The sentences of a file of the language, by key."""
    source = files("service.web") / "texts" / language / f"{name}.toml"
    found: Texts = tomllib.loads(source.read_text("utf-8"))
    return found


def _wishes(accepted: str) -> list[str]:
    """The languages of an Accept-Language header, the dearest first (RFC 9110, 12.5.4)."""
    ranked = []
    for place, part in enumerate(accepted.split(",")[:_MOST_WISHES]):
        name, _, weight = part.strip().partition(";q=")
        try:
            quality = float(weight or 1)
        except ValueError:
            continue
        if name and quality > 0:
            ranked.append((-quality, place, name))
    return [name for _, _, name in sorted(ranked)]
