"""The lines of nccl-tests' output, as it and rccl-tests print them.

Seen: versions from 2020 (no root, "error" in place of "#wrong") to 2.20 of 2026 (names of the
program, per-iteration columns, timestamps), also with the tags of mpirun and srun before every
line, and with messages of NCCL between them. Columns are found by the names in the header.
Sources: nccl-tests src/util.cu and src/common.cu, outputs in its issues.
"""

import math
import re
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

COLUMNS = ("out_of_place", "in_place")

# What mpirun --tag-output and srun --label put before, or into, a line.
_TAG = re.compile(r"\[\d+(?:,\d+)?\](?:<std(?:out|err)>)?:?|^\s*\d+:(?=\s)")
_RANK = re.compile(r"#?\s*Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?(?:Pid|on)\b")
_ROW = re.compile(r"\d+\s+\d+\s+[A-Za-z]\w*\s")
_CUT_ROW = re.compile(r"\d+(?:\s+\d+)?(?:\s+[A-Za-z]\w*)?")
_STARTED = re.compile(r"#?\s*Collective test starting\s*:\s*(\S+)")
_OUT_OF_BOUNDS = re.compile(r"#?\s*Out of bounds values\s*:\s*(\d+)")
_DATE_AND_TIME = 2


class UnreadableOutputError(ValueError):
    """The text is no output of nccl-tests that could be used: where (1-based line), and why."""

    def __init__(self, reason: str, *, line: int | None = None) -> None:
        super().__init__(reason if line is None else f"line {line}: {reason}")
        self.reason = reason
        self.line = line


class Printed(NamedTuple):
    """A number as it is printed: known to half a unit of its last digit."""

    value: float
    half_unit: float

    @property
    def low(self) -> float:
        """The least that is printed so."""
        return max(self.value - self.half_unit, 0.0)

    @property
    def high(self) -> float:
        """The most that is printed so."""
        return self.value + self.half_unit


class Row(NamedTuple):
    """One size: its time, and the bandwidths that were reckoned from it."""

    line: int
    size_bytes: int
    data_type: str
    redop: str
    root: str
    time_us: Printed
    algbw: Printed
    busbw: Printed


@dataclass(slots=True)
class Lines:
    """What was read so far.

    ranks      of the run at hand, by their numbers; the list is cut where a device line says so
    num_ranks  of each run that is over
    """

    column: str
    rows: list[Row] = field(default_factory=list)
    num_ranks: list[int | None] = field(default_factory=list)
    num_empty: int = 0
    names: tuple[str, ...] = ()
    titles: tuple[str, ...] = COLUMNS
    ranks: set[int] = field(default_factory=set)
    group: str | None = None
    is_cut: bool = False

    def end_run(self) -> None:
        """Count the ranks of the run that ends; None where the list does not tell."""
        if self.ranks:
            whole = not self.is_cut and len(self.ranks) == 1 + max(self.ranks)
            self.num_ranks.append(len(self.ranks) if whole else None)
        self.ranks, self.group, self.is_cut = set(), None, False


def read_lines(text: str, column: str) -> Lines:
    """Every line of the text in its turn; raises UnreadableOutputError at the first bad one."""
    found = Lines(column)
    for number, line in enumerate(text.splitlines(), start=1):
        said = _TAG.sub(" ", line).strip()
        if _ROW.match(said) or (found.names and _CUT_ROW.fullmatch(said)):
            _read_row(found, number, said.split())
        else:
            _read_remark(found, number, said)
    found.end_run()
    return found


