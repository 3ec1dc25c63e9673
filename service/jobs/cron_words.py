"""A cron expression in words, in English and French; null where no short sentence would be true.

Made of the days and minutes that match, not of the text: two expressions with the same sentence
come at the same wall times (decisions/0028).
"""
# ruff: noqa: RUF001 - French has its own apostrophe

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Final

from babel import Locale
from cronsim import CronSim
from msgspec import Meta, Struct

from service.jobs.cron_fields import CronFields, read_cron
from service.jobs.schedule_documents import Language

MOST_TIMES: Final = 8
MOST_MINUTES: Final = 10
MOST_DAYS: Final = 10
_MINUTES_PER_HOUR: Final = 60
_MONTHS_PER_YEAR: Final = 12
_DAYS_PER_WEEK: Final = 7
# Days that not every month has
_SHORTEST_MONTH: Final = 28
_RANGE: Final = 3
_ALL_DAYS: Final = frozenset(range(1, 32))
_SENTENCES: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "and": " and ",
        "every_day": "every day",
        "at": "at {times}",
        "every_minute": "every minute",
        "every_minutes": "every {step} minutes",
        "every_hour": "every hour",
        "hourly_one": "every hour at minute {minutes}",
        "hourly": "every hour at minutes {minutes}",
        "stepped": "every {step} minutes from {first} to {last}",
        "hours": "every hour from {first} to {last}",
        "stepped_hours": "every {step} hours from {first} to {last}",
        "weekdays": "on {names}",
        "week_range": "{first} to {last}",
        "nth": "the {nth} {name} of the month",
        "last": "the last {name} of the month",
        "dates": "on {dates}",
        "date": "day {day} of the month",
        "date_list": "days {days} of the month",
        "date_range": "days {first} to {last} of the month",
        "date_steps": "days {first} to {last} of the month in steps of {step}",
        "last_day": "the last day of the month",
        "last_workday": "the last day of the month from Monday to Friday",
        "where_there": " (where there is one)",
        "or": "{dates}, and also {weekdays}",
        "both": "{weekdays}, but only {dates}",
        "months": "in {names}",
        "month_range": "from {first} to {last}",
    },
    "fr": {
        "and": " et ",
        "every_day": "chaque jour",
        "at": "à {times}",
        "every_minute": "chaque minute",
        "every_minutes": "toutes les {step} minutes",
        "every_hour": "chaque heure",
        "hourly_one": "chaque heure à la minute {minutes}",
        "hourly": "chaque heure aux minutes {minutes}",
        "stepped": "toutes les {step} minutes de {first} à {last}",
        "hours": "chaque heure de {first} à {last}",
        "stepped_hours": "toutes les {step} heures de {first} à {last}",
        "weekdays": "{names}",
        "week_range": "du {first} au {last}",
        "nth": "le {nth} {name} du mois",
        "last": "le dernier {name} du mois",
        "dates": "{dates}",
        "date": "le {day} du mois",
        "date_list": "les {days} du mois",
        "date_range": "du {first} au {last} du mois",
        "date_steps": "tous les {step} jours du {first} au {last} du mois",
        "last_day": "le dernier jour du mois",
        "last_workday": "le dernier jour du mois du lundi au vendredi",
        "where_there": " (s’il existe)",
        "or": "{dates}, et aussi {weekdays}",
        "both": "{weekdays}, mais seulement {dates}",
        "months": "en {names}",
        "month_range": "{de}{first} à {last}",
    },
}
_NTHS: Final[dict[Language, tuple[str, ...]]] = {
    "en": ("first", "second", "third", "fourth", "fifth"),
    "fr": ("premier", "deuxième", "troisième", "quatrième", "cinquième"),
}


class CronWords(Struct, frozen=True, kw_only=True):
    """An expression in words."""

    en: Annotated[str | None, Meta(description="In English; null: no short sentence says it.")]
    fr: Annotated[str | None, Meta(description="In French, likewise.")]


def words_of(cron: str) -> CronWords:
    """The words of an expression; raises `CronError`."""
    fields = read_cron(cron)
    return CronWords(en=_sentence(fields, "en"), fr=_sentence(fields, "fr"))


def _sentence(fields: CronFields, language: Language) -> str | None:
    days = _days(fields.source, language)
    months = _months(fields.source, language)
    time = _times(fields, language)
    if days is None or time is None:
        return None
    texts = _SENTENCES[language]
    if fields.is_continuous and days == texts["every_day"]:
        # "every 15 minutes", which is every day
        return ", ".join(filter(None, (time, months)))
    if months or "," in days or not time.startswith(texts["at"].partition(" ")[0] + " "):
        return ", ".join(filter(None, (days, months, time)))
    return f"{days} {time}"


def _times(fields: CronFields, language: Language) -> str | None:
    texts = _SENTENCES[language]
    minutes, hours = sorted(fields.source.minutes), sorted(fields.source.hours)
    step = _step(minutes)
    is_even = minutes[0] == 0 and step > 0 and step * len(minutes) == _MINUTES_PER_HOUR
    if fields.is_continuous:
        return _continuous(minutes, step if is_even else 0, texts)
    of_day = [_clock(minute) for minute in fields.minutes_of_day]
    if len(of_day) <= MOST_TIMES:
        return texts["at"].format(times=_listed(of_day, texts))
    ends = {"first": of_day[0], "last": of_day[-1]}
    hour_step = _step(hours)
    if len(minutes) == 1 and hour_step == 1:
        return texts["hours"].format(**ends)
    if len(minutes) == 1 and hour_step > 1:
        return texts["stepped_hours"].format(step=hour_step, **ends)
    if is_even and hour_step == 1:
        return texts["stepped"].format(step=step, **ends)
    return None


