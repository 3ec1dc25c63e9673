import re

from service.model.causes import CAUSES
from service.model.problems import MAX_PROBLEMS, InvalidScenario, Problem
from service.model.results import ATTRIBUTION_COLUMNS, COLUMN_NAMES, COLUMNS, METHODS


def test_names_are_unique_and_end_with_their_unit() -> None:
    assert len(set(COLUMN_NAMES)) == len(COLUMN_NAMES)
    for column in COLUMNS:
        if column.unit == "ms":
            # Statistics follow the unit; those of the step were there before the rule.
            assert re.search(r"_ms(_p50|_p95|_se)?$", column.name)
        elif column.unit == "GPU-hours":
            assert column.name.startswith("gpu_hours_")
        elif column.unit == "GPUs":
            assert column.name == "busy_gpus_mean"
        elif column.unit:
            assert column.name.endswith(f"_{column.unit}") or column.name == "days_to_finish"
        elif column.kind == "float64":
            assert re.search(
                r"_(fraction|ratio)(_p[1-9]0)?$|^failures_per_day$|_in_flight$", column.name
            )
        assert column.sentence.endswith(".")


def test_only_methods_have_labels() -> None:
    labelled = {column.name: column.labels for column in COLUMNS if column.labels}
    methods = {name: labels for name, labels in labelled.items() if name.endswith("method")}
    assert methods == {"method": METHODS, "spread_method": METHODS}
    assert set(labelled) == {*methods, "remedy", "collective_algorithm"}
    assert METHODS == ("closed_form", "quadrature", "monte_carlo", "recursion")
    kinds = {column.name: column.kind for column in COLUMNS if column.kind != "float64"}
    assert kinds == {
        "method": "enum",
        "spread_method": "enum",
        "num_independent_ranks": "int64",
        "remedy": "enum",
        "remedy_count": "int64",
        "is_extrapolated": "bool",
        "best_num_buckets": "int64",
        "collective_algorithm": "enum",
        "num_data_parallel_ranks": "int64",
    }


def test_the_causes_come_in_the_order_in_which_they_are_switched_off() -> None:
    assert ATTRIBUTION_COLUMNS == (
        "gpu_hours_useful",
        "gpu_hours_spares",
        "gpu_hours_backup_workers",
        "gpu_hours_failures",
        "gpu_hours_episodes",
        "gpu_hours_transient",
        "gpu_hours_spikes",
        "gpu_hours_replica",
        "gpu_hours_common",
        "gpu_hours_persistent",
        "gpu_hours_node",
        "gpu_hours_slow_groups",
        "gpu_hours_communication",
        "gpu_hours_load",
        "gpu_hours_extra_steps",
        # Later columns stand after those that were there.
        "gpu_hours_pipeline_bubble",
        "gpu_hours_pipeline_imbalance",
        "gpu_hours_pipeline_p2p",
    )
    assert set(ATTRIBUTION_COLUMNS) < set(COLUMN_NAMES)
    switched_off = [f"gpu_hours_{cause}" for cause in CAUSES]
    assert [name for name in ATTRIBUTION_COLUMNS if name in switched_off] == switched_off


def test_an_invalid_scenario_says_its_first_problems_and_keeps_no_more_than_can_be_read() -> None:
    problems = [Problem(pointer=f"/{n}", code="c", detail=f"d{n}") for n in range(7)]
    error = InvalidScenario(problems)
    assert str(error) == "d0; d1; d2; d3; d4"
    assert error.problems == tuple(problems)
    assert len(InvalidScenario(problems * 1000).problems) == MAX_PROBLEMS
