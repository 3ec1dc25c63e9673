"""The tables of what was measured: some are written anew, the others stay to the byte."""

from pathlib import Path

import pytest

from tests.benchmarks.results_table import (
    MODULES,
    Block,
    blocks_of,
    chosen_modules,
    common_line,
    differing,
    markdown_table,
    parts_of,
    rewrite,
    title_of,
    with_blocks,
)

README = Path(__file__).parent.parent / "README.md"
TITLES = ["Batches", "History: a month", "The page"]
PARTS = ["2026-11-30", "model 3.0", "2 cores of AMD EPYC", "25 GB", "Python 3.11.7"]
COMMON = (
    "Taken by `make bench` on 2026-11-30: model 3.0, 2 cores of AMD EPYC, 25 GB, Python 3.11.7."
)
OLD = f"""Batches.

| measure | Trainard |
| --- | --- |
| write | 1 s |

The page (model 2.0, other work on the machine meanwhile).

| measure | Trainard |
| --- | --- |
| move | 9 ms |

{COMMON}"""


def test_a_table_is_put_in_the_place_of_the_old_one() -> None:
    table = markdown_table([{"measure": "move", "Trainard": "3 ms"}])
    assert with_blocks(OLD, [Block("The page", "", table)], TITLES) == OLD.replace(
        "The page (model 2.0, other work on the machine meanwhile).", "The page."
    ).replace("| 9 ms |", "| 3 ms |")


def test_a_new_table_stands_where_its_benchmark_does() -> None:
    new = Block("History: a month", "2027-01-02, Python 3.12.1", "| a |\n| --- |\n| 1 |")
    written = "History: a month (2027-01-02, Python 3.12.1).\n\n| a |\n| --- |\n| 1 |\n\nThe page"
    assert with_blocks(OLD, [new], TITLES) == OLD.replace("The page", written)
    last = Block("The page", "", "| a |")
    alone = f"Batches.\n\n| a |\n\n{COMMON}"
    assert (
        with_blocks(alone, [last], TITLES) == f"Batches.\n\n| a |\n\nThe page.\n\n| a |\n\n{COMMON}"
    )


def test_a_section_is_taken_apart_and_put_together_again() -> None:
    blocks, common = blocks_of(OLD, TITLES)
    assert [(block.title, block.own) for block in blocks] == [
        ("Batches", ""),
        ("The page", "model 2.0, other work on the machine meanwhile"),
    ]
    assert "\n\n".join([*(block.markdown() for block in blocks), common]) == OLD


def test_a_table_says_only_what_the_line_below_all_does_not() -> None:
    assert common_line(PARTS) == COMMON
    assert differing(PARTS, COMMON) == []
    other = ["2027-01-02", "model 3.1", *PARTS[2:4], "Python 3.11.70"]
    assert differing(other, COMMON) == ["2027-01-02", "model 3.1", "Python 3.11.70"]


def test_benchmarks_are_named_with_or_without_their_prefix() -> None:
    assert chosen_modules(["page", "bench_history"]) == ["bench_history", "bench_page"]
    assert chosen_modules([]) == list(MODULES)
    with pytest.raises(ValueError, match=r"'histry' is none of batch, reads, .*history, page"):
        chosen_modules(["histry"])


def test_what_stands_around_the_markers_stays(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("one\n<!-- bench:start -->\nold\n<!-- bench:end -->\ntwo\n", encoding="utf-8")
    rewrite(file, "new")
    text = "one\n<!-- bench:start -->\nnew\n<!-- bench:end -->\ntwo\n"
    assert file.read_text(encoding="utf-8") == text
    file.write_text("nothing", encoding="utf-8")
    with pytest.raises(ValueError, match="there is no <!-- bench:start -->"):
        rewrite(file, "new")


def test_a_table_of_no_benchmark_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no benchmark has the table below 'Batches\.'"):
        blocks_of(OLD, TITLES[1:])


def test_the_tables_in_the_readme_are_those_of_benchmarks() -> None:
    titles = [title_of(module) for module in MODULES]
    section = parts_of(README.read_text(encoding="utf-8"))[1]
    blocks, common = blocks_of(section, titles)
    assert {block.title for block in blocks} <= set(titles)
    assert common.startswith("Taken by `make bench` on 20")
    assert with_blocks(section, blocks, titles) == section
