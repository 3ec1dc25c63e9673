import pytest

from service.model.exchange.nccl_lines import Printed, UnreadableOutputError, read_lines
from tests.model.exchange.nccl_outputs import PLAIN


def test_a_printed_number_is_known_to_half_a_unit_of_its_last_digit() -> None:
    (*_, row) = read_lines(PLAIN.splitlines(), "out_of_place").rows
    assert (row.time_us.value, row.busbw.value) == (1089.6, 215.57)
    assert (row.time_us.half_unit, row.busbw.half_unit) == pytest.approx((0.05, 0.005))
    assert (row.time_us.low, row.time_us.high) == pytest.approx((1089.55, 1089.65))
    large = PLAIN.replace(" 1089.6", "1.1e+03")
    (*_, row) = read_lines(large.splitlines(), "out_of_place").rows
    assert tuple(row.time_us) == pytest.approx((1100, 50))
    # What may be 0 is never below.
    assert Printed(0.0, 0.005).low == 0


def test_rows_carry_their_lines() -> None:
    found = read_lines(PLAIN.splitlines(), "in_place")
    lines = PLAIN.splitlines()
    for row in found.rows:
        assert lines[row.line - 1].split()[0] == str(row.size_bytes)
    assert found.num_empty == 1
    assert found.num_ranks == [8]


def test_a_fault_names_its_line() -> None:
    with pytest.raises(UnreadableOutputError, match="line 1: a result before the header") as caught:
        read_lines(["1 1 float sum"], "in_place")
    assert caught.value.line == 1
