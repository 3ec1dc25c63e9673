"""All kinds of background work beside the chunks of batches."""

from service.jobs import deletions, export_making, export_removal, publications, report_making
from service.jobs.task import Task

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        deletions.TASK,
        publications.TASK,
        export_making.TASK,
        export_removal.TASK,
        report_making.NIGHTLY_TASK,
        report_making.TASK,
    )
}
