"""Calibrations stored, listed, accepted into profiles and deleted, on both databases."""

import hashlib
from typing import Any
from uuid import UUID, uuid4

import pytest
from msgspec.structs import replace

from service.calibration.findings import FileFound
from service.calibration.refusals import Fault, TimingsRefusedError
from service.db.calibrations import CalibrationFilter
from service.db.engine import Database
from service.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    MalformedError,
    NotFoundError,
    PreconditionFailedError,
    TrainardError,
)
from service.jobs import calibrations
from service.jobs.actors import Actor
from service.jobs.calibration_acceptance import accept
from service.jobs.calibration_documents import AcceptanceIn, CalibrationOut, NewProfile
from service.jobs.calibrations import refusal, source_digest_of
from service.jobs.profile_changes import archive_profile, create_profile, revise_profile
from service.jobs.profile_documents import ProfileIn, RevisionIn, RevisionOut
from service.jobs.profiles import read_profile, read_revision, resolve_profile
from service.jobs.scopes import ROLE_SCOPES
from tests.api.access_keys import new_team
from tests.api.calibration_tables import SLOW_FRACTION, findings, found, stored
from tests.jobs.audit_trails import events

ACTOR = Actor()
DEFAULTS: dict[str, Any] = {
    "num_gpus": 1024,
    "load_ms": 30,
    "compute_ms": 500,
    "communication": {"kind": "fixed", "allreduce_ms": 70},
    "variability": {"common": {"kind": "normal", "cv": 0.02}},
}
NEW = NewProfile(name="New", gpu_type="H100", cost_center="research", tags={"site": "par1"})


def a_profile(database: Database, slug: str = "prod") -> None:
    document = ProfileIn(slug=slug, name="P", gpu_type="H100", defaults=DEFAULTS)
    with database.write() as connection:
        create_profile(connection, ACTOR, document)


def accepted(
    database: Database, made: CalibrationOut, actor: Actor = ACTOR, **said: Any
) -> RevisionOut:
    with database.write() as connection:
        return accept(connection, actor, made.id, AcceptanceIn(**{"profile": "prod", **said}))


def read(database: Database, calibration_id: UUID, actor: Actor = ACTOR) -> CalibrationOut:
    with database.read() as connection:
        return calibrations.read_calibration(connection, actor, calibration_id)


def page(database: Database, actor: Actor = ACTOR, size: int = 50, **wanted: Any) -> Any:
    token = wanted.pop("token", None)
    with database.read() as connection:
        return calibrations.list_page(
            connection, actor, CalibrationFilter(**wanted), page_size=size, page_token=token
        )


def names(database: Database, **wanted: Any) -> list[str]:
    return [item.name for item in page(database, **wanted).items]


def test_what_is_stored_is_read_again_and_listed_in_short(database: Database) -> None:
    made = stored(database, ACTOR, "night 3")
    assert read(database, made.id) == made
    assert (made.state, made.accepted_as, made.profile, made.team) == (
        *("proposed", None, None, "default"),
    )
    assert made.findings == findings()
    assert made.source_digest == source_digest_of(made.findings)
    (summary,) = page(database).items
    told = made.findings
    assert told.healthy.transient_cv is not None
    assert (summary.id, summary.name, summary.num_steps, summary.num_ranks) == (
        *(made.id, "night 3", 24, 8),
    )
    assert summary.num_outliers == 1
    assert summary.transient_cv == told.healthy.transient_cv.value
    assert summary.compute_ms == pytest.approx(300, rel=0.01)
    (event,) = [event for event in events(database) if event.action == "create_calibration"]
    assert event.subject == f"calibration/{made.id}"


def test_the_digest_is_of_the_files_in_whatever_order() -> None:
    (one,) = findings().source.files
    other = replace(one, name="b", sha256="f" * 64)

    def digest(*files: FileFound) -> str:
        source = replace(findings().source, files=list(files))
        return source_digest_of(replace(findings(), source=source))

    assert digest(one, other) == digest(other, one) != digest(one)
    lines = f"{one.sha256}  timings.csv\n".encode()
    assert digest(one) == f"sha256:{hashlib.sha256(lines).hexdigest()}"


