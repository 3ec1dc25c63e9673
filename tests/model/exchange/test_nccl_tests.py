import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.model.exchange.measured import measured_ms
from service.model.exchange.nccl_lines import COLUMNS, MeasuredColumn, UnreadableOutputError
from service.model.exchange.nccl_tests import MAX_TEXT, MeasuredOutput, read_nccl_tests
from service.model.parts.communication import Measured
from tests.model.exchange.exchanges import point
from tests.model.exchange.nccl_outputs import DEVICES, OUTPUTS, PLAIN, Printed

CASES = [
    (name, column)
    for name, printed in OUTPUTS.items()
    for column in COLUMNS
    if getattr(printed, column)
]


@pytest.mark.parametrize(("name", "column"), CASES)
def test_every_form_of_the_output_is_read(name: str, column: MeasuredColumn) -> None:
    printed: Printed = OUTPUTS[name]
    found = read_nccl_tests(printed.text, column)
    assert found.communication.sizes_bytes == printed.sizes
    assert found.communication.times_ms == pytest.approx(getattr(printed, column), rel=1e-12)
    assert found.num_ranks == found.communication.measured_num_ranks == printed.num_ranks
    told = any("set measured_num_ranks" in warning for warning in found.warnings)
    assert told == (printed.num_ranks is None)
    zeros = 2 if name == "twice" else 1
    assert found.warnings[0] == f"rows of size 0 were left out: {zeros}"


def test_what_is_read_is_a_communication() -> None:
    found = read_nccl_tests(PLAIN, "out_of_place")
    document = {**msgspec.to_builtins(found.communication), "message_bytes": 1048576}
    assert msgspec.convert(document, Measured).measured_num_ranks == 8
    columns = point(document, num_gpus=8)
    assert measured_ms(columns, columns["communication.message_bytes"])[0] == pytest.approx(0.05512)
    assert found.busbw_gigabytes_per_s == (0.0, 33.29, 215.57)
    assert found.num_rows == 3


def test_a_sound_output_gives_no_warning() -> None:
    text = "\n".join(line for line in PLAIN.splitlines() if line.split()[0] != "0")
    assert read_nccl_tests(text, "in_place").warnings == ()


def test_rows_of_several_types_are_told() -> None:
    found = read_nccl_tests(PLAIN + PLAIN.replace("float", " half"), "in_place")
    assert "medians are taken over float sum, half sum" in found.warnings
    assert found.num_rows == 6


def changed(pattern: str, replacement: str) -> str:
    text, count = re.subn(pattern, replacement, PLAIN, count=1, flags=re.MULTILINE)
    assert count == 1
    return text


LAST = r"134217728      33554432     float     sum      -1   1089.6  123.18  215.57      0"
ALL_GATHER = PLAIN.replace("  sum ", " none ")
# 7/8 in place of 14/8: what reduce_scatter prints.
REDUCE_SCATTER = PLAIN
for _all_reduce, _scattered in (("215.57", "107.78"), ("213.29", "106.65")):
    REDUCE_SCATTER = REDUCE_SCATTER.replace(_all_reduce, _scattered)
for _all_reduce, _scattered in (("33.29", "16.64"), ("33.96", "16.98")):
    REDUCE_SCATTER = REDUCE_SCATTER.replace(_all_reduce, _scattered)
