"""Why a delivery is sent or is not, read back from its sentence, in whichever language it was said.

A message is written in the language of its reader, the log is read by everybody.
"""

import re
from functools import cache, lru_cache
from typing import Final

from service.jobs.delivery_reasons import SENTENCES, sentence_of
from service.jobs.reason_sentences import Coded, coded, sentence_pattern
from service.jobs.schedule_documents import Language

_SPACES: Final = "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
_NUMBER: Final = rf"[+-]?\d[\d.,{_SPACES}]*"
_NUMBER_AND_UNIT: Final = re.compile(rf"({_NUMBER}?)[{_SPACES} ]*(\D*)$")
_COUNT: Final = r"\d+"
_MONEY: Final = rf"{_NUMBER}[{_SPACES}][A-Z]{{3}}"
_OF_MONEY: Final = ("over_cost", "over_at_least", "over_by_less")
_PATTERNS: Final = {
    **dict.fromkeys(("lost", "budget", "difference"), _NUMBER),
    "relative": r"(?: \([^)]*\))?",
    "limit": r"\S.*",
    "state": r"[a-z_]+",
    **dict.fromkeys(("cause", "names"), r"(?s:.+)"),
    **dict.fromkeys(("appeared", "gone", "items"), _COUNT),
    "least": _MONEY,
}
# Parts of sentences
_NO_SENTENCES: Final = ("hours", "or", "over_by_less")
# As the pages call what is said in English
_NAMES: Final = {"cause": "detail"}


@lru_cache(maxsize=4096)
def coded_reason(sentence: str | None) -> Coded | None:
    """Code and values of why a delivery is sent or is not."""
    if not sentence:
        return None
    for language, code, pattern in _patterns():
        found = pattern.fullmatch(sentence)
        if found is not None:
            given = {name: text for name, text in found.groupdict().items() if text}
            return Coded(code=f"delivery_{code}", values=_values(given, language))
    return coded(sentence)


@cache
def _patterns() -> tuple[tuple[Language, str, re.Pattern[str]], ...]:
    languages: tuple[Language, ...] = ("en", "fr")
    return tuple(
        (language, code, _pattern(language, code))
        for language in languages
        for code in SENTENCES[language]
        if code not in _NO_SENTENCES
    )


def _pattern(language: Language, code: str) -> re.Pattern[str]:
    text = sentence_of(language, code)
    if code not in _OF_MONEY:
        return sentence_pattern(text, _PATTERNS)
    by_less = sentence_pattern(sentence_of(language, "over_by_less"), _PATTERNS).pattern
    said = sentence_pattern(text, {**_PATTERNS, "lost": _MONEY, "budget": _MONEY}).pattern
    return re.compile(f"{said}(?: {by_less})?")


def _values(given: dict[str, str], language: Language) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, text in given.items():
        if name == "limit":
            found |= _limits(text, language)
        elif name in {"cause", "names", "state"}:
            found[_NAMES.get(name, name)] = text
        else:
            found[name] = _plain(text.strip(" ()"), language)
    return found


def _limits(text: str, language: Language) -> dict[str, str]:
    parts = [_plain(part, language) for part in text.split(SENTENCES[language]["or"])]
    return {
        "limit_relative" if part.endswith("%") else "limit_gpu_hours": part.partition(" ")[0]
        for part in parts
    }


def _plain(text: str, language: Language) -> str:
    """A number as every program reads it, with what follows it."""
    number, unit = _NUMBER_AND_UNIT.findall(text)[0]
    kept = re.sub(rf"[{_SPACES}]", "", number)
    kept = kept.replace(",", "") if language == "en" else kept.replace(",", ".")
    return f"{kept}{unit}" if unit in {"", "%"} else f"{kept} {unit}"
