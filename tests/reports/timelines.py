"""Timelines for tests of how they are shown."""

from typing import Any

from service.model.pipeline_timeline import timeline_of
from service.model.scenario import decode_scenario
from service.model.timeline_documents import Timeline


def shown(schedule: str, sizes: tuple[int, int, int], **fields: Any) -> Timeline:
    """Of 1 ms forward and 2 ms backward."""
    stages, microbatches, chunks = sizes
    pipeline = {
        "schedule": schedule,
        "stages": stages,
        "microbatches": microbatches,
        "chunks_per_stage": chunks,
        "forward_ms": 1,
        "backward_ms": 2,
        **fields.pop("pipeline", {}),
    }
    return timeline_of(decode_scenario({"num_gpus": stages, "pipeline": pipeline} | fields))
