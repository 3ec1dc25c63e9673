"""The lines of nccl-tests' output, as it and rccl-tests print them.

Seen: versions from 2020 (no root, "error" in place of "#wrong") to 2.20 of 2026 (names of the
program, per-iteration columns, timestamps), also with the tags of mpirun and srun before every
line, and with messages of NCCL between them. Columns are found by the names in the header.
Sources: nccl-tests src/util.cu and src/common.cu, outputs in its issues.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, NoReturn, get_args

MeasuredColumn = Literal["out_of_place", "in_place"]
COLUMNS: tuple[MeasuredColumn, ...] = get_args(MeasuredColumn)

# What mpirun --tag-output and srun --label put before, or into, a line.
_TAG = re.compile(r"\[\d+(?:,\d+)?\](?:<std(?:out|err)>)?:?|^\s*\d+:(?=\s)")
_RANK = re.compile(r"#?\s*Rank\s+([0-9]{1,9})\s+(?:Group\s+([0-9]+)\s+)?(?:Pid|on)\b")
_ROW = re.compile(r"[0-9]+\s+[0-9]+\s+[A-Za-z]\w*\s")
_CUT_ROW = re.compile(r"[0-9]+(?:\s+[0-9]+)?(?:\s+[A-Za-z]\w*)?")
_NUMBER = re.compile(r"[0-9]+(?:\.([0-9]+))?(?:e([+-]?[0-9]{1,2}))?")
_STARTED = re.compile(r"#?\s*Collective test starting\s*:\s*(\S+)")
_OUT_OF_BOUNDS = re.compile(r"#?\s*Out of bounds values\s*:\s*([0-9]+)")
_TITLE_WORDS = {"out-of-place", "in-place", "(+", "per-iteration)"}
_FIRST = ("size", "count", "type")
_MEASURED = ("time", "algbw", "busbw")
# The values under the name "timestamp": a date and a time.
_DATE_AND_TIME = 2
# Thirty years, and all bytes that a field allows: more is no measurement.
_MOST_US = 1e15
_SIZE_DIGITS = 18


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

    names       of the header, in its order; `titles` are those above them
    time_place  where the wanted column's time stands among them
    ranks       of the run at hand, by their numbers, and their group; `is_cut` where the list ends
                in dots
    num_ranks   of each run that is over
    """

    column: MeasuredColumn
    rows: list[Row] = field(default_factory=list)
    num_ranks: list[int | None] = field(default_factory=list)
    num_empty: int = 0
    names: tuple[str, ...] = ()
    titles: tuple[MeasuredColumn, ...] = COLUMNS
    time_place: int = 0
    ranks: set[int] = field(default_factory=set)
    group: str | None = None
    is_cut: bool = False

    def end_run(self) -> None:
        """Count the ranks of the run that ends; None where the list does not tell."""
        if self.ranks:
            whole = not self.is_cut and len(self.ranks) == 1 + max(self.ranks)
            self.num_ranks.append(len(self.ranks) if whole else None)
        self.ranks, self.group, self.is_cut = set(), None, False


def read_lines(lines: Sequence[str], column: MeasuredColumn) -> Lines:
    """Every line in its turn; raises UnreadableOutputError at the first bad one."""
    found = Lines(column)
    for number, line in enumerate(lines, start=1):
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
    elif words and _TITLE_WORDS.issuperset(words):
        found.titles = tuple(name for name in COLUMNS if name.replace("_", "-") in words)
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
    places = [at for at in range(len(words)) if tuple(words[at : at + 3]) == _MEASURED]
    if tuple(words[:3]) != _FIRST or not places:
        _refuse(
            number,
            f"a header has {', '.join(_FIRST)} and {', '.join(_MEASURED)}, this one does not",
        )
    shown = found.titles if len(found.titles) == len(places) else COLUMNS
    place_of = dict(zip(shown, places, strict=False))
    if found.column not in place_of:
        _refuse(number, f"there is no {found.column}: only {', '.join(place_of)} was run")
    found.time_place = place_of[found.column]
    found.names = tuple(words)


def _read_row(found: Lines, number: int, parts: list[str]) -> None:
    if not found.names:
        _refuse(number, "a result before the header that names its columns")
    expected = len(found.names) + ("timestamp" in found.names) * (_DATE_AND_TIME - 1)
    if len(parts) != expected:
        _refuse(
            number,
            f"{len(parts)} values, but the header names {expected}: the line is cut off, or "
            "another program wrote into it",
        )
    size = parts[0].lstrip("0")
    if not size:
        found.num_empty += 1
        return
    if len(size) > _SIZE_DIGITS:
        _refuse(number, f"size has {len(size)} digits")
    numbers = zip(_MEASURED, parts[found.time_place :], strict=False)
    time_us, algbw, busbw = (_number(number, name, said) for name, said in numbers)
    _refuse_wrong(found, number, parts)
    # Of names that stand twice the last one counts; these stand once.
    named = dict(zip(found.names, parts, strict=False))
    redop, root = named.get("redop", ""), named.get("root", "-1")
    found.rows.append(Row(number, int(size), named["type"], redop, root, time_us, algbw, busbw))


def _refuse_wrong(found: Lines, number: int, parts: list[str]) -> None:
    """Refuse a row with wrong elements; "error" of older versions is no count of them."""
    place = found.time_place + len(_MEASURED)
    name = found.names[place] if place < len(found.names) else ""
    said = parts[place] if name in {"#wrong", "error"} else "0"
    if said.endswith("*") or (name == "#wrong" and said not in {"0", "N/A"}):
        _refuse(number, f"{name} is {said}: the exchange went wrong")


def _number(number: int, name: str, said: str) -> Printed:
    written = _NUMBER.fullmatch(said.lower())
    if written is None or not float(said) <= _MOST_US:
        _refuse(number, f"{name} is {said[:20]!r}, not a number from 0 to {_MOST_US:g}")
    return Printed(float(said), 0.5 * 10.0 ** (int(written[2] or 0) - len(written[1] or "")))


def _refuse(line: int, reason: str) -> NoReturn:
    raise UnreadableOutputError(reason, line=line)