HEADER = r"^#       size .*$"
REFUSED = {
    "empty": ("", "no line of results was found"),
    "no_rows": (re.sub(r"(?m)^ +\d.*\n", "", PLAIN), "no line of results was found"),
    "one_size": (re.sub(r"(?m)^ +(8|1048576) .*\n", "", PLAIN), "one size makes no curve"),
    "no_header": (re.sub(HEADER, "#", PLAIN, flags=re.MULTILINE), "line 16: a result before the"),
    "strange_header": (changed(HEADER, "# size algbw"), "line 14: a header has size, count, type"),
    "cputime": (PLAIN.replace("  time  ", "cputime "), "line 14: cputime is the time of the"),
    "cut": (PLAIN[: PLAIN.index("  1101.2")], "line 19: 9 values, but the header names 13"),
    "cut_early": (PLAIN[: PLAIN.index("    float     sum      -1   10")], "line 19: 2 values, but"),
    "cut_at_once": (PLAIN[: PLAIN.index("217728  ")], "line 19: 1 values, but"),
    "wrong": (changed(LAST, LAST[:-1] + "3"), "line 19: #wrong is 3: the exchange went wrong"),
    "starred": (changed(LAST, LAST[:-1] + "0*"), "line 19: #wrong is 0*"),
    "out_of_bounds": (changed("values : 0 OK", "values : 5 FAILED"), "line 20: 5 values were out"),
    "nan": (changed(" 1089.6", "    nan"), "line 19: time is 'nan', not a number"),
    "infinite": (changed("123.18", "   inf"), "line 19: algbw is 'inf', not a number"),
    "negative": (changed("215.57", "-215.5"), "line 19: busbw is '-215.5', not a number"),
    "endless": (changed(" 1089.6", "1.1e+16"), "line 19: time is '1.1e+16', not a number"),
    "exponent": (changed(" 1089.6", "0e+9999"), "line 19: time is '0e+9999', not a number"),
    "no_time": (changed(" 1089.6", "   0.00"), "line 19: time is 0"),
    "huge": (changed(" 134217728  ", " " + "9" * 5000 + " "), "line 19: size has 5000 digits"),
    # 1 089.6 us are 1.0896 ms.
    "milliseconds": (changed(" 1089.6", " 1.0896"), "line 19: algbw is 123.18 GB/s, but 134217728"),
    "gigabits": (changed("123.18", " 985.4"), "line 19: algbw is 985.4 GB/s, but 134217728 bytes"),
    "gather_program": (
        "# Collective test starting: all_gather_perf\n" + PLAIN,
        "line 1: all_gather_perf was run; the times of all_reduce_perf are needed",
    ),
    "gather": (ALL_GATHER, "line 17: reduction none and root -1 are of another collective"),
    "rooted": (PLAIN.replace("  -1  ", "   0  "), "line 17: reduction sum and root 0 are of"),
    "scatter": (REDUCE_SCATTER, "line 18: busbw is 16.64 GB/s, not that of an all-reduce among 8"),
    "scatter_among_unknown": (
        REDUCE_SCATTER.replace(DEVICES, "#"),
        "line 11: busbw is 16.64 GB/s, not that of an all-reduce among some number of ranks",
    ),
    "fewer_ranks": (
        re.sub(r"(?m)^#  Rank  [67].*\n", "", PLAIN),
        "line 16: busbw is 33.29 GB/s, not that of an all-reduce among 6 ranks",
    ),
    "without_mpi": (PLAIN.replace("Rank  1", "Rank  0"), "line 5: rank 0 stands twice"),
    "split": (PLAIN.replace("Rank  1 Group  0", "Rank  1 Group  1"), "line 5: several groups"),
    "two_clusters": (
        PLAIN + re.sub(r"(?m)^#  Rank  [4-7].*\n", "", PLAIN),
        "runs of 4 and of 8 ranks; give one",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_used_is_refused_with_its_line(name: str) -> None:
    text, sentence = REFUSED[name]
    with pytest.raises(UnreadableOutputError) as caught:
        read_nccl_tests(text, "out_of_place")
    assert str(caught.value).startswith(sentence)
    assert str(caught.value).endswith(caught.value.reason)
    assert (caught.value.line is None) == (not sentence.startswith("line"))


def test_only_the_wanted_column_is_checked() -> None:
    text, _ = REFUSED["wrong"]
    assert read_nccl_tests(text, "in_place").num_rows == 3


def test_a_text_is_bounded() -> None:
    with pytest.raises(UnreadableOutputError, match="1048577 characters, but 1048576"):
        read_nccl_tests(" " * (MAX_TEXT + 1), "in_place")
    assert read_nccl_tests(PLAIN + " " * (MAX_TEXT - len(PLAIN)), "in_place").num_ranks == 8
    assert read_nccl_tests(PLAIN + "#\n" * 49_000, "in_place").num_ranks == 8
    with pytest.raises(UnreadableOutputError, match="50022 lines, but 50000 is the limit"):
        read_nccl_tests(PLAIN + "#\n" * 50_000, "in_place")


def rows(num_sizes: int) -> str:
    lines = (
        f"{size} {size // 4} float sum -1 {size / 1e4:.2f} 10.00 17.50 0 {size / 1e4:.2f} "
        "10.00 17.50 0"
        for size in range(1_000_000, 1_000_000 + 4 * num_sizes, 4)
    )
    return changed(r"^ +8 .*\n", "\n".join(lines) + "\n")


def test_a_curve_has_at_most_as_many_sizes_as_a_communication_takes() -> None:
    # One of the two beside these is also among them.
    assert len(read_nccl_tests(rows(1_022), "in_place").communication.times_ms) == 1_024
    with pytest.raises(UnreadableOutputError, match="1025 sizes, but 1024 is the limit"):
        read_nccl_tests(rows(1_023), "in_place")


def read(text: str) -> MeasuredOutput | None:
    try:
        return read_nccl_tests(text, "in_place")
    except UnreadableOutputError:
        return None


@given(st.integers(0, len(PLAIN)), st.integers(0, len(PLAIN)), st.text(max_size=20))
def test_no_text_makes_it_fail_otherwise(start: int, stop: int, other: str) -> None:
    found = read(PLAIN[:start] + other + PLAIN[stop:])
    if found is not None:
        # Whatever passes is a curve that the model takes.
        msgspec.convert(msgspec.to_builtins(found.communication), Measured)


@given(st.text(alphabet="# 0123456789.e+-\nRankGroupPidtimealgbwbusbwsizecounttype", max_size=400))
def test_no_such_text_does(text: str) -> None:
    assert read(text) is None
