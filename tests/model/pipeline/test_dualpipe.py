from tests.model.pipeline.order_letters import words

TWO = [
    "Fa0 Fa1 Fa2 Fb0 Ib0 Wb0 Fb1 Fa3+Bb1 Fb2+Ba0 Bb2 Fb3+Ba1 Bb3 Ia2 Wa2 Ia3 Wa3",
    "Fa0 Fb0 Fa1 Fb1 Fa2 Bb0 Fb2+Ba0 Fa3+Bb1 Fb3+Ba1 Bb2 Ba2 Ib3 Ia3 Wb3 Wa3",
]


def test_dualpipev_of_two_ranks() -> None:
    assert words("dualpipev", 2, 4, 2) == TWO


def test_dualpipe_runs_the_same_steps_from_both_ends() -> None:
    """Direction b has the upper half of the micro-batches; the other half of the ranks mirrors."""
    first = [
        TWO[rank].replace("b3", "b7").replace("b2", "b6").replace("b1", "b5").replace("b0", "b4")
        for rank in (0, 1)
    ]
    mirrored = [
        TWO[rank]
        .replace("b", "x")
        .replace("a3", "b7")
        .replace("a2", "b6")
        .replace("a1", "b5")
        .replace("a0", "b4")
        .replace("x", "a")
        for rank in (1, 0)
    ]
    assert words("dualpipe", 4, 8, 1) == [*first, *mirrored]