def _continuous(minutes: Sequence[int], step: int, texts: dict[str, str]) -> str | None:
    if step:
        key = "every_minute" if step == 1 else "every_minutes"
        return texts[key].format(step=step)
    if list(minutes) == [0]:
        return texts["every_hour"]
    if len(minutes) > MOST_MINUTES:
        return None
    key = "hourly_one" if len(minutes) == 1 else "hourly"
    return texts[key].format(minutes=_listed([str(minute) for minute in minutes], texts))


def _step(numbers: Sequence[int]) -> int:
    """The same step between all of them, or 0."""
    steps = {later - earlier for earlier, later in pairwise(numbers)}
    return steps.pop() if len(steps) == 1 else 0


def _clock(minute_of_day: int) -> str:
    hour, minute = divmod(minute_of_day, _MINUTES_PER_HOUR)
    return f"{hour:02d}:{minute:02d}"


def _days(source: CronSim, language: Language) -> str | None:
    texts = _SENTENCES[language]
    every_date = source.days >= _ALL_DAYS
    weekdays = {
        (one % 7 if isinstance(one, int) else (one[0] % 7, one[1])) for one in source.weekdays
    }
    every_weekday = weekdays >= set(range(_DAYS_PER_WEEK))
    if (every_date and every_weekday) or (not source.day_and and (every_date or every_weekday)):
        return texts["every_day"]
    dates = None if every_date else _dates(source, language)
    names = None if every_weekday else _weekdays(weekdays, language)
    if every_date or every_weekday:
        return names if every_date else dates
    if dates is None or names is None:
        return None
    return texts["both" if source.day_and else "or"].format(dates=dates, weekdays=names)


def _dates(source: CronSim, language: Language) -> str | None:
    texts = _SENTENCES[language]
    numbers = sorted(day for day in source.days if day > 0)
    found = [] if not numbers else _numbered(numbers, language)
    if found is None:
        return None
    if numbers and numbers[0] > _SHORTEST_MONTH:
        found[-1] += texts["where_there"]
    if CronSim.LAST in source.days:
        found.append(texts["last_day"])
    if CronSim.LAST_WEEKDAY in source.days:
        found.append(texts["last_workday"])
    return texts["dates"].format(dates=_listed(found, texts))


def _numbered(numbers: Sequence[int], language: Language) -> list[str] | None:
    texts = _SENTENCES[language]
    names = ["1er" if language == "fr" and day == 1 else str(day) for day in numbers]
    ends = {"first": names[0], "last": names[-1]}
    step = _step(numbers)
    if len(numbers) >= _RANGE and step == 1:
        return [texts["date_range"].format(**ends)]
    if len(numbers) == 1:
        return [texts["date"].format(day=names[0])]
    if len(numbers) <= MOST_DAYS:
        return [texts["date_list"].format(days=_listed(names, texts))]
    return [texts["date_steps"].format(step=step, **ends)] if step else None


def _weekdays(weekdays: set[int | tuple[int, int]], language: Language) -> str:
    texts = _SENTENCES[language]
    # Weeks begin on Monday; of Sunday cron has 0 or 7
    plain = sorted((day - 1) % _DAYS_PER_WEEK for day in weekdays if isinstance(day, int))
    found = []
    if len(plain) >= _RANGE and _step(plain) == 1:
        ends = {"first": _day_name(plain[0], language), "last": _day_name(plain[-1], language)}
        found.append(texts["week_range"].format(**ends))
    else:
        article = "le " if language == "fr" else ""
        found += [article + _day_name(day, language) for day in plain]
    for day, nth in sorted(one for one in weekdays if not isinstance(one, int)):
        name = _day_name((day - 1) % _DAYS_PER_WEEK, language)
        is_last = nth == CronSim.LAST
        text = texts["last"] if is_last else texts["nth"]
        found.append(text.format(name=name, nth="" if is_last else _NTHS[language][nth - 1]))
    return texts["weekdays"].format(names=_listed(found, texts))


def _months(source: CronSim, language: Language) -> str | None:
    months = sorted(source.months)
    texts = _SENTENCES[language]
    if len(months) == _MONTHS_PER_YEAR:
        return None
    names = [str(Locale(language).months["format"]["wide"][month]) for month in months]
    if len(months) >= _RANGE and _step(months) == 1:
        elided = language == "fr" and names[0][0] in "ao"
        return texts["month_range"].format(
            de="d’" if elided else "de ", first=names[0], last=names[-1]
        )
    return texts["months"].format(names=_listed(names, texts))


def _day_name(from_monday: int, language: Language) -> str:
    return str(Locale(language).days["format"]["wide"][from_monday])


def _listed(parts: Sequence[str], texts: dict[str, str]) -> str:
    """a; a and b; a, b and c."""
    *first, last = parts
    return ", ".join(first) + (texts["and"] if first else "") + last
