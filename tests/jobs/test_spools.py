"""Folders of uploads are private, go with their use, and do not long outlive a killed process."""

import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from service.errors import UnavailableError
from service.jobs.spools import PREFIX, Spool

HELD = """
import sys, time
from service.jobs.spools import Spool
with Spool(sys.argv[1]).folder() as folder:
    (folder / "x").write_bytes(b"1")
    print(folder, flush=True)
    time.sleep(60)
"""


def test_a_folder_is_private_and_gone_afterwards(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "not" / "yet"))
    with spool.folder() as one, spool.folder() as other:
        assert one != other
        assert one.parent == other.parent
        for folder in (one, one.parent):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (one / "a").write_bytes(b"1")
        assert Spool(str(tmp_path / "not" / "yet")).sweep() == 0
        assert spool.sweep() == 0
        assert (one / "a").exists()
    assert not one.exists()
    spool.close()
    spool.close()
    assert list((tmp_path / "not" / "yet").iterdir()) == []


def test_a_folder_is_gone_after_a_failure_too(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path))
    failing = spool.folder()
    folder = failing.__enter__()
    (folder / "a").write_bytes(b"1")
    error = KeyError("a")
    assert not failing.__exit__(KeyError, error, None)
    assert not folder.exists()
    spool.close()


def test_what_a_killed_process_left_is_swept_at_the_next_start(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HELD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        # It lives: nobody takes its files away.
        assert Spool(str(tmp_path)).sweep() == 0
        process.send_signal(signal.SIGKILL)
    assert (left / "x").exists()
    assert Spool(str(tmp_path)).sweep() == 1
    assert list(tmp_path.iterdir()) == []


def test_only_folders_of_ones_own_are_swept(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    parent = tmp_path / "spool"
    parent.mkdir()
    (parent / f"{PREFIX}link").symlink_to(elsewhere)
    (parent / f"{PREFIX}file").write_bytes(b"")
    (parent / "other").mkdir()
    assert Spool(str(parent)).sweep() == 0
    assert len(list(parent.iterdir())) == 3


def test_a_place_where_nothing_can_be_made_is_said(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_bytes(b"")
    with pytest.raises(UnavailableError) as caught, Spool(str(taken / "below")).folder():
        pass
    assert str(taken) in caught.value.detail
    assert list(tmp_path.iterdir()) == [taken]
