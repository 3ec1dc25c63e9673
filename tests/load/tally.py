"""What a load has measured, and what was acknowledged to it."""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec


class Keyed(NamedTuple):
    """A request with an Idempotency-Key that was answered, and by whom it was sent."""

    path: str
    body: dict[str, Any]
    key: str
    client: int
    status: int
    answer: bytes


@dataclass
class Tally:
    """Filled by all clients of one load; seconds of each answer by the kind of its request."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {"read": [], "write": []})
    statuses: Counter[int] = field(default_factory=Counter)
    unexpected: list[str] = field(default_factory=list)
    broken: int = 0
    keyed: list[Keyed] = field(default_factory=list)
    # Slug of each profile: its newest revision
    profiles: dict[str, int] = field(default_factory=dict)
    # (gpu_type, valid_from)
    rates: list[tuple[str, str]] = field(default_factory=list)
    # Id: name
    batches: dict[str, str] = field(default_factory=dict)
    cancellations: list[str] = field(default_factory=list)

    def note(self, kind: str, seconds: float, status: int) -> None:
        self.seconds[kind].append(seconds)
        self.statuses[status] += 1

    @property
    def num_server_errors(self) -> int:
        """Answers 5xx other than the declared 503."""
        return sum(num for status, num in self.statuses.items() if status >= 500 and status != 503)

    @property
    def num_writes(self) -> int:
        """Acknowledged changes."""
        revisions = sum(self.profiles.values())
        return revisions + len(self.rates) + len(self.batches) + len(self.cancellations)


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Throughput and latency of one kind of requests."""

    per_s: float
    p50_ms: float
    p99_ms: float
    longest_ms: float

    def __str__(self) -> str:
        return f"{self.per_s:,.0f}/s, p50 {self.p50_ms:.0f} ms, p99 {self.p99_ms:.0f} ms"


def figures(seconds: list[float], for_s: float) -> Figures:
    """Of the answers that came within `for_s` seconds."""
    ordered = sorted(seconds)

    def quantile_ms(fraction: float) -> float:
        return 1e3 * ordered[max(math.ceil(fraction * len(ordered)) - 1, 0)]

    return Figures(
        per_s=len(ordered) / for_s,
        p50_ms=quantile_ms(0.5),
        p99_ms=quantile_ms(0.99),
        longest_ms=quantile_ms(1.0),
    )
