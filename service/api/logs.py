"""Structured logs: one JSON object a line on standard error."""

import logging
import sys
from typing import Any

import msgspec
import structlog

# uvicorn's own access lines would repeat ours without the request id; dbos tells every step of its
# start.
QUIET_LOGGERS = ("uvicorn.access", "alembic", "dbos")


def configure_logs(level: str) -> None:
    """Write our events, and those of libraries that use `logging`, as JSON from `level` on."""
    number = logging.getLevelNamesMapping()[level]
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            *shared,
            # A traceback is one field of the object.
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=_json),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        # A cached logger would keep an old stream or level when logs are configured again.
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(serializer=_json),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=number, force=True)
    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)


def _json(event: Any, **_options: Any) -> str:
    # Line breaks inside values are escaped by JSON itself, so one event stays one line.
    return msgspec.json.encode(event, enc_hook=repr).decode()
