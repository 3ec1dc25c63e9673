"""Short forms of the soak's load: many clients of all roles beside a batch that is computed."""

import random
from datetime import date
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import insert

from service.db.engine import Database
from service.db.tables import gpu_hour_rate
from service.jobs.actors import DEFAULT_TEAM_ID
from tests.jobs.engine_processes import assert_whole
from tests.load.loads import lasting
from tests.load.rigs import Rig, assert_nothing_lost
from tests.load.stored import assert_stored
from tests.load.tally import Tally

NUM_CLIENTS = 32
SECONDS = 3.0
NUM_POINTS = 100_000
KILLS = 3


def test_no_write_of_32_clients_is_lost(database_url: str, tmp_path: Path) -> None:
    with Rig(database_url, tmp_path / "service.log") as rig:
        load = rig.load(NUM_CLIENTS)
        load.run(num_points=NUM_POINTS, disturb=lasting(SECONDS))
        batch = load.wait_for_large_batch()
        assert_nothing_lost(load, rig.database)
        tally = load.tally
        assert batch["points_done"] == NUM_POINTS
        assert tally.statuses[503] == 0
        assert tally.broken == 0
        # How many is for the benchmark to say.
        assert tally.num_writes > 0
        assert tally.seconds["read"]


def test_no_write_is_lost_by_kills(sqlite_url: str, tmp_path: Path) -> None:
    with Rig(sqlite_url, tmp_path / "service.log") as rig:
        load = rig.load(NUM_CLIENTS)
        load.run(num_points=NUM_POINTS, disturb=rig.killing(KILLS, random.Random(1), 1.0))
        batch = load.wait_for_large_batch()
        assert load.tally.broken >= NUM_CLIENTS
        assert_nothing_lost(load, rig.database)
        assert_whole(rig.database, UUID(batch["id"]), NUM_POINTS)


@pytest.mark.parametrize("stored", [0, 2])
def test_a_lost_and_a_doubled_write_are_found(sqlite_database: Database, stored: int) -> None:
    rate = {"gpu_type": "load-1", "valid_from": date(2026, 1, 1)}
    with sqlite_database.write() as connection:
        for _ in range(stored):
            connection.execute(
                insert(gpu_hour_rate).values(
                    **rate,
                    team_id=DEFAULT_TEAM_ID,
                    created_by="test",
                    currency="EUR",
                    amount=Decimal(1),
                    source="test",
                    recorded_by="test",
                )
            )
    with pytest.raises(AssertionError, match="load-1"):
        assert_stored(sqlite_database, Tally(rates=[("load-1", "2026-01-01")]))
