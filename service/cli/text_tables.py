"""Aligned text tables that look the same in a terminal, a file and a pipe."""

from collections.abc import Sequence


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Columns as wide as their widest cell; the first `left` ones flush left, the rest right."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    shown = [
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([shown[0], "-" * (sum(widths) + 2 * (len(widths) - 1)), *shown[1:]])


def count(value: float) -> str:
    """A whole number with a space between thousands, as in 176 008."""
    return f"{value:,.0f}".replace(",", " ")


def percent(fraction: float) -> str:
    """A fraction as a percentage with one decimal."""
    return f"{100 * fraction:.1f} %"
