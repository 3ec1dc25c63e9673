"""Secrets that were stored before there was a key: encrypted as soon as there is one."""

from service.db import webhook_endpoints as rows
from service.db.engine import Connection
from service.jobs import audit
from service.jobs.webhook_secrets import Vault
from service.jobs.webhook_signatures import PREFIX


def any_plain(connection: Connection) -> bool:
    """Whether a secret lies in the database as it is."""
    return any(_is_plain(entry) for row in rows.list_secrets(connection) for entry in row.secrets)


def encrypt_plain(connection: Connection, keys: str) -> int:
    """Encrypt them under the newest of the keys, each change in the trail; of how many endpoints.

    An endpoint keeps its version: what its owners see of it is the same.
    """
    vault = Vault(keys)
    subjects = []
    for row in rows.list_secrets(connection, lock=True):
        if not any(map(_is_plain, row.secrets)):
            continue
        hidden = [
            {**entry, "secret": vault.hidden(entry["secret"])} if _is_plain(entry) else entry
            for entry in row.secrets
        ]
        rows.replace_secrets(connection, row.id, hidden)
        subjects.append((row.team_id, f"webhook-endpoint/{row.id}"))
    if subjects:
        audit.record_program(
            connection, "courier", action="encrypt_webhook_secrets", subjects=subjects
        )
    return len(subjects)


def _is_plain(entry: dict[str, str]) -> bool:
    return entry["secret"].startswith(PREFIX)
