"""Columns of a plain table: which there are, in which unit, and which name is misspelt.

`step, rank, load_ms?, compute_ms, communication_ms?, step_ms?, node?, replica?, stage?,
includes_wait?, world_size?`; a time also with the suffix `_s` or `_us`.
"""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from msgspec import Struct

from service.calibration.refusals import Fault, TimingsRefusedError

PHASES: Final = ("load", "compute", "communication", "step")
UNITS: Final = ("ms", "s", "us")
LABELS: Final = ("node", "replica", "stage")
INDEXES: Final = ("step", "rank")
FLAG: Final = "includes_wait"
WORLD: Final = "world_size"
_KNOWN: Final = frozenset(
    (*INDEXES, *LABELS, FLAG, WORLD, *(f"{phase}_{unit}" for phase in PHASES for unit in UNITS))
)
# A phase's time under another name: with no unit, or with one that is not read.
_TIME_NAME: Final = re.compile(
    r"(load|compute|comm|communication|step)_?"
    r"(|time|duration|ns|u?sec|seconds?|m(illi)?sec(ond)?s?|micro(sec(ond)?s)?|min(utes)?|h(ours)?)"
)
_CLOSENESS: Final = 0.84
# Where a name is missing, less tells which one it is.
_CLOSE_ENOUGH: Final = 0.7
_MOST_NAMED: Final = 8
MAX_COLUMNS: Final = 1_000


class TimeColumn(Struct, frozen=True, kw_only=True):
    """A column of durations: its name in the file, of which phase, in which unit."""

    name: str
    phase: str
    unit: str


class TableColumns(Struct, frozen=True, kw_only=True):
    """The columns of one file that are read, and the names of those that are not."""

    times: tuple[TimeColumn, ...]
    labels: tuple[str, ...]
    has_flag: bool
    has_world: bool
    left_out: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All names to read."""
        return (
            *INDEXES,
            *(column.name for column in self.times),
            *self.labels,
            *((FLAG,) if self.has_flag else ()),
            *((WORLD,) if self.has_world else ()),
        )


def columns_of(names: Sequence[str], file: str) -> TableColumns:
    """What a table with these column names says.

    Raises TimingsRefusedError with every column that is missing, met twice, misspelt or without
    a unit.
    """
    faults = [*_repeated(names, file), *_misspelt(names, file)]
    times = tuple(
        TimeColumn(name=f"{phase}_{unit}", phase=phase, unit=unit)
        for phase in PHASES
        for unit in UNITS
        if f"{phase}_{unit}" in names
    )
    if not faults:
        faults = [*_missing(names, times, file), *_twice_timed(times, file)]
    if faults:
        raise TimingsRefusedError(*faults)
    return TableColumns(
        times=times,
        labels=tuple(label for label in LABELS if label in names),
        has_flag=FLAG in names,
        has_world=WORLD in names,
        left_out=tuple(name for name in names if name not in _KNOWN),
    )


def _repeated(names: Sequence[str], file: str) -> list[Fault]:
    if len(names) > MAX_COLUMNS:
        detail = f"{len(names)} columns, but {MAX_COLUMNS} is the limit"
        return [Fault(code="bad_value", detail=detail, file=file)]
    return [
        Fault(code="unknown_column", detail=f"the column {shown(name)} is there twice", file=file)
        for name in sorted({name for name in names if names.count(name) > 1})[:_MOST_NAMED]
        if name in _KNOWN
    ]


def _misspelt(names: Sequence[str], file: str) -> list[Fault]:
    faults = []
    for name in names[:MAX_COLUMNS]:
        meant = None if name in _KNOWN else _meant(name)
        if meant is not None:
            detail = f"the column {shown(name)} is not read: {meant}"
            faults.append(Fault(code="unknown_column", detail=detail, file=file))
    return faults[:_MOST_NAMED]


def _meant(name: str) -> str | None:
    """What a name that is not known was meant to be, if it looks like one that is."""
    plain = name.strip().lower().replace(" ", "_").replace("-", "_")[:64]
    time = None if plain in _KNOWN else _TIME_NAME.fullmatch(plain)
    if time is not None:
        phase = "communication" if time[1] == "comm" else time[1]
        return f"a time needs its unit, so name it {phase}_ms, {phase}_s or {phase}_us"
    close = get_close_matches(plain, sorted(_KNOWN), n=1, cutoff=_CLOSENESS)
    return f"is {close[0]} meant?" if close else None


def _missing(names: Sequence[str], times: tuple[TimeColumn, ...], file: str) -> list[Fault]:
    there = ", ".join(shown(name) for name in names[:_MOST_NAMED])
    faults = [
        Fault(
            code="missing_column",
            detail=f"there is no column {name}, which every row needs; there are {there}"
            + _instead(name, names),
            file=file,
        )
        for name in INDEXES
        if name not in names
    ]
    if not any(column.phase == "compute" for column in times):
        detail = f"there is no column compute_ms (or compute_s, compute_us); there are {there}"
        faults.append(Fault(code="missing_column", detail=detail, file=file))
    return faults


def _instead(name: str, names: Sequence[str]) -> str:
    close = get_close_matches(name, [other.lower() for other in names], n=1, cutoff=_CLOSE_ENOUGH)
    return f": is {shown(close[0])} meant for it?" if close else ""


def _twice_timed(times: tuple[TimeColumn, ...], file: str) -> list[Fault]:
    phases = [column.phase for column in times]
    return [
        Fault(
            code="unknown_column",
            detail=f"{phase} is there in two units; leave one of the columns out",
            file=file,
        )
        for phase in PHASES
        if phases.count(phase) > 1
    ]


def shown(text: str, most: int = 60) -> str:
    """A word of the file as it may stand in a sentence: quoted, and cut if it is long."""
    return repr(text if len(text) <= most else text[:most] + "…")
