"""Processes that are started for others, and end with them."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading


def end_with_parent() -> None:
    """In a started process: end when the parent does, however it ends, and not before.

    A killed parent cannot end them, and a pool's processes would wait for work for ever.
    Signals to the whole group (Ctrl-C, a service manager) are for the parent, which drains.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()


def _end_after(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)
