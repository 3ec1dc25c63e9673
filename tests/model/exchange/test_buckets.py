import numpy as np
import pytest

from service.model.columns import Columns, columns_of, joined
from service.model.exchange.buckets import (
    bucket_lines,
    last_bucket_ms,
    num_buckets,
    runs_of,
    window_of,
)
from service.model.exchange.collectives import exchange_of
from service.model.fields import Scenario
from service.model.parts.communication import Communication, Fixed, Link, Measured, Transfer
from service.model.parts.overlap import Buckets, NoOverlap, Overlap

# 1 ms of latency and 1 MB a ms: a message of 100 MB takes 101 ms.
TRANSFER = Transfer(
    link=Link(latency_us=1000, bandwidth_gigabytes_per_s=1),
    message_bytes=200e6,
    compression_ratio=2,
)


def _columns(overlap: Overlap, communication: Communication = TRANSFER) -> Columns:
    return columns_of(
        Scenario(
            num_gpus=8,
            compute_ms=300,
            load_ms=30,
            backward_fraction=0.6,
            communication=communication,
            overlap=overlap,
        )
    )


def _value(columns: Columns) -> float:
    return float(bucket_lines(columns).value(np.ones(1))[0])


def test_window_is_compute_and_its_backward_part() -> None:
    window = window_of(_columns(Buckets(num_buckets=4, contention_fraction=0.2)))
    assert [part.tolist() for part in window] == [[120.0], [180.0], [0.2]]
    assert window_of(_columns(NoOverlap())).contention_fraction.tolist() == [0.0]


def test_equal_buckets() -> None:
    columns = _columns(Buckets(num_buckets=4))
    runs = runs_of(columns, exchange_of(columns))
    assert num_buckets(columns).tolist() == [4.0]
    assert runs.cost_ms.tolist() == [[26.0]]
    assert last_bucket_ms(runs).tolist() == [26.0]
    assert _value(columns) == 300 + 26


def test_buckets_of_bytes_are_full_ones_and_the_rest() -> None:
    # Sizes before compression: 60, 60, 60 and 20 of 200 MB; they travel as 30 and 10 MB.
    columns = _columns(Buckets(bucket_bytes=60e6))
    runs = runs_of(columns)
    assert num_buckets(columns).tolist() == [4.0]
    assert runs.num_buckets.tolist() == [[3.0], [1.0]]
    np.testing.assert_allclose(runs.share, [[0.3], [0.1]])
    np.testing.assert_allclose(runs.cost_ms, [[31.0], [11.0]])
    np.testing.assert_allclose(last_bucket_ms(runs), [11.0])
    # The last full one is ready after 120 + 162 and has passed 31 later: the rest waits for it.
    assert _value(columns) == pytest.approx(282 + 31 + 11)


@pytest.mark.parametrize("bucket_bytes", [50e6, 200e6, 1e12])
def test_buckets_of_bytes_that_fit(bucket_bytes: float) -> None:
    count = 4 if bucket_bytes == 50e6 else 1
    columns = _columns(Buckets(bucket_bytes=bucket_bytes))
    assert num_buckets(columns).tolist() == [count]
    assert _value(columns) == pytest.approx(_value(_columns(Buckets(num_buckets=count))))


def test_a_message_of_nothing_is_one_bucket() -> None:
    nothing = Transfer(link=TRANSFER.link, message_bytes=0)
    columns = _columns(Buckets(bucket_bytes=1e6), nothing)
    assert num_buckets(columns).tolist() == [1.0]
    assert _value(columns) == 301.0


def test_listed_buckets_beside_others() -> None:
    parts = [
        _columns(Buckets(bucket_shares=(1, 2, 1))),
        _columns(NoOverlap()),
        _columns(Buckets(bucket_shares=(3, 1))),
        _columns(Buckets(bucket_bytes=60e6)),
        _columns(Buckets(bucket_shares=(1, 2, 1))),
        _columns(Buckets(num_buckets=20), Fixed(allreduce_ms=80)),
    ]
    columns = joined(parts)
    runs = runs_of(columns)
    assert num_buckets(columns).tolist() == [3.0, 1.0, 2.0, 4.0, 3.0, 20.0]
    np.testing.assert_allclose(runs.num_buckets.sum(axis=0), num_buckets(columns))
    np.testing.assert_allclose((runs.num_buckets * runs.share).sum(axis=0), 1.0)
    np.testing.assert_allclose(last_bucket_ms(runs), [26.0, 101.0, 26.0, 11.0, 26.0, 4.0])
    together = bucket_lines(columns).value(np.ones(6))
    np.testing.assert_allclose(together, [_value(part) for part in parts], rtol=1e-15)


def test_measured_buckets_are_those_of_the_curve() -> None:
    curve = Measured(sizes_bytes=(1e6, 1e9), times_ms=(10.0, 100.0), message_bytes=100e6)
    columns = joined(
        [
            _columns(Buckets(bucket_shares=(1, 99)), curve),
            _columns(Buckets(bucket_shares=(1, 1, 98)), curve),
        ]
    )
    # Straight in log-log: 10 ms x (bytes / 1 MB)^(1/3).
    expected = [[10.0, 10.0], [10 * 99 ** (1 / 3), 10.0], [0.0, 10 * 98 ** (1 / 3)]]
    np.testing.assert_allclose(runs_of(columns).cost_ms, expected)
