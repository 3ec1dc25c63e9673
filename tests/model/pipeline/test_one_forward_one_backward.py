from tests.model.pipeline.order_letters import kinds, words


def test_1f1b_warms_up_by_one_forward_less_on_every_rank() -> None:
    assert kinds("1f1b", 4, 6, 1) == [
        "FFFFBFBFBBBB",
        "FFFBFBFBFBBB",
        "FFBFBFBFBFBB",
        "FBFBFBFBFBFB",
    ]
    assert words("1f1b", 2, 3, 1) == ["Fa0 Fa1 Ba0 Fa2 Ba1 Ba2", "Fa0 Ba0 Fa1 Ba1 Fa2 Ba2"]


def test_1f1b_with_few_microbatches_has_no_turns_on_the_first_ranks() -> None:
    assert kinds("1f1b", 4, 2, 1) == ["FFBB", "FFBB", "FFBB", "FBFB"]


def test_interleaved_runs_rounds_of_p_microbatches_through_its_chunks() -> None:
    assert words("interleaved_1f1b", 2, 4, 2) == [
        "Fa0 Fa1 Fb0 Fb1 Fa2 Bb0 Fa3 Bb1 Fb2 Ba0 Fb3 Ba1 Bb2 Bb3 Ba2 Ba3",
        "Fa0 Fa1 Fb0 Bb0 Fb1 Bb1 Fa2 Ba0 Fa3 Ba1 Fb2 Bb2 Fb3 Bb3 Ba2 Ba3",
    ]


def test_interleaved_has_longer_rounds_where_p_does_not_divide_m() -> None:
    order = words("interleaved_1f1b", 4, 10, 2)[3]
    assert order.startswith("Fa0 Fa1 Fa2 Fa3 Fa4 Fb0 Bb0 Fb1 Bb1 Fb2 Bb2 Fb3 Bb3 Fb4 Bb4 Fa5 Ba0")
    few = words("interleaved_1f1b", 4, 3, 2)[3]
    assert few == "Fa0 Fa1 Fa2 Fb0 Bb0 Fb1 Bb1 Fb2 Bb2 Ba0 Ba1 Ba2"
