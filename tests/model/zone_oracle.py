#!/usr/bin/env python3
"""Compares zones and calendar periods with Python's zoneinfo, an independent reader of the same files.

    zone_oracle.py ZONE_ANSWERS [SEED]

In every zone of /usr/share/zoneinfo, at random instants from 1970 to 2250: the offset; the number of the day, week,
month or year, from the local date; and that its begin and end are the first instants at or past a local midnight.
"""
import os
import random
import subprocess
import sys
from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

ROOT = "/usr/share/zoneinfo"
INSTANTS_PER_ZONE = 20
INSTANT_MAX = 8835955200  # 2250-01-01
DAY = 86400
EPOCH = datetime(1970, 1, 1)
EPOCH_UTC = datetime(1970, 1, 1, tzinfo=timezone.utc)
DAY_UNIT, WEEK_UNIT, MONTH_UNIT, YEAR_UNIT = 1, 2, 3, 4  # as in enum hr_calendar_unit


def zone_paths():
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if f not in ("posix", "right"))
        for name in sorted(files):
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                if file.read(4) == b"TZif":
                    yield path


def offset_at(zone, at):
    moment = (EPOCH_UTC + timedelta(seconds=at)).astimezone(zone)
    return int(moment.utcoffset().total_seconds())


def local_at(zone, at):
    return at + offset_at(zone, at)


def first_days(unit, number):
    """The first day of that period, and of the next."""
    if unit == DAY_UNIT:
        return number, number + 1
    if unit == WEEK_UNIT:
        monday = (date(1969, 12, 29) - EPOCH.date()).days + 7 * number
        return monday, monday + 7
    if unit == MONTH_UNIT:
        begin, end = (date(n // 12, n % 12 + 1, 1) for n in (number, number + 1))
    else:
        begin, end = date(number, 1, 1), date(number + 1, 1, 1)
    return (begin - EPOCH.date()).days, (end - EPOCH.date()).days


def is_first_at(zone, at, midnight):
    """Whether at is the first instant at or past a local midnight: before it none, looked at every 20 minutes."""
    before = [at - 1] + list(range(midnight - 27 * 3600, at, 1200))
    return local_at(zone, at) >= midnight and all(local_at(zone, b) < midnight for b in before)


def is_right(zone, unit, at, answer):
    offset, number, begin, end = answer
    days = first_days(unit, number)
    return (
        offset == offset_at(zone, at)
        and begin <= at < end
        and is_first_at(zone, begin, days[0] * DAY)
        and is_first_at(zone, end, days[1] * DAY)
    )


def main():
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    print(f"seed {seed}")
    rng = random.Random(seed)
    questions = [
        (path, rng.randint(DAY_UNIT, YEAR_UNIT), rng.randrange(INSTANT_MAX))
        for path in zone_paths()
        for _ in range(INSTANTS_PER_ZONE)
    ]
    text = "".join(f"{path} {unit} {at}\n" for path, unit, at in questions)
    run = subprocess.run([sys.argv[1]], input=text, capture_output=True, text=True, check=True)
    answers = [tuple(map(int, line.split())) for line in run.stdout.splitlines()]
    if not questions or len(answers) != len(questions):
        sys.exit(f"{len(questions)} questions, {len(answers)} answers")

    zones = {}
    wrong = 0
    for (path, unit, at), answer in zip(questions, answers):
        if path not in zones:
            with open(path, "rb") as file:
                zones[path] = ZoneInfo.from_file(file)
        if not is_right(zones[path], unit, at, answer):
            print(f"{path} unit {unit} at {at}: {answer}")
            wrong += 1
    print(f"{len(questions)} instants in {len(zones)} zones, {wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
