"""Services whose routes are read once: that takes longer than most tests of the API."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from litestar import Litestar

from service.app import furnish, routed_app
from service.db.engine import Database
from service.settings import Settings

_idle: defaultdict[int, list[Litestar]] = defaultdict(list)


@contextmanager
def app_over(settings: Settings, database: Database) -> Iterator[Litestar]:
    """What `create_app` makes; its routes may have served another database before."""
    # All that the routes know of the settings.
    idle = _idle[settings.limits.body_bytes]
    app = idle.pop() if idle else routed_app(settings)
    num_routes = len(app.routes)
    yield furnish(app, settings, database)
    # A service writes its log to the standard error of the moment, which pytest closes.
    structlog.reset_defaults()
    # No other test is to find the route that a test has added.
    if len(app.routes) == num_routes:
        idle.append(app)
