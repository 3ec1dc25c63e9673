import numpy as np

from service.model.exchange.message_times import log2_down, log2_up
from tests.model.exchange.ranks_by_hand import levels


def test_logarithms_of_all_counts_and_around_all_powers_of_two() -> None:
    counts = [*range(1, 3_000), *(2**k + d for k in range(12, 24) for d in (-1, 0, 1))]
    values = np.array(counts, dtype=np.float64)
    assert log2_up(values).tolist() == [levels(count) for count in counts]
    assert log2_down(values).tolist() == [count.bit_length() - 1 for count in counts]
