"""Which revisions of profiles a run computes: those of now, or those of its slot."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from sqlalchemy import update

from service.db import batches as batch_rows
from service.db.engine import Database
from service.db.tables import cluster_profile_revision
from service.jobs.actors import Actor
from service.jobs.profile_changes import create_profile, revise_profile
from service.jobs.profile_documents import ProfileIn, RevisionIn
from service.jobs.slot_ledger import tick
from tests.jobs.batch_bodies import SEED, item
from tests.jobs.ledger_bodies import add_schedule, ledger, settle

BEGUN = datetime(2027, 1, 1, 11, tzinfo=UTC)
# 02:30 in Paris
SLOT = datetime(2027, 1, 2, 1, 30, tzinfo=UTC)
ACTOR = Actor(name="ada")


def night(database: Database, now: datetime) -> None:
    tick(database, now)
    settle(database, now)


def test_profiles_are_of_now_or_of_the_slot(database: Database) -> None:
    with database.write() as connection:
        made = create_profile(connection, ACTOR, _profile("prod"))
    with database.write() as connection:
        revise_profile(
            connection,
            ACTOR,
            "prod",
            RevisionIn(name="prod", gpu_type="H100", defaults={**SEED, "num_gpus": 2048}),
            version=made.version,
        )
    body = {"items": [{"custom_id": "a", "profile": "prod"}, item(custom_id="b")]}
    of_now = add_schedule(database, BEGUN, batch=body)
    of_slot = add_schedule(database, BEGUN, slug="as-of", batch=body, profiles_as_of="slot")
    night(database, SLOT)
    assert [_revisions(database, added) for added in (of_now, of_slot)] == [[2, None], [2, None]]
    # As if the slot had come before either revision
    early = add_schedule(
        database,
        datetime(2020, 1, 1, tzinfo=UTC),
        slug="early",
        batch=body,
        profiles_as_of="slot",
    )
    night(database, datetime(2020, 1, 1, 1, 30, tzinfo=UTC))
    assert _revisions(database, early) == [1, None]
    (notice,) = ledger(database, early)[0].warnings
    assert (notice["code"], notice["pointer"]) == ("profile_not_yet", "/items/0/profile")
    assert notice["detail"] == ("prod had no revision at the slot: prod@1, its first, is used")


def test_a_slot_between_two_revisions_has_the_first_of_them(sqlite_database: Database) -> None:
    with sqlite_database.write() as connection:
        made = create_profile(connection, ACTOR, _profile("prod"))
        revision = RevisionIn(name="prod", gpu_type="H100", defaults={**SEED, "num_gpus": 2048})
        revise_profile(connection, ACTOR, "prod", revision, version=made.version)
        for number, moment in ((1, SLOT - timedelta(days=9)), (2, SLOT + timedelta(hours=1))):
            c = cluster_profile_revision.c
            connection.execute(
                update(cluster_profile_revision)
                .where(c.revision == number)
                .values(created_at=moment)
            )
    body = {
        "items": [{"custom_id": "a", "profile": "prod"}, {"custom_id": "b", "profile": "prod@2"}]
    }
    added = add_schedule(sqlite_database, BEGUN, batch=body, profiles_as_of="slot")
    night(sqlite_database, SLOT)
    assert _revisions(sqlite_database, added) == [1, 2]
    assert ledger(sqlite_database, added)[0].warnings == []


def _profile(slug: str) -> ProfileIn:
    return ProfileIn(slug=slug, name=slug, gpu_type="H100", defaults=SEED)


def _revisions(database: Database, schedule_id: UUID) -> list[int | None]:
    (run,) = ledger(database, schedule_id)
    with database.read() as connection:
        return [row.profile_revision for row in batch_rows.list_items(connection, [run.batch_id])]
