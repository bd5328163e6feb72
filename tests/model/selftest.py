"""The model itself, on numbers worked out by hand: what it gets wrong, the engine could get wrong with it."""
import unittest
from datetime import datetime, timezone

import bounds
import limits
import model

S = 10**9


def utc_s(text):
    return round(datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp())


def limiter_of(*chosen):
    limiter = model.Limiter()
    limiter.load(list(chosen), 0, 0)
    return limiter


def ask(limiter, at_ns, cost=1, peek=False, wall_ns=None, **attributes):
    return limiter.check(attributes or {"a": "x"}, cost, peek, 1, at_ns, at_ns if wall_ns is None else wall_ns)


def bucket(capacity, rate, period_ns, algorithm="token_bucket", **more):
    return model.Limit("b", model.Rule(algorithm, capacity, rate, period_ns), **more)


class CalendarTest(unittest.TestCase):
    ROWS = (
        # unit, zone, an instant, the period that holds it
        ("day", "UTC", "2024-02-29T12:00:00", "2024-02-29T00:00:00", "2024-03-01T00:00:00"),
        ("week", "UTC", "2023-12-31T23:59:59", "2023-12-25T00:00:00", "2024-01-01T00:00:00"),
        ("month", "UTC", "2026-11-30T23:59:59", "2026-11-01T00:00:00", "2026-12-01T00:00:00"),
        ("year", "Asia/Kolkata", "2023-12-31T18:30:00", "2023-12-31T18:30:00", "2024-12-31T18:30:00"),
        ("day", "Europe/Berlin", "2024-03-31T12:00:00", "2024-03-30T23:00:00", "2024-03-31T22:00:00"),  # 23 hours
        ("day", "Europe/Berlin", "2024-10-27T12:00:00", "2024-10-26T22:00:00", "2024-10-27T23:00:00"),  # 25 hours
        ("hour", "Europe/Berlin", "2024-10-27T01:30:00", "2024-10-27T01:00:00", "2024-10-27T02:00:00"),  # the second 02
        # Lord Howe moves by half an hour: 01:30 comes twice, 02:00 to 02:30 never was.
        ("hour", "Australia/Lord_Howe", "2024-04-06T15:10:00", "2024-04-06T14:00:00", "2024-04-06T15:30:00"),
        ("hour", "Australia/Lord_Howe", "2024-10-05T15:40:00", "2024-10-05T15:30:00", "2024-10-05T16:00:00"),
        # Sao Paulo skipped a midnight, Havana has one twice, Apia skipped the 30th.
        ("day", "America/Sao_Paulo", "2018-11-04T12:00:00", "2018-11-04T03:00:00", "2018-11-05T02:00:00"),
        ("day", "America/Havana", "2024-11-03T05:30:00", "2024-11-03T04:00:00", "2024-11-04T05:00:00"),
        ("day", "Pacific/Apia", "2011-12-30T10:00:00", "2011-12-30T10:00:00", "2011-12-31T10:00:00"),
        ("day", "Pacific/Apia", "2011-12-30T09:59:59", "2011-12-29T10:00:00", "2011-12-30T10:00:00"),
    )

    def test_periods_are_those_of_the_zone(self):
        for i, (unit, zone, at, begin, end) in enumerate(self.ROWS):
            with self.subTest(row=i, unit=unit, zone=zone):
                want = utc_s(begin) * S, utc_s(end) * S
                self.assertEqual(model.Calendar(unit, zone).period(utc_s(at) * S), want)


