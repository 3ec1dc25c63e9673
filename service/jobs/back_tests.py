"""Use cases of back-tests: hold a run against its profile, read, list and delete them."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from service.calibration.findings import Findings
from service.calibration.options import CalibrationOptions
from service.calibration.prediction import Prediction
from service.calibration.run_comparison import Comparison, Observed
from service.db import back_tests as rows
from service.db.back_tests import BackTestFilter
from service.db.engine import Connection, Row
from service.errors import (
    ConflictError,
    FieldFault,
    InvalidError,
    NotFoundError,
    PreconditionFailedError,
)
from service.jobs import audit
from service.jobs.actors import Actor
from service.jobs.back_test_documents import (
    BackTestIn,
    BackTestOut,
    BackTestPage,
    BackTestSummary,
)
from service.jobs.back_test_runs import (
    Tested,
    ask,
    compared,
    computed,
    observed_in,
    predicted_of,
    scenario_of,
)
from service.jobs.batch_documents import Notice
from service.jobs.digests import digest
from service.jobs.page_tokens import make_token, read_token
from service.jobs.point_costs import work_of
from service.jobs.profiles import ResolvedProfile
from service.model import MODEL_VERSION
from service.model.grid import build_grid
from service.model.scenario import full

__all__ = [
    "ask",
    "computed",
    "delete",
    "foretold",
    "list_page",
    "read",
    "record_from_calibration",
    "store",
]

# Of a prediction that goes along with a calibration, unasked
MOST_CORE_S = 1.0


def store(connection: Connection, actor: Actor, tested: Tested) -> BackTestOut:
    """Keep the test; raises `ConflictError` when the revision was tested with this run before."""
    asked = tested.asked
    run, profile = asked.run, asked.profile
    test_id = rows.insert_back_test(connection, _row(actor, tested))
    if test_id is None:
        known = rows.find_id(connection, profile.revision_id, run.source_key)
        detail = (
            f"{profile.slug}@{profile.revision} has been tested with the run {run.name!r} already, "
            f"as back-test {known}: it never changes; name another run, or delete that one first"
        )
        pointer = "/run/name" if run.calibration_id is None else "/calibration"
        fault = FieldFault(pointer=pointer, code="tested_already", detail=detail)
        raise ConflictError(detail, errors=[fault])
    made = read(connection, actor, test_id)
    audit.record(
        connection, actor, action="create_back_test", subject=f"back-test/{test_id}", after=made
    )
    return made


def foretold(
    profile: ResolvedProfile, name: str, options: CalibrationOptions, findings: Findings
) -> Prediction | None:
    """What the revision predicts of timings that are not stored yet.

    None where they tell no step times, do not fit the profile (more slow GPUs than ranks, say) or
    would take long to predict: whoever wants to know why asks by `POST /v1/back-tests`.
    """
    document = BackTestIn(profile=f"{profile.slug}@{profile.revision}")
    try:
        observed = observed_in(findings, options, name)
        scenario = scenario_of(profile.defaults, document, observed.num_gpus)
        if work_of(build_grid(scenario, [], max_points=1)).core_s > MOST_CORE_S:
            return None
        return predicted_of(document, scenario, observed)
    except InvalidError:
        return None


def record_from_calibration(
    connection: Connection,
    actor: Actor,
    calibration_id: UUID,
    profile: str,
    predicted: Prediction,
) -> BackTestOut | None:
    """Hold timings against what was foretold of them, in the transaction that stores them.

    None where the profile has been archived since.
    """
    try:
        asked = ask(connection, actor, BackTestIn(profile=profile, calibration=calibration_id))
    except InvalidError:
        return None
    return store(connection, actor, compared(asked, predicted))


def read(connection: Connection, actor: Actor, test_id: UUID) -> BackTestOut:
    """One back-test; raises `NotFoundError`."""
    row = rows.get_back_test(connection, actor.team_id, test_id)
    if row is None:
        raise NotFoundError(f"there is no back-test {test_id}")
    kept = msgspec.convert(row.document, _Kept)
    return BackTestOut(**_summary_fields(row), **msgspec.structs.asdict(kept), team=row.team)


def list_page(
    connection: Connection,
    actor: Actor,
    wanted: BackTestFilter,
    *,
    page_size: int,
    page_token: str | None,
) -> BackTestPage:
    """A page of back-tests, those observed last first; raises `MalformedError`."""
    query = ["back-tests", msgspec.to_builtins(wanted)]
    before = read_token(page_token, query, tuple[datetime, UUID])
    found = rows.list_back_tests(
        connection, actor.team_id, wanted, before=before, limit=page_size + 1
    )
    shown, more = found[:page_size], len(found) > page_size
    return BackTestPage(
        items=[BackTestSummary(**_summary_fields(row)) for row in shown],
        next_page_token=make_token(query, (shown[-1].observed_at, shown[-1].id)) if more else None,
    )


def delete(connection: Connection, actor: Actor, test_id: UUID, *, expected_version: int) -> None:
    """Delete a test that was recorded by mistake, so that no drift is seen in it.

    Raises `NotFoundError`, `PreconditionFailedError`.
    """
    before = read(connection, actor, test_id)
    if not rows.delete_back_test(connection, test_id, version=expected_version):
        raise PreconditionFailedError(
            f"back-test {test_id} is at version {before.version}, not {expected_version}"
        )
    audit.record(
        connection, actor, action="delete_back_test", subject=f"back-test/{test_id}", before=before
    )


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What the row's document holds: all that no list shows."""

    observed: Observed
    predicted: Prediction
    comparison: Comparison
    overrides: dict[str, Any]
    scenario: dict[str, Any]
    warnings: list[Notice]


def _row(actor: Actor, tested: Tested) -> dict[str, Any]:
    asked, comparison = tested.asked, tested.comparison
    run, profile = asked.run, asked.profile
    kept = _Kept(
        observed=run.observed,
        predicted=tested.predicted,
        comparison=comparison,
        overrides=asked.document.overrides,
        scenario=full(asked.scenario),
        warnings=tested.warnings,
    )
    return {
        "team_id": actor.team_id,
        "created_by": actor.name,
        "profile_revision_id": profile.revision_id,
        "profile_slug": profile.slug,
        "profile_revision": profile.revision,
        "defaults_digest": digest(profile.defaults),
        "source_key": run.source_key,
        "run_key": run.run_key,
        "run_name": run.name,
        "calibration_id": run.calibration_id,
        "num_gpus": run.observed.num_gpus,
        "num_steps": run.observed.num_steps,
        "observed_at": run.observed_at,
        "observed_step_mean_ms": run.observed.step_mean_ms,
        "predicted_step_mean_ms": tested.predicted.step_mean_ms,
        "ratio": comparison.ratio,
        "departure": comparison.departure,
        "verdict": comparison.verdict,
        "explained_by": comparison.explained_by,
        "tolerance_fraction": asked.document.tolerance_fraction,
        "document": msgspec.to_builtins(kept),
        "model_version": MODEL_VERSION,
    }


def _summary_fields(row: Row[Any]) -> dict[str, Any]:
    names = (name for name in BackTestSummary.__struct_fields__ if name != "profile")
    fields = {name: getattr(row, name) for name in names}
    return {"profile": f"{row.profile_slug}@{row.profile_revision}", **fields}
