"""Databases for tests: an embedded file and a real PostgreSQL server of our own."""

import gc
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from dbos import DBOS
from hypothesis import settings
from sqlalchemy import create_engine, text

from service.db import migrate
from service.db.engine import Database
from service.db.job_engine import SCHEMA, system_url
from tests.long_tests import is_long
from tests.untraced_tests import is_untraced

# New examples belong where somebody looks at them: CI tells whether a change broke what was sound.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

TEMPLATE = "trainard_template"
INSTALL = "apt-get update && apt-get install -y --no-install-recommends postgresql"
# Durability is of no use to a server that lives for one test run.
OPTIONS = (
    "-c listen_addresses='' -c fsync=off -c synchronous_commit=off -c full_page_writes=off "
    "-c max_connections=200 -c autovacuum=off -c jit=off"
)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected, and all that it imports, stays to the end: never search it for garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make test` leaves out, and what it does not trace."""
    for item in items:
        params = (
            item.callspec.params
            if isinstance(item, pytest.Function) and hasattr(item, "callspec")
            else {}
        )
        if is_long(item.nodeid, params.get("database_url")):
            item.add_marker(pytest.mark.long)
        if is_untraced(item.nodeid):
            item.add_marker(pytest.mark.no_cover)


class PostgresServer:
    """A running server behind a Unix socket; `url(name)` is the address of one database."""

    def __init__(self, folder: Path, programs: Path, options: str = OPTIONS) -> None:
        self.folder = folder
        self.data = folder / "data"
        self._programs = programs
        self._options = options

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = ("-w", "-o", f"-k {self.folder} {self._options}")
        _run(self._programs / "pg_ctl", "-D", str(self.data), *options, "start", folder=self.folder)

    def stop(self) -> None:
        """End it at once, as a crash would."""
        options = ("-m", "immediate", "-w")
        _run(self._programs / "pg_ctl", "-D", str(self.data), *options, "stop", folder=self.folder)

    def url(self, name: str) -> str:
        return f"postgresql+psycopg://test@/{name}?host={self.folder}"

    def execute(self, statement: str) -> None:
        engine = create_engine(self.url("postgres"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(statement))
        engine.dispose()

    def new_database(self, template: str | None = None) -> str:
        name = f"t_{uuid4().hex}"
        # FILE_COPY takes 0.03 s, the default WAL_LOG 0.11 s
        copy = f" TEMPLATE {template} STRATEGY FILE_COPY" if template else ""
        self.execute(f"CREATE DATABASE {name}{copy}")
        return name

    def drop_database(self, name: str) -> None:
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _programs() -> Path | None:
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3])
    )
    if found:
        return found[-1].parent
    initdb = shutil.which("initdb")
    return Path(initdb).resolve().parent if initdb else None


def _unprivileged() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root: who it runs as instead."""
    if os.getuid() != 0:
        return None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]


def _run(program: Path, *arguments: str, folder: Path) -> None:
    user = _unprivileged()
    log = folder / "start.log"
    with log.open("ab") as output:
        # The server inherits the output: a pipe would never be closed.
        done = subprocess.run(
            [str(program), *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
            cwd=folder,
            user=user.pw_uid if user else None,
            group=user.pw_gid if user else None,
            extra_groups=[] if user else None,
        )
    if done.returncode != 0:
        pytest.fail(f"{program.name} ended with {done.returncode}:\n{log.read_text()}")


@contextmanager
def running_server(options: str = OPTIONS) -> Iterator[PostgresServer]:
    """Start Debian's PostgreSQL in a folder of its own, as a user that is not root."""
    programs = _programs()
    if programs is None:
        reason = f"no PostgreSQL programs on this machine; install them: {INSTALL}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    # Not tmp_path: its folder is closed to other users and too long for a socket's name.
    folder = Path(tempfile.mkdtemp(prefix="trainard_pg_"))
    user = _unprivileged()
    if user:
        os.chown(folder, user.pw_uid, user.pw_gid)
    server = PostgresServer(folder, programs, options)
    try:
        _run(
            programs / "initdb",
            *("-D", str(server.data), "-U", "test", "-A", "trust", "-E", "UTF8"),
            *("--locale=C.UTF-8", "--no-sync"),
            folder=folder,
        )
        server.start()
        yield server
    finally:
        if (server.data / "postmaster.pid").exists():
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The server of this test run, with a migrated template database."""
    with running_server() as server:
        server.execute(f"CREATE DATABASE {TEMPLATE}")
        migrate.upgrade(server.url(TEMPLATE))
        # The engine's tables too: to make them takes a test a third of a second.
        with closing(Database(server.url(TEMPLATE))) as database:
            DBOS.migrate(system_url(database), schema=SCHEMA)
        yield server


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that the test may stop and start; empty."""
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated embedded file, copied for each test."""
    path = tmp_path_factory.mktemp("template") / "trainard.db"
    migrate.upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """The URL of a migrated embedded file of this test's own."""
    path = tmp_path / "trainard.db"
    shutil.copyfile(sqlite_template, path)
    return f"sqlite:///{path}"


@pytest.fixture
def sqlite_database(sqlite_url: str) -> Iterator[Database]:
    """A migrated embedded database with the default team and nothing else."""
    database = Database(sqlite_url)
    yield database
    database.close()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a migrated PostgreSQL database of this test's own."""
    name = postgres_server.new_database(TEMPLATE)
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


BACKENDS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]


@pytest.fixture(params=BACKENDS)
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of a migrated database, once for each kind."""
    name = "sqlite_url" if request.param == "sqlite" else "postgres_url"
    url: str = request.getfixturevalue(name)
    return url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A migrated database with the default team and nothing else, once for each kind."""
    opened = Database(database_url)
    yield opened
    opened.close()


@pytest.fixture(params=BACKENDS)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database that was never migrated, once for each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    name = server.new_database()
    yield server.url(name)
    server.drop_database(name)
