"""What to call instead of `trainard backup` and `trainard restore` on PostgreSQL."""

import shlex
import sys
from typing import NoReturn

import rich_click as click

from service.cli.faults import BAD_INPUT
from service.db.engine import libpq_url

RESTORED = "trainard_restored"
SCHEMAS = "public: batches, rates, keys, audit trail; jobs: the queue; bi: published batches"


def refuse_postgresql(url: str, file: str) -> NoReturn:
    """Print the commands of PostgreSQL's own programs, plain to be copied. Ends the program."""
    source = shlex.quote(libpq_url(url))
    restored = shlex.quote(libpq_url(url, RESTORED))
    copy = shlex.quote(file)
    lines = [
        "PostgreSQL has programs of its own for this; take those of the server's version or newer.",
        f"One snapshot of all schemas ({SCHEMAS}),",
        "while the service runs:",
        "",
        f"  (umask 077; pg_dump --format=custom --no-owner --dbname={source} --file={copy})",
        "",
        "Back into a new, empty database, then serve that one; unfinished batches go on:",
        "",
        f"  createdb --maintenance-db={source} {RESTORED}",
        "  pg_restore --no-owner --exit-on-error --single-transaction \\",
        f"    --dbname={restored} {copy}",
        f"  trainard serve --database-url {restored}",
        "",
        "The password comes from PGPASSWORD or ~/.pgpass.",
    ]
    click.echo("\n".join(lines), err=True)
    sys.exit(BAD_INPUT)
