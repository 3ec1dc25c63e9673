from tests.model.pipeline.order_letters import kinds, words


def test_zbv_of_two_ranks() -> None:
    assert words("zbv", 2, 3, 2) == [
        "Fa0 Fa1 Fa2 Fb0 Ib0 Wb0 Fb1 Ib1 Wb1 Ia0 Wa0 Fb2 Ib2 Wb2 Ia1 Wa1 Ia2 Wa2",
        "Fa0 Fb0 Fa1 Fb1 Ib0 Wb0 Fa2 Ia0 Wa0 Fb2 Ib1 Wb1 Ia1 Ib2 Ia2 Wa1 Wb2 Wa2",
    ]


def test_zbv_with_few_microbatches_leaves_out_those_that_are_not_there() -> None:
    assert kinds("zbv", 4, 1, 2) == ["FFIWIW"] * 4
    assert words("zbv", 3, 1, 2)[0] == "Fa0 Fb0 Ib0 Wb0 Ia0 Wa0"
