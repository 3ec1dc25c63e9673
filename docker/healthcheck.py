"""Whether this container does its work: an address answers, or the `worker` in it was seen lately.

Run by the container engine every few seconds, so it imports little.
"""
# ruff: noqa: INP001 - no package: one file, copied into the image beside them

import os
import sys
import urllib.request

TIMEOUT_S = 4
# A worker notes every 3 s that it lives; the others take its work after this time.
UNSEEN_S = 15


def ask_service(address: str) -> None:
    """Raise unless the service at the address says that it is ready."""
    with urllib.request.urlopen(address, timeout=TIMEOUT_S):  # noqa: S310 - given by the image
        pass


def ask_database(url: str, host: str) -> None:
    """Exit with a sentence unless a worker of the host has renewed its row."""
    import psycopg  # noqa: PLC0415 - not for the service

    scheme, mark, rest = url.partition("://")
    plain_url = f"{scheme.partition('+')[0]}{mark}{rest}"
    with psycopg.connect(plain_url, connect_timeout=TIMEOUT_S) as connection:
        found = connection.execute(
            "SELECT count(*) FROM worker"
            " WHERE host = %s AND seen_at > now() - make_interval(secs => %s)",
            (host, UNSEEN_S),
        ).fetchone()
    if found is None or found[0] == 0:
        sys.exit(f"no worker on {host} was seen in the last {UNSEEN_S} s")


if __name__ == "__main__":
    subject = sys.argv[1]
    if subject == "worker":
        ask_database(os.environ["TRAINARD_DATABASE_URL"], os.uname().nodename)
    else:
        ask_service(subject)
