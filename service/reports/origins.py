"""Which revision of a profile moved an input, and whether it came from a calibration.

Between two runs a profile may have been revised many times. An input belongs to the last revision
that moved it: to the calibration that this one accepted, where it was among the inputs taken.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

MISSING = object()


class Revised(Struct, frozen=True, kw_only=True):
    """A revision: its inputs, and which of them the calibration that it names has decided."""

    revision: int
    defaults: Mapping[str, Any]
    calibration: str | None = None
    paths: tuple[str, ...] = ()


def calibration_of(path: str, revisions: Sequence[Revised]) -> str | None:
    """The name of the calibration that moved the input at `path`; None where somebody did.

    `revisions` begin with that of the past and end with that of now.
    """
    owner = next(
        (
            new
            for past, new in zip(revisions[-2::-1], revisions[:0:-1], strict=True)
            if value_at(past.defaults, path) != value_at(new.defaults, path)
        ),
        None,
    )
    if owner is None or not any(_is_one(path, taken) for taken in owner.paths):
        return None
    return owner.calibration


def value_at(document: Any, path: str) -> Any:
    """What stands at the path; `MISSING` where nothing does."""
    for part in path.split("."):
        if isinstance(document, Mapping):
            document = document.get(part, MISSING)
        elif isinstance(document, list) and part.isdigit() and int(part) < len(document):
            document = document[int(part)]
        else:
            return MISSING
    return document


def _is_one(path: str, taken: str) -> bool:
    """Whether one of them is the other, or lies under it."""
    inner, outer = f"{path}.", f"{taken}."
    return inner.startswith(outer) or outer.startswith(inner)
