"""What a schedule is warned of beside money, which is in test_schedule_costs.py."""

import pytest

from service.db.engine import Database
from service.jobs.profile_changes import archive_profile, create_profile, restore_profile
from service.jobs.profile_documents import ProfileIn
from service.jobs.profiles import read_profile
from tests.jobs.batch_bodies import item
from tests.jobs.schedule_bodies import ACTOR, body, create, read

SCENARIO = {"num_gpus": 8, "compute_ms": 300}


@pytest.fixture(autouse=True)
def a_profile(database: Database) -> None:
    with database.write() as connection:
        for slug in ("prod", "spare"):
            document = ProfileIn(slug=slug, name=slug, gpu_type="H100", defaults=SCENARIO)
            create_profile(connection, ACTOR, document)


def archive(database: Database, *, taken_back: bool = False) -> None:
    act = restore_profile if taken_back else archive_profile
    with database.write() as connection:
        version = read_profile(connection, ACTOR, "prod").version
        act(connection, ACTOR, "prod", version=version)


def test_an_archived_profile_is_warned_of_before_the_night_fails(database: Database) -> None:
    taken = ("spare", "prod@1", "prod")
    items = [
        item(custom_id="inline"),
        *({"custom_id": f"i{place}", "profile": slug} for place, slug in enumerate(taken)),
    ]
    assert create(database, body(batch={"items": items})).warnings == []
    archive(database)
    (notice,) = read(database).warnings
    assert (notice.pointer, notice.code) == ("/batch/items/2/profile", "profile_archived")
    assert notice.detail == (
        "every run fails: the profile 'prod' is archived and takes no new work"
    )
    archive(database, taken_back=True)
    assert read(database).warnings == []
