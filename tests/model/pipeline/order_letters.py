"""Orders as text, one letter an operation: F, B (backward), I, W, and FB for a joined pair."""

from service.model.pipeline import SCHEDULES

LETTERS = ("F", "B", "I", "W", "FB")


def kinds(name: str, stages: int, microbatches: int, chunks: int) -> list[str]:
    """For each rank, kinds only."""
    orders = SCHEDULES[name].order(stages, microbatches, chunks)
    return ["".join(LETTERS[kind] for kind in order[:, 0].tolist()) for order in orders]


def words(name: str, stages: int, microbatches: int, chunks: int) -> list[str]:
    """For each rank, kind, chunk as a letter, micro-batch: "Fa0 Fb0 Bb0"; pairs as "Fa3+Bb0"."""
    orders = SCHEDULES[name].order(stages, microbatches, chunks)
    return [" ".join(_word(*row) for row in order.tolist()) for order in orders]


def _word(kind: int, chunk: int, microbatch: int, back_chunk: int, back_microbatch: int) -> str:
    if kind == 4:
        return f"F{'abcd'[chunk]}{microbatch}+B{'abcd'[back_chunk]}{back_microbatch}"
    return f"{LETTERS[kind]}{'abcd'[chunk]}{microbatch}"
