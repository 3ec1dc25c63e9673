"""The state of the queue in Prometheus' text format."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from service.jobs.queue_state import FAILED_WINDOW_S, RATE_WINDOW_S, QueueState


def render_queue(state: QueueState | None) -> bytes:
    """All gauges; without a state only that the database is away: an old value would be a lie."""
    registry = CollectorRegistry()
    registry.register(_Families(state))
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, state: QueueState | None) -> None:
        self._state = state

    def collect(self) -> Iterable[Metric]:
        """The metrics of one scrape."""
        state = self._state
        yield _gauge(
            "trainard_database_up", "Whether the database answers.", 0 if state is None else 1
        )
        if state is None:
            return
        yield _gauge(
            "trainard_queue_age_seconds",
            "Age of the oldest batch of which no chunk was begun; 0 when none waits.",
            state.queue_age_s,
        )
        yield _labelled("trainard_batches", "Unfinished batches.", "state", state.batches)
        yield _gauge(
            "trainard_chunks_waiting",
            "Chunks of queued and running batches that are not stored yet.",
            state.chunks_waiting,
        )
        yield _gauge(
            "trainard_chunks_failed",
            "Chunks that could not be computed: of unfinished batches, and in the last "
            f"{FAILED_WINDOW_S / 3600:.0f} h.",
            state.chunks_failed,
        )
        yield _gauge(
            "trainard_points_per_second",
            f"Points stored by all processes, mean over the last {RATE_WINDOW_S:.0f} s.",
            state.points_per_second,
        )
        yield _gauge(
            "trainard_workers_alive", "Processes that compute batches.", state.workers_alive
        )
        yield _labelled(
            "trainard_tasks_waiting",
            "Unfinished background tasks; deletions also when they failed.",
            "task",
            state.tasks_waiting,
        )
        yield _labelled(
            "trainard_schedule_runs", "Runs of schedules that have not ended.", "state", state.runs
        )
        yield _gauge(
            "trainard_schedule_runs_due_age_seconds",
            "For how long the oldest due run waits; 0 when none does. Backfills and paused "
            "schedules are left out.",
            state.runs_due_age_s,
        )
        yield _labelled(
            "trainard_deliveries", "Deliveries in the log, by state.", "state", state.deliveries
        )
        yield _gauge(
            "trainard_deliveries_age_seconds",
            "Age of the oldest delivery that is not taken and not given up; 0 when none waits.",
            state.deliveries_age_s,
        )
        yield _gauge(
            "trainard_schedule_slots_missed",
            f"Slots that nobody was there for and that were not run, found in the last "
            f"{FAILED_WINDOW_S / 3600:.0f} h.",
            state.slots_missed,
        )


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _labelled(name: str, text: str, label: str, values: dict[str, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family
