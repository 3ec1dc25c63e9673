"""The command line: `trainard COMMAND`, one module per command."""

from service.cli.program import program


def main() -> None:
    """Run the program with the process's arguments, and end the process."""
    program(prog_name="trainard")


__all__ = ["main"]
