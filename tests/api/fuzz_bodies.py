"""Documents that are almost right, for fuzzing: an example with a few parts spoilt."""

import copy
import json
from typing import Any

from hypothesis import strategies as st

NASTY_TEXTS = (
    *("", " ", "\0", "a\0b", "\u200b", "\ud7ff", "é" * 70, "😀" * 300, "\r\n", "=1+1", "../.."),
    *("NaN", "Infinity", "null", "1e400", "0x10", "-0", "2026-02-30", "%00", "'; DROP TABLE x; --"),
)
NASTY_NUMBERS = (
    *(0, -0.0, -1, 0.1, 1e308, -1e308, 5e-324, 1e-300),
    *(2**31, 2**53, 2**63, 2**64, -(2**63), 10**30),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(NASTY_NUMBERS),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(NASTY_TEXTS),
    st.text(max_size=20),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


@st.composite
def spoilt(draw: st.DrawFn, example: Any) -> Any:
    """The example with one to three of its parts replaced, removed, added or doubled."""
    found = copy.deepcopy(example)
    for _ in range(draw(st.integers(1, 3))):
        places = [*_places(found)]
        if not places:
            return draw(VALUES)
        part, key = draw(st.sampled_from(places))
        change = draw(st.sampled_from(["replace", "remove", "add", "double"]))
        if change == "replace":
            part[key] = draw(VALUES)
        elif change == "remove":
            del part[key]
        elif isinstance(part, list):
            part.insert(key, copy.deepcopy(part[key]) if change == "double" else draw(VALUES))
        else:
            name = draw(st.sampled_from([*map(str, part)]) | st.text(max_size=10))
            part[name + ("" if change == "double" else "_")] = draw(VALUES)
    return found


def encoded(value: Any) -> bytes:
    """JSON as Python writes it: also what is none, such as halves of surrogate pairs."""
    return json.dumps(value).encode()


def _places(value: Any) -> Any:
    """Every part of the document, as its container and its key there."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in [*items]:
        yield value, key
        if isinstance(part, dict | list):
            yield from _places(part)
