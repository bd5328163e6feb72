"""What a limit promises about what it admitted, whatever the order of events: the contract's table read as bounds.

Each bound is told of every charge in order, and says whether the promise still holds. It knows nothing of the model's
counters, and so watches the model as well as the engine. A reload ends all bounds.
"""
import bisect
from collections import Counter


class BucketBound:
    """Over every interval of length t at most b + N x t / P. The worst begins where P x total - N x time was least."""

    def __init__(self, rule):
        self.rule, self.total, self.least = rule, 0, None

    def holds_after(self, cost, now):
        slope = self.rule.period_ns * self.total - self.rule.rate * now.steady
        self.least = slope if self.least is None else min(self.least, slope)
        self.total += cost
        return slope + cost * self.rule.period_ns - self.least <= self.rule.capacity * self.rule.period_ns


class FixedBound:
    def __init__(self, rule):
        self.rule, self.windows = rule, Counter()

    def holds_after(self, cost, now):
        window = now.steady // self.rule.period_ns
        self.windows[window] += cost
        return self.windows[window] <= self.rule.capacity


class QuotaBound:
    """At most N in each period. Answers name a period by its end, reset_after_ms later, and never go back."""

    def __init__(self, rule):
        self.rule, self.end_s, self.spent = rule, 0, 0

    def holds_after(self, cost, now, reset_ms):
        end_s = (now.wall + reset_ms * 10**6) // 10**9
        if end_s < self.end_s or end_s * 10**9 <= now.wall:
            return False
        self.spent = (self.spent if end_s == self.end_s else 0) + cost
        self.end_s = end_s
        return self.spent <= self.rule.capacity


class SlidingBound(FixedBound):
    def holds_after(self, cost, now):
        period = self.rule.period_ns
        window, elapsed = divmod(now.steady, period)
        self.windows[window] += cost
        weighted = self.windows[window - 1] * (period - elapsed) + self.windows[window] * period
        return weighted <= self.rule.capacity * period


class LogBound:
    """Over every (t - P, t] at most N. sums[i] is what was admitted before the i-th charge."""

    def __init__(self, rule):
        self.rule, self.times, self.sums = rule, [], [0]

    def holds_after(self, cost, now):
        self.times.append(now.steady)
        self.sums.append(self.sums[-1] + cost)
        first = bisect.bisect_right(self.times, now.steady - self.rule.period_ns)
        return self.sums[-1] - self.sums[first] <= self.rule.capacity


class LeaseBound:
    """Never more than N slots in leases that are neither ended nor expired. Charges come with their leases."""

    def __init__(self, rule):
        self.rule, self.leases = rule, []

    def holds_after(self, cost, now, lease):
        self.leases = [held for held in self.leases if held.until > now.steady]
        self.leases.append(lease)
        return sum(held.slots for held in self.leases) <= self.rule.capacity


BOUNDS = {
    "token_bucket": BucketBound,
    "gcra": BucketBound,
    "leaky_bucket": BucketBound,
    "fixed_window": FixedBound,
    "sliding_window": SlidingBound,
    "sliding_log": LogBound,
    "quota": QuotaBound,
    "concurrency": LeaseBound,
}
