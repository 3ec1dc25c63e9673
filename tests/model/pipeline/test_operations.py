import numpy as np

from service.model.pipeline.operations import in_order_of, operations


def test_operations_are_rows_without_partners() -> None:
    assert operations(2, 1, [4, 5]).tolist() == [[2, 1, 4, -1, -1], [2, 1, 5, -1, -1]]
    assert operations([0, 1], [0, 1], 3).tolist() == [[0, 0, 3, -1, -1], [1, 1, 3, -1, -1]]


def test_parts_are_merged_by_key_and_keep_their_order_where_keys_are_equal() -> None:
    first, second = operations(0, 0, [0, 1, 2]), operations(1, 0, [0, 1])
    merged = in_order_of((first, np.array([0, 3, 3])), (second, np.array([1, 3])))
    assert merged[:, [0, 2]].tolist() == [[0, 0], [1, 0], [0, 1], [0, 2], [1, 1]]
