"""The rule about simulations that would take too long; it holds of points that break no other."""

from service.model.columns import Columns, columns_of
from service.model.fields import Scenario
from service.model.recursion.lengths import MAX_RANK_STEPS
from service.model.rulebook.rule import Mask, Rule
from service.model.simulated_points import rank_steps


def _too_long(columns: Columns) -> Mask:
    broken: Mask = rank_steps(columns, with_causes=False) > MAX_RANK_STEPS
    return broken


def _say_too_long(scenario: Scenario) -> tuple[str, str]:
    needed = float(rank_steps(columns_of(scenario), with_causes=False)[0])
    return (
        "/synchronization",
        (
            f"who waits for whom has no formula here, and a simulation of {needed:.2g} steps of "
            f"single GPUs takes too long: at most {MAX_RANK_STEPS:.2g}. Fewer GPUs, draws or steps "
            "between exchanges would do"
        ),
    )


TOO_MANY_RANK_STEPS = Rule("too_many_rank_steps", _too_long, _say_too_long)
