"""`kill -9` of the process that makes a file: another one makes the same file, whole."""

import hashlib

from service.db.engine import Database
from tests.jobs.batch_bodies import item, speeds
from tests.jobs.engine_processes import Computing, wait_for
from tests.jobs.export_bodies import (
    ask,
    look_at,
    make,
    num_parts,
    run,
    stored_bytes,
)

NUM_POINTS = 60_000


def test_killed_while_it_makes_a_file(database: Database) -> None:
    batch = run(database, item(axes=[speeds(NUM_POINTS)]))
    undisturbed = make(database, format="jsonl", batch=batch.id)
    assert undisturbed.rows == NUM_POINTS
    export_id = ask(database, format="jsonl", batch=batch.id)
    for _ in range(2):
        with Computing(database) as process:
            before = look_at(database, export_id).running_at
            # One of its own parts: those of the process before go first.
            wait_for(lambda: look_at(database, export_id).running_at != before)  # noqa: B023
            wait_for(lambda: (look_at(database, export_id).bytes or 0) > 0)
            process.kill()
        left = look_at(database, export_id)
        assert left.state == "running"
        assert left.bytes is not None
        assert undisturbed.bytes is not None
        assert 0 < left.bytes < undisturbed.bytes
    with Computing(database):
        wait_for(lambda: look_at(database, export_id).ended_at is not None)
    made = look_at(database, export_id)
    assert (made.state, made.rows, made.bytes) == ("succeeded", NUM_POINTS, undisturbed.bytes)
    assert made.sha256 == undisturbed.sha256
    assert hashlib.sha256(stored_bytes(database, export_id)).hexdigest() == made.sha256
    assert num_parts(database, export_id) == num_parts(database, undisturbed.id)
