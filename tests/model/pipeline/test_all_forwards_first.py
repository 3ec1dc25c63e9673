from tests.model.pipeline.order_letters import words


def test_gpipe_runs_all_forwards_then_all_backwards_from_the_first_on() -> None:
    assert words("gpipe", 2, 3, 1) == ["Fa0 Fa1 Fa2 Ba0 Ba1 Ba2"] * 2


def test_naive_runs_one_microbatch() -> None:
    assert words("naive", 3, 1, 1) == ["Fa0 Ba0"] * 3


def test_looped_bfs_goes_back_in_the_reverse_order() -> None:
    assert words("looped_bfs", 2, 2, 2) == ["Fa0 Fa1 Fb0 Fb1 Bb1 Bb0 Ba1 Ba0"] * 2
    assert words("looped_bfs", 1, 2, 1) == ["Fa0 Fa1 Ba1 Ba0"]
