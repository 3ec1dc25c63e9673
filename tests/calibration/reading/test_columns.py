import pytest

from service.calibration.reading.columns import MAX_COLUMNS, columns_of
from service.calibration.refusals import TimingsRefusedError

GOOD = ("step", "rank", "compute_ms")


def reasons(*names: str) -> list[tuple[str, str]]:
    with pytest.raises(TimingsRefusedError) as caught:
        columns_of(names, "run.csv")
    return [(fault.code, fault.detail) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("load", "load_ms, load_s or load_us"),
        ("Load_Seconds", "load_ms, load_s or load_us"),
        ("comm", "communication_ms, communication_s or communication_us"),
        ("communication-time", "communication_ms"),
        ("step duration", "step_ms, step_s or step_us"),
        ("step_ns", "step_ms"),
        ("load_min", "load_ms"),
        ("Step", "is step meant?"),
        ("RANK", "is rank meant?"),
        ("comunication_ms", "is communication_ms meant?"),
        ("compute-ms", "is compute_ms meant?"),
        ("replicas", "is replica meant?"),
        ("world size", "is world_size meant?"),
        ("include_wait", "is includes_wait meant?"),
    ],
)
def test_a_misspelt_column_is_refused_with_what_is_meant(name: str, meant: str) -> None:
    ((code, detail),) = reasons(*GOOD, name)
    assert code == "unknown_column"
    assert detail.startswith(f"the column {name!r} is not read: ")
    assert meant in detail


@pytest.mark.parametrize(
    "name", ["host", "gpu_temperature", "epoch", "loss", "batch", "", "run_id"]
)
def test_any_other_column_is_left_out(name: str) -> None:
    assert columns_of((*GOOD, name), "run.csv").left_out == (name,)


def test_what_every_row_needs() -> None:
    assert reasons("loss", "rnak") == [
        (
            "missing_column",
            "there is no column step, which every row needs; there are 'loss', 'rnak'",
        ),
        (
            "missing_column",
            (
                "there is no column rank, which every row needs; there are 'loss', "
                "'rnak': is 'rnak' meant for it?"
            ),
        ),
        (
            "missing_column",
            "there is no column compute_ms (or compute_s, compute_us); there are 'loss', 'rnak'",
        ),
    ]


def test_nothing_is_there_twice() -> None:
    assert reasons(*GOOD, "rank") == [("unknown_column", "the column 'rank' is there twice")]
    assert columns_of((*GOOD, "x", "x"), "run.csv").left_out == ("x", "x")
    assert reasons(*GOOD, "compute_s") == [
        ("unknown_column", "compute is there in two units; leave one of the columns out")
    ]


def test_long_names_are_cut_and_many_are_refused() -> None:
    ((_, detail),) = reasons("step", "rank", "x" * 100)
    assert "x" * 60 + "…'" in detail
    many = reasons(*GOOD, *(f"x{number}" for number in range(MAX_COLUMNS)))
    assert many == [("bad_value", "1003 columns, but 1000 is the limit")]
