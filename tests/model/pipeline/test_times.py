import numpy as np
import pytest

from service.model.pipeline.plans import plan_of
from service.model.pipeline.times import row_times, time_rows


@pytest.mark.parametrize(
    ("name", "sizes"), [("zbv", (3, 6, 2)), ("dualpipe", (4, 10, 1)), ("1f1b", (3, 4, 1))]
)
def test_times_of_operations_by_kind(name: str, sizes: tuple[int, int, int]) -> None:
    plan = plan_of(name, *sizes)
    stages = sizes[0]
    rng = np.random.default_rng(0)
    forward, backward, factor = rng.uniform(1, 2, (3, stages, 2))
    share = np.array([0.3, 0.6])
    rows = time_rows(plan)
    found = row_times(rows, forward, backward, share, factor)[rows.row]
    assert rows.count.sum() == plan.num_operations
    for place in range(plan.num_operations):
        own, partner = plan.model_stage[place], plan.partner_model_stage[place]
        expected = {
            0: forward[own],
            1: backward[own],
            2: (1 - share) * backward[own],
            3: share * backward[own],
            4: forward[own] + backward[partner],
        }[int(plan.kind[place])]
        expected = expected * factor[plan.stage[place]] / plan.chunks
        assert found[place] == pytest.approx(expected, rel=1e-14)
    plain = row_times(rows, forward, backward, share) * factor[rows.stage]
    assert plain == pytest.approx(row_times(rows, forward, backward, share, factor), rel=1e-14)
