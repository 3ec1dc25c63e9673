"""Moments on pages: written by the two modules that name their zone, and by no other."""

import re
from pathlib import Path

STATIC = Path(__file__).parents[2] / "service" / "web" / "static"
WRITES = re.compile(r"Intl\.DateTimeFormat\((?!\)\.resolved)|toLocale(?:Date|Time)?String\(")


def test_no_other_module_writes_a_moment() -> None:
    found = {path.name for path in STATIC.glob("*.js") if WRITES.search(path.read_text("utf-8"))}
    assert found == {"format.js", "wall_time.js"}