def _read_remark(found: Lines, number: int, said: str) -> None:
    """A line that is no result."""
    words = said.lstrip("# ").split()
    if "nThread" in words and "minBytes" in words:
        found.end_run()
    elif rank := _RANK.match(said):
        _read_rank(found, number, int(rank[1]), rank[2])
    elif found.ranks and not found.names and said.endswith("..."):
        found.is_cut = True
    elif words[:1] == ["size"] and "algbw" in words:
        _read_header(found, number, words)
    elif "out-of-place" in said or "in-place" in said:
        shown = {"out_of_place": "out-of-place" in said, "in_place": " in-place" in said}
        found.titles = tuple(name for name in COLUMNS if shown[name])
    elif (started := _STARTED.match(said)) and "all_reduce" not in started[1]:
        _refuse(number, f"{started[1]} was run; the times of all_reduce_perf are needed")
    elif (wrong := _OUT_OF_BOUNDS.match(said)) and int(wrong[1]):
        _refuse(number, f"{wrong[1]} values were out of bounds: the exchange went wrong")


def _read_rank(found: Lines, number: int, rank: int, group: str | None) -> None:
    if rank in found.ranks:
        _refuse(
            number,
            f"rank {rank} stands twice: every process measured by itself (nccl-tests was built "
            "without MPI), so these are not times among all of them",
        )
    if found.ranks and group != found.group:
        _refuse(number, "several groups ran at once (NCCL_TESTS_SPLIT); give the output of one")
    found.ranks.add(rank)
    found.group = group


def _read_header(found: Lines, number: int, words: list[str]) -> None:
    if "cputime" in words:
        _refuse(number, "cputime is the time of the processor, not of the messages (-C 1)")
    if len(found.titles) == 1 and found.column not in found.titles:
        _refuse(number, f"there is no {found.column}: only {found.titles[0]} was run")
    found.names = tuple(words)


def _read_row(found: Lines, number: int, parts: list[str]) -> None:
    if not found.names:
        _refuse(number, "a result before the header that names its columns")
    # A timestamp is a date and a time, under one name.
    expected = len(found.names) + ("timestamp" in found.names) * (_DATE_AND_TIME - 1)
    if len(parts) != expected:
        _refuse(
            number,
            f"{len(parts)} values, but the header names {expected}: the line is cut off, or "
            "another program wrote into it",
        )
    at = _time_place(found)
    named = dict(zip(found.names, parts, strict=False))
    size = int(parts[0])
    if not size:
        found.num_empty += 1
        return
    time_us, algbw, busbw = (
        _number(number, name, parts[found.names.index(name, at)])
        for name in ("time", "algbw", "busbw")
    )
    _refuse_wrong(found, number, at, parts)
    redop, root = named.get("redop", ""), named.get("root", "-1")
    found.rows.append(Row(number, size, named["type"], redop, root, time_us, algbw, busbw))


def _time_place(found: Lines) -> int:
    """Where the wanted column's time stands: the first one, or the second of two."""
    first = found.names.index("time")
    if found.column == COLUMNS[0] or found.names.count("time") == 1:
        return first
    return found.names.index("time", first + 1)


def _refuse_wrong(found: Lines, number: int, at: int, parts: list[str]) -> None:
    """Refuse a row with wrong elements; "error" of older versions is no count of them."""
    place = found.names.index("busbw", at) + 1
    name = found.names[place] if place < len(found.names) else ""
    said = parts[place] if name in {"#wrong", "error"} else "0"
    if said.endswith("*") or (name == "#wrong" and said not in {"0", "N/A"}):
        _refuse(number, f"{name} is {said}: the exchange went wrong")


def _number(number: int, name: str, said: str) -> Printed:
    try:
        value = float(said)
    except ValueError:
        _refuse(number, f"{name} is {said!r}, not a number")
    if not math.isfinite(value) or value < 0:
        _refuse(number, f"{name} is {said}, not a finite number from 0 on")
    mantissa, _, exponent = said.lower().partition("e")
    digits = len(mantissa.partition(".")[2])
    return Printed(value, 0.5 * 10.0 ** (int(exponent or 0) - digits))


def _refuse(line: int, reason: str) -> NoReturn:
    raise UnreadableOutputError(reason, line=line)
