"""A field of a scenario as sentences in a language; what is code stands between backticks."""

from typing import Any, Final

from msgspec import Struct

from service.model.leaves import SWITCH
from service.reports.language import Language
from service.web import input_bounds
from service.web.input_bounds import Bounds
from service.web.inputs import InputField, sections
from service.web.language import Texts, texts

# Shown as it is thought of, not by all of its digits
_TWO_THIRDS: Final = 2 / 3


class InputLine(Struct, frozen=True, kw_only=True):
    """What is told of a field, ready to be shown; `only_with` is empty where that goes for all."""

    path: str
    unit: str
    default: str
    bounds: str
    only_with: str
    what: str
    where: str
    unknown: str


class InputLines(Struct, frozen=True, kw_only=True):
    """A section's title, and its fields."""

    name: str
    title: str
    lines: tuple[InputLine, ...]


def input_lines(language: Language) -> list[InputLines]:
    """All sections with all fields."""
    words = texts(language, "inputs")
    return [
        InputLines(
            name=section.name,
            title=section.title,
            lines=tuple(_line(one, words, language) for one in section.fields),
        )
        for section in sections(language)
    ]


def _line(field: InputField, words: Texts, language: Language) -> InputLine:
    return InputLine(
        path=field.path,
        unit=words[f"unit_{field.unit}"] if field.unit else words["no_unit"],
        default=_default(field, words, language),
        bounds=_bounds(field, words, language),
        only_with=_listed(field.only_with, words),
        what=field.what,
        where=field.where,
        unknown=field.unknown,
    )


def _default(field: InputField, words: Texts, language: Language) -> str:
    if field.is_needed:
        above = field.path.rpartition(".")[0]
        return words["needed_inside"].format(above=f"`{above}`") if above else words["needed"]
    value = field.default
    if value is None or value == ():
        return words["no_default"]
    if isinstance(value, str):
        return f"`{value}`"
    if isinstance(value, bool):
        return words["yes" if value else "no"]
    return "2/3" if value == _TWO_THIRDS else _number(value, language)


def _bounds(field: InputField, words: Texts, language: Language) -> str:
    if field.choices == SWITCH:
        return words["yes_or_no"]
    if field.choices:
        return words["one_of"].format(choices=_listed(field.choices, words))
    said = _numbers(field.bounds, words, language)
    for kind, bounds in field.bounds_of_kinds.items():
        other = _numbers(bounds, words, language)
        said = words["with_kind"].format(range=said, kind=f"`{kind}`", other=other)
    return said


def _numbers(bounds: Bounds, words: Texts, language: Language) -> str:
    said = _range(bounds, words, language)
    if bounds.shortest is not None:
        key = "one_or_list_of" if bounds.may_be_one else "list_of"
        said = words[key].format(
            least=_number(bounds.shortest, language),
            most=_number(bounds.longest or 0, language),
            range=said,
        )
    if bounds.words:
        said = words["or_word"].format(range=said, words=_listed(bounds.words, words))
    return said


def _range(bounds: Bounds, words: Texts, language: Language) -> str:
    ends: dict[str, Any] = {
        name: _number(end, language)
        for name in ("least", "above", "most", "below")
        if (end := getattr(bounds, name)) is not None
    }
    return words["range_" + "_".join(ends)].format(**ends)


def _listed(names: tuple[str, ...], words: Texts) -> str:
    return words["comma"].join(f"`{name}`" for name in names)


def _number(number: float, language: Language) -> str:
    shown = input_bounds.shown(number)
    return shown.replace(".", ",") if language == "fr" else shown
