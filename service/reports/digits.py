"""Numbers for the eye: as many digits as a reader can use, never more than the method has.

The quadrature is good to 1e-8 and better; what is shown here has far fewer digits. CSV and JSON
carry all of them.
"""

# A plain space: a narrow one looks the same in a terminal, but can neither be searched for nor
# be written where the encoding is not UTF-8. Columns stand at least two spaces apart.
_GROUP = " "
NOTHING = "-"


def grouped(number: float, decimals: int = 0) -> str:
    """The number with a space between thousands: 176 008, or 12 345.60 with 2 decimals."""
    text = f"{number:,.{decimals}f}".replace(",", _GROUP)
    # -0.001 is shown as 0, not as -0
    return text.removeprefix("-") if not text.strip("-0. ") else text


def gpu_hours(hours: float | None) -> str:
    """Whole hours from 1 000 on, one decimal from 10 on, three digits below."""
    if hours is None:
        return NOTHING
    size = abs(hours)
    if size >= 1000:
        return grouped(hours)
    return grouped(hours, 1) if size >= 10 else _significant(hours, 3)


def milliseconds(duration: float | None) -> str:
    """Two decimals below 1 s, one below 10 s, none above; four digits below 1 ms."""
    if duration is None:
        return NOTHING
    size = abs(duration)
    if size < 1:
        return _significant(duration, 4)
    return grouped(duration, 2 if size < 1000 else 1 if size < 10_000 else 0)


def percent(fraction: float | None) -> str:
    """A fraction as a percentage with two decimals, without the sign: 89.38."""
    return NOTHING if fraction is None else grouped(100 * fraction, 2)


def whole(number: float | None) -> str:
    """A count."""
    return NOTHING if number is None else grouped(number)


def amount(digits: str) -> str:
    """A decimal amount with a space between thousands; its digits are kept as they are."""
    sign = "-" if digits.startswith("-") else ""
    integer, point, decimals = digits.removeprefix("-").partition(".")
    return f"{sign}{int(integer):,}".replace(",", _GROUP) + point + decimals


def signed(text: str) -> str:
    """A shown change with its direction: + before what rose."""
    rose = not text.startswith("-") and any(digit in text for digit in "123456789")
    return f"+{text}" if rose else text


def _significant(number: float, digits: int) -> str:
    return f"{number:.{digits}g}" if number else "0"
