"""Numbers as options: nan and inf are words that Python reads, but nothing that is measured."""

import math
from typing import Any

import rich_click as click


class FiniteRange(click.FloatRange):
    """A number within bounds; without bounds any that is one."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Refuse what is no number, or beyond the bounds."""
        number = float(click.FLOAT.convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is no finite number.", param, ctx)
        return float(super().convert(number, param, ctx))
