"""Sharded layers against a walk through time."""

import numpy as np
import pytest

from service.model.columns import columns_of, joined
from service.model.exchange.serial import serial_of
from service.model.exchange.sharding import layer_lines, sharded_lines
from service.model.fields import Scenario
from service.model.laws.law import Floats
from service.model.parts.communication import Link, Ring
from service.model.parts.overlap import Fsdp


def walked_ms(
    layers: int, prefetch: int, compute: tuple[Floats, Floats], exchange: tuple[Floats, Floats]
) -> Floats:
    """(cases,) end of a step of ranks with (ranks, cases) compute of a layer.

    All ranks take part in every gather and scatter: it begins when the last has asked for it and
    the channel is free, in the order in which they are asked for.
    """
    forward, backward = compute
    gather, scatter = exchange
    done = np.zeros_like(forward)
    ends = [done]
    gathered = np.zeros(forward.shape[1])
    for layer in range(1, layers + 1):
        asked = ends[max(layer - 1 - prefetch, 0)].max(axis=0)
        gathered = np.maximum(gathered, asked) + gather
        done = np.maximum(done, gathered) + forward
        ends.append(done)
    channel = gathered
    there = {layers: gathered}
    next_asked = layers - 1
    for layer in range(layers, 0, -1):
        if layer not in there:
            # Without prefetch only now is it asked for.
            channel = np.maximum(channel, done.max(axis=0)) + gather
            there[layer] = channel
        begins = np.maximum(done, there[layer])
        asked = begins.max(axis=0)
        while next_asked >= max(layer - prefetch, 1) and prefetch:
            channel = np.maximum(channel, asked) + gather
            there[next_asked] = channel
            next_asked -= 1
        done = begins + backward
        channel = np.maximum(channel, done.max(axis=0)) + scatter
    return channel


@pytest.mark.parametrize("layers", [1, 2, 3, 4, 5, 7, 12])
@pytest.mark.parametrize("prefetch", [0, 1, 2, 3, 6, 50])
def test_lines_are_the_walk(layers: int, prefetch: int) -> None:
    rng = np.random.default_rng(100 * layers + prefetch)
    num_cases = 400
    compute = (rng.exponential(1, num_cases), rng.exponential(2, num_cases))
    scale = rng.choice([0.1, 1.0, 5.0], num_cases)
    exchange = (rng.exponential(scale), rng.exponential(scale))
    ties = rng.random(num_cases) < 0.1
    exchange = (np.where(ties, compute[1], exchange[0]), np.where(ties, 0.0, exchange[1]))
    factors = rng.uniform(0.5, 2, (3, num_cases))
    expected = walked_ms(layers, prefetch, (factors * compute[0], factors * compute[1]), exchange)
    lines = layer_lines(
        np.full(num_cases, float(layers)),
        np.full(num_cases, float(prefetch)),
        compute=compute,
        exchange=exchange,
    )
    np.testing.assert_allclose(lines.value(factors.max(axis=0)), expected, rtol=1e-12)


@pytest.mark.parametrize("layers", [2, 3, 9])
def test_sums_over_layers_are_the_same_with_one_ahead(layers: int) -> None:
    rng = np.random.default_rng(layers)
    f, b, a, r = rng.exponential(1, (4, 1000))
    lines = layer_lines(
        np.full(1000, float(layers)), np.ones(1000), compute=(f, b), exchange=(a, r)
    )
    # Reference notes, communication.md 3.3.
    forward = a + (layers - 1) * np.maximum(f, a) + f
    backward = np.maximum(b, a) + (layers - 2) * np.maximum(b, a + r) + np.maximum(b, r) + r
    np.testing.assert_allclose(lines.value(np.ones(1000)), forward + backward, rtol=1e-12)


@pytest.mark.parametrize("prefetch", [2, 5])
def test_sums_over_layers_are_too_long_with_more_ahead(prefetch: int) -> None:
    rng = np.random.default_rng(prefetch)
    num_layers = rng.integers(3, 40, 5000).astype(float)
    f, a = rng.exponential(1, (2, 5000))
    lines = layer_lines(
        num_layers, np.full(5000, float(prefetch)), compute=(f, 2 * f), exchange=(a, a)
    )
    forward = a + (num_layers - 1) * np.maximum(f, a) + f
    backward = 2 * np.maximum(2 * f, a) + (num_layers - 2) * 2 * np.maximum(f, a) + a
    too_long = (forward + backward) / lines.value(np.ones(5000)) - 1
    assert too_long.min() > -1e-14
    assert 0.07 < too_long.max() < 0.086


def test_columns_of_sharded_layers() -> None:
    # 8 ranks, 8 layers of 8 MB: a gather takes 7 (0.1 + 1) ms.
    columns = joined(
        [
            columns_of(
                Scenario(
                    num_gpus=8,
                    compute_ms=compute_ms,
                    communication=Ring(
                        link=Link(latency_us=100, bandwidth_gigabytes_per_s=1), message_bytes=64e6
                    ),
                    overlap=Fsdp(num_layers=8, prefetch_layers=ahead),
                )
            )
            for compute_ms, ahead in [(24, 0), (24_000, 1), (24, 1), (1e-9, 4)]
        ]
    )
    half = 7.7
    serial = 23 * half
    np.testing.assert_allclose(serial_of(columns).ms, serial)
    lines = sharded_lines(columns)
    # Layer by layer 1 + 2 ms of compute.
    expected = [24 + serial, 24_000 + 2 * half, 8 * half + 1 + 7 * half + 8 * half, serial]
    np.testing.assert_allclose(lines.value(np.ones(4)), expected)
