import pytest

from tests.calibration.reading.small_files import csv, fault, faults, read


def table(header: str, *values: float) -> bytes:
    rows = [(step, rank, *values) for step in range(3) for rank in range(2)]
    return csv(rows, f"step,rank,{header}\n".encode())


@pytest.mark.parametrize(
    ("header", "values", "reason"),
    [
        ("compute_s", (310,), "compute_s has the median 310, over 100 s: are these ms?"),
        ("compute_us", (12,), "compute_us has the median 12, under 100 us: are these ms or s?"),
        ("compute_ms", (1e-4,), "compute has the median 0.0001 ms, under a microsecond"),
        ("compute_ms", (2e7,), "compute has the median 2e+07 ms, over 4 hours"),
        ("compute_ms,step_ms", (0.3, 300), "all phases are under 0.5% of the step"),
        ("compute_ms,load_ms,step_ms", (0.3, 0.01, 300), "all phases are under 0.5% of the step"),
        ("compute_ms,step_ms", (300, 0.3), "compute is over 20 times the step"),
        ("compute_ms,load_ms,step_ms", (312, 30_000, 422), "load is over 20 times the step"),
        ("compute_ms,communication_ms,step_ms", (312, 80_000, 422), "communication has the median"),
        ("compute_ms,step_s", (300, 300), "step_s has the median 300, over 100 s"),
    ],
)
def test_units_that_cannot_be_are_refused_with_the_median(
    header: str, values: tuple[float, ...], reason: str
) -> None:
    found = faults(table(header, *values))
    assert {one.code for one in found} == {"implausible_units"}
    assert any(reason in one.detail for one in found)


@pytest.mark.parametrize(
    ("header", "values"),
    [
        ("compute_s", (46.3,)),
        ("compute_us", (900,)),
        ("compute_ms", (310_000,)),
        ("compute_ms,step_ms", (30, 900)),
        ("compute_ms,communication_ms,step_ms", (1, 250, 300)),
        # Which of the two is wrong, or what it holds, is for the fit to say.
        ("compute_ms,step_ms", (310, 300)),
    ],
)
def test_units_that_can_be_are_taken(header: str, values: tuple[float, ...]) -> None:
    assert read(table(header, *values)).num_steps == 3


def test_the_same_value_times_1000_is_the_way_out() -> None:
    assert "give them times 1000 as compute_ms" in fault(table("compute_s", 310)).detail
    assert read(table("compute_ms", 310_000)).compute_ms[0, 0] == 310_000


@pytest.mark.parametrize(
    ("header", "values", "said"),
    [
        ("compute_ms", (0.3,), "compute has the median 0.3 ms, where 1 to 100000 ms are usual"),
        ("compute_ms", (301_520,), "compute has the median 301520 ms"),
        ("compute_ms,step_ms", (0.3, 0.42), "compute has the median 0.3 ms"),
        (
            "compute_ms,communication_ms,step_ms",
            (312, 0.08, 422),
            "communication has the median 0.08 ms, under 0.1% of 422 ms: is the unit right?",
        ),
        ("compute_ms,communication_ms", (312, 0.08), "under 0.1% of 312 ms"),
        ("compute_ms,communication_ms", (312, 80_000), "over 20 times compute's 312 ms"),
        ("compute_ms,load_ms", (312, 30_000), "load has the median 30000 ms, over 20 times"),
    ],
)
def test_units_that_few_have_are_a_remark(
    header: str, values: tuple[float, ...], said: str
) -> None:
    (remark,) = read(table(header, *values)).warnings
    assert remark.code == "unusual_units"
    assert said in remark.detail


@pytest.mark.parametrize(
    ("header", "values"),
    [
        ("compute_ms", (1,)),
        ("compute_s", (46.3,)),
        ("compute_ms,communication_ms,step_ms", (312, 2, 422)),
        ("compute_ms,communication_ms,load_ms,step_ms", (312, 0, 0, 422)),
    ],
)
def test_units_that_are_usual_pass_without_a_word(header: str, values: tuple[float, ...]) -> None:
    assert read(table(header, *values)).warnings == ()
