"""The security page names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / ".github" / "security.md").read_text()


def test_every_named_test_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE)
    ]
    assert missing == []
    assert PAGE.count("::") == len(named)


def test_all_ten_risks_have_tests() -> None:
    lines = {
        number: line
        for number in range(1, 11)
        for line in PAGE.splitlines()
        if line.startswith(f"| API{number} ")
    }
    assert sorted(lines) == list(range(1, 11))
    assert all("::test_" in line for line in lines.values())
