"""Batches with stored columns, for tests of blocks and listings."""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import pytest
import uuid_utils.compat
from numpy.typing import NDArray
from sqlalchemy import insert

from service.db.blocks import write_blocks
from service.db.encoded_blocks import encode_columns
from service.db.engine import Database
from service.db.tables import scenario_batch
from service.jobs.actors import DEFAULT_TEAM_ID

Store = Callable[..., UUID]


def insert_batch(database: Database) -> UUID:
    batch_id = uuid_utils.compat.uuid7()
    with database.write() as connection:
        connection.execute(
            insert(scenario_batch).values(
                id=batch_id,
                team_id=DEFAULT_TEAM_ID,
                created_by="test",
                name="a batch",
                state="succeeded",
                start_on=date(2026, 12, 1),
                metadata={},
                items_total=1,
                points_total=1,
                columns=[],
                input_digest="sha256:0",
                model_version="1.0",
                warnings=[],
                queued_at=datetime.now(UTC),
            )
        )
    return batch_id


@pytest.fixture
def store(database: Database) -> Store:
    """Store columns as a new batch, or add blocks to one; gives the batch's id."""

    def write(
        columns: Mapping[str, NDArray[Any]], batch_id: UUID | None = None, first_block: int = 0
    ) -> UUID:
        known = batch_id or insert_batch(database)
        with database.write() as connection:
            write_blocks(connection, DEFAULT_TEAM_ID, known, first_block, encode_columns(columns))
        return known

    return write
