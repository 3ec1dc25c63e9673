"""What can be done about a loss: which remedies apply to a scenario, and what each changes.

A remedy is nothing but overrides of a scenario, so that what it gives back is a difference of two
ordinary evaluations (`remedy_gains.py`) that anybody can repeat. Design page "The model", sections
3, 6 and 8.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from service.model.columns import columns_of, joined
from service.model.fields import Scenario
from service.model.problems import InvalidScenario
from service.model.remedy.does_not_apply import DoesNotApplyError
from service.model.remedy.remedy_choices import with_settings
from service.model.remedy.remedy_kinds import (
    KINDS,
    Kind,
    NotApplicable,
    Remedy,
    RemedyRequest,
)
from service.model.remedy.remedy_overrides import overrides_of
from service.model.rules import describe_failure, failures
from service.model.scenario import apply_overrides, decode_fields, full


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
        remedy for request in chosen for remedy in with_settings(scenario, request)
    )
    changes: list[Change] = []
    left_out: list[NotApplicable] = []
    for remedy in remedies:
        try:
            changes.append(change_of(scenario, remedy))
        except DoesNotApplyError as error:
            left_out.append(_left_out(remedy, str(error)))
    # A default and the same setting by name are one.
    sound, broken = _by_rules(list({change.remedy: change for change in changes}.values()))
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
    return Change(_told(remedy, scenario, changed), overrides, changed)


def _told(remedy: Remedy, scenario: Scenario, changed: Scenario) -> Remedy:
    """The remedy with what it left to the scenario: to how many stages, with how many chunks."""
    before, after = scenario.pipeline, changed.pipeline
    if before is None or after is None:
        return remedy
    if remedy.kind == "fewer_stages":
        return msgspec.structs.replace(remedy, stages=after.stages)
    if remedy.kind == "change_schedule" and after.chunks_per_stage != before.chunks_per_stage:
        return msgspec.structs.replace(remedy, chunks_per_stage=after.chunks_per_stage)
    return remedy


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
