"""Delivered files whose time is over, on both databases."""

from datetime import timedelta
from pathlib import Path

import pytest
import structlog
from msgspec import structs
from sqlalchemy import select

from service.db import deliveries as rows
from service.db.engine import Database
from service.db.tables import audit_event, delivery_attempt
from service.jobs import drop_expiry
from service.jobs.courier import Courier
from service.jobs.drop_expiry import list_expired, remove_expired
from tests.jobs.delivery_worlds import DELIVERIES, NOW, World

KEPT = {"kind": "directory", "folder": "kept"}
GOING = {"kind": "directory", "folder": "going", "keep_days": 30}


def delivered(database: Database, folder: Path) -> World:
    world = World(database)
    world.plan(KEPT, GOING, state="failed", reason="x")
    settings = structs.replace(DELIVERIES, folder=str(folder))
    courier = Courier(database, settings, clock=lambda: NOW)
    assert courier.start_due() == 2
    assert courier.wait(20)
    return world


def test_files_are_removed_after_keep_days_and_only_ours(
    database: Database, tmp_path: Path
) -> None:
    delivered(database, tmp_path)
    (tmp_path / "default" / "going" / "theirs").write_bytes(b"theirs")
    before, after = NOW + timedelta(days=29, hours=23), NOW + timedelta(days=30)
    with database.read() as connection:
        assert list_expired(connection, before) == []
        (found,) = list_expired(connection, after)
    assert (found.folder, len(found.names), found.expires_at) == ("default/going", 1, after)
    assert found.num_bytes == (tmp_path / "default" / "going" / found.names[0]).stat().st_size
    assert remove_expired(database, str(tmp_path), before) == 0
    assert len(list((tmp_path / "default" / "going").iterdir())) == 2
    assert remove_expired(database, str(tmp_path), after) == 1
    assert [path.name for path in (tmp_path / "default" / "going").iterdir()] == ["theirs"]
    assert len(list((tmp_path / "default" / "kept").iterdir())) == 1
    assert remove_expired(database, str(tmp_path), after) == 0
    with database.read() as connection:
        assert list_expired(connection, after) == []
        actions = connection.scalars(select(audit_event.c.action)).all()
    assert actions.count("remove_delivered_files") == 1


def test_what_cannot_be_removed_is_left_for_the_next_time(
    database: Database, tmp_path: Path
) -> None:
    delivered(database, tmp_path)
    after = NOW + timedelta(days=30)
    (tmp_path / "default" / "going").rename(tmp_path / "moved")
    (tmp_path / "default" / "going").symlink_to(tmp_path / "moved")
    assert remove_expired(database, str(tmp_path), after) == 0
    assert len(list((tmp_path / "moved").iterdir())) == 1
    assert remove_expired(database, "", after) == 0
    # Not even when the whole disk is away: it comes back with the files.
    assert remove_expired(database, str(tmp_path / "unmounted"), after) == 0
    (tmp_path / "default" / "going").unlink()
    assert remove_expired(database, str(tmp_path), after) == 1


def test_a_folder_that_refuses_holds_up_no_other(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = delivered(database, tmp_path)
    stuck = {**GOING, "folder": "stuck", "keep_days": 1}
    for _ in range(3):
        world.plan(stuck, state="failed", reason="x", run_id=world.new_run())
    courier = Courier(
        database, structs.replace(DELIVERIES, folder=str(tmp_path)), clock=lambda: NOW
    )
    while courier.start_due():
        assert courier.wait(20)
    (tmp_path / "default" / "stuck").rename(tmp_path / "moved")
    (tmp_path / "default" / "stuck").symlink_to(tmp_path / "moved")
    # More that is due first than is looked at in one go
    monkeypatch.setattr(drop_expiry, "AT_ONCE", 2)
    after = NOW + timedelta(days=30)
    with structlog.testing.capture_logs() as logs:
        assert remove_expired(database, str(tmp_path), after) == 1
    assert not list((tmp_path / "default" / "going").iterdir())
    assert len(list((tmp_path / "moved").iterdir())) == 3
    # Said once for the folder, not for each
    assert [line["event"] for line in logs] == ["files_not_removed"]
    with database.read() as connection:
        assert len(list_expired(connection, after)) == 3


def test_the_log_keeps_what_still_has_files_to_remove(database: Database, tmp_path: Path) -> None:
    world = delivered(database, tmp_path)
    world.plan(KEPT, state="failed", reason="waits", run_id=world.new_run())
    later = NOW + timedelta(days=90)
    with database.read() as connection:
        assert rows.count_old(connection, NOW) == (0, None)
        assert rows.count_old(connection, later) == (1, NOW)
    assert remove_expired(database, str(tmp_path), later) == 1
    with database.write() as connection:
        assert len(rows.delete_old(connection, later, limit=1)) == 1
        assert len(rows.delete_old(connection, later, limit=10)) == 1
        assert rows.delete_old(connection, later, limit=10) == []
    # The attempts went with them; what waits stays.
    with database.read() as connection:
        assert connection.scalars(select(delivery_attempt.c.attempt)).all() == []
    assert [row.state for row in world.rows()] == ["pending"]
