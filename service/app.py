"""The only place where the service is wired together."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import anyio.to_thread
from litestar import Litestar
from litestar.datastructures import State
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler

from service.api import (
    api_keys,
    audit_events,
    back_tests,
    backfills,
    batch_events,
    batch_retries,
    batches,
    calibrations,
    coarse_calibrations,
    communication,
    comparisons,
    curve,
    deletions,
    deliveries,
    docs,
    evaluations,
    export_files,
    exports,
    file_audits,
    overlap_audits,
    pipeline_search,
    problem_pages,
    profiles,
    publications,
    rates,
    remedies,
    reports,
    results,
    retention,
    schedule_previews,
    schedule_repricings,
    schedule_runs,
    schedules,
    session,
    solve,
    system,
    timeline,
    webhook_endpoints,
)
from service.api.batch_watch import BatchWatch
from service.api.contract import ApiRequest, ApiResponse
from service.api.edge import GuardedApp
from service.api.file_readings import reading_turns
from service.api.gate import AccessGate
from service.api.logs import configure_logs
from service.api.metrics import Metrics
from service.api.open_streams import OpenStreams
from service.api.problems import answer_error
from service.api.queue_watch import QueueWatch
from service.api.turns import Turns
from service.api.uploads import UploadSlots
from service.db.engine import Database
from service.jobs.runtime import Runtime
from service.jobs.spans import tracing
from service.jobs.spools import Spool
from service.settings import Settings
from service.web import pages
from service.web.missing import missing_page, wants_page

ROUTES: tuple[Iterable[HTTPRouteHandler], ...] = (
    evaluations.routes,
    curve.routes,
    solve.routes,
    timeline.routes,
    remedies.routes,
    pipeline_search.routes,
    communication.routes,
    overlap_audits.routes,
    file_audits.routes,
    coarse_calibrations.routes,
    profiles.routes,
    calibrations.routes,
    rates.routes,
    back_tests.routes,
    batches.routes,
    deletions.routes,
    publications.routes,
    batch_retries.routes,
    batch_events.routes,
    results.routes,
    comparisons.routes,
    exports.routes,
    export_files.routes,
    reports.routes,
    schedules.routes,
    schedule_runs.routes,
    schedule_previews.routes,
    schedule_repricings.routes,
    backfills.routes,
    webhook_endpoints.routes,
    deliveries.routes,
    session.routes,
    api_keys.routes,
    audit_events.routes,
    system.routes,
    retention.routes,
    problem_pages.routes,
    docs.routes,
    pages.routes,
)


def _answer_error(request: ApiRequest, error: Exception) -> ApiResponse:
    if isinstance(error, NotFoundException) and wants_page(request):
        return missing_page(request)
    return answer_error(request, error)


@asynccontextmanager
async def _serving(app: Litestar) -> AsyncIterator[None]:
    state = app.state
    configure_logs(state.settings.log_level)
    state.turns = Turns()
    state.reading_turns = reading_turns()
    await anyio.to_thread.run_sync(state.spool.sweep)
    state.queue_watch = QueueWatch(state.database)
    await state.gate.authenticator.warn_if_open()
    with tracing(state.settings.otlp_endpoint, role=state.engine.role):
        state.engine.start()
        try:
            yield
        finally:
            state.batch_watch.stop()
            # It ends the chunks in hand; other requests are still answered meanwhile.
            await anyio.to_thread.run_sync(state.engine.stop)
            state.spool.close()
            if state.owns_database:
                state.database.close()


def create_app(settings: Settings, database: Database | None = None) -> Litestar:
    """The service over a migrated database; nothing is opened before it is started.

    A `database` that is passed in stays open when the app stops.
    """
    return furnish(routed_app(settings), settings, database)


def routed_app(settings: Settings) -> Litestar:
    """Every route, over nothing yet: reading what each takes is most of the work."""
    return GuardedApp(
        [handler for handlers in ROUTES for handler in handlers],
        lifespan=[_serving],
        exception_handlers={Exception: _answer_error},
        request_max_body_size=settings.limits.body_bytes,
        openapi_config=None,
        logging_config=None,
        debug=False,
    )


def furnish(app: Litestar, settings: Settings, database: Database | None = None) -> Litestar:
    """Give the routes all that they use, in place of what they had."""
    opened = database or Database(settings.database_url)
    app.state = State()
    app.state.settings = settings
    app.state.spool = Spool(settings.spool_folder)
    app.state.upload_slots = UploadSlots()
    app.state.database = opened
    app.state.owns_database = database is None
    app.state.gate = AccessGate(opened, settings)
    app.state.batch_watch = BatchWatch(opened)
    app.state.engine = engine = Runtime(
        opened, processes=settings.compute_processes, settings=settings
    )
    app.state.open_streams = OpenStreams()
    app.state.metrics = Metrics()
    app.state.metrics.watch_points(lambda: engine.points_stored)
    return app
