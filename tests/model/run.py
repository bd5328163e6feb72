#!/usr/bin/env python3
"""Holds the engine against the model: random and adversarial streams, every field of every decision compared.

An episode is a few random limits, one fresh engine (the stream program) and some thousand commands: bursts, arrivals
exactly at a boundary and a nanosecond to each side, a request again after retry_after_ms and a millisecond before, idle
years, clocks that step, reloads, releases, peeks, and sweeps, which must change no answer. Beside the model, two
promises are watched: no limit admits more than its definition allows over any interval (bounds.py), and whoever waits
retry_after_ms is admitted, a millisecond earlier not.

The same seed gives the same commands. Exit 0: all answers as wanted. 1: not; the first difference is printed. 2: usage.
"""
import argparse
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter

import bounds
import limits
import model

NS_PER_MS, NS_PER_S = 10**6, 10**9
DAY_NS = 86400 * NS_PER_S
TIME_END = 8_900_000_000 * NS_PER_S  # streams end a little before the engine's last instant
EPISODE_DECISIONS = 4000
ACTIONS = {"allow": 0, "delay": 1, "deny": 2}
HOUR_NS = 3600 * NS_PER_S
GRAIN_NS = {"hour": HOUR_NS // 6, "day": 3 * HOUR_NS, "week": DAY_NS, "month": 4 * DAY_NS, "year": 40 * DAY_NS}
UNIT_DAYS = {"hour": 1 / 24, "day": 1, "week": 7, "month": 30, "year": 365}
CELLS_ALL = 1 << 16  # a sweep of more cells than the stream program's table has


class Broken(Exception):
    """The model itself broke one of the two promises."""


def decision_line(decision):
    """As the stream program prints it."""
    decider = decision.decided_by.name if decision.decided_by else "-"
    head = f"C {decision.allowed:d} {ACTIONS[decision.action]} {decider} {decision.retry_ms} {decision.delay_ms}"
    rows = [f"{row.limit.name},{row.limit.shadow:d},{row.allowed:d},{row.limit.rule.capacity},{row.remaining},"
            f"{row.retry_ms},{row.reset_ms},{row.lease is not None:d}" for row in decision.rows]
    return " ".join([head] + rows)


class Episode:
    """Writes commands and what the model answers to them, then asks the engine and compares."""

    def __init__(self, seed, number, algorithm, decisions, folder):
        self.rnd = random.Random(f"{seed}/{number}")
        self.number, self.algorithm, self.folder = number, algorithm, folder
        self.decisions_left = decisions
        self.model, self.limits, self.bounds = model.Limiter(), [], {}
        self.commands, self.wants, self.count = [], [], Counter()
        self.steady, self.offset = 0, 0  # the wall clock shows steady + offset
        self.edges, self.last_rows, self.serial, self.loads = [], [], 0, 0
        self.reloads = self.rnd.random() < 0.4
        self.wall_steps = self.rnd.random() < 0.5

    # -------------------------------------------------------- commands

    def wall(self):
        return self.steady + self.offset

    def say(self, command, want):
        self.commands.append(command)
        self.wants.append(want)

    def load(self, chosen):
        self.limits, self.bounds = chosen, {}
        self.loads += 1
        path = os.path.join(self.folder, f"limits-{self.number}-{self.loads}.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(limits.yaml_text(chosen))
        self.model.load([limits.model_of(limit) for limit in chosen], self.steady, self.wall())
        self.say(f"L {self.steady} {self.wall()} {path}", "L ok")
        self.count["loads"] += 1

    def check(self, attributes, cost, peek=False, back_ns=0):
        """One request; back_ns: how far behind the latest the steady clock pretends to be."""
        self.serial += 1
        self.decisions_left -= 1
        steady, wall = self.steady - back_ns, self.wall()
        decision = self.model.check(attributes, cost, peek, self.serial, steady, wall)
        pairs = " ".join(f"{name}={value}" for name, value in attributes.items())
        self.say(f"C {steady} {wall} {self.serial} {cost} {peek:d} {pairs}", decision_line(decision))
        self.count["decisions"] += 1
        if decision.allowed and not peek and cost > 0:
            self.watch(decision, cost)
        for row in decision.rows:
            self.count[row.limit.rule.algorithm, row.allowed] += 1
        return decision

    def watch(self, decision, cost):
        for row in decision.rows:
            if not row.allowed:
                continue
            place = row.limit.name, row.key
            if place not in self.bounds:
                if self.loads > 1:
                    continue  # what a reload carried over was not told to this bound
                self.bounds[place] = bounds.BOUNDS[row.limit.rule.algorithm](row.limit.rule)
            told = [row.lease] if row.lease else [row.reset_ms] if row.limit.rule.calendar else []
            if not self.bounds[place].holds_after(cost, decision.now, *told):
                raise Broken(f"limit {row.limit.name} admitted more than its definition allows")

    def request(self):
        attributes, cost = self.any_attributes(), self.any_cost()
        peek = self.rnd.random() < 0.08
        back_ns = 0
        if self.rnd.random() < 0.03:
            self.steady = self.model.steady  # behind the latest that the engine has seen
            back_ns = self.rnd.choice((1, NS_PER_MS, NS_PER_S, self.grain()))
        decision = self.check(attributes, cost, peek, min(back_ns, self.steady))
        self.note(attributes, cost, decision)
        if not decision.allowed and self.rnd.random() < 0.25:
            self.wait_and_retry(attributes, cost, decision.retry_ms)

    def wait_and_retry(self, attributes, cost, retry_ms):
        """Nobody else comes: a millisecond too early is denied, then the same request is admitted."""
        if retry_ms in (model.NEVER, model.ANSWER_MAX) or retry_ms * NS_PER_MS > self.budget_ns():
            return
        self.steady += (retry_ms - 1) * NS_PER_MS
        if self.check(attributes, cost, peek=True).allowed:
            raise Broken("admitted a millisecond before retry_after_ms")
        self.steady += NS_PER_MS
        if not self.check(attributes, cost, peek=True).allowed:
            raise Broken("denied again after retry_after_ms")
        if self.rnd.random() < 0.7 and not self.check(attributes, cost).allowed:
            raise Broken("a peek admitted what a check denied")
        self.count["retries"] += 1

    def end_or_renew_lease(self):
        given = self.model.leases
        if not given:
            return
        number = self.rnd.randrange(0 if self.rnd.random() < 0.2 else max(0, len(given) - 8), len(given))
        lease, at = given[number], (self.steady, self.wall())
        kind = self.rnd.random()
        if kind < 0.4:
            self.say("R {} {} {}".format(*at, number), f"R {self.model.release(lease, *at):d}")
        elif kind < 0.8:
            ttl_ms = self.model.renew(lease, *at)
            self.say("N {} {} {}".format(*at, number), f"N {ttl_ms is not None:d} {ttl_ms or 0}")
        elif any("slots" in limit for limit in self.limits):  # with none in force, no clock is looked at
            self.say("Q {} {} {}".format(*at, lease.serial), f"Q {self.model.release_serial(lease.serial, *at):d}")
        self.count["leases"] += 1

    def sweep(self):
        """Not where the wall clock steps: a quota forgotten after its period could not be held to it later."""
        if self.wall_steps:
            return
        cells = self.rnd.choice((1, 64, 4096, CELLS_ALL))
        self.model.now(self.steady, self.wall())
        self.say(f"S {self.steady} {self.wall()} {cells}", "S")
        self.count["sweeps"] += 1

    # -------------------------------------------------------- what to ask

    def any_attributes(self):
        rnd = self.rnd
        attributes = {name: rnd.choice(values[:3] if rnd.random() < 0.8 else values)
                      for name, values in limits.VALUES.items() if rnd.random() < 0.93}
        return attributes or {"x": "1"}

    def any_cost(self):
        rnd, roll = self.rnd, self.rnd.random()
        if roll < 0.45:
            return 1
        if roll < 0.55:
            return rnd.randint(0, 5)
        if roll < 0.8 and self.last_rows:
            return min(limits.COUNT_MAX, rnd.choice(self.last_rows).remaining + rnd.choice((0, 0, 1)))
        capacity = limits.rule_of(rnd.choice(self.limits)).capacity
        if roll < 0.95:
            return min(limits.COUNT_MAX, rnd.choice((capacity, capacity + 1, 1 + rnd.randrange(capacity))))
        return rnd.choice((limits.COUNT_MAX, limits.log_uniform(rnd, 1, limits.COUNT_MAX)))

    def note(self, attributes, cost, decision):
        """Remember the instants at which something changes for one of the counters just asked."""
        self.last_rows = decision.rows or self.last_rows
        if not decision.rows:
            return
        row = self.rnd.choice(decision.rows)
        counter = row.limit.counters.get(row.key)
        if counter:
            reset_ns = counter.reset_ns(decision.now)
            waits = not row.allowed and cost <= row.limit.rule.capacity
            wait_ns = counter.wait_ns(cost, decision.now) if waits else reset_ns
            self.edges = self.edges[-5:] + [self.steady + reset_ns, self.steady + wait_ns]

    # -------------------------------------------------------- time

    def budget_ns(self):
        return max(0, TIME_END - self.steady - max(0, self.offset)) // 40

    def grain(self):
        """About the time in which a limit gives one unit back."""
        limit = self.rnd.choice(self.limits)
        rule = limits.rule_of(limit)
        if "quota" in limit:
            return GRAIN_NS[limit["quota"][1]]
        if "slots" in limit:
            return max(1, rule.ttl_ns // 4)
        return max(1, rule.period_ns // rule.rate)

    def any_step_ns(self):
        rnd, roll = self.rnd, self.rnd.random()
        if roll < 0.4:
            return 0
        if roll < 0.6 and self.edges:
            return rnd.choice(self.edges) - self.steady + rnd.choice((-1, 0, 0, 1))
        if roll < 0.75:
            return rnd.randrange(2 * self.grain() + 1)
        if roll < 0.85:
            return self.grain() * rnd.randint(1, 3) + rnd.choice((-1, 0, 0, 1))
        if roll < 0.88:
            return limits.rule_of(rnd.choice(self.limits)).period_ns * rnd.randint(1, 4) + rnd.randrange(NS_PER_S)
        return rnd.randrange(10 ** rnd.randint(1, 9))

    def pass_time(self):
        step_ns = self.any_step_ns()
        self.steady += min(max(0, step_ns), self.budget_ns())
        if self.wall_steps and self.rnd.random() < 0.04:
            self.step_wall()

    def step_wall(self):
        """Seconds, hours, about a period, or home again; never before 1970."""
        quotas = [limit["quota"][1] for limit in self.limits if "quota" in limit]
        period_ns = int(UNIT_DAYS[self.rnd.choice(quotas)] * DAY_NS) if quotas else DAY_NS
        step_ns = self.rnd.choice((NS_PER_S, HOUR_NS, period_ns, 2 * period_ns, self.rnd.randrange(2 * period_ns)))
        offset = self.rnd.choice((0, self.offset + step_ns, self.offset - step_ns))
        if abs(offset) < self.steady and self.steady + offset < TIME_END:
            self.offset = offset

    def start(self):
        """Some day in the life of the API; near a change of a zone's offset where a quota has one."""
        zones = [limit["time_zone"] for limit in self.limits if "quota" in limit]
        year_s = self.rnd.choice((31, 40, 54, 56, self.rnd.randint(1, 150))) * 31_556_952
        at_s = year_s + self.rnd.randrange(31_556_952)
        if zones and self.rnd.random() < 0.7:
            zone = model.Calendar.of("day", self.rnd.choice(zones)).zone
            changes = model.transitions(zone, year_s, year_s + 366 * 86400, 86400)
            at_s = self.rnd.choice(changes or [at_s]) - self.rnd.randrange(2 * 86400)
        self.steady = at_s * NS_PER_S + self.rnd.choice((0, self.rnd.randrange(NS_PER_S)))

    # -------------------------------------------------------- the whole

    def first_limits(self):
        if self.algorithm == "mixed":
            return [limits.any_limit(self.rnd, f"limit-{i}", self.rnd.choice(limits.ALGORITHMS), False)
                    for i in range(self.rnd.randint(2, 7))]
        count = self.rnd.choice((1, 1, 2))
        return [limits.any_limit(self.rnd, f"limit-{i}", self.algorithm, i == 0) for i in range(count)]

    def changed_limit(self, limit):
        """Where the wall clock steps, a quota keeps its calendar: where it starts in another, nobody promised."""
        if not self.wall_steps:
            return limits.changed(self.rnd, limit)
        if "quota" in limit:
            return limits.changed_capacity(self.rnd, limit)
        changed = limits.changed(self.rnd, limit)
        return limit if "quota" in changed else changed

    def changed_limits(self):
        chosen = [self.changed_limit(limit) for limit in self.limits]
        if self.rnd.random() < 0.2:
            self.rnd.shuffle(chosen)
        if len(chosen) > 1 and self.rnd.random() < 0.2 and not (self.wall_steps and "quota" in chosen[-1]):
            chosen.pop()
        if len(chosen) < 8 and self.rnd.random() < 0.2:
            algorithm = self.rnd.choice(limits.ALGORITHMS) if self.algorithm == "mixed" else self.algorithm
            free = next(i for i in range(9) if f"limit-{i}" not in {limit["name"] for limit in chosen})
            if not (self.wall_steps and algorithm == "quota"):
                chosen.append(limits.any_limit(self.rnd, f"limit-{free}", algorithm, False))
        return chosen

    def act(self):
        roll = self.rnd.random()
        if roll < 0.02:
            self.sweep()
        elif roll < 0.05:
            self.end_or_renew_lease()
        elif roll < 0.054 and self.reloads:
            self.load(self.changed_limits())
        else:
            self.request()

    def write(self):
        first = self.first_limits()
        self.limits = first
        self.start()
        self.load(first)
        while self.decisions_left > 0:
            self.act()
            self.pass_time()
        self.forget_all()

    def forget_all(self):
        """At the end of time, what is as if untouched takes no memory."""
        self.steady, self.offset = model.TIME_NS_MAX, 0
        now = self.model.now(self.steady, self.wall())
        if all(counter.reset_ns(now) == 0 for limit in self.model.limits for counter in limit.counters.values()):
            self.say(f"S {self.steady} {self.wall()} {CELLS_ALL}", "S")
            self.say("U", "U 0 0 0")
            self.count["emptied"] += 1

    def compare(self, program):
        """None, or what to print."""
        ran = subprocess.run([program], input="\n".join(self.commands) + "\n", capture_output=True, text=True,
                             encoding="utf-8", check=False)
        answers = ran.stdout.splitlines()
        for i, want in enumerate(self.wants):
            got = answers[i] if i < len(answers) else f"nothing: exit {ran.returncode}\n{ran.stderr[-3000:]}"
            if got != want:
                return self.story(i, want, got)
        return f"exit {ran.returncode} at the end\n{ran.stderr[-3000:]}" if ran.returncode else None

    def story(self, at, want=None, got=None):
        loads = [command for command in self.commands[:at + 1] if command[0] == "L"]
        told = []
        for command in loads[-2:]:
            with open(command.split(" ")[3], encoding="utf-8") as file:
                told.append(f"{command}\n{file.read()}")
        recent = slice(max(0, at - 25), at)
        told += [f"{command}\n    -> {answer}" for command, answer in zip(self.commands[recent], self.wants[recent])]
        told += [f"command {at}: {self.commands[at]}", f"  want {want}", f"  got  {got}"]
        return "\n".join(told)


def run_episode(task):
    """(number, counts, what went wrong or None)"""
    program, seed, number, algorithm, decisions = task
    with tempfile.TemporaryDirectory(prefix="headroom-model-") as folder:
        episode = Episode(seed, number, algorithm, decisions, folder)
        try:
            episode.write()
        except Broken as broken:
            return number, episode.count, f"{broken}\n{episode.story(len(episode.commands) - 1, episode.wants[-1])}"
        return number, episode.count, episode.compare(program)


def tasks_of(arguments):
    if arguments.episode is not None:
        numbers = [arguments.episode]
    else:
        numbers = range(-(-arguments.decisions // EPISODE_DECISIONS))
    kinds = [arguments.algorithm] if arguments.algorithm else [*limits.ALGORITHMS, "mixed", "mixed", "mixed"]
    return [(arguments.stream, arguments.seed, number, kinds[number % len(kinds)], EPISODE_DECISIONS)
            for number in numbers]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stream", help="the stream program")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--decisions", type=int, default=1_000_000)
    parser.add_argument("--algorithm", choices=[*limits.ALGORITHMS, "mixed"])
    parser.add_argument("--episode", type=int, help="only this one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep-going", action="store_true", help="print the first difference of every episode")
    return parser.parse_args()


def missing_kinds(total, arguments):
    """A run that never denied, or never met what it is there to meet, proves nothing."""
    if arguments.episode is not None or arguments.decisions < 50_000:
        return []
    algorithms = [arguments.algorithm] if arguments.algorithm not in (None, "mixed") else limits.ALGORITHMS
    wanted = [(algorithm, allowed) for algorithm in algorithms for allowed in (True, False)]
    wanted += ["loads", "sweeps", "retries", "emptied"]
    return [kind for kind in wanted if not total[kind]]


def main():
    arguments = parse_arguments()
    total, failures = Counter(), 0
    print(f"seed {arguments.seed}", flush=True)
    with multiprocessing.Pool(arguments.jobs) as pool:
        for number, count, wrong in pool.imap_unordered(run_episode, tasks_of(arguments)):
            total += count
            if wrong:
                failures += 1
                print(f"seed {arguments.seed} episode {number}:\n{wrong}\n", flush=True)
                if not arguments.keep_going:
                    sys.exit(1)
    for kind, times in sorted(total.items(), key=str):
        print(f"{times:10} {kind if isinstance(kind, str) else kind[0] + (' allowed' if kind[1] else ' denied')}")
    if failures or missing_kinds(total, arguments):
        sys.exit(f"{failures} episodes differ; never seen: {missing_kinds(total, arguments)}")


if __name__ == "__main__":
    main()
