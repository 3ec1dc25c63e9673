"""What can be done about a loss: which remedies apply to a scenario, and what each changes.

A remedy is nothing but overrides of a scenario, so that what it gives back is a difference of two
ordinary evaluations (`remedy_gains.py`) that anybody can repeat. Design page "The model", sections
3, 6 and 8.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from service.model.columns import columns_of, joined
from service.model.fields import MAX_STANDING_BY, Scenario
from service.model.parts.synchronization import MAX_BACKUP_WORKERS
from service.model.problems import InvalidScenario
from service.model.remedy.remedy_kinds import (
    COUNTED,
    KINDS,
    Kind,
    NotApplicable,
    Remedy,
    RemedyRequest,
)
from service.model.remedy.remedy_overrides import DoesNotApplyError, num_slow, overrides_of
from service.model.rules import describe_failure, failures
from service.model.scenario import apply_overrides, decode_fields, full

FRACTIONS_OF_HOURS = (0.5, 0.25)
FRACTIONS_OF_CV = (0.5, 0.0)
# More than one GPU in so many is no longer a remedy but another cluster.
ONE_IN = 16
LASTING = ("persistent", "node")
TELL_APART = (*LASTING, "transient", "replica", "spikes", "episodes")
"""Sources that make some GPUs slower than others, for good or for a step."""
MOST_TRIED = 64


class Change(NamedTuple):
    """A remedy that applies: the overrides that make it, the scenario that results."""

    remedy: Remedy
    overrides: dict[str, Any]
    scenario: Scenario


def applicable(
    scenario: Scenario, requests: Sequence[RemedyRequest] = ()
) -> tuple[list[Change], list[NotApplicable]]:
    """The remedies that apply, in the order asked for, and those that do not, with their reason.

    Without requests all kinds with their default settings. A remedy asked for twice is tried once.
    """
    chosen = requests or [RemedyRequest(kind=kind) for kind in KINDS]
    remedies = dict.fromkeys(
        remedy for request in chosen for remedy in _with_settings(scenario, request)
    )
    changes: list[Change] = []
    left_out: list[NotApplicable] = []
    for remedy in remedies:
        try:
            changes.append(change_of(scenario, remedy))
        except DoesNotApplyError as error:
            left_out.append(_left_out(remedy, str(error)))
    sound, broken = _by_rules(changes)
    return sound, _without_repeats([*left_out, *broken])


def change_of(scenario: Scenario, remedy: Remedy) -> Change:
    """What the remedy does to the scenario; raises `DoesNotApplyError`.

    Rules across fields may be broken in the result.
    """
    overrides = overrides_of(scenario, columns_of(scenario), remedy)
    try:
        changed = decode_fields(apply_overrides(full(scenario), overrides))
    except InvalidScenario as error:
        raise DoesNotApplyError(error.problems[0].detail) from error
    return Change(remedy, overrides, changed)


def _by_rules(changes: list[Change]) -> tuple[list[Change], list[NotApplicable]]:
    """The changes that break no rule across fields, and the sentences of those that do."""
    if not changes:
        return [], []
    codes = failures(joined([columns_of(change.scenario) for change in changes])).tolist()
    pairs = list(zip(changes, codes, strict=True))
    return [change for change, code in pairs if not code], [
        _left_out(change.remedy, describe_failure(code, change.scenario).detail)
        for change, code in pairs
        if code
    ]


def _left_out(remedy: Remedy, reason: str) -> NotApplicable:
    return NotApplicable(kind=remedy.kind, setting=remedy.setting, reason=reason)


def _without_repeats(left_out: list[NotApplicable]) -> list[NotApplicable]:
    """A kind that fails for one reason in several settings is named once, without them."""
    found: dict[tuple[Kind, str], NotApplicable] = {}
    for each in left_out:
        key = each.kind, each.reason
        found[key] = NotApplicable(
            kind=each.kind, setting=None if key in found else each.setting, reason=each.reason
        )
    return list(found.values())


def _with_settings(scenario: Scenario, request: RemedyRequest) -> Iterator[Remedy]:
    kind = request.kind
    if kind in COUNTED:
        for count in request.counts or _counts(scenario, kind):
            yield Remedy(kind=kind, count=count)
    elif kind == "faster_detection" and request.mean_hours:
        for hours in request.mean_hours:
            yield Remedy(kind=kind, mean_hours=hours)
    elif kind == "faster_detection":
        for fraction in FRACTIONS_OF_HOURS:
            yield Remedy(kind=kind, hours_fraction=fraction)
    elif kind == "balance_data":
        for fraction in request.cv_fractions or FRACTIONS_OF_CV:
            yield Remedy(kind=kind, cv_fraction=fraction)
    else:
        yield Remedy(kind=kind)


def _counts(scenario: Scenario, kind: Kind) -> list[int]:
    """1, 2, 4, … GPUs, and all slow ones at once."""
    slow = num_slow(scenario)
    most = min(MOST_TRIED, max(1, scenario.num_gpus // ONE_IN))
    sources = TELL_APART if kind == "backup_workers" else LASTING
    if all(getattr(scenario.variability, source) is None for source in sources):
        # Of equal GPUs no more than the slow ones are worth it.
        most = min(most, slow)
    counts = {1 << power for power in range(most.bit_length())}
    limit = MAX_BACKUP_WORKERS if kind == "backup_workers" else MAX_STANDING_BY
    # Without any the reason why is still to be told.
    return sorted(counts | ({slow} if 0 < slow <= limit else set())) or [1]
