"""Most micro-batches in flight on any stage, by formula: no plan is needed.

Formulas of 1F1B, interleaved and the zero-bubble schedules are those published; the others follow
from the orders. All are held against the orders themselves, for every size of up to 12 stages, 40
micro-batches and 4 chunks, and for larger ones.
"""

from collections.abc import Callable


def closed_peak(schedule: str, stages: int, microbatches: int, chunks: int) -> float:
    """Of valid sizes; as `peaks.peak_microbatches_in_flight` at the stage with most."""
    return _FORMULAS[schedule](stages, microbatches, chunks)


def _all(stages: int, microbatches: int, chunks: int) -> float:
    """M: all go forward before any comes back."""
    del stages, chunks
    return float(microbatches)


def _one_a_stage(stages: int, microbatches: int, chunks: int) -> float:
    """min(M, P)."""
    del chunks
    return float(min(microbatches, stages))


def _interleaved(stages: int, microbatches: int, chunks: int) -> float:
    """min(MV, 2 (P - 1) + (V - 1) G + 1) / V, with G micro-batches a round: P where P divides M."""
    ahead = 2 * (stages - 1) + (chunks - 1) * _of_round(stages, microbatches) + 1
    return min(microbatches * chunks, ahead) / chunks


def _interleaved_zb1p(stages: int, microbatches: int, chunks: int) -> float:
    """min(MV, P + (V - 1) G) / V, with G micro-batches a round."""
    ahead = stages + (chunks - 1) * _of_round(stages, microbatches)
    return min(microbatches * chunks, ahead) / chunks


def _zb_h2(stages: int, microbatches: int, chunks: int) -> float:
    """min(M, 2 P - 1)."""
    del chunks
    return float(min(microbatches, 2 * stages - 1))


def _dualpipe(stages: int, microbatches: int, chunks: int) -> float:
    """P + 1, of both directions; M is at least 2 P."""
    del microbatches, chunks
    return float(stages + 1)


def _dualpipev(stages: int, microbatches: int, chunks: int) -> float:
    """P + 1/2; M is at least 2 P."""
    del microbatches, chunks
    return stages + 0.5


def _of_round(stages: int, microbatches: int) -> int:
    return microbatches // max(1, microbatches // stages)


_FORMULAS: dict[str, Callable[[int, int, int], float]] = {
    "naive": _all,
    "gpipe": _all,
    "1f1b": _one_a_stage,
    "interleaved_1f1b": _interleaved,
    "looped_bfs": _all,
    "zb1p": _one_a_stage,
    "zb_h1": _one_a_stage,
    "zb_h2": _zb_h2,
    "zbv": _one_a_stage,
    "interleaved_zb1p": _interleaved_zb1p,
    "dualpipe": _dualpipe,
    "dualpipev": _dualpipev,
}
