"""Orders recorded from the published scheduler's rules with times and memory as documented."""

from service.model.pipeline import SCHEDULES
from service.model.pipeline.memory_bounded import memory_bounded_order
from tests.model.pipeline.order_letters import kinds


def test_zb_h1_delays_weight_gradients_within_the_memory_of_1f1b() -> None:
    assert kinds("zb_h1", 4, 8, 1) == [
        "FFFFIWFIWFIWFIWFIWIWIWIW",
        "FFFIFIWFIWFIWFIWFIWIWIWW",
        "FFIFIFIWFIWFIWFIWFIWIWWW",
        "FIFIFIFIWFIWFIWFIWFIWWWW",
    ]


def test_zb_h1_with_few_microbatches_runs_forwards_first() -> None:
    assert kinds("zb_h1", 4, 3, 1) == ["FFFIWIWIW", "FFFIWIWIW", "FFFIWIWIW", "FIFIFIWWW"]
    assert kinds("zb_h1", 4, 4, 1) == [
        "FFFFIWIWIWIW",
        "FFFFIWIWIWIW",
        "FFFIFIWIWIWW",
        "FIFIFIFIWWWW",
    ]


def test_zb_h1_is_the_greedy_order_where_a_formula_is_taken() -> None:
    for stages in range(1, 9):
        for microbatches in range(stages + 1, stages + 12):
            found = SCHEDULES["zb_h1"].order(stages, microbatches, 1)
            greedy = memory_bounded_order(stages, microbatches, stages)
            for one, other in zip(found, greedy, strict=True):
                assert (one == other).all()


def test_zb_h2_fills_the_warm_up_with_forwards() -> None:
    assert kinds("zb_h2", 4, 16, 1) == [
        "FFFFFFFIFIFIWFIIFIWFIWFIIFIWFIWFWWWWWWIWIWIWIWIW",
        "FFFFFIFIFIFIFIFIFIWFIIFIWFIWFIIFIWIWIWWWWWWWWWWW",
        "FFFIFIFIFIFIFIFIFIFIFIFIWFIIFIWFIWIWWWWWWWWWWWWW",
        "FIFIFIFIFIFIFIFIFIFIFIFIFIFIFIWFIWWWWWWWWWWWWWWW",
    ]
    assert kinds("zb_h2", 6, 18, 1) == [
        "FFFFFFFFFFFIFIFIWFIIFIWFIWFIIFWWWWWWIWIWIWIWIWIWIWIWIW",
        "FFFFFFFFFIFIFIFIFIFIFIWFIIFIWFIWIIWIWIWIWIWIWWWWWWWWWW",
        "FFFFFFFIFIFIFIFIFIFIFIFIFIFIWFIIWIWIWIWIWIWWWWWWWWWWWW",
        "FFFFFIFIFIFIFIFIFIFIFIFIFIFIFIFIWIWIWIWIWWWWWWWWWWWWWW",
        "FFFIFIFIFIFIFIFIFIFIFIFIFIFIFIFIFIWIWIWWWWWWWWWWWWWWWW",
        "FIFIFIFIFIFIFIFIFIFIFIFIFIFIFIFIFIFIWWWWWWWWWWWWWWWWWW",
    ]


def test_no_rank_of_zb_h1_and_zb_h2_keeps_more_than_its_memory() -> None:
    """Half of what a forward keeps is freed by the input gradient, half by the weight gradient."""
    for name, microbatches_kept in (("zb_h1", 1), ("zb_h2", 2)):
        for stages, microbatches in ((1, 3), (4, 3), (5, 17), (8, 40), (16, 100)):
            for order in kinds(name, stages, microbatches, 1):
                kept = most = 0
                for kind in order:
                    kept += {"F": 2, "I": -1, "W": -1}[kind]
                    most = max(most, kept)
                assert most <= 2 * microbatches_kept * stages
