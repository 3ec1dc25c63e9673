"""Why the GPU-hours of an item moved between two runs: what changed, one thing after the other.

The causes are counterfactuals in a fixed order: the model, then the inputs that another revision
of the profile moved, then those that the batch moved, then the length of the window, at last the
draws. Each is what the loss on 30 days does when it alone joins the ones before it, so they sum to
the difference. With one seed on both sides of a step its difference is one of common draws: it
belongs to what moved, however large the errors of both sides are.
What stands in between is evaluated elsewhere; this module says what to evaluate, and adds up.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from service.reports.changes import change
from service.reports.loss_report import CauseKind, VolumeCause
from service.reports.origins import Revised, calibration_of, value_at

MONTH_DAYS = 30
MOST_PATHS = 12
"""Inputs of one kind that are told apart; what else moved comes together, as `joint`."""
WINDOW = "period_days"
SHOWN_CHARACTERS = 200
OF_BATCH = "set by the batch"
OF_NOTHING = "nothing that is stored moved"
OF_ROUNDING = "rounding"
OF_DRAWS = "below two standard errors"
OF_OTHER_DRAWS = "other draws"
DRAWN = ("seed", "draws")
"""Inputs that say which numbers are drawn, and nothing of the cluster."""
STANDARD_ERRORS = 2
"""A difference of drawn numbers that is smaller than so many of its errors is no difference."""


class Side(Struct, frozen=True, kw_only=True):
    """An item of one run: what was asked, and the loss of its headline point.

    point                counted from the item's first
    gpu_hours_lost(_se)  of the item's own window
    """

    scenario: dict[str, Any]
    axes: list[dict[str, Any]]
    point: int
    profile_slug: str | None
    profile_revision: int | None
    profile_revision_id: UUID | None
    model_version: str
    gpu_hours_lost: float
    gpu_hours_lost_se: float | None

    @property
    def per_30_days(self) -> float:
        """The loss on 30 days."""
        return self.gpu_hours_lost * self._windows

    @property
    def se_per_30_days(self) -> float:
        """Its standard error; 0 where a model did not tell."""
        return (self.gpu_hours_lost_se or 0.0) * self._windows

    @property
    def _windows(self) -> float:
        """How many of its windows are 30 days."""
        days: int = self.scenario[WINDOW]
        return MONTH_DAYS / days


class Pair(Struct, frozen=True, kw_only=True):
    """The same item in two runs."""

    past: Side
    new: Side


class Move(NamedTuple):
    """An input that moved: its path, and what stands there on both sides."""

    path: str
    past: Any
    new: Any


class Step(Struct, frozen=True, kw_only=True):
    """What joins the causes before it: some inputs, the model (`new_model`), or both."""

    cause: CauseKind
    detail: str
    moves: tuple[Move, ...] = ()
    new_model: bool = False

    @property
    def is_drawn_anew(self) -> bool:
        """Whether other numbers are drawn after it, or nobody knows what it is."""
        return self.cause == "joint" and (
            not (self.moves or self.new_model) or any(move.path in DRAWN for move in self.moves)
        )


class Loss(NamedTuple):
    """On 30 days, with its standard error."""

    gpu_hours: float
    error: float


def moves_between(past: Mapping[str, Any], new: Mapping[str, Any]) -> list[Move]:
    """The inputs in which two whole scenarios differ, by path.

    An input is taken apart as long as both sides have the same parts and are of the same kind.
    """
    return sorted(_moves(past, new, ""), key=lambda move: move.path)


def _moves(past: Any, new: Any, path: str) -> Iterator[Move]:
    if past == new:
        return
    if not _alike(past, new):
        yield Move(path, past, new)
        return
    names = past if isinstance(past, Mapping) else range(len(past))
    for name in names:
        yield from _moves(past[name], new[name], f"{path}.{name}" if path else str(name))


def _alike(past: Any, new: Any) -> bool:
    if isinstance(past, Mapping) and isinstance(new, Mapping):
        return past.keys() == new.keys() and past.get("kind") == new.get("kind")
    if isinstance(past, list) and isinstance(new, list):
        # Lists of numbers are one input, lists of documents are as many.
        documents = all(isinstance(part, Mapping) for part in (*past, *new))
        return len(past) == len(new) and documents
    return False


def steps_between(
    pair: Pair,
    past: Mapping[str, Any],
    new: Mapping[str, Any],
    defaults: tuple[Mapping[str, Any], Mapping[str, Any]] | None,
    revisions: Sequence[Revised] = (),
) -> list[Step]:
    """What moved, in the order of the counterfactuals.

    `past` and `new` are the scenarios of the headline points; `defaults` are those of the two
    revisions of the profile, None where it is one and the same, or there is none. `revisions` are
    all from the one to the other where a calibration stands behind any of them.
    """
    steps = []
    if pair.past.model_version != pair.new.model_version:
        detail = f"{pair.past.model_version} -> {pair.new.model_version}"
        steps.append(Step(cause="model_version", detail=detail, new_model=True))
    moves = moves_between(past, new)
    window = tuple(move for move in moves if move.path == WINDOW)
    drawn = [move for move in moves if move.path in DRAWN]
    others = [move for move in moves if move.path != WINDOW and move not in drawn]
    of_profile = [move for move in others if defaults is not None and _follows(move, defaults)]
    of_batch = [move for move in others if move not in of_profile]
    steps += _of_revisions(pair, of_profile, revisions)
    steps += _limited(of_batch, "template", OF_BATCH)
    if window:
        steps.append(Step(cause="window", detail="length of the window", moves=window))
    return [*steps, *_limited(drawn, "sampling", OF_OTHER_DRAWS)]


def _of_revisions(
    pair: Pair, moves: Sequence[Move], revisions: Sequence[Revised]
) -> Iterator[Step]:
    """The inputs that the profile moved: what somebody wrote, then what was calibrated."""
    slug = pair.new.profile_slug
    shown = f"{slug}@{pair.past.profile_revision} -> {slug}@{pair.new.profile_revision}"
    of_path = {move.path: calibration_of(move.path, revisions) for move in moves}
    yield from _limited(
        [move for move in moves if of_path[move.path] is None], "profile_revision", shown
    )
    for name in dict.fromkeys(name for name in of_path.values() if name is not None):
        calibrated = [move for move in moves if of_path[move.path] == name]
        yield from _limited(calibrated, "calibration", f"{shown}: {name}")


def _follows(move: Move, defaults: tuple[Mapping[str, Any], Mapping[str, Any]]) -> bool:
    """Whether the input is on both sides what the profile says, so that nobody else set it."""
    said = tuple(value_at(document, move.path) for document in defaults)
    return said == (move.past, move.new)


def _limited(moves: Sequence[Move], cause: CauseKind, detail: str) -> list[Step]:
    steps = [Step(cause=cause, detail=detail, moves=(move,)) for move in moves]
    rest = steps[MOST_PATHS:]
    return [*steps[:MOST_PATHS], *([merged(rest)] if rest else [])]


def merged(steps: Sequence[Step]) -> Step:
    """Steps that cannot be told apart, as one."""
    moves = tuple(move for step in steps for move in step.moves)
    parts = [*(step.detail for step in steps if step.new_model), *(move.path for move in moves)]
    shown = ", ".join(parts[:MOST_PATHS])
    more = f" and {len(parts) - MOST_PATHS} more" if len(parts) > MOST_PATHS else ""
    return Step(
        cause="sampling" if all(step.cause == "sampling" for step in steps) else "joint",
        detail=shown + more,
        moves=moves,
        new_model=any(step.new_model for step in steps),
    )


def causes_of(pair: Pair, steps: Sequence[Step], between: Sequence[Loss]) -> list[VolumeCause]:
    """The causes of a pair; `between` are the losses after each step but the last.

    They sum to the difference exactly: the last one takes what floats leave. Where nothing moved,
    or the seed with other inputs that cannot be told apart from it, numbers that are drawn and
    differ by less than two standard errors are `sampling`.
    """
    difference = change(pair.past.per_30_days, pair.new.per_30_days).difference or 0.0
    if not steps and difference == 0:
        return []
    steps = steps or [Step(cause="joint", detail=OF_NOTHING)]
    losses = [Loss(side.per_30_days, side.se_per_30_days) for side in (pair.past, pair.new)]
    found, noise = [], []
    for step, (before, after) in zip(
        steps, pairwise([losses[0], *between, losses[1]]), strict=True
    ):
        part = after.gpu_hours - before.gpu_hours
        error = math.hypot(before.error, after.error)
        if step.is_drawn_anew and 0 < abs(part) < STANDARD_ERRORS * error:
            noise.append(part)
        else:
            found.append(_cause(step, part))
    if noise:
        found.append(_plain("sampling", OF_DRAWS, math.fsum(noise)))
    return _closed(found, difference, len(found) - 1)


def summed(parts: Iterable[Sequence[VolumeCause]], difference: float) -> list[VolumeCause]:
    """The causes of many items as those of their total, biggest first.

    They sum to the difference of the totals exactly. What is one input of many items shows values
    only where all of them have the same.
    """
    groups: dict[tuple[str, str, str | None], list[VolumeCause]] = {}
    for cause in chain.from_iterable(parts):
        groups.setdefault((cause.cause, cause.detail, cause.path), []).append(cause)
    found = [_added(group) for group in groups.values()]
    if not found and difference == 0:
        return []
    found.sort(key=lambda cause: -abs(cause.gpu_hours_per_30_days))
    return _closed(found or [_plain("joint", OF_NOTHING, difference)], difference, 0)


def _added(group: Sequence[VolumeCause]) -> VolumeCause:
    same = len({(cause.past, cause.new) for cause in group}) == 1
    return structs.replace(
        group[0],
        past=group[0].past if same else None,
        new=group[0].new if same else None,
        gpu_hours_per_30_days=math.fsum(cause.gpu_hours_per_30_days for cause in group),
    )


def _closed(causes: list[VolumeCause], difference: float, place: int) -> list[VolumeCause]:
    """The causes with what floats leave put into that at `place`, so that they sum exactly.

    Where that one is too large to hold it the smallest does, or else one more of its own.
    """
    smallest = min(range(len(causes)), key=lambda at: abs(causes[at].gpu_hours_per_30_days))
    for at in (place, smallest):
        rest = _left([*causes[:at], *causes[at + 1 :]], difference)
        changed = structs.replace(causes[at], gpu_hours_per_30_days=rest)
        closed = [*causes[:at], changed, *causes[at + 1 :]]
        if _sum(closed) == difference:
            return closed
    while _sum(causes) != difference:
        # What is left of parts of very different size may itself need more than one float.
        causes = [*causes, _plain("joint", OF_ROUNDING, _left(causes, difference))]
    return causes


def _left(causes: Sequence[VolumeCause], difference: float) -> float:
    return math.fsum([difference, *(-cause.gpu_hours_per_30_days for cause in causes)])


def _sum(causes: Sequence[VolumeCause]) -> float:
    return math.fsum(cause.gpu_hours_per_30_days for cause in causes)


def _cause(step: Step, gpu_hours: float) -> VolumeCause:
    if len(step.moves) != 1 or step.new_model:
        return _plain(step.cause, step.detail, gpu_hours)
    (move,) = step.moves
    return VolumeCause(
        cause=step.cause,
        detail=step.detail,
        path=move.path,
        past=_shown(move.past),
        new=_shown(move.new),
        gpu_hours_per_30_days=gpu_hours,
    )


def _plain(cause: CauseKind, detail: str, gpu_hours: float) -> VolumeCause:
    return VolumeCause(
        cause=cause, detail=detail, path=None, past=None, new=None, gpu_hours_per_30_days=gpu_hours
    )


def _shown(value: Any) -> str:
    """The value as JSON; of a long one the beginning."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"
