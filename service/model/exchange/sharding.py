"""A step with sharded parameters (FSDP, ZeRO-3): layers are gathered ahead, gradients scattered.

L equal layers; of each, at nominal speed, f and b of forward and backward, and a and r to gather
its parameters and to scatter its gradients; d layers are gathered ahead; one channel, first come
first served.
Forward:   the gather of layer m begins when the one before has ended and layer m - 1 - d is
           computed; layer m is computed when it is gathered and layer m - 1 is computed.
Backward:  layer L is still there. When layer l begins, layer l - d is asked for (at the first, all
           of L - 1 … L - d); when it ends, its gradients are scattered. The last one ends the step.
Without prefetch (d = 0) nothing is hidden: L (f + b) + (2L - 1) a + L r.

The longest chains, with d >= 1 and o = max(L - 1 - d, 0) gathers that lie between scatters:

forward    max(a + L f, L a + f)
backward   max(L b + r,                  computing all the way
               (L-1) a + L r,            the channel all the way
               b + (L-1) a + (o+1) r,    the channel, then the last layer
               b + o a + L r,            the first layer, then the channel
               2 b + o (a + r) + r)      the first layer, the channel, the last layer; o >= 1

A chain leaves backward's layers for the channel once at most in the middle: two such parts joined
are longer, and what it gains is convex in how long each part is, so that only these ends count.
Derived here, checked by a walk through time. The sums over layers of the reference notes (3.3),
a + (L-1) max(f, a) + f and max(b, a) + (L-2) max(b, a + r) + max(b, r) + r, are the same for equal
layers and d = 1; with deeper prefetch, where gathers overtake scatters, they are too long, by 8.6 %
at most where b = 2 f and a = r.
"""

import numpy as np

from service.model.columns import Columns, Floats
from service.model.exchange.collectives import Exchange, half_part_ms
from service.model.exchange.lines import Lines, envelope, summed
from service.model.times import compute_ms


def sharded_lines(columns: Columns, half: Exchange | None = None) -> Lines:
    """Lines of compute and communication of a step, ms, without load and compression."""
    layers = columns["overlap.num_layers"]
    layer_ms = compute_ms(columns) / layers
    backward_ms = layer_ms * columns["backward_fraction"]
    half_ms = half_part_ms(columns, 1 / layers, half)
    return layer_lines(
        layers,
        columns["overlap.prefetch_layers"],
        compute=(layer_ms - backward_ms, backward_ms),
        exchange=(half_ms, half_ms),
    )


def layer_lines(
    num_layers: Floats,
    prefetch_layers: Floats,
    *,
    compute: tuple[Floats, Floats],
    exchange: tuple[Floats, Floats],
) -> Lines:
    """Lines of a step, ms; all (points,).

    compute    of one layer, forward and backward, at nominal speed, ms
    exchange   of one layer, to gather its parameters and to scatter its gradients, ms
    """
    forward = _forward(num_layers, compute[0], exchange[0])
    backward = _backward(num_layers, prefetch_layers, compute[1], exchange)
    lines = summed(envelope(*forward), envelope(*backward))
    gather, scatter = exchange
    serial_slope = num_layers * (compute[0] + compute[1])
    serial_ms = (2 * num_layers - 1) * gather + num_layers * scatter
    is_serial = prefetch_layers == 0
    return Lines(
        np.where(is_serial, serial_slope, lines.slope),
        np.where(is_serial, serial_ms, lines.offset),
    )


def _forward(layers: Floats, layer_ms: Floats, gather: Floats) -> tuple[Floats, Floats]:
    return np.stack([layers * layer_ms, layer_ms]), np.stack([gather, layers * gather])


def _backward(
    layers: Floats, prefetch: Floats, layer_ms: Floats, exchange: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """Slopes and offsets of the chains."""
    gather, scatter = exchange
    between = np.maximum(layers - 1 - prefetch, 0)
    rest = layers - 1
    # Without gathers between scatters the last chain is not there: the first one instead.
    has_middle = between >= 1
    slope = [
        layers,
        np.zeros_like(layers),
        np.ones_like(layers),
        np.ones_like(layers),
        np.where(has_middle, 2, layers),
    ]
    offset = [
        scatter,
        rest * gather + layers * scatter,
        rest * gather + (between + 1) * scatter,
        between * gather + layers * scatter,
        between * (gather + scatter) + scatter,
    ]
    return np.stack(slope) * layer_ms, np.stack(offset)