class AlgorithmTest(unittest.TestCase):
    def test_a_bucket_gives_back_fractions_of_a_unit(self):
        limiter = limiter_of(bucket(7, 7, 3 * S))
        self.assertEqual(ask(limiter, 0, 7).rows[0].remaining, 0)
        denied = ask(limiter, S, 3)
        self.assertEqual((denied.allowed, denied.rows[0].remaining, denied.retry_ms), (False, 2, 286))
        self.assertEqual(denied.rows[0].reset_ms, 2000)

    def test_a_leaky_bucket_delays_by_the_level_before(self):
        limiter = limiter_of(bucket(4, 1, S, "leaky_bucket"))
        self.assertEqual([ask(limiter, 0).delay_ms for _ in range(5)], [0, 1000, 2000, 3000, 0])

    def test_a_sliding_window_fades_the_one_before(self):
        limiter = limiter_of(bucket(10, 10, 10 * S, "sliding_window"))
        ask(limiter, 9 * S, 10)
        row = ask(limiter, 15 * S, 6).rows[0]
        self.assertEqual((row.allowed, row.remaining, row.retry_ms, row.reset_ms), (False, 5, 1000, 5000))

    def test_a_log_forgets_exactly_one_period_later(self):
        limiter = limiter_of(bucket(1, 1, S, "sliding_log"))
        self.assertEqual([ask(limiter, at).allowed for at in (5, S + 4, S + 5)], [True, False, True])

    def test_a_lowered_bucket_keeps_what_was_spent(self):
        limiter, at = limiter_of(bucket(100, 1, 86400 * S)), 5 * S
        ask(limiter, at, 2)
        limiter.load([bucket(10, 1, 86400 * S)], at, at)
        self.assertEqual(ask(limiter, at, 0).rows[0].remaining, 8)
        limiter.load([bucket(100, 1, 86400 * S)], at, at)
        self.assertEqual(ask(limiter, at, 0).rows[0].remaining, 98)

    def test_a_wall_clock_set_back_reopens_no_period(self):
        rule = model.Rule("quota", 1, calendar=model.Calendar.of("day", "UTC"))
        limiter, day = limiter_of(model.Limit("q", rule)), 86400 * S
        self.assertTrue(ask(limiter, 0, wall_ns=3 * day).allowed)
        self.assertEqual(ask(limiter, 0, wall_ns=2 * day + 1).retry_ms, 2 * 86400 * 1000)

    def test_a_denied_request_charges_no_other_limit(self):
        limiter = limiter_of(model.Limit("wide", model.Rule("fixed_window", 9, 9, S)),
                             model.Limit("quiet", model.Rule("fixed_window", 9, 9, S), shadow=True),
                             model.Limit("narrow", model.Rule("fixed_window", 1, 1, S)))
        ask(limiter, 0)
        self.assertEqual([row.remaining for row in ask(limiter, 0).rows], [8, 8, 0])


class WhenTest(unittest.TestCase):
    ROWS = (
        # pattern, value, holds
        ("pay*", "pay", True), ("pay*", "xpay", False), ("a*b*c", "a.b.b.c", True), ("a.c", "abc", False),
        ("*", "", True), ({"not": "a"}, None, True), ({"not": "a"}, "a", False), ("*", None, False),
        (["a", {"not": "b"}], "b", False),
        ({"cidr": "10.0.0.0/8"}, "10.9.9.9", True), ({"cidr": "10.0.0.0/8"}, "::ffff:10.9.9.9", True),
        ({"cidr": "::/0"}, "::ffff:10.9.9.9", False), ({"cidr": "0.0.0.0/0"}, "010.1.1.1", False),
    )

    def test_patterns_hold_where_the_contract_says(self):
        for i, (pattern, value, holds) in enumerate(self.ROWS):
            with self.subTest(row=i):
                self.assertEqual(model.matches(pattern, value), holds)


class BoundTest(unittest.TestCase):
    ROWS = (
        # algorithm, charges (time in ns, cost) of which only the last is too much, under 10 per 10 s
        ("token_bucket", ((0, 10), (S, 1), (S, 1))),
        ("fixed_window", ((0, 9), (10 * S, 10), (20 * S - 1, 1))),
        ("sliding_window", ((9 * S, 10), (15 * S, 5), (15 * S, 1))),
        ("sliding_log", ((1, 10), (10 * S + 1, 9), (20 * S, 2))),
    )

    def test_a_bound_sees_one_unit_too_many(self):
        for algorithm, charges in self.ROWS:
            bound = bounds.BOUNDS[algorithm](model.Rule(algorithm, 10, 10, 10 * S))
            held = [bound.holds_after(cost, model.Now(at, at)) for at, cost in charges]
            with self.subTest(algorithm=algorithm):
                self.assertEqual(held, [True] * (len(charges) - 1) + [False])


class TextTest(unittest.TestCase):
    def test_a_rate_is_written_as_people_do(self):
        self.assertEqual(limits.rate_text((5000, 1, "s")), "5k/s")
        self.assertEqual(limits.rate_text((7, 3, "s")), "7 per 3s")


if __name__ == "__main__":
    unittest.main()
