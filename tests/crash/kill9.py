"""Kills a node with SIGKILL at random moments under load, again and again, and counts what it has admitted.

    python3 kill9.py BUILD --durability reserved|periodic [--rounds N] [--seed S] [--workers N]

After each restart the node says what it holds as spent. Reserved: never less than the answers that were received, and
at most one chunk more than what was asked for; the quota is never exceeded. Periodic: never less than what had been
received a flush interval before it died; so all rounds together admit at most the quota and, for each round, what was
spent in its last interval. Then a lease must still be there after either end, a clean stop must lose nothing at all,
and the rest of the quota is spent, so that the sum shows as well that nothing was given twice. The long form is
--rounds 1000."""
import argparse
import itertools
import math
import os
import random
import sys
import tempfile
import threading
import time

from node import Node

QUOTA = 4_000_000_000  # more than any machine spends in these rounds
SLOTS = 10
PIPELINE = 32
CONNECTIONS = 3
COST_MAX = 200
# What a change may wait until it is on the disk: the interval, and the commit before and its own. On a busy machine one
# round may have to wait for longer than they do on the whole.
FLUSH_S = 0.1
COMMITS_S = 0.3
COMMITS_S_MAX = 0.9
# A chunk (limiter/reserve.h): 64 requests like the largest; for a busy counter up to four times what it spent in a
# tenth of a second, for the chunk is doubled while half of one is spent faster; never more than an eighth of the quota.
CHUNK_REQUESTS = 64
CHUNK_LASTS_S = 0.1
CHUNK_MAX = QUOTA // 8 + 1

LIMITS = """limits:
  - name: spend
    when: {{do: spend}}
    algorithm: quota
    quota: {quota}/year
    durability: {durability}
  - name: hold
    when: {{do: hold}}
    algorithm: concurrency
    slots: {slots}
    ttl: 1h
"""


class Load(threading.Thread):
    """One connection that keeps some requests under way until the node is gone."""

    def __init__(self, node, seed):
        super().__init__(daemon=True)
        self.client = node.client()
        self.random = random.Random(seed)
        self.under_way = {}  # by msgid: when it was sent, cost
        self.received = []  # (sent, received, cost) of each answer that admitted
        self.refused = 0
        self.failure = None

    def run(self):
        try:
            while True:
                while len(self.under_way) < PIPELINE:
                    self.send()
                self.receive()
        except OSError:
            pass  # it was killed
        except Exception as failure:  # pylint: disable=broad-exception-caught
            self.failure = failure
        self.client.close()

    def send(self):
        cost = self.random.randint(1, COST_MAX)
        self.under_way[self.client.msgid + 1] = (time.monotonic(), cost)
        self.client.send("check", {"attributes": {"do": "spend"}, "cost": cost, "detail": False})

    def receive(self):
        msgid, error, result = self.client.next()
        sent_at, cost = self.under_way.pop(msgid)
        if error is not None:
            self.refused += 1
        elif result["allowed"]:
            self.received.append((sent_at, time.monotonic(), cost))


def spent(client):
    row = client.ask("check", attributes={"do": "spend"}, peek=True)["limits"][0]
    return QUOTA - row["remaining"]


def spend(client, cost):
    return cost if client.ask("check", attributes={"do": "spend"}, cost=cost)["allowed"] else 0


class Round:
    """One life of the node under load."""

    def __init__(self, node, chance):
        loads = [Load(node, chance.random()) for _ in range(CONNECTIONS)]
        for load in loads:
            load.start()
        time.sleep(chance.choice((0.005, 0.05, 0.2, 0.4, 2)) * chance.random() + 0.002)
        self.killed_at = time.monotonic()
        node.kill()
        for load in loads:
            load.join(20)
            assert not load.is_alive(), "a connection outlived its node"
            assert load.failure is None, repr(load.failure)
        answers = [answer for load in loads for answer in load.received]
        unanswered = [(at, math.inf, cost) for load in loads for at, cost in load.under_way.values()]
        times = [at for _, at, _ in answers]
        self.received = sum(cost for _, _, cost in answers)
        self.unanswered = sum(cost for _, _, cost in unanswered)
        self.refused = sum(load.refused for load in loads)
        self.late = sum(cost for _, at, cost in answers if at >= self.killed_at - FLUSH_S - COMMITS_S)
        self.late_max = sum(cost for _, at, cost in answers if at >= self.killed_at - FLUSH_S - COMMITS_S_MAX)
        self.rate = self.received / (max(times) - min(times)) if len(answers) > 1000 else 0
        self.chunk = min(CHUNK_MAX, max(CHUNK_REQUESTS * COST_MAX, 4 * most_within(answers + unanswered)))


