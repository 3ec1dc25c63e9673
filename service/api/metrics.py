"""What is counted of a serving process, in Prometheus' text format."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

# From a cached evaluation to a page over a large batch.
LATENCY_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """The counters of one app; each app has its own, so that two do not add up."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "trainard_http_requests",
            "Requests by method, route template and status.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._latency = Histogram(
            "trainard_http_request_duration_seconds",
            "Time to the end of the answer by method and route template.",
            ("method", "route"),
            buckets=LATENCY_BOUNDS_S,
            registry=self._registry,
        )
        self.evaluations = Counter(
            "trainard_evaluations",
            "Single scenarios answered by POST /v1/evaluations.",
            registry=self._registry,
        )
        # Two names of one number: the first version had the gauge.
        self._points = Gauge(
            "trainard_batch_points_computed",
            "Points of scenario batches computed by this process since its start.",
            registry=self._registry,
        )
        self._points_counter = _Reading(
            "trainard_points", "Points of batches computed and stored by this process."
        )
        self._registry.register(self._points_counter)

    def observe(self, method: str, route: str, status: int, duration_s: float) -> None:
        """Count a request; `route` is a template, so that ids make no new time series."""
        self._requests.labels(method, route, str(status)).inc()
        self._latency.labels(method, route).observe(duration_s)

    def watch_points(self, num_points: Callable[[], float]) -> None:
        """Read the number of computed batch points from `num_points` at each scrape."""
        self._points.set_function(num_points)
        self._points_counter.read = num_points

    def render(self) -> bytes:
        """All metrics as text (exposition format 0.0.4)."""
        return generate_latest(self._registry)


class _Reading(Collector):
    """A counter that is counted elsewhere, read at each scrape."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._text = text
        self.read: Callable[[], float] = float

    def collect(self) -> Iterable[Metric]:
        """The counter as it is now."""
        yield CounterMetricFamily(self._name, self._text, value=self.read())
