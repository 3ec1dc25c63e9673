from tests.model.pipeline.order_letters import kinds, words


def test_zb1p_computes_weight_gradients_as_many_turns_late_as_its_rank() -> None:
    assert kinds("zb1p", 4, 8, 1) == [
        "FFFFIWFIWFIWFIWFIWIWIWIW",
        "FFFIFIWFIWFIWFIWFIWIWIWW",
        "FFIFIFIWFIWFIWFIWFIWIWWW",
        "FIFIFIFIWFIWFIWFIWFIWWWW",
    ]
    assert words("zb1p", 2, 2, 1)[1] == "Fa0 Ia0 Fa1 Ia1 Wa0 Wa1"


def test_interleaved_zb1p_takes_chunks_in_turn_as_interleaved_1f1b_does() -> None:
    assert words("interleaved_zb1p", 2, 2, 2) == [
        "Fa0 Fa1 Fb0 Fb1 Ib0 Wb0 Ib1 Wb1 Ia0 Wa0 Ia1 Wa1",
        "Fa0 Fa1 Fb0 Ib0 Fb1 Ib1 Wb0 Ia0 Wb1 Ia1 Wa0 Wa1",
    ]