def most_within(requests):
    """The most that the node can have spent within CHUNK_LASTS_S by its own clock, whatever held it or its clients up:
    it decided each request at some moment between its sending and its answer's coming."""
    begins = [(sent - CHUNK_LASTS_S, 0, cost) for sent, _, cost in requests]  # of such a time that may hold it
    ends = [(received, 1, -cost) for _, received, cost in requests]
    return max(itertools.accumulate((cost for _, _, cost in sorted(begins + ends)), initial=0))


class Counted:
    def __init__(self):
        self.received = 0
        self.lost = 0       # spent after the restart, and never answered
        self.worst_loss = 0
        self.again = 0      # answered, and not spent after the restart
        self.may_again = 0  # what the rounds' last intervals have spent: again is never more
        self.worst_again_s = 0


def check_round(durability, one, before, after, counted):
    """before, after: what the node held as spent when the round began, and when it came back."""
    known = before + one.received
    counted.received += one.received
    counted.lost += max(after - known, 0)
    counted.again += max(known - after, 0)
    counted.worst_loss = max(counted.worst_loss, after - known - one.unanswered)
    counted.may_again += one.late
    if one.rate > 0:
        counted.worst_again_s = max(counted.worst_again_s, (known - after) / one.rate)
    if durability == "reserved":
        assert after >= known, f"admitted {known}, but after the crash only {after} is spent"
        lost = after - known - one.unanswered
        assert lost <= one.chunk, f"a crash lost {lost} units, and a chunk is {one.chunk}"
    else:
        assert after >= known - one.late_max, f"{known - one.late_max} were spent an interval ago, now {after}"
        assert after <= known + one.unanswered, f"spent {after}, but only {known + one.unanswered} was asked for"
    assert one.refused == 0, f"{one.refused} requests were refused"


def check_lease(node, end):
    """A lease that was given before this end of the node is there after it, and can be released, once."""
    client = node.client()
    lease = client.ask("check", attributes={"do": "hold"}, cost=3)["limits"][0]["lease"]
    if end == node.kill:
        time.sleep(FLUSH_S + COMMITS_S_MAX)  # periodic: what is younger may be lost
    end()
    node.start()
    client = node.client()
    row = client.ask("check", attributes={"do": "hold"}, peek=True)["limits"][0]
    assert row["remaining"] == SLOTS - 3, row
    assert client.ask("release", lease=lease)["released"] is True
    assert client.ask("release", lease=lease)["released"] is False
    row = client.ask("check", attributes={"do": "hold"}, peek=True)["limits"][0]
    assert row["remaining"] == SLOTS, row


def check_clean_stop(node):
    client = node.client()
    received = spend(client, 7)
    known = spent(client)
    node.stop()
    node.start()
    client = node.client()
    assert spent(client) == known, f"{known} was spent before a clean stop, {spent(client)} after it"
    return received


def check_the_rest(client, counted, durability):
    """Spends all that is left: what was admitted in all, and what crashes have cost, is the quota."""
    left = QUOTA - spent(client)
    while left > 0:
        cost = min(left, QUOTA // 64)
        counted.received += spend(client, cost)
        left -= cost
    assert spend(client, 1) == 0, "more than the quota was admitted"
    total = counted.received + counted.lost - counted.again
    assert total == QUOTA, f"{total} of {QUOTA} are accounted for"
    most = QUOTA + (0 if durability == "reserved" else counted.may_again)
    assert counted.received <= most, f"{counted.received} were admitted, and {most} may be"


def run(arguments, folder):
    chance = random.Random(arguments.seed)
    node = Node(arguments.build, os.path.join(folder, "data"),
                LIMITS.format(quota=QUOTA, durability=arguments.durability, slots=SLOTS), arguments.workers)
    counted = Counted()
    try:
        node.start()
        before = 0
        for number in range(arguments.rounds):
            try:
                one = Round(node, chance)
                node.start()
                after = spent(node.client())
                check_round(arguments.durability, one, before, after, counted)
            except AssertionError as failure:
                raise AssertionError(f"round {number}: {failure}") from failure
            before = after
        for end in (node.stop, node.kill):
            check_lease(node, end)
        counted.received += check_clean_stop(node)
        check_the_rest(node.client(), counted, arguments.durability)
        node.stop()
    finally:
        node.kill()
    print(f"{arguments.rounds} crashes, {arguments.durability}: {counted.received} of {QUOTA} admitted, "
          f"{counted.lost} not answered or lost to crashes (at most {counted.worst_loss} lost by one), "
          f"{counted.again} admitted twice")
    if arguments.durability == "periodic":
        print(f"the last intervals of all lives spent {counted.may_again}; "
              f"one crash forgot at most {1000 * counted.worst_again_s:.0f} ms of spending")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--durability", choices=("reserved", "periodic"), default="reserved")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        run(arguments, folder)


if __name__ == "__main__":
    sys.exit(main())
