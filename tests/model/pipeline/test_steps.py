from service.model.pipeline.steps import numbered, step


def test_microbatches_are_counted_by_chunk_and_direction() -> None:
    steps = [step(0, 0), step(0, 1), step(0, 0), step(4, 0), step(1, 1), step(4, 1)]
    assert numbered(steps).tolist() == [
        [0, 0, 0, -1, -1],
        [0, 1, 0, -1, -1],
        [0, 0, 1, -1, -1],
        [4, 0, 2, 1, 0],
        [1, 1, 1, -1, -1],
        [4, 1, 1, 0, 0],
    ]


def test_weight_gradients_belong_to_the_oldest_input_gradient() -> None:
    steps = [step(1, 1), step(2, 1), step(2, 0), step(3, 0), step(2, 1), step(3, 0), step(3, 0)]
    assert numbered(steps)[:, :3].tolist() == [
        [1, 1, 0],
        [2, 1, 1],
        [2, 0, 0],
        [3, 1, 1],
        [2, 1, 2],
        [3, 0, 0],
        [3, 1, 2],
    ]
