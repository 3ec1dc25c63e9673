"""All kinds of background work beside the chunks of batches."""

from service.jobs.task import Task

TASKS: dict[str, Task] = {}