def test_pages_go_on_where_the_last_one_ended(database: Database) -> None:
    made = [stored(database, ACTOR, f"run {n}").name for n in range(5)]
    first = page(database, size=2)
    second = page(database, size=2, token=first.next_page_token)
    third = page(database, size=2, token=second.next_page_token)
    shown = [item.name for part in (first, second, third) for item in part.items]
    assert shown == made[::-1]
    assert third.next_page_token is None
    with pytest.raises(MalformedError):
        page(database, token=first.next_page_token, state="accepted")


def test_filters_narrow_the_list(database: Database) -> None:
    a_profile(database)
    stored(database, ACTOR, "Night 1")
    with database.write() as connection:
        profile = resolve_profile(connection, ACTOR, "prod")
        of_profile = calibrations.store(connection, ACTOR, found("night_2", profile))
    assert of_profile.profile == "prod@1"
    taken = stored(database, ACTOR, "day")
    accepted(database, taken, profile_version=1)
    assert names(database) == ["day", "night_2", "Night 1"]
    assert names(database, name_contains="NIGHT") == ["night_2", "Night 1"]
    assert names(database, name_contains="t_") == ["night_2"]
    assert names(database, profile="prod") == ["day", "night_2"]
    assert names(database, state="accepted") == ["day"]
    assert names(database, created_after=of_profile.created_at) == ["day"]
    assert names(database, created_before=of_profile.created_at) == ["Night 1"]


def test_another_team_sees_and_changes_nothing(database: Database) -> None:
    other = Actor(team_id=new_team(database, "other"))
    made = stored(database, ACTOR)
    assert page(database, other).items == []
    for act in (
        lambda: read(database, made.id, other),
        lambda: accepted(database, made, other, new_profile=NEW),
        lambda: delete(database, made.id, other),
    ):
        with pytest.raises(NotFoundError):
            act()


def delete(
    database: Database, calibration_id: UUID, actor: Actor = ACTOR, version: int = 1
) -> None:
    with database.write() as connection:
        calibrations.delete_calibration(connection, actor, calibration_id, version=version)


def test_it_is_deleted_at_its_version_while_no_profile_names_it(database: Database) -> None:
    made = stored(database, ACTOR)
    with pytest.raises(PreconditionFailedError):
        delete(database, made.id, version=2)
    delete(database, made.id)
    with pytest.raises(NotFoundError):
        read(database, made.id)
    with pytest.raises(NotFoundError):
        delete(database, uuid4())
    taken = stored(database, ACTOR)
    a_profile(database)
    accepted(database, taken, profile_version=1)
    with pytest.raises(ConflictError) as caught:
        delete(database, taken.id, version=2)
    assert caught.value.problem == "accepted-calibration"
    assert "prod@2" in caught.value.detail


def test_acceptance_puts_the_proposal_into_the_newest_revision(database: Database) -> None:
    a_profile(database)
    made = stored(database, ACTOR, "night 3")
    revision = accepted(database, made, profile_version=1)
    proposed = made.findings.proposal.overrides
    assert (revision.slug, revision.revision, revision.name) == ("prod", 2, "P")
    assert revision.defaults["num_gpus"] == 8
    assert revision.defaults["compute_ms"] == proposed["compute_ms"]
    (group,) = revision.defaults["slow_groups"]
    assert group["count"] == 1
    assert group["speed_fraction"] == pytest.approx(SLOW_FRACTION, rel=0.01)
    # Not told by these timings, and so as it was
    assert revision.defaults["load_ms"] == 30
    assert revision.defaults["communication"]["allreduce_ms"] == pytest.approx(80, abs=1)
    said = revision.provenance
    assert said is not None
    assert (said.calibration_id, said.calibration_name) == (made.id, "night 3")
    assert said.source_digest == made.source_digest
    assert said.paths == list(proposed)
    with database.read() as connection:
        assert read_revision(connection, ACTOR, "prod", 2) == revision
        assert read_revision(connection, ACTOR, "prod", 1).provenance is None
        assert read_profile(connection, ACTOR, "prod").provenance == said
    after = read(database, made.id)
    assert (after.state, after.version) == ("accepted", 2)
    assert after.accepted_as is not None
    assert (after.accepted_as.slug, after.accepted_as.revision) == ("prod", 2)
    event = events(database)[-1]
    assert (event.action, event.subject) == ("accept_calibration", "cluster-profile/prod")
    assert event.detail == f"calibration {made.id}"
    assert {"provenance", "defaults", "revision"} <= set(event.changed)


