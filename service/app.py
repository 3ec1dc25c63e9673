"""The only place where the service is wired together."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import anyio.to_thread
from litestar import Litestar
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


def create_app(settings: Settings, database: Database | None = None) -> Litestar:
    """The service over a migrated database; nothing is opened before it is started.

    A `database` that is passed in stays open when the app stops.
    """
    opened = database or Database(settings.database_url)
    engine = Runtime(
        opened,
        processes=settings.compute_processes,
        settings=settings,
    )

    spool = Spool(settings.spool_folder)

    @asynccontextmanager
    async def serving(_app: Litestar) -> AsyncIterator[None]:
        configure_logs(settings.log_level)
        app.state.turns = Turns()
        app.state.reading_turns = reading_turns()
        await anyio.to_thread.run_sync(spool.sweep)
        app.state.queue_watch = QueueWatch(opened)
        await app.state.gate.authenticator.warn_if_open()
        with tracing(settings.otlp_endpoint, role=engine.role):
            engine.start()
            try:
                yield
            finally:
                app.state.batch_watch.stop()
                # It ends the chunks in hand; other requests are still answered meanwhile.
                await anyio.to_thread.run_sync(engine.stop)
                spool.close()
                if database is None:
                    opened.close()

    app = GuardedApp(
        [handler for handlers in ROUTES for handler in handlers],
        lifespan=[serving],
        exception_handlers={Exception: _answer_error},
        request_max_body_size=settings.limits.body_bytes,
        openapi_config=None,
        logging_config=None,
        debug=False,
    )
    app.state.settings = settings
    app.state.spool = spool
    app.state.upload_slots = UploadSlots()
    app.state.database = opened
    app.state.gate = AccessGate(opened, settings)
    app.state.batch_watch = BatchWatch(opened)
    app.state.engine = engine
    app.state.open_streams = OpenStreams()
    app.state.metrics = Metrics()
    app.state.metrics.watch_points(lambda: engine.points_stored)
    return app
