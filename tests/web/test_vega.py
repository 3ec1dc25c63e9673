import subprocess
from pathlib import Path

import pytest

from service.web import vega


def test_the_script_of_the_installation_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vega, "_FOLDER", tmp_path / "built")
    monkeypatch.setattr(vega, "_begun", [])
    old = tmp_path / "built" / "vega-0123456789abcdef.js"
    old.parent.mkdir()
    old.write_text("older")
    made = vega.build()
    assert [path.name for path in old.parent.iterdir()] == [f"vega-{vega.tag()}.js"]
    assert b"window.vegaEmbed=" in made.read_bytes()
    # That file is what is answered: nothing is bundled again.
    made.write_bytes(b"kept")
    assert vega.begin().result(10) == b"kept"
    assert vega.begin() is vega.begin()


def test_a_failure_is_told_and_the_next_one_tries_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vega, "_FOLDER", tmp_path / "none")
    monkeypatch.setattr(vega, "_begun", [])
    monkeypatch.setattr(vega, "_PROGRAM", "raise SystemExit(3)")
    with pytest.raises(subprocess.CalledProcessError):
        vega.begin().result(60)
    monkeypatch.setattr(vega, "_PROGRAM", "print('made')")
    assert vega.begin().result(60) == b"made\n"
