"""`trainard recorder`."""

import ast
import zipfile
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from tests.cli.conftest import Program

ROOT = Path(__file__).parents[2]
FILE = "service/calibration/recorder/trainard_recorder.py"


def test_the_file_is_printed_as_it_is(trainard: Program) -> None:
    done = trainard("recorder")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (ROOT / FILE).read_text()
    assert [
        part.name for part in ast.parse(done.stdout).body if isinstance(part, ast.ClassDef)
    ] == ["Recorder"]


def test_it_is_in_the_wheel(tmp_path: Path) -> None:
    builder = WheelBuilder(str(ROOT))
    (wheel,) = builder.build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(FILE) == (ROOT / FILE).read_bytes()