def test_what_is_written_over_it_is_the_writers(database: Database) -> None:
    """Only what stands as it was proposed is laid to the calibration."""
    a_profile(database)
    made = stored(database, ACTOR)
    revision = accepted(
        database,
        made,
        profile_version=1,
        take=["compute_ms", "variability.transient", "communication", "num_gpus"],
        scenario={"num_gpus": 64, "communication.allreduce_ms": 85, "load_ms": 5},
    )
    assert revision.defaults["num_gpus"] == 64
    assert revision.defaults["communication"]["allreduce_ms"] == 85
    assert revision.defaults["load_ms"] == 5
    assert revision.defaults["slow_groups"] == []
    assert revision.defaults["variability"]["common"] is not None
    assert revision.provenance is not None
    assert revision.provenance.paths == ["compute_ms", "variability.transient"]
    with database.write() as connection:
        by_hand = RevisionIn(name="P", gpu_type="H100", defaults=DEFAULTS)
        after = revise_profile(connection, ACTOR, "prod", by_hand, version=2)
    assert after.provenance is None


@pytest.mark.parametrize(
    ("scenario", "gone"),
    [
        ({"variability.transient.cv": 0.2}, ["variability.transient"]),
        ({"slow_groups.0.count": 2}, ["slow_groups"]),
        ({"communication.allreduce_ms": 85}, ["communication"]),
        ({"variability.transient": None}, ["variability.transient"]),
        # That there is no common part is what is proposed
        (
            {"variability": {}},
            ["variability.persistent", "variability.transient", "variability.autocorrelation"],
        ),
        ({"load_ms": 5}, []),
    ],
)
def test_what_is_changed_beneath_it_is_the_writers_too(
    sqlite_database: Database, scenario: dict[str, Any], gone: list[str]
) -> None:
    made = stored(sqlite_database, ACTOR)
    revision = accepted(
        sqlite_database, made, new_profile=NEW, scenario={"load_ms": 30, **scenario}
    )
    assert revision.provenance is not None
    proposed = made.findings.proposal.overrides
    assert set(gone) <= set(proposed)
    assert revision.provenance.paths == [path for path in proposed if path not in gone]


def test_what_is_written_over_it_as_it_was_is_still_of_the_timings(
    sqlite_database: Database,
) -> None:
    made = stored(sqlite_database, ACTOR)
    proposed = made.findings.proposal.overrides
    same = {"compute_ms": proposed["compute_ms"], "load_ms": 30}
    revision = accepted(sqlite_database, made, new_profile=NEW, scenario=same)
    assert revision.provenance is not None
    assert revision.provenance.paths == list(proposed)


def test_several_profiles_may_come_from_one(database: Database) -> None:
    made = stored(database, ACTOR)
    first = accepted(database, made, new_profile=NEW)
    assert (first.revision, first.name, first.tags) == (1, "New", {"site": "par1"})
    assert first.defaults["num_gpus"] == 8
    second = accepted(database, made, profile="other", new_profile=NEW)
    assert (second.slug, second.revision) == ("other", 1)
    after = read(database, made.id)
    assert after.accepted_as is not None
    assert (after.accepted_as.slug, after.version) == ("other", 3)
    # It is found by either, and by a later revision of one
    accepted(database, made, profile="other", profile_version=1)
    stored(database, ACTOR, "of none")
    for slug in ("prod", "other"):
        assert names(database, profile=slug) == [made.name]
    assert names(database, profile="absent") == []


