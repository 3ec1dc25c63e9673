"""Time zones from the installed `tzdata` package only, so that every machine knows the same nights.

The system's own files would be of another age on every host, and one slot would come at two times.
Known are the names that IANA lists, old ones such as `US/Eastern` or `EST5EDT` among them; rules
in the way of POSIX (`CET-1CEST`) are no names. `Factory` stands for no zone at all.
"""

from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Final
from zoneinfo import ZoneInfo

# As IANA names its releases: 2026f
TZDATA_VERSION: Final = str(import_module("tzdata").IANA_VERSION)

ZONES: Final[frozenset[str]] = frozenset(
    files("tzdata").joinpath("zones").read_text("utf-8").split()
) - {"Factory"}


class UnknownZoneError(ValueError):
    """The name is none of the zones that are known here."""


@cache
def zone(name: str) -> ZoneInfo:
    """The zone of this name, letter by letter; raises `UnknownZoneError`."""
    # Only names from the list become paths.
    if name not in ZONES:
        unknown = f"{name!r} is no time zone of IANA's {TZDATA_VERSION}"
        meant = _meant(name)
        raise UnknownZoneError(f"{unknown}; is {meant!r} meant?" if meant else unknown)
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def _meant(name: str) -> str | None:
    """The zone that is written so but for capitals and spaces, or whose city is."""
    written = name.strip().replace(" ", "_").casefold()
    found = [one for one in sorted(ZONES) if f"/{one.casefold()}".endswith(f"/{written}")]
    return min(found, key=len) if found and written else None
