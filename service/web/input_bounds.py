"""Bounds of a field out of its declared type."""

from typing import Any, Final

from msgspec import Struct, inspect

_POWERS: Final = str.maketrans("-0123456789", "\u207b⁰¹²³⁴⁵⁶⁷⁸⁹")
# Outside of these a number is written by its power of ten.
_SMALL: Final = 1e-3
_LARGE: Final = 1e8
_LARGEST_WHOLE: Final = 2**53 - 1


class Bounds(Struct, frozen=True, kw_only=True):
    """Of each number; `words` may stand instead of one; lengths where it is, or may be, a list.

    `may_be_one`: whether a single number may stand where there is a list.
    """

    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    words: tuple[str, ...] = ()
    shortest: int | None = None
    longest: int | None = None
    may_be_one: bool = False


def of(annotation: Any) -> Bounds:
    """The bounds that the annotation states; nested numbers of a list count as its numbers."""
    found: dict[str, Any] = {}
    _gather(inspect.type_info(annotation), found)
    return Bounds(**found)


def shown(number: float) -> str:
    """A bound as people write it in English: 0.999, 1 024, 10⁻⁹, 10¹²."""
    if number == _LARGEST_WHOLE:
        return "2⁵³ \N{MINUS SIGN} 1"
    if number and not _SMALL <= abs(number) < _LARGE:
        lead, _, power = f"{number:.6e}".partition("e")
        exponent = str(int(power)).translate(_POWERS)
        return (
            f"10{exponent}"
            if float(lead) == 1
            else f"{float(lead):g} \N{MULTIPLICATION SIGN} 10{exponent}"
        )
    return f"{number:,.12g}".replace(",", "\N{NO-BREAK SPACE}")


def _gather(kind: Any, found: dict[str, Any]) -> None:
    if isinstance(kind, inspect.Metadata):
        _gather(kind.type, found)
    elif isinstance(kind, inspect.UnionType):
        numbers = inspect.IntType | inspect.FloatType
        found["may_be_one"] = any(isinstance(_bare(one), numbers) for one in kind.types)
        for one in kind.types:
            _gather(one, found)
    elif isinstance(kind, inspect.LiteralType):
        found["words"] = tuple(str(value) for value in kind.values)
    elif isinstance(kind, inspect.VarTupleType | inspect.ListType):
        found |= {"shortest": kind.min_length, "longest": kind.max_length}
        _gather(kind.item_type, found)
    elif isinstance(kind, inspect.IntType | inspect.FloatType):
        ends = {"least": kind.ge, "above": kind.gt, "most": kind.le, "below": kind.lt}
        found |= {name: end for name, end in ends.items() if end is not None}


def _bare(kind: Any) -> Any:
    return kind.type if isinstance(kind, inspect.Metadata) else kind
