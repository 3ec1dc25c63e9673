"""What keeps the tree as it is meant to be, checked by machine."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from service.model.results import COLUMNS
from tests.long_tests import LONG

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "service").rglob("*.py"))
LONGEST_MODULE = 400
# "helpers" says nothing about what a module holds.
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}
# A table or a rule may name the columns that it is about, but not list them all again.
NAMED_COLUMNS = 12
REGISTRIES = re.compile(r"pypi\.org|pythonhosted|registry\.npmjs|deb\.debian|ghcr\.io|quay\.io")


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_rooms_import_downwards_only() -> None:
    program = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run(
        [str(program), "--no-logo", "--no-cache"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("module", MODULES, ids=relative)
def test_modules_are_short_and_say_what_they_hold(module: Path) -> None:
    parts = {*module.relative_to(ROOT).parent.parts, module.stem}
    assert parts & FORBIDDEN_NAMES == set()
    assert len(module.read_text().splitlines()) <= LONGEST_MODULE


def test_results_are_the_only_list_of_output_columns() -> None:
    names = {column.name for column in COLUMNS}
    lists = {}
    for module in MODULES:
        words = set(re.findall(r"[\"']([a-z0-9_]+)[\"']", module.read_text()))
        if len(names & words) > NAMED_COLUMNS:
            lists[relative(module)] = sorted(names & words)
    # The kernel computes them: each name stands there once, beside its formula.
    computing = ("results", "kernel", "losses", "exchange_columns", "pipeline_columns")
    allowed = {f"service/model/{name}.py" for name in computing}
    assert set(lists) <= allowed, lists


def test_lock_files_hold_hashes_and_no_address() -> None:
    for name in ("requirements.lock", "docker/requirements.lock"):
        text = (ROOT / name).read_text()
        assert "://" not in text
        pins = re.findall(r"^[A-Za-z0-9._-]+==", text, re.MULTILINE)
        assert len(pins) > 20
        assert text.count("--hash=sha256:") >= len(pins)


def test_image_has_the_same_pins_as_the_environment() -> None:
    pins = [
        set(re.findall(r"^([A-Za-z0-9._-]+==\S+)", (ROOT / name).read_text(), re.MULTILINE))
        for name in ("docker/requirements.lock", "requirements.lock")
    ]
    assert pins[0] <= pins[1]


def test_no_file_names_a_package_registry() -> None:
    here = Path(__file__)
    naming = [
        relative(path)
        for path in tracked()
        if path != here and REGISTRIES.search(path.read_text(errors="replace"))
    ]
    assert naming == []


def test_no_test_is_skipped_or_expected_to_fail() -> None:
    marks = re.compile(r"pytest\.(mark\.(skip|xfail)|xfail|importorskip)")
    found = [
        relative(path)
        for path in (ROOT / "tests").rglob("*.py")
        if path != Path(__file__) and marks.search(path.read_text())
    ]
    assert found == []


def test_long_tests_are_tests() -> None:
    """One that was renamed would be run where it takes too long."""
    for node in LONG:
        file, _, name = node.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / file).read_text(), node
