"""Cron expressions in words: sentences that are true, in both languages."""
# ruff: noqa: RUF001 - French has its own apostrophe

import random
from datetime import date, timedelta

import pytest

from service.jobs.cron_fields import read_cron
from service.jobs.cron_words import CronWords, words_of

SOME_DAY = date(2024, 1, 1)


@pytest.mark.parametrize(
    ("cron", "english", "french"),
    [
        ("30 2 * * *", "every day at 02:30", "chaque jour à 02:30"),
        ("30 2 1-31 * 1", "every day at 02:30", "chaque jour à 02:30"),
        ("0 6,18 * * *", "every day at 06:00 and 18:00", "chaque jour à 06:00 et 18:00"),
        ("5 4 * * 7", "on Sunday at 04:05", "le dimanche à 04:05"),
        ("0 1 * * 0,6", "on Saturday and Sunday at 01:00", "le samedi et le dimanche à 01:00"),
        ("0 3 * * MON-FRI", "on Monday to Friday at 03:00", "du lundi au vendredi à 03:00"),
        (
            "0 3 * * 5L",
            "on the last Friday of the month at 03:00",
            "le dernier vendredi du mois à 03:00",
        ),
        (
            "0 12 * * MON#1",
            "on the first Monday of the month at 12:00",
            "le premier lundi du mois à 12:00",
        ),
        ("0 2 1 * *", "on day 1 of the month at 02:00", "le 1er du mois à 02:00"),
        (
            "0 2 31 * *",
            "on day 31 of the month (where there is one) at 02:00",
            "le 31 du mois (s’il existe) à 02:00",
        ),
        (
            "0 0 1,15,L * *",
            "on days 1 and 15 of the month and the last day of the month at 00:00",
            "les 1er et 15 du mois et le dernier jour du mois à 00:00",
        ),
        (
            "0 0 LW * *",
            "on the last day of the month from Monday to Friday at 00:00",
            "le dernier jour du mois du lundi au vendredi à 00:00",
        ),
        # Both day fields: either is enough, but not where one begins with a star
        (
            "0 2 13 * 5",
            "on day 13 of the month, and also on Friday, at 02:00",
            "le 13 du mois, et aussi le vendredi, à 02:00",
        ),
        (
            "0 0 */2 * 1",
            "on Monday, but only on days 1 to 31 of the month in steps of 2, at 00:00",
            "le lundi, mais seulement tous les 2 jours du 1er au 31 du mois, à 00:00",
        ),
        (
            "0 2 1 1/3 *",
            "on day 1 of the month, in January, April, July and October, at 02:00",
            "le 1er du mois, en janvier, avril, juillet et octobre, à 02:00",
        ),
        (
            "0 2 * 6-8 *",
            "every day, from June to August, at 02:00",
            "chaque jour, de juin à août, à 02:00",
        ),
        (
            "0 2 * 8-10 *",
            "every day, from August to October, at 02:00",
            "chaque jour, d’août à octobre, à 02:00",
        ),
        ("0 * * * *", "every hour", "chaque heure"),
        ("* * * * *", "every minute", "chaque minute"),
        ("*/15 * * * *", "every 15 minutes", "toutes les 15 minutes"),
        (
            "30 * * 2 *",
            "every hour at minute 30, in February",
            "chaque heure à la minute 30, en février",
        ),
        ("5,35 * * * *", "every hour at minutes 5 and 35", "chaque heure aux minutes 5 et 35"),
        ("0 * * * 1", "on Monday, every hour", "le lundi, chaque heure"),
        (
            "*/15 9-17 * * 1-5",
            "on Monday to Friday, every 15 minutes from 09:00 to 17:45",
            "du lundi au vendredi, toutes les 15 minutes de 09:00 à 17:45",
        ),
        (
            "0 8-20 * * *",
            "every day, every hour from 08:00 to 20:00",
            "chaque jour, chaque heure de 08:00 à 20:00",
        ),
        (
            "7 1-23/2 * * *",
            "every day, every 2 hours from 01:07 to 23:07",
            "chaque jour, toutes les 2 heures de 01:07 à 23:07",
        ),
        # Nothing rather than a list that nobody reads
        ("1-59/3 3,9,12,17 * * *", None, None),
        ("1,2,4,8,16,20,21,23,29,30,31 * * * *", None, None),
        ("0 2 1,2,4,5,7,8,10,11,13,14,16 * *", None, None),
        ("0 2 1,2,4,5,7,8,10,11,13,14,16 * 1", None, None),
    ],
)
def test_words_of(cron: str, english: str | None, french: str | None) -> None:
    assert words_of(cron) == CronWords(en=english, fr=french)


def test_expressions_with_the_same_words_come_at_the_same_times() -> None:
    """So that no sentence says less than the expression: 400 of them, over two years."""
    rng = random.Random(8)
    minutes = ("0", "30", "*", "*/15", "*/7", "0-30/10", "5,35", "1-59/2")
    hours = ("2", "*", "*/2", "1-23/2", "9-17", "6,18", "0,1,5,6,7,8,9,10,11", "8/4")
    days = ("*", "1", "31", "1-7", "*/2", "*/3", "1,15,L", "L", "LW", "2,4,8", "1-31", "30,31")
    months = ("*", "2", "6-8", "*/3", "1,2,7", "1-12", "3,4")
    weekdays = ("*", "1", "1-5", "0,6", "5L", "1#2", "1,3#2", "*/2", "0-7", "7,1,2", "5-7")
    found: dict[str, object] = {}
    told = 0
    for _ in range(400):
        cron = " ".join(rng.choice(part) for part in (minutes, hours, days, months, weekdays))
        try:
            fields = read_cron(cron)
        except ValueError:
            continue
        matched = tuple(fields.days(SOME_DAY, SOME_DAY + timedelta(days=731)))
        times = (hash(matched), fields.minutes_of_day)
        words = words_of(cron)
        for sentence in (words.en, words.fr):
            if sentence is not None:
                told += 1
                assert found.setdefault(sentence, times) == times, cron
    assert told > 300
