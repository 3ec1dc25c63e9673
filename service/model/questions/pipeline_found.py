"""What a search for pipelines asks of memory, and what it finds."""

from dataclasses import dataclass

from service.model.kernel import Results
from service.model.same_job import Overrides, PipelineSizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a GPU may hold at most; None: anything.

    in_flight   micro-batches, each of its own size, at the stage that holds most
    activations, parameters   relative to the scenario as it is
    """

    in_flight: float | None = None
    activations: float | None = None
    parameters: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """A pipeline that was evaluated; GPU-hours over the window, at the scenario's own ideal step.

    overrides               that make it of the scenario
    microbatch_size_ratio   size of a micro-batch over that in the scenario
    efficiency              the scenario's own ideal step over the expected one, times time ratio
    peak_in_flight          micro-batches, at the stage that holds most
    activations_ratio, parameters_ratio   what a GPU holds over what it holds in the scenario
    point                   its position in `Found.results`
    """

    sizes: PipelineSizes
    overrides: Overrides
    microbatch_size_ratio: float
    lost: float
    lost_se: float
    given_back: float
    efficiency: float
    peak_in_flight: float
    activations_ratio: float
    parameters_ratio: float
    point: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Candidates that were not evaluated for one reason; `detail` is that of the first of them."""

    code: str
    count: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The answer: `ranked` by rising loss; point 0 of `results` is the scenario as it is."""

    ranked: tuple[Sized, ...]
    left_out: tuple[LeftOut, ...]
    num_candidates: int
    results: Results


class Reasons:
    """Why candidates are left out, counted by code in the order in which they come up."""

    def __init__(self) -> None:
        self._found: dict[str, LeftOut] = {}

    def add(self, code: str, detail: str) -> None:
        """One more candidate."""
        before = self._found.get(code)
        self._found[code] = LeftOut(
            code=code,
            count=1 if before is None else before.count + 1,
            detail=detail if before is None else before.detail,
        )

    @property
    def counted(self) -> tuple[LeftOut, ...]:
        """All of them."""
        return tuple(self._found.values())
