"""What can be wrong with a scenario: where, which rule, and the sentence."""

from collections.abc import Iterable
from itertools import islice

from msgspec import Struct

# So many show what is wrong with a document; a million would only cost time.
MAX_PROBLEMS = 1_000


class Problem(Struct, frozen=True, kw_only=True):
    """One fault; `pointer` (RFC 6901) is relative to the scenario or to the list of axes."""

    pointer: str
    code: str
    detail: str


class InvalidScenario(ValueError):  # noqa: N818 - the name is the sentence
    """A scenario or a grid that cannot be computed, with all that is wrong with it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(islice(problems, MAX_PROBLEMS))
        super().__init__("; ".join(problem.detail for problem in self.problems[:5]))