NO_PROFILE = {"profile": "absent"}


@pytest.mark.parametrize(
    ("said", "error", "pointer", "code"),
    [
        ({}, InvalidError, "/profile_version", "missing_version"),
        ({"profile_version": 2}, PreconditionFailedError, None, None),
        ({"new_profile": NEW}, ConflictError, "/profile", "slug_taken"),
        ({"profile": "Not A Slug"}, InvalidError, "/profile", "malformed_slug"),
        (NO_PROFILE, InvalidError, "/profile", "unknown_profile"),
        (
            {**NO_PROFILE, "profile_version": 1, "new_profile": NEW},
            InvalidError,
            "/profile_version",
            "unknown_profile",
        ),
        (
            {**NO_PROFILE, "new_profile": NewProfile(name=" x", gpu_type="H")},
            InvalidError,
            "/new_profile/name",
            None,
        ),
        ({"profile_version": 1, "take": ["load_ms"]}, InvalidError, "/take/0", "not_proposed"),
        (
            {"profile_version": 1, "scenario": {"load_ms": -1}},
            InvalidError,
            "/scenario/load_ms",
            None,
        ),
        (
            {"profile_version": 1, "take": ["compute_ms", "slow_groups"], "scenario": {"nope": 1}},
            InvalidError,
            "/scenario/nope",
            "unknown_field",
        ),
        (
            {**NO_PROFILE, "new_profile": NEW, "take": ["compute_ms"]},
            InvalidError,
            "/profile",
            None,
        ),
        (
            {"profile_version": 1, "take": ["slow_groups"], "scenario": {"num_gpus": 0}},
            InvalidError,
            "/scenario/num_gpus",
            None,
        ),
    ],
)
def test_what_cannot_be_accepted_is_said_at_its_place(
    sqlite_database: Database,
    said: dict[str, Any],
    error: type[TrainardError],
    pointer: str | None,
    code: str | None,
) -> None:
    a_profile(sqlite_database)
    made = stored(sqlite_database, ACTOR)
    with pytest.raises(error) as caught:
        accepted(sqlite_database, made, **said)
    if pointer is not None:
        assert [fault.pointer for fault in caught.value.errors] == [pointer]
    if code is not None:
        assert caught.value.errors[0].code == code
    assert read(sqlite_database, made.id) == made


def test_an_archived_profile_and_a_role_that_may_not_are_refused(sqlite_database: Database) -> None:
    a_profile(sqlite_database)
    made = stored(sqlite_database, ACTOR)
    narrowed = ROLE_SCOPES["planner"] - {"profiles:write"}
    with pytest.raises(ForbiddenError) as refused:
        accepted(sqlite_database, made, Actor(scopes=narrowed), profile_version=1)
    assert "profiles:write" in refused.value.detail
    with sqlite_database.write() as connection:
        archive_profile(connection, ACTOR, "prod", version=1)
    with pytest.raises(ConflictError):
        accepted(sqlite_database, made, profile_version=2)


@pytest.fixture
def refused() -> TimingsRefusedError:
    return TimingsRefusedError(
        Fault(code="bad_value", detail="row 3: -1", file="a/b.csv", line=3),
        Fault(code="too_few_steps", detail="2 steps"),
        Fault(code="bad_value", detail="is 3", field="step_p95_ms"),
    )


def test_a_refusal_names_every_reason_at_its_file(refused: TimingsRefusedError) -> None:
    told = refusal(refused)
    assert told.problem == "refused-timings"
    assert told.detail == "3 reasons to refuse the timings"
    assert [(fault.pointer, fault.code) for fault in told.errors] == [
        ("/file/a~1b.csv/3", "bad_value"),
        ("", "too_few_steps"),
        ("/step_p95_ms", "bad_value"),
    ]
    assert refusal(TimingsRefusedError(refused.faults[1])).detail == "2 steps"


def test_a_name_that_cannot_be_shown_is_refused() -> None:
    calibrations.refuse_bad_name("night 3")
    with pytest.raises(InvalidError):
        calibrations.refuse_bad_name(" night")
