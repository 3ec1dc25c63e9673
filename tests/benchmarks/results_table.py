"""Run every benchmark and rewrite the results table between the markers of a Markdown file."""

import importlib
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psutil

START = "<!-- bench:start -->"
END = "<!-- bench:end -->"
# bench_blocks takes too long for every run: python -m tests.benchmarks.bench_blocks
MODULES = (
    "bench_batch",
    "bench_reads",
    "bench_http",
    "bench_load",
    "bench_kernel",
    "bench_spread",
    "bench_communication",
    "bench_pipeline",
    "bench_calibration",
    "bench_history",
    "bench_page",
)
VERSIONS = ("numpy", "scipy", "litestar", "uvicorn", "sqlalchemy", "pyarrow")


def markdown_table(rows: Sequence[dict[str, str]]) -> str:
    """Rows as a Markdown table with the columns of the first one."""
    header = list(rows[0])
    lines = [
        header,
        ["---"] * len(header),
        *([row.get(name, "") for name in header] for row in rows),
    ]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def machine() -> str:
    """What the figures were taken on."""
    memory_gb = psutil.virtual_memory().total / 1e9
    packages = ", ".join(f"{name} {version(name)}" for name in VERSIONS)
    return (
        f"Taken by `make bench` on {datetime.now(UTC).date()}: {psutil.cpu_count()} cores of "
        f"{_processor()}, {memory_gb:.0f} GB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, {packages}."
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def section() -> str:
    """All benchmarks of `make bench`, one after the other."""
    parts = []
    for name in MODULES:
        module = importlib.import_module(f"tests.benchmarks.{name}")
        title = (module.__doc__ or name).strip().partition("\n")[0]
        print(f"{name} …", file=sys.stderr, flush=True)
        table = markdown_table(module.rows())
        print(table, file=sys.stderr, flush=True)
        parts.append(f"{title}\n\n{table}")
    return "\n\n".join([*parts, machine()])


def rewrite(file: Path, text: str) -> None:
    """Replace what stands between the markers; raises `ValueError` when they are missing."""
    before, start, rest = file.read_text(encoding="utf-8").partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"{file} has no {START} … {END}")
    file.write_text(f"{before}{START}\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    rewrite(Path(sys.argv[1]), section())
