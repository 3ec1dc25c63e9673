import pytest

from service.model.exchange.busbw import busbw_factor
from tests.model.exchange.exchanges import OracleRow, oracle


@pytest.mark.parametrize("row", oracle("busbw_factor"), ids=lambda row: str(row.inputs))
def test_factors_are_the_published_ones(row: OracleRow) -> None:
    assert busbw_factor(row.inputs["op"], row.inputs["n"]) == pytest.approx(row.expected, rel=1e-6)


def test_a_published_table_is_met() -> None:
    (row,) = oracle("busbw_from_algbw")
    found = row.inputs["algbw_GBps"] * busbw_factor(row.inputs["op"], row.inputs["n"])
    assert found == pytest.approx(row.expected, abs=0.01)


def test_the_others() -> None:
    assert busbw_factor("reduce_scatter", 16) == busbw_factor("all_gather", 16) == 15 / 16
    assert busbw_factor("broadcast", 16) == 1
    assert busbw_factor("all_reduce", 1) == 0
