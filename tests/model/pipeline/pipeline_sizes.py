"""Sizes that the schedules take, written out from their rules."""

from collections.abc import Iterator

SPLIT = ("zb1p", "zb_h1", "zb_h2", "zbv", "interleaved_zb1p", "dualpipe", "dualpipev")
NAMES = ("naive", "gpipe", "1f1b", "interleaved_1f1b", "looped_bfs", *SPLIT)
SINGLE = ("naive", "gpipe", "1f1b", "zb1p", "zb_h1", "zb_h2", "dualpipe")
V_SHAPED = ("zbv", "dualpipev")
IN_ROUNDS = ("interleaved_1f1b", "interleaved_zb1p")


def is_valid(name: str, stages: int, microbatches: int, chunks: int) -> bool:
    if name in SINGLE and chunks != 1:
        return False
    if name in V_SHAPED and chunks != 2:
        return False
    if name in IN_ROUNDS:
        rounds = max(1, microbatches // stages)
        return chunks >= 2 and microbatches % rounds == 0
    if name == "naive":
        return microbatches == 1
    if name == "dualpipe":
        return stages % 2 == 0 and microbatches % 2 == 0 and microbatches >= 2 * stages
    return microbatches >= 2 * stages if name == "dualpipev" else True


def valid_sizes(
    name: str, most_stages: int, most_microbatches: int, most_chunks: int
) -> Iterator[tuple[int, int, int]]:
    for stages in range(1, most_stages + 1):
        for microbatches in range(1, most_microbatches + 1):
            for chunks in range(1, most_chunks + 1):
                if is_valid(name, stages, microbatches, chunks):
                    yield stages, microbatches, chunks
