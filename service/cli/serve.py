"""`trainard serve`: the service in this process; on PostgreSQL with workers beside it."""

import ctypes
import gc
import http.client
import ipaddress
import os
import shlex
import signal
import socket
import sys
import threading
import time

import msgspec
import rich_click as click
import uvicorn
from litestar import Litestar

from service.app import create_app
from service.cli.bounded_protocol import allow_open_files, protocol_within
from service.cli.databases import (
    database_option,
    migrated_database,
    settings_with,
    usable_database,
    without_password,
)
from service.cli.graceful_server import GracefulServer
from service.cli.worker_processes import WorkerProcesses
from service.db.api_keys import any_key
from service.settings import Settings

ANSWER_TIMEOUT_S = 2.0
ASK_EVERY_S = 0.05
GRACE_S = 10
# Of malloc.h
M_MMAP_THRESHOLD = -3
MMAP_THRESHOLD_BYTES = 1_048_576


def _refuse_openness(_context: click.Context, _option: click.Parameter, given: object) -> None:
    """What earlier versions needed the option for is done with keys."""
    if given:
        raise click.UsageError(
            "--allow-unauthenticated is gone: an address of the network needs an API key. Make the "
            "first one with trainard key create --role admin, then start without the option."
        )


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8000,
    show_default=True,
    help="Port to listen on; 0 takes a free one, and the ready line names it.",
)
@database_option
@click.option(
    "--allow-unauthenticated",
    is_flag=True,
    hidden=True,
    expose_value=False,
    callback=_refuse_openness,
)
@click.option(
    "--workers",
    type=click.IntRange(0, 64),
    help="Workers that compute batches, on PostgreSQL: started beside the service, and again when "
    "they end. 0: none, others do it (trainard worker). Default: 1; a SQLite file is computed by "
    "the service itself.",
)
def command(
    *,
    host: str,
    port: int,
    database_url: str | None,
    workers: int | None,
) -> None:
    """Run the service.

    Creates or migrates the database first, then says where it answers:

        trainard serve
        trainard serve --port 0 --database-url sqlite:///what-if.db

    Until the first key is made (trainard key create --role admin) it is open to every program on
    this machine: it listens on loopback only, and answers only requests that name a loopback host
    (TRAINARD_ALLOWED_HOSTS).
    """
    settings = settings_with(database_url)
    if not is_loopback(host):
        settings = _named_anyhow(settings)
    beside = _workers(settings.database_url, workers)
    if is_loopback(host):
        # A database is not migrated for a port that is taken.
        listener = _listen(host, port)
    click.echo(f"Database: {without_password(settings.database_url)}", err=True)
    has_key = _has_key(settings.database_url)
    if not is_loopback(host):
        _demand_authentication(settings, host, has_key=has_key)
        listener = _listen(host, port)
    app = _app_for(settings, host)
    _say_who_gets_in(settings, has_key=has_key)
    bound_port: int = listener.getsockname()[1]
    name = next(iter(settings.allowed_hosts), host)
    threading.Thread(target=_announce, args=(host, bound_port, name), daemon=True).start()
    server = GracefulServer(
        uvicorn.Config(
            app,
            loop="uvloop",
            http=protocol_within(settings.limits),
            ws="none",
            lifespan="on",
            workers=1,
            log_config=None,
            access_log=False,
            server_header=False,
            # Else uvicorn believes X-Forwarded-For of every program on this machine.
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=list(settings.trusted_proxies),
            timeout_graceful_shutdown=GRACE_S,
        ),
        app.state.batch_watch,
    )
    # After its own shutdown uvicorn raises the signal again, for the handler that was there before:
    # the default one would end this process before its workers have drained. Before uvicorn has its
    # own handler, it is told to end as soon as it has begun.
    signal.signal(signal.SIGTERM, lambda *_: setattr(server, "should_exit", True))
    _settle_memory()
    allow_open_files(settings.limits.connections)
    beside.start()
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        click.echo("Stopped.", err=True)
    finally:
        beside.stop()
    if app.state.engine.is_busy:
        # A thread cannot be ended; what it has in hand is taken up at the next start.
        os._exit(0)
    if not server.started:
        raise click.ClickException("the service did not start; the reason stands above")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address; a name other than localhost may be public."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _named_anyhow(settings: Settings) -> Settings:
    """Nobody can know under which names an address of the network is called."""
    if "TRAINARD_ALLOWED_HOSTS" in os.environ:
        return settings
    return msgspec.structs.replace(settings, allowed_hosts=())


def _has_key(database_url: str) -> bool:
    """Whether a key was ever made in the database, which is migrated first."""
    with migrated_database(database_url) as database, database.read() as connection:
        return any_key(connection)


def _demand_authentication(settings: Settings, host: str, *, has_key: bool) -> None:
    if has_key or settings.oidc.issuer:
        return
    url = without_password(settings.database_url)
    raise click.UsageError(
        f"{host} can be reached from other machines, and there is no API key yet: anyone could "
        "read and change everything. Make the first one, then start again:\n\n"
        f"trainard key create --role admin --database-url {shlex.quote(url)}"
    )


def _app_for(settings: Settings, host: str) -> Litestar:
    try:
        with usable_database(settings.database_url):
            app = create_app(settings)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    if not is_loopback(host):
        app.state.gate.authenticator.stay_closed()
    return app


def _settle_memory() -> None:
    """Keep what the program consists of out of every later collection: one took 0.3 s.

    And have the C library give large arrays back to the system when they are freed: it raises the
    size above which it does so with every one that it sees, and kept 390 MB of one comparison.
    """
    gc.collect()
    gc.freeze()
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)


def _workers(database_url: str, count: int | None) -> WorkerProcesses:
    embedded = database_url.startswith("sqlite")
    if embedded and count:
        raise click.UsageError(
            f"--workers {count}: a SQLite file is computed by the one process that serves it; "
            "workers need a PostgreSQL database"
        )
    default = 0 if embedded else 1
    return WorkerProcesses(database_url, default if count is None else count)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family, backlog=2048)
    except OSError as error:
        reason = error.strerror or str(error)
        raise click.ClickException(
            f"cannot listen on {host} port {port}: {reason}. Another port: --port 8001, "
            "or --port 0 for a free one."
        ) from error


def _say_who_gets_in(settings: Settings, *, has_key: bool) -> None:
    issuer = settings.oidc.issuer
    if has_key or issuer:
        ways = (["API keys"] if has_key else []) + ([f"tokens of {issuer}"] if issuer else [])
        click.echo(f"Authentication is on: {' and '.join(ways)}.", err=True)
        return
    click.secho(
        "WARNING: no authentication. Every program on this machine can read and change "
        "everything,\nuntil the first key is made: trainard key create --role admin",
        fg="yellow",
        err=True,
    )


def _announce(host: str, port: int, name: str) -> None:
    """Print the ready line once the service has really answered a request to `name`."""
    asked = "127.0.0.1" if host in {"0.0.0.0", "localhost"} else host.strip("[]")  # noqa: S104
    while not _answers("::1" if asked == "::" else asked, port, name):
        time.sleep(ASK_EVERY_S)
    shown = f"[{asked}]" if ":" in asked else asked
    click.echo(f"Trainard is ready at http://{shown}:{port} (docs: /docs)")


def _answers(host: str, port: int, name: str) -> bool:
    connection = http.client.HTTPConnection(host, port, timeout=ANSWER_TIMEOUT_S)
    try:
        connection.request("GET", "/readyz", headers={"Host": f"{name}:{port}"})
        return connection.getresponse().status == http.HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()
