"""Run benchmarks and rewrite their tables between the markers of a Markdown file.

`python -m tests.benchmarks.results_table README.md` runs all of them and writes every table anew.
With names (`… README.md history page`) only those are run, and the other tables stay to the byte.
Below all tables stands when and on what they were taken; a table of which something of that is
not true says so itself, behind its title.
"""

import argparse
import ast
import importlib
import platform
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import psutil

from service.model import MODEL_VERSION

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


class Block(NamedTuple):
    """One benchmark's part of the section: its title, what is true of this table only, the table.

    `own` stands in brackets behind the title; empty: what stands below all tables is true of it.
    """

    title: str
    own: str
    table: str

    def markdown(self) -> str:
        """As it stands in the file."""
        own = f" ({self.own})" if self.own else ""
        return f"{self.title}{own}.\n\n{self.table}"


def markdown_table(rows: Sequence[dict[str, str]]) -> str:
    """Rows as a Markdown table with the columns of the first one."""
    header = list(rows[0])
    lines = [
        header,
        ["---"] * len(header),
        *([row.get(name, "") for name in header] for row in rows),
    ]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def circumstances() -> list[str]:
    """When a table is taken and on what, part by part."""
    memory_gb = psutil.virtual_memory().total / 1e9
    return [
        str(datetime.now(UTC).date()),
        f"model {MODEL_VERSION}",
        f"{psutil.cpu_count()} cores of {_processor()}",
        f"{memory_gb:.0f} GB",
        f"{platform.system()} {platform.release()}",
        f"Python {platform.python_version()}",
        *(f"{name} {version(name)}" for name in VERSIONS),
    ]


def common_line(parts: Sequence[str]) -> str:
    """What stands below all tables: a run of all was taken under these circumstances."""
    return f"Taken by `make bench` on {parts[0]}: {', '.join(parts[1:])}."


def differing(parts: Sequence[str], common: str) -> list[str]:
    """Those of the circumstances that the line below all tables does not say."""
    said = set(re.split(r", |: | on ", common.removesuffix(".")))
    return [part for part in parts if part not in said]


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def title_of(module: str) -> str:
    """The first line of its docstring, without the full stop."""
    # Read, not imported: that takes seconds for all of them.
    source = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    found = ast.get_docstring(ast.parse(source)) or module
    return found.partition("\n")[0].removesuffix(".")


def measured(module: str) -> Block:
    """Run the benchmark."""
    print(f"{module} …", file=sys.stderr, flush=True)
    table = markdown_table(importlib.import_module(f"tests.benchmarks.{module}").rows())
    print(table, file=sys.stderr, flush=True)
    return Block(title_of(module), "", table)


def blocks_of(section: str, titles: Sequence[str]) -> tuple[list[Block], str]:
    """The blocks of a section and the line below them.

    Raises `ValueError` for a table whose title is none of the titles.
    """
    *paragraphs, common = section.strip().split("\n\n")
    found = []
    for heading, table in zip(paragraphs[::2], paragraphs[1::2], strict=True):
        title = next((one for one in titles if heading.startswith(one)), None)
        if title is None or not table.startswith("| "):
            raise ValueError(f"no benchmark has the table below {heading!r}")
        own = heading.removeprefix(title).removesuffix(".").strip()
        found.append(Block(title, own.removeprefix("(").removesuffix(")"), table))
    return found, common


def with_blocks(section: str, new: Sequence[Block], titles: Sequence[str]) -> str:
    """The section with some tables in the place of the old ones, or in their place by `titles`."""
    blocks, common = blocks_of(section, titles)
    for block in new:
        places = [place for place, old in enumerate(blocks) if old.title == block.title]
        if places:
            blocks[places[0]] = block
            continue
        after = titles[titles.index(block.title) + 1 :]
        later = [place for place, old in enumerate(blocks) if old.title in after]
        blocks.insert(later[0] if later else len(blocks), block)
    return "\n\n".join([*(block.markdown() for block in blocks), common])


def parts_of(text: str) -> tuple[str, str, str]:
    """What stands before the section, the section, and what stands after it.

    Raises `ValueError` when the markers are missing.
    """
    before, start, rest = text.partition(START)
    section, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"there is no {START} … {END}")
    return before, section.strip(), after


def rewrite(file: Path, text: str) -> None:
    """Replace what stands between the markers."""
    before, _, after = parts_of(file.read_text(encoding="utf-8"))
    file.write_text(f"{before}{START}\n{text}\n{END}{after}", encoding="utf-8")


def chosen_modules(names: Sequence[str]) -> list[str]:
    """The benchmarks named, with or without `bench_`, in their order; no names are all.

    Raises `ValueError` for a name of none.
    """
    wanted = {f"bench_{name.removeprefix('bench_')}" for name in names}
    unknown = sorted(wanted - set(MODULES))
    if unknown:
        known = ", ".join(name.removeprefix("bench_") for name in MODULES)
        raise ValueError(f"{unknown[0].removeprefix('bench_')!r} is none of {known}")
    return [name for name in MODULES if not wanted or name in wanted]


def main(arguments: Sequence[str]) -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="results_table", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("names", nargs="*", help="benchmarks, such as history; all without any")
    parser.add_argument("--note", default="", help="what else is to be known of these tables")
    given = parser.parse_args(arguments)
    modules = chosen_modules(given.names)
    # Before hours of measuring: a file that cannot be written is found out at once.
    titles = [title_of(module) for module in MODULES]
    blocks_of(parts_of(given.file.read_text(encoding="utf-8"))[1], titles)
    found = [measured(module) for module in modules]
    parts = circumstances()
    section = parts_of(given.file.read_text(encoding="utf-8"))[1]
    common = common_line(parts) if not given.names else blocks_of(section, titles)[1]
    notes = [part for part in (*differing(parts, common), given.note) if part]
    noted = [block._replace(own=", ".join(notes)) for block in found]
    if given.names:
        rewrite(given.file, with_blocks(section, noted, titles))
    else:
        rewrite(given.file, "\n\n".join([*(block.markdown() for block in noted), common]))


if __name__ == "__main__":
    main(sys.argv[1:])
