"""The command line: `trainard COMMAND`, one module per command."""

from importlib import import_module


def main() -> None:
    """Run the program with the process's arguments, and end the process.

    It is imported only here: a spawned compute process imports this package and runs no command.
    """
    import_module("service.cli.program").program(prog_name="trainard")


__all__ = ["main"]
