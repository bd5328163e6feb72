"""The limits of Headroom, slow and plain: what the engine is held against.

Written from the contract's section on requests and limits, not from the engine: whole numbers only, each counter the
definition of its algorithm and little more. Time is in whole nanoseconds. A request is decided in Limiter.check().

Where the contract leaves room, the choice is:
  - Looking changes nothing: a peek, a denial, a cost of 0 and a sweep leave every counter as it was.
  - A reload takes effect at its own instant: what is spent then, under the old numbers, is what the new ones start
    from, rounded up where the new ones count in other parts.
  - A limit that a reload leaves out is forgotten, and its leases with it.
"""
import bisect
import ipaddress
import re
from collections import deque, namedtuple
from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

ANSWER_MAX = 2**53 - 1
TIME_NS_MAX = 9_000_000_000 * 10**9
NS_PER_S = 10**9
NS_PER_MS = 10**6
NEVER = -1


def div_up(a, b):
    return -(-a // b)


def ms_up(ns):
    """Nanoseconds to an answer in milliseconds."""
    return min(ANSWER_MAX, div_up(ns, NS_PER_MS))


# ---------------------------------------------------------------- calendar

EPOCH = date(1970, 1, 1)
DAY_S = 86400


def offset_at(zone, at_s):
    return round(datetime.fromtimestamp(at_s, zone).utcoffset().total_seconds())


def transitions(zone, from_s, to_s, step_s=900):
    """The seconds in (from_s, to_s] at which a zone's offset changes; two changes within step_s are not told apart."""
    found = []
    low, low_offset = from_s, offset_at(zone, from_s)
    while low < to_s:
        high = min(low + step_s, to_s)
        high_offset = offset_at(zone, high)
        if high_offset != low_offset:
            a, b = low, high
            while b - a > 1:
                middle = (a + b) // 2
                a, b = (middle, b) if offset_at(zone, middle) == low_offset else (a, middle)
            found.append(b)
        low, low_offset = high, high_offset
    return found


def midnight(zone, day):
    """The first second whose local time is at or past the midnight with which that date begins."""
    local = (day - EPOCH).days * DAY_S
    start = local - 2 * DAY_S
    pieces = [start] + transitions(zone, start, local + 2 * DAY_S) + [local + 2 * DAY_S]
    for begin, end in zip(pieces, pieces[1:]):
        first = max(begin, local - offset_at(zone, begin))
        if first < end:
            return first
    raise AssertionError(f"{day} never begins in {zone}")


def first_day(unit, day):
    """The date on which the period begins that holds a date."""
    if unit == "day":
        return day
    if unit == "week":
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if unit == "month" else day.replace(month=1, day=1)


def next_first_day(unit, first):
    """The date on which the period after it begins. 31 days after the 1st is always in the next month."""
    if unit == "year":
        return first.replace(year=first.year + 1)
    return first_day(unit, first + timedelta(days={"day": 1, "week": 7, "month": 31}[unit]))


def date_period(zone, unit, at_s):
    """Start two days early, so that no local date is missed, and walk on to the period that holds the instant."""
    first = first_day(unit, datetime.fromtimestamp(at_s - 2 * DAY_S, timezone.utc).date())
    while True:
        following = next_first_day(unit, first)
        end = midnight(zone, following)
        if at_s < end:
            return midnight(zone, first), end
        first = following


def hour_begins_at(zone, at_s):
    """Does the local clock show a full hour at this second, or has it just jumped into another hour?"""
    local = at_s + offset_at(zone, at_s)
    before = at_s - 1 + offset_at(zone, at_s - 1)
    return local % 3600 == 0 or local // 3600 != before // 3600


def hour_period(zone, at_s):
    """Every begin lies at a full hour of some piece between two transitions, or at a transition."""
    low, high = at_s - 3 * 3600, at_s + 3 * 3600
    pieces = [low] + transitions(zone, low, high) + [high]
    begins = set()
    for piece_begin, piece_end in zip(pieces, pieces[1:]):
        first_full = piece_begin + -(piece_begin + offset_at(zone, piece_begin)) % 3600
        begins.update(range(first_full, piece_end, 3600))
        if piece_begin != low and hour_begins_at(zone, piece_begin):
            begins.add(piece_begin)
    return max(b for b in begins if b <= at_s), min(b for b in begins if b > at_s)


class Calendar:
    """Periods of one unit in one zone, as (begin, end) in nanoseconds. Remembers those that were asked for."""

    known = {}

    @classmethod
    def of(cls, unit, zone):
        return cls.known.setdefault((unit, zone), cls(unit, zone))

    def __init__(self, unit, zone):
        self.unit, self.zone = unit, ZoneInfo(zone)
        self.begins, self.periods = [], []

    def period(self, at_ns):
        i = bisect.bisect_right(self.begins, at_ns)
        if i and at_ns < self.periods[i - 1][1]:
            return self.periods[i - 1]
        at_s = at_ns // NS_PER_S
        begin, end = hour_period(self.zone, at_s) if self.unit == "hour" else date_period(self.zone, self.unit, at_s)
        found = begin * NS_PER_S, end * NS_PER_S
        self.begins.insert(i, found[0])
        self.periods.insert(i, found)
        return found


# ---------------------------------------------------------------- counters

Now = namedtuple("Now", "steady wall")

# capacity: b, N or slots, what answers call `limit`. rate and period_ns: N per P. ttl_ns: leases. calendar: quotas.
Rule = namedtuple("Rule", "algorithm capacity rate period_ns ttl_ns calendar", defaults=(1, 1, 1, None))


class Counter:
    """What all counters answer. Each kind says which cost fits, what is left, how many nanoseconds a cost within the
    capacity has to wait (it does not fit now), and after how many the counter is as if untouched; both rounded up."""

    def retry_ms(self, cost, now):
        return NEVER if cost > self.rule.capacity else ms_up(self.wait_ns(cost, now))

    def reset_ms(self, now):
        return ms_up(self.reset_ns(now))

    def delay_ms(self, now):
        return 0


class Bucket(Counter):
    """Token and leaky buckets: what is missing from a full token bucket is the level of a leaky one. Both in parts of
    1/period_ns of a unit."""

    def __init__(self, rule):
        self.rule, self.missing, self.at = rule, 0, 0

    def level(self, now):
        return max(0, self.missing - self.rule.rate * (now.steady - self.at))

    def room(self, now):
        return self.rule.capacity * self.rule.period_ns - self.level(now)

    def fits(self, cost, now):
        return cost * self.rule.period_ns <= self.room(now)

    def take(self, cost, now):
        self.missing, self.at = self.level(now) + cost * self.rule.period_ns, now.steady

    def remaining(self, now):
        return max(0, self.room(now) // self.rule.period_ns)

    def wait_ns(self, cost, now):
        return div_up(cost * self.rule.period_ns - self.room(now), self.rule.rate)

    def reset_ns(self, now):
        return div_up(self.level(now), self.rule.rate)

    def delay_ms(self, now):
        return self.reset_ms(now) if self.rule.algorithm == "leaky_bucket" else 0

    def reshape(self, rule, now):
        self.missing = div_up(self.level(now) * rule.period_ns, self.rule.period_ns)
        self.rule, self.at = rule, now.steady


class Used(Counter):
    """A counter that is a sum of whole costs, each of which counts until some instant."""

    def fits(self, cost, now):
        return self.used(now) + cost <= self.rule.capacity

    def remaining(self, now):
        return max(0, self.rule.capacity - self.used(now))


class FixedWindow(Used):
    def __init__(self, rule):
        self.rule, self.window, self.spent = rule, -1, 0

    def used(self, now):
        return self.spent if now.steady // self.rule.period_ns == self.window else 0

    def take(self, cost, now):
        self.spent, self.window = self.used(now) + cost, now.steady // self.rule.period_ns

    def wait_ns(self, cost, now):
        return self.rule.period_ns - now.steady % self.rule.period_ns

    def reset_ns(self, now):
        return self.wait_ns(0, now) if self.used(now) else 0

    def reshape(self, rule, now):
        self.spent, self.rule, self.window = self.used(now), rule, now.steady // rule.period_ns


class Quota(Used):
    """A window of the calendar, on the wall clock. A counter never goes back from the period it was last charged in."""

    def __init__(self, rule):
        self.rule, self.period, self.spent = rule, (0, 0), 0

    def current(self, now):
        return max(self.period, self.rule.calendar.period(now.wall))

    def used(self, now):
        return self.spent if self.current(now) == self.period else 0

    def take(self, cost, now):
        self.spent, self.period = self.used(now) + cost, self.current(now)

    def wait_ns(self, cost, now):
        return self.current(now)[1] - now.wall

    def reset_ns(self, now):
        return self.wait_ns(0, now) if self.used(now) else 0

    def reshape(self, rule, now):
        """A new calendar begins in the period that the wall clock shows, with what is spent now."""
        if rule.calendar is not self.rule.calendar:
            self.spent = self.used(now)
            self.period = rule.calendar.period(now.wall) if self.spent else (0, 0)
        self.rule = rule


class SlidingWindow(Counter):
    def __init__(self, rule):
        self.rule, self.window, self.before, self.spent = rule, 0, 0, 0

    def view(self, now):
        """What the previous and this window admitted, and the time until this one ends."""
        window, elapsed = divmod(now.steady, self.rule.period_ns)
        left = self.rule.period_ns - elapsed
        if window == self.window:
            return self.before, self.spent, left
        return (self.spent if window == self.window + 1 else 0), 0, left

    def room(self, now):
        """In parts of 1/period_ns of a unit; negative where a reload has lowered the limit."""
        before, spent, left = self.view(now)
        return (self.rule.capacity - spent) * self.rule.period_ns - before * left

    def fits(self, cost, now):
        return cost * self.rule.period_ns <= self.room(now)

    def take(self, cost, now):
        self.before, self.spent, _ = self.view(now)
        self.spent += cost
        self.window = now.steady // self.rule.period_ns

    def remaining(self, now):
        return max(0, self.room(now) // self.rule.period_ns)

    def wait_ns(self, cost, now):
        """The first instant with before x left / period + spent + cost = capacity, in this window or in the next."""
        before, spent, left = self.view(now)
        if spent + cost > self.rule.capacity:
            before, spent, left = spent, 0, left + self.rule.period_ns
        return div_up(before * left - (self.rule.capacity - spent - cost) * self.rule.period_ns, before)

    def reset_ns(self, now):
        before, spent, left = self.view(now)
        return left + self.rule.period_ns if spent else left if before else 0

    def reshape(self, rule, now):
        """Other windows do not line up with the old ones: what still weighs now becomes a charge of now."""
        self.before, self.spent, left = self.view(now)
        if rule.period_ns != self.rule.period_ns:
            self.before, self.spent = 0, self.spent + div_up(self.before * left, self.rule.period_ns)
        self.rule, self.window = rule, now.steady // rule.period_ns


class SlidingLog(Used):
    def __init__(self, rule):
        self.rule, self.entries, self.sum = rule, deque(), 0

    def used(self, now):
        while self.entries and self.entries[0][0] <= now.steady - self.rule.period_ns:
            self.sum -= self.entries.popleft()[1]
        return self.sum

    def take(self, cost, now):
        self.sum = self.used(now) + cost
        self.entries.append((now.steady, cost))

    def wait_ns(self, cost, now):
        over = self.used(now) + cost - self.rule.capacity
        for at, entry in self.entries:
            over -= entry
            if over <= 0:
                return at + self.rule.period_ns - now.steady
        raise AssertionError("an empty log admits whatever the limit can hold")

    def reset_ns(self, now):
        return self.entries[-1][0] + self.rule.period_ns - now.steady if self.used(now) else 0

    def reshape(self, rule, now):
        self.used(now)
        self.rule = rule


class Lease:
    def __init__(self, counter, serial, slots, until):
        self.counter, self.serial, self.slots, self.until = counter, serial, slots, until


class Concurrency(Used):
    def __init__(self, rule):
        self.rule, self.leases = rule, []

    def used(self, now):
        self.leases = [lease for lease in self.leases if now.steady < lease.until]
        return sum(lease.slots for lease in self.leases)

    def take(self, cost, now, serial):
        lease = Lease(self, serial, cost, now.steady + self.rule.ttl_ns)
        self.leases.append(lease)
        return lease

    def wait_ns(self, cost, now):
        over = self.used(now) + cost - self.rule.capacity
        for lease in sorted(self.leases, key=lambda lease: lease.until):
            over -= lease.slots
            if over <= 0:
                return lease.until - now.steady
        raise AssertionError("no leases admit whatever the limit can hold")

    def reset_ns(self, now):
        return max(lease.until for lease in self.leases) - now.steady if self.used(now) else 0

    def reshape(self, rule, now):
        self.rule = rule


COUNTERS = {
    "token_bucket": Bucket,
    "gcra": Bucket,
    "leaky_bucket": Bucket,
    "fixed_window": FixedWindow,
    "sliding_window": SlidingWindow,
    "sliding_log": SlidingLog,
    "quota": Quota,
    "concurrency": Concurrency,
}


# ---------------------------------------------------------------- which limits a request touches


def address_of(text):
    """An IP address, or None. An IPv4 address written as IPv6 is that IPv4 address."""
    try:
        address = ipaddress.ip_address(text if "%" not in text else "")
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def matches(pattern, value):
    """Does one entry of `when` hold for an attribute's value (None: absent)? Patterns are written as in the file."""
    if isinstance(pattern, list):
        return any(matches(each, value) for each in pattern)
    if isinstance(pattern, dict) and "not" in pattern:
        return not matches(pattern["not"], value)
    if value is None:
        return False
    if isinstance(pattern, dict):
        address, network = address_of(value), ipaddress.ip_network(pattern["cidr"])
        return address is not None and address.version == network.version and address in network
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), value, re.DOTALL) is not None


class Limit:
    def __init__(self, name, rule, key=(), when=None, shadow=False):
        self.name, self.rule, self.key, self.when, self.shadow = name, rule, tuple(key), when or {}, shadow
        self.counters = {}

    def algorithm(self):
        return "token_bucket" if self.rule.algorithm == "gcra" else self.rule.algorithm  # one algorithm, two names

    def applies(self, attributes):
        return (all(name in attributes for name in self.key) and
                all(matches(pattern, attributes.get(name)) for name, pattern in self.when.items()))

    def counter_of(self, attributes):
        """The counter's key, and the counter: a fresh one where nothing was spent yet."""
        key = tuple(attributes[name] for name in self.key)
        return key, self.counters.get(key) or COUNTERS[self.rule.algorithm](self.rule)

    def inherit(self, old, now):
        """Keep what a limit of the same name has spent, if the key and the algorithm are still the same."""
        if old and old.key == self.key and old.algorithm() == self.algorithm():
            self.counters = old.counters
            for counter in self.counters.values():
                counter.reshape(self.rule, now)


# ---------------------------------------------------------------- decisions

Row = namedtuple("Row", "limit key allowed remaining retry_ms reset_ms lease")
Decision = namedtuple("Decision", "allowed action decided_by retry_ms delay_ms rows now")


class Limiter:
    def __init__(self):
        self.limits, self.leases, self.steady = [], [], 0

    def now(self, steady, wall):
        """Steady time never runs backwards; both clocks stay within what the engine can hold."""
        self.steady = max(self.steady, min(steady, TIME_NS_MAX))
        return Now(self.steady, max(0, min(wall, TIME_NS_MAX)))

    def load(self, limits, steady, wall):
        now = self.now(steady, wall)
        old = {limit.name: limit for limit in self.limits}
        for limit in limits:
            limit.inherit(old.get(limit.name), now)
        kept = {id(counter) for limit in limits for counter in limit.counters.values()}
        for lease in self.leases:
            if id(lease.counter) not in kept:
                lease.until = 0
        self.limits = limits

    def check(self, attributes, cost, peek, serial, steady, wall):
        now = self.now(steady, wall)
        touched = [(limit, *limit.counter_of(attributes)) for limit in self.limits if limit.applies(attributes)]
        fits = [cost == 0 or counter.fits(cost, now) for _, _, counter in touched]
        denying = [limit for (limit, _, _), fit in zip(touched, fits) if not fit and not limit.shadow]
        delay_ms = max((counter.delay_ms(now) for limit, _, counter in touched if not limit.shadow), default=0)
        spends = not denying and not peek and cost > 0
        rows = [self.row(limit, key, counter, fit, spends, cost, serial, now)
                for (limit, key, counter), fit in zip(touched, fits)]
        if not denying:
            return Decision(True, "delay" if delay_ms else "allow", None, 0, delay_ms, rows, now)
        waits = [row.retry_ms for row in rows if not row.allowed and not row.limit.shadow]
        return Decision(False, "deny", denying[0], NEVER if NEVER in waits else max(waits), 0, rows, now)

    def row(self, limit, key, counter, fit, spends, cost, serial, now):
        retry_ms = 0 if fit else counter.retry_ms(cost, now)
        lease = None
        if fit and spends:
            limit.counters[key] = counter
            if limit.rule.algorithm == "concurrency":
                lease = counter.take(cost, now, serial)
                self.leases.append(lease)
            else:
                counter.take(cost, now)
        return Row(limit, key, fit, counter.remaining(now), retry_ms, counter.reset_ms(now), lease)

    def release(self, lease, steady, wall):
        now = self.now(steady, wall)
        held = now.steady < lease.until
        lease.until = 0
        return held

    def renew(self, lease, steady, wall):
        """The new ttl in milliseconds, or None where there is no such lease any more."""
        now = self.now(steady, wall)
        if now.steady >= lease.until:
            return None
        lease.until = now.steady + lease.counter.rule.ttl_ns
        return ms_up(lease.counter.rule.ttl_ns)

    def release_serial(self, serial, steady, wall):
        return any([self.release(lease, steady, wall) for lease in self.leases if lease.serial == serial])
