from service.model.problems import MAX_PROBLEMS, InvalidScenario, Problem
from service.model.results import ATTRIBUTION_COLUMNS, COLUMN_NAMES, COLUMNS, METHODS


def test_names_are_unique_and_end_with_their_unit() -> None:
    assert len(set(COLUMN_NAMES)) == len(COLUMN_NAMES)
    for column in COLUMNS:
        if column.unit == "ms":
            assert column.name.endswith("_ms")
        elif column.unit == "GPU-hours":
            assert column.name.startswith("gpu_hours_")
        else:
            assert column.name.endswith("_fraction") or column.name == "method"
        assert column.sentence.endswith(".")


def test_only_method_has_labels() -> None:
    labelled = {column.name: column.labels for column in COLUMNS if column.labels}
    assert labelled == {"method": METHODS}
    assert METHODS == ("closed_form", "quadrature", "monte_carlo", "recursion")
    assert {column.name for column in COLUMNS if column.kind != "float64"} == {"method"}


def test_the_causes_come_in_the_order_in_which_they_are_switched_off() -> None:
    assert ATTRIBUTION_COLUMNS == (
        "gpu_hours_useful",
        "gpu_hours_transient",
        "gpu_hours_slow_groups",
        "gpu_hours_communication",
        "gpu_hours_load",
    )
    assert set(ATTRIBUTION_COLUMNS) < set(COLUMN_NAMES)


def test_an_invalid_scenario_says_its_first_problems_and_keeps_no_more_than_can_be_read() -> None:
    problems = [Problem(pointer=f"/{n}", code="c", detail=f"d{n}") for n in range(7)]
    error = InvalidScenario(problems)
    assert str(error) == "d0; d1; d2; d3; d4"
    assert error.problems == tuple(problems)
    assert len(InvalidScenario(problems * 1000).problems) == MAX_PROBLEMS
