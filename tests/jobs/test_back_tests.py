"""Runs held against profiles: stored, counted once, of one team, told where profiles are used."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from service.calibration.run_comparison import Observed
from service.db import back_tests as rows
from service.db.back_tests import BackTestFilter
from service.db.engine import Database
from service.errors import (
    ConflictError,
    InvalidError,
    NotFoundError,
    PreconditionFailedError,
)
from service.jobs import back_tests, drift, profile_changes
from service.jobs.actors import Actor
from service.jobs.back_test_documents import BackTestIn, BackTestOut, DriftOut, RunIn
from service.jobs.back_test_runs import Run, run_of_calibration
from service.jobs.calibration_acceptance import accept
from service.jobs.calibration_documents import AcceptanceIn, CalibrationOut
from service.jobs.calibrations import foretold, store
from service.jobs.profile_documents import ProfileIn, RevisionIn, RevisionProvenance
from service.jobs.profiles import ResolvedProfile, resolve_profile
from tests.api.access_keys import new_team
from tests.api.calibration_tables import findings, found
from tests.jobs.audit_trails import events
from tests.jobs.batch_bodies import ACTOR, item, submit
from tests.jobs.report_bodies import batch, make

FIRST = datetime(2025, 11, 1, tzinfo=UTC)
SLUG = "prod"
# 1 of 8 GPUs at 0.7, as in the table of timings: 300 / 0.7 + 80 = 508.571 ms
SCENARIO: dict[str, Any] = {
    "num_gpus": 8,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
}
STEP = 300 / 0.7 + 80


def a_profile(database: Database, actor: Actor = ACTOR, **changes: Any) -> None:
    document = ProfileIn(slug=SLUG, name="Prod", gpu_type="H100", defaults={**SCENARIO, **changes})
    with database.write() as connection:
        profile_changes.create_profile(connection, actor, document)


def revise(database: Database, version: int, name: str = "Prod", **changes: Any) -> None:
    document = RevisionIn(name=name, gpu_type="H100", defaults={**SCENARIO, **changes})
    with database.write() as connection:
        profile_changes.revise_profile(connection, ACTOR, SLUG, document, version=version)


def held(
    database: Database,
    name: str,
    step_ms: float,
    day: int = 0,
    actor: Actor = ACTOR,
    profile: str = SLUG,
) -> BackTestOut:
    run = RunIn(
        name=name,
        num_steps=1_000,
        step_mean_ms=step_ms,
        step_sd_ms=1.0,
        observed_at=FIRST + timedelta(days=day),
    )
    return stored_test(database, BackTestIn(profile=profile, run=run), actor)


def stored_test(database: Database, document: BackTestIn, actor: Actor = ACTOR) -> BackTestOut:
    with database.read() as connection:
        asked = back_tests.ask(connection, actor, document)
    tested = back_tests.computed(asked)
    with database.write() as connection:
        return back_tests.store(connection, actor, tested)


def the_drift(database: Database, actor: Actor = ACTOR) -> DriftOut:
    with database.read() as connection:
        return drift.read_drift(connection, actor, SLUG)


def calibrated(database: Database, *, of_profile: bool = True) -> CalibrationOut:
    told = found(profile=the_profile(database) if of_profile else None)
    predicted = foretold(told)
    with database.write() as connection:
        return store(connection, ACTOR, told, predicted)


def the_profile(database: Database) -> ResolvedProfile:
    with database.read() as connection:
        return resolve_profile(connection, ACTOR, SLUG)


def all_tests(database: Database, actor: Actor = ACTOR) -> list[str]:
    with database.read() as connection:
        page = back_tests.list_page(
            connection, actor, BackTestFilter(), page_size=50, page_token=None
        )
    return [test.run_name for test in page.items]


def test_timings_of_a_profile_are_held_against_it_when_they_are_stored(database: Database) -> None:
    a_profile(database)
    made = calibrated(database)
    with database.read() as connection:
        (row,) = rows.list_back_tests(
            connection, ACTOR.team_id, BackTestFilter(calibration=made.id), before=None, limit=9
        )
        test = back_tests.read(connection, ACTOR, row.id)
    assert (test.profile, test.run_name, test.calibration_id) == ("prod@1", made.name, made.id)
    assert (test.num_gpus, test.num_steps) == (8, 24)
    # One rank at 0.7 and a transfer of 80 to 81 ms, with 1 % of noise in 24 steps
    assert test.observed.step_mean_ms == pytest.approx(STEP, rel=0.01)
    assert test.predicted.step_mean_ms == pytest.approx(STEP, rel=1e-12)
    assert test.comparison.step_mean_se_source == "calibration"
    assert test.observed.slowest_compute_ms == pytest.approx(300 / 0.7, rel=0.01)
    assert test.verdict == "agrees"
    assert test.observed_at == made.created_at
    actions = [event.action for event in events(database)]
    assert actions.count("create_back_test") == 1
    with pytest.raises(ConflictError, match="has been tested with the run"):
        stored_test(database, BackTestIn(profile="prod@1", calibration=made.id))


def test_timings_that_no_profile_is_named_for_are_stored_alone(database: Database) -> None:
    a_profile(database)
    calibrated(database, of_profile=False)
    assert all_tests(database) == []


def test_nothing_is_predicted_while_others_wait_for_the_transaction(
    sqlite_database: Database,
) -> None:
    """What was foretold is held against the timings as it is, whatever it says."""
    a_profile(sqlite_database)
    told = found(profile=the_profile(sqlite_database))
    predicted = foretold(told)
    assert predicted is not None
    other = msgspec.structs.replace(predicted, step_mean_ms=2 * predicted.step_mean_ms)
    with sqlite_database.write() as connection:
        made = store(connection, ACTOR, told, other)
    with sqlite_database.read() as connection:
        (row,) = rows.list_back_tests(
            connection, ACTOR.team_id, BackTestFilter(calibration=made.id), before=None, limit=9
        )
    assert row.predicted_step_mean_ms == pytest.approx(2 * STEP, rel=1e-12)


def test_a_profile_that_is_archived_meanwhile_costs_no_timings(sqlite_database: Database) -> None:
    a_profile(sqlite_database)
    told = found(profile=the_profile(sqlite_database))
    predicted = foretold(told)
    with sqlite_database.write() as connection:
        profile_changes.archive_profile(connection, ACTOR, SLUG, version=1)
    with sqlite_database.write() as connection:
        made = store(connection, ACTOR, told, predicted)
    assert made.profile == "prod@1"
    assert all_tests(sqlite_database) == []


@pytest.mark.parametrize(
    "changes",
    [
        # 12 slow GPUs do not fit into the 8 ranks of the timings
        {"num_gpus": 16, "slow_groups": [{"count": 12, "speed_fraction": 0.7}]},
        # A second and more of sampling is more than who sends timings has asked for
        {
            "draws": 100_000,
            "variability": {
                "persistent": {"kind": "normal", "cv": 0.02},
                "node": {"kind": "normal", "cv": 0.02},
                "transient": {"kind": "normal", "cv": 0.02},
            },
        },
    ],
)
def test_timings_that_cannot_be_predicted_at_once_are_stored_alone(
    sqlite_database: Database, changes: dict[str, Any]
) -> None:
    a_profile(sqlite_database, **changes)
    made = calibrated(sqlite_database)
    assert all_tests(sqlite_database) == []
    with pytest.raises(InvalidError):
        stored_test(sqlite_database, BackTestIn(profile=SLUG, calibration=made.id))


def test_a_revision_made_of_timings_is_not_proved_by_them(sqlite_database: Database) -> None:
    a_profile(sqlite_database)
    made = calibrated(sqlite_database, of_profile=False)
    with sqlite_database.write() as connection:
        accept(connection, ACTOR, made.id, AcceptanceIn(profile=SLUG, profile_version=1))
    test = stored_test(sqlite_database, BackTestIn(profile=SLUG, calibration=made.id))
    assert test.profile == "prod@2"
    assert test.warnings[0].code == "same_data"
    assert test.departure is None
    told = the_drift(sqlite_database)
    assert (told.num_runs, told.num_counted, told.state) == (1, 0, "steady")
    # Nor by the same files that are sent once more
    again = calibrated(sqlite_database)
    assert again.profile == "prod@2"
    # Or whose bytes are others, and say the same
    timings = found(profile=the_profile(sqlite_database))
    (file,) = timings.findings.source.files
    gzipped = msgspec.structs.replace(file, name="timings.csv.gz", sha256="f" * 64)
    source = msgspec.structs.replace(timings.findings.source, files=[gzipped])
    other = msgspec.structs.replace(timings.findings, source=source)
    sent = msgspec.structs.replace(timings, findings=other)
    predicted = foretold(sent)
    with sqlite_database.write() as connection:
        assert store(connection, ACTOR, sent, predicted).source_digest != again.source_digest
    told = the_drift(sqlite_database)
    assert (told.num_runs, told.num_counted) == (1, 0)


def run_of(options: dict[str, Any] | None = None, **changes: Any) -> Run:
    """The run that the table of timings is, with fields of its findings changed."""
    told = {**msgspec.to_builtins(findings()), **changes}
    row: Any = SimpleNamespace(
        id=uuid4(),
        name="timings",
        findings=told,
        options=options or {},
        created_at=FIRST,
        source_digest="sha256:0",
    )
    return run_of_calibration(row)


def test_what_timings_tell_of_a_run() -> None:
    told = msgspec.to_builtins(findings())
    source = {**told["source"], "world_size": 64, "num_gpus_per_rank": 2}
    run = run_of(source=source)
    assert (run.observed.num_gpus, run.num_missing_ranks) == (128, 56)
    assert run_of({"num_gpus": 96}, source=source).observed.num_gpus == 96
    step = told["step_mean_ms"]
    # At 90 % an interval of a normal law is 3.29 standard errors wide
    wide = (step["high"] - step["low"]) / (2 * 1.6448536269514722)
    assert run.observed.step_mean_se_ms == pytest.approx(wide)
    open_step = {**step, "low": None, "high": None}
    assert run_of(step_mean_ms=open_step).observed.step_mean_se_ms is None
    phases = run_of(load_ms=step, communication_ms=None, overlap=None).observed
    assert (phases.load_ms, phases.communication_ms) == (step["value"], None)
    with pytest.raises(InvalidError, match="tells no step times"):
        run_of(step_mean_ms=None)


PIPELINE: dict[str, Any] = {
    "schedule": "gpipe",
    "stages": 2,
    "microbatches": 4,
}


def test_phases_of_timings_are_held_against_the_same_quantity_only(
    sqlite_database: Database,
) -> None:
    """A pipeline predicts its pass, an overlap the part of a transfer that a step waits for."""
    a_profile(sqlite_database)
    made = calibrated(sqlite_database, of_profile=False)

    def observed(**overrides: Any) -> Observed:
        document = BackTestIn(profile=SLUG, calibration=made.id, overrides=overrides)
        with sqlite_database.read() as connection:
            return back_tests.ask(connection, ACTOR, document).run.observed

    plain = observed()
    assert plain.slowest_compute_ms is not None
    assert plain.communication_ms is not None
    piped = observed(pipeline=PIPELINE)
    assert (piped.slowest_compute_ms, piped.communication_ms) == (None, plain.communication_ms)
    hidden = observed(overlap={"kind": "buckets", "num_buckets": 4, "load_prefetch": True})
    assert (hidden.slowest_compute_ms, hidden.communication_ms) == (plain.slowest_compute_ms, None)


def test_steps_are_as_alike_as_in_the_timings_of_the_profile(sqlite_database: Database) -> None:
    a_profile(sqlite_database)
    made = calibrated(sqlite_database, of_profile=False)
    expected = made.findings.gaps.slowest_autocorrelation
    new = ProfileIn(slug="fitted", name="Fitted", gpu_type="H100", defaults=SCENARIO)
    provenance = RevisionProvenance(
        calibration_id=made.id, calibration_name="a run", source_digest="sha256:1", paths=[]
    )
    gone = msgspec.structs.replace(provenance, calibration_id=uuid4())
    with sqlite_database.write() as connection:
        profile_changes.create_profile(connection, ACTOR, new, provenance=provenance)
        again = msgspec.structs.replace(new, slug="gone")
        profile_changes.create_profile(connection, ACTOR, again, provenance=gone)
    assert held(sqlite_database, "a", STEP, profile="fitted").observed.step_autocorrelation == (
        expected
    )
    with sqlite_database.write() as connection:
        taken = msgspec.structs.replace(provenance, paths=["compute_ms", "slow_groups"])
        profile_changes.create_profile(
            connection, ACTOR, msgspec.structs.replace(new, slug="taken"), provenance=taken
        )
    test = held(sqlite_database, "a", STEP, profile="taken")
    low, high = made.findings.compute_ms.low, made.findings.compute_ms.high
    assert low is not None
    assert high is not None
    error = (high - low) / (2 * 1.6448536269514722) / made.findings.compute_ms.value * 300 / 0.7
    assert test.predicted.figures_se_ms == pytest.approx(error, rel=1e-3)
    # What is changed for this run is no figure of the timings
    with sqlite_database.read() as connection:
        run = RunIn(name="b", num_steps=1_000, step_mean_ms=STEP)
        changed = BackTestIn(profile="taken", run=run, overrides={"compute_ms": 301})
        asked = back_tests.ask(connection, ACTOR, changed)
    assert asked.calibrated is not None
    assert asked.calibrated.paths == {"slow_groups"}
    for slug in ("gone", SLUG):
        test = held(sqlite_database, "a", STEP, profile=slug)
        assert test.observed.step_autocorrelation is None


def test_another_team_sees_and_counts_nothing_of_it(database: Database) -> None:
    other = Actor(team_id=new_team(database, "other"), name="other")
    a_profile(database)
    a_profile(database, other)
    made = [held(database, f"run {day}", STEP * 1.1, day) for day in range(3)]
    assert the_drift(database).state == "warning"
    told = the_drift(database, other)
    assert (told.state, told.runs) == ("no_runs", [])
    assert all_tests(database, other) == []
    with database.write() as connection:
        with pytest.raises(NotFoundError):
            back_tests.read(connection, other, made[0].id)
        with pytest.raises(NotFoundError):
            back_tests.delete(connection, other, made[0].id, expected_version=1)
    # The same run of the same name is another team's own
    assert held(database, "run 0", STEP, actor=other).verdict == "agrees"
    calibration = calibrated(database, of_profile=False)
    with pytest.raises(NotFoundError):
        stored_test(database, BackTestIn(profile=SLUG, calibration=calibration.id), other)


def test_runs_are_one_series_as_long_as_the_scenario_is_the_same(database: Database) -> None:
    a_profile(database)
    held(database, "later", STEP * 1.1, 2)
    held(database, "earlier", STEP * 1.1, 1)
    told = the_drift(database)
    assert [run.run_name for run in told.runs] == ["earlier", "later"]
    assert told.state == "warning"
    assert told.since is not None
    assert told.since.run_name == "earlier"
    assert told.mean_ratio == pytest.approx(1.1)
    revise(database, 1, name="Renamed")
    assert the_drift(database).state == "warning"
    # The same run against the next revision is no second run
    held(database, "later", STEP * 1.02, 2)
    told = the_drift(database)
    assert [(run.run_name, run.revision) for run in told.runs] == [("earlier", 1), ("later", 2)]
    assert told.state == "steady"
    revise(database, 2, compute_ms=330)
    assert the_drift(database).state == "no_runs"
    # The older revision is still told of
    with database.read() as connection:
        old = resolve_profile(connection, ACTOR, "prod@1")
        assert drift.drift_notice(connection, ACTOR, old) == []
        assert drift.drift_notice(connection, ACTOR, None) == []


def test_faster_runs_drift_too(sqlite_database: Database) -> None:
    a_profile(sqlite_database)
    for day in range(2):
        held(sqlite_database, f"run {day}", STEP * 0.9, day)
    told = the_drift(sqlite_database)
    assert told.direction == "faster"
    assert "10.0% less than predicted" in told.detail


def test_a_batch_and_its_report_tell_of_a_drift(database: Database) -> None:
    a_profile(database)
    of_profile = {"custom_id": "a", "profile": SLUG}
    assert submit(database, of_profile).warnings == []
    for day in range(2):
        held(database, f"run {day}", STEP * 1.1, day)
    inline = item(custom_id="inline")
    again = {"custom_id": "b", "profile": "prod@1"}
    made = submit(database, inline, of_profile, again)
    assert [(one.pointer, one.code) for one in made.warnings] == [
        ("/items/1/profile", "profile_drifted")
    ]
    report = make(database, batch(database, inline, of_profile, again))
    (warning,) = [one for one in report.warnings if one.code == "profile_drifted"]
    assert warning.params == {"names": SLUG}


def test_a_test_is_deleted_at_its_version_only(database: Database) -> None:
    a_profile(database)
    made = held(database, "run", STEP)
    with database.write() as connection:
        with pytest.raises(PreconditionFailedError, match="at version 1, not 2"):
            back_tests.delete(connection, ACTOR, made.id, expected_version=2)
        back_tests.delete(connection, ACTOR, made.id, expected_version=1)
        with pytest.raises(NotFoundError):
            back_tests.read(connection, ACTOR, made.id)
        with pytest.raises(NotFoundError):
            back_tests.delete(connection, ACTOR, uuid4(), expected_version=1)
    assert all_tests(database) == []
    # It may be held against the revision again
    assert held(database, "run", STEP).verdict == "agrees"
