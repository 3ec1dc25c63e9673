"""The bar of an export: rows while the service makes the file, bytes while it comes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from service.reports.digits import whole

# What happens, how far it is, and of how much (None: nobody knows)
OnProgress = Callable[[str, int, int | None], None]


@contextmanager
def progress_bar() -> Iterator[OnProgress]:
    """A bar on standard error, where that is a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[amount]}"),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("asking", total=None, amount="")

        def update(what: str, done: int, total: int | None) -> None:
            amount = whole(done) if total is None else f"{whole(done)} of {whole(total)} bytes"
            progress.update(
                task,
                description=what,
                completed=done,
                total=total,
                amount=amount,
            )

        yield update
