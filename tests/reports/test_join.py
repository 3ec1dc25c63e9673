from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.reports.join import DuplicateKeyError, Floats, Ints, Labelled, Side, SideItem, join

NORMAL = {"kind": "normal", "cv": 0.05}


def side(
    names: list[str],
    item: list[int],
    axes: Mapping[str, Ints | Floats | Labelled],
    values: Mapping[str, Floats] | None = None,
) -> Side:
    return Side(
        items=tuple(SideItem(name=name, profile=f"{name}-profile") for name in names),
        item=np.array(item, dtype=np.int64),
        axes=axes,
        values=values or {},
    )


KEYS = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.integers(1, 4), st.sampled_from([0.0, 0.1, -0.1, float("nan")])
    ),
    max_size=30,
    unique_by=str,
)


def side_of(keys: list[tuple[str, int, float]]) -> Side:
    names = sorted({name for name, _, _ in keys}, reverse=True)
    return side(
        names,
        [names.index(name) for name, _, _ in keys],
        {
            "num_gpus": np.array([gpus for _, gpus, _ in keys], dtype=np.int64),
            "cv": np.array([cv for _, _, cv in keys], dtype=np.float64),
        },
    )


@given(past=KEYS, new=KEYS)
def test_join_is_that_of_a_dictionary(
    past: list[tuple[str, int, float]], new: list[tuple[str, int, float]]
) -> None:
    places = {str(key): place for place, key in enumerate(new)}
    expected = [(p, places[str(key)]) for p, key in enumerate(past) if str(key) in places]
    joined = join(side_of(past), side_of(new))
    assert list(zip(joined.past_rows.tolist(), joined.new_rows.tolist(), strict=True)) == expected
    assert joined.num_rows == len(expected)
    assert joined.only_in_baseline == len(past) - len(expected)
    assert joined.only_in_candidate == len(new) - len(expected)


def test_items_join_by_name_and_profile_slug() -> None:
    past = side(["a"], [0], {})
    other = Side(
        items=(SideItem(name="a", profile=None),),
        item=np.array([0]),
        axes={},
        values={},
    )
    assert join(past, side(["b", "a"], [0, 1], {})).new_rows.tolist() == [1]
    assert join(past, other).num_rows == 0


def test_whole_values_join_however_their_numbers_and_names_were_written() -> None:
    past = Labelled(
        codes=np.array([0, 1, 2, 3]), values=(None, NORMAL, {"kind": "gamma", "cv": 1}, [1, True])
    )
    new = Labelled(
        codes=np.array([3, 0, 2, 1]),
        values=({"cv": 0.05, "kind": "normal"}, {"kind": "gamma", "cv": 1.0}, None, (1.0, True)),
    )
    joined = join(side(["a"], [0] * 4, {"t": past}), side(["a"], [0] * 4, {"t": new}))
    assert joined.new_rows.tolist() == [2, 1, 3, 0]


def test_numbers_join_labels_that_are_numbers() -> None:
    numbers = np.array([np.nan, 8.0, 16.0])
    labels = Labelled(codes=np.array([1, 0]), values=(None, 8))
    joined = join(side(["a"], [0] * 3, {"x": numbers}), side(["a"], [0] * 2, {"x": labels}))
    assert (joined.past_rows.tolist(), joined.new_rows.tolist()) == ([0, 1], [1, 0])
    assert (joined.only_in_baseline, joined.only_in_candidate) == (1, 0)


def test_many_long_axes_do_not_overflow_the_codes() -> None:
    # 1 000 values on each of 9 axes: 1e27 combinations, far over 64 bits
    points = np.arange(1000)
    axes = {f"axis{n}": np.roll(points, n).astype(np.float64) for n in range(9)}
    turned = {path: axis[::-1] for path, axis in axes.items()}
    joined = join(side(["a"], [0] * 1000, axes), side(["a"], [0] * 1000, turned))
    np.testing.assert_array_equal(joined.new_rows, points[::-1])


def test_a_key_met_twice_is_named_with_both_points() -> None:
    twice = side(
        ["a", "a"],
        [0, 0, 1],
        {
            "num_gpus": np.array([8, 16, 16]),
            "cv": np.array([0.1, np.nan, np.nan]),
            "t": Labelled(codes=np.array([0, 0, 0]), values=(NORMAL,)),
        },
    )
    with pytest.raises(DuplicateKeyError, match="points 1 and 2 of the baseline") as caught:
        join(twice, twice)
    assert caught.value.side == "baseline"
    assert caught.value.points == (1, 2)
    named = {"name": "a", "profile": "a-profile", "num_gpus": 16, "cv": None, "t": NORMAL}
    assert caught.value.key == named


def test_a_key_met_twice_in_the_candidate_names_the_candidate() -> None:
    once, twice = side(["a"], [0], {}), side(["a"], [0, 0], {})
    with pytest.raises(DuplicateKeyError, match=r'of the candidate have the same key \{"name":"a"'):
        join(once, twice)


def test_sides_have_the_same_axes() -> None:
    past = side(["a"], [0], {"num_gpus": np.array([8])})
    with pytest.raises(ValueError, match="only one side has the axes cv, num_gpus"):
        join(past, side(["a"], [0], {"cv": np.array([0.1])}))


def test_values_follow_the_rows_and_a_missing_column_is_unknown() -> None:
    past = side(["a", "b"], [0, 1], {}, {"x": np.array([1.0, 2.0]), "old": np.array([5.0, 6.0])})
    new = side(["b", "a"], [0, 1], {}, {"x": np.array([20.0, 10.0])})
    joined = join(past, new)
    assert joined.columns == ("x", "old")
    assert joined.past("x").tolist() == [1.0, 2.0]
    assert joined.new("x").tolist() == [10.0, 20.0]
    assert joined.new("x", np.array([1])).tolist() == [20.0]
    assert np.isnan(joined.new("old")).all()
