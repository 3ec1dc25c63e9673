"""Items of a batch that try remedies, and the settings that a request may give."""

from collections.abc import Sequence

from service.errors import FieldFault, InvalidError
from service.jobs.batch_documents import BatchItemIn
from service.model.fields import Scenario
from service.model.remedy.remedies import applicable
from service.model.remedy.remedy_grid import RemedyGrid, remedy_grid
from service.model.remedy.remedy_kinds import SETTINGS, RemedyRequest


def request_faults(requests: Sequence[RemedyRequest], pointer: str) -> list[FieldFault]:
    """Settings that a kind does not read, e.g. counts of rebalance_work."""
    return [
        FieldFault(
            pointer=f"{pointer}/{position}/{name}",
            code="setting_not_read",
            detail=f"{request.kind} reads no {name}" + _read_instead(request.kind),
        )
        for position, request in enumerate(requests)
        for name in request.given
        if name not in SETTINGS.get(request.kind, ())
    ]


def _read_instead(kind: str) -> str:
    return f", but {' and '.join(SETTINGS[kind])}" if kind in SETTINGS else ""


def refuse_unfit(item: BatchItemIn) -> None:
    """Raise `InvalidError` for fields that do not go with the item's analysis."""
    faults = request_faults(item.remedies, "/remedies")
    if item.analysis == "scenario" and item.remedies:
        detail = 'remedies are read only with "analysis": "remedies"'
        faults.append(FieldFault(pointer="/remedies", code="not_analysed", detail=detail))
    if item.analysis == "remedies" and item.axes:
        detail = (
            "an item that tries remedies has one scenario: make one item for each point of the grid"
        )
        faults.append(FieldFault(pointer="/axes", code="axes_of_remedies", detail=detail))
    if item.analysis == "remedies" and item.headline is not None:
        detail = "the headline of an item that tries remedies is the scenario as it is"
        faults.append(FieldFault(pointer="/headline", code="headline_of_remedies", detail=detail))
    if faults:
        raise InvalidError(faults[0].detail, problem="invalid-scenario", errors=faults)


def grid_of_remedies(scenario: Scenario, item: BatchItemIn) -> RemedyGrid:
    """The scenario as it is, and every remedy that applies."""
    changes, _ = applicable(scenario, item.remedies)
    return remedy_grid(scenario, changes)
