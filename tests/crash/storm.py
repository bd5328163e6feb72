"""A storm: for some seconds everything at once, at random, against one node: sound and hostile requests of every
method, all algorithms and durabilities, reloads of good and bad limits, limits that are put and deleted, stops and goes
(SIGSTOP), clean ends and kill -9. Each decision must agree with itself, the node must answer to the end, and what was
spent of one limit that is there throughout, which is `reserved`, must never come back.

    python3 storm.py BUILD [--seed N] [--seconds N]"""
import argparse
import os
import random
import signal
import socket
import sys
import tempfile
import time

import node

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib", "py"))
import rpc  # noqa: E402  its folder is known only now

ALGORITHMS = ["token_bucket", "gcra", "leaky_bucket", "fixed_window", "sliding_window", "sliding_log"]
RATES = ["1 per 1ms", "2/s", "10 per 7ms", "100/m", "50000/h", "1000 per 366d"]
ZONES = ["UTC", "Europe/Berlin", "Asia/Kolkata", "Pacific/Apia"]
WHENS = ["x*", ["x1", "x2"], {"not": "x1"}, {"cidr": "10.0.0.0/8"}]
VALUES = ["x1", "x2", "10.1.2.3", "", "y"]
COSTS = [0, 1, 1, 1, 2, 3, 10, 100, 2**53 - 1]
NAMES = [f"l{i}" for i in range(10)]
WHOLE = 10**9  # of the limit that is there throughout
ANSWER_S_MAX = 20


class Storm:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.node = None
        self.client = None
        self.leases = []
        self.spent = 0  # what answers say
        self.asked = self.refused = self.starts = 0

    # --- what is asked ---

    def limit(self, name):
        pick = self.random.choice
        limit = {"name": name, "algorithm": pick(ALGORITHMS + ["quota", "concurrency"]),
                 "key": self.random.sample(["a", "b", "c"], self.random.randint(1, 2)),
                 "durability": pick(["memory", "periodic", "reserved"]), "mode": pick(["enforce", "enforce", "shadow"])}
        if limit["algorithm"] == "quota":
            limit.update(quota=f"{pick([1, 10, 50000])}/{pick(['hour', 'day', 'month'])}", time_zone=pick(ZONES))
        elif limit["algorithm"] == "concurrency":
            limit.update(slots=str(pick([1, 10, 1000])), ttl=pick(["1ms", "1s", "1h"]))
        else:
            limit["rate"] = pick(RATES)
        if self.random.random() < 0.3:
            limit["when"] = {"a": pick(WHENS)}
        return limit

    def limits_text(self):
        """A limits file; JSON is YAML."""
        lines = [f"  - {self.limit(name)}" for name in self.random.sample(NAMES, self.random.randint(0, 8))]
        whole = f"  - {{name: whole, key: [whole], algorithm: quota, quota: {WHOLE}/year, durability: reserved}}"
        return "\n".join(["limits:", whole, *lines, ""])

    def request(self):
        names = self.random.sample(["a", "b", "c"], self.random.randint(1, 3))
        request = {"attributes": {name: self.random.choice(VALUES) for name in names},
                   "cost": self.random.choice(COSTS)}
        if self.random.random() < 0.1:
            request["id"] = f"i{self.random.randrange(200)}"
        return request

    # --- asking ---

    def ask(self, method, **params):
        """None: it was refused, as it may be, or nobody could answer at the moment."""
        self.asked += 1
        try:
            return self.client.ask(method, **params)
        except rpc.Refused as refused:
            assert str(refused).split(":")[0] in ("INVALID_ARGUMENT", "NOT_FOUND", "UNAVAILABLE",
                                                  "RESOURCE_EXHAUSTED"), refused
            self.refused += 1
            return None

    def check(self):
        request = self.request()
        answer = self.ask("check", **request)
        if answer is not None and "id" not in request:
            verify(answer)
            self.leases += [limit["lease"] for limit in answer["limits"] if limit.get("lease")]
            self.leases = self.leases[-300:]

    def spend(self):
        cost = self.random.randint(1, 50)
        answer = self.ask("check", attributes={"whole": "x"}, cost=cost)
        self.spent += cost if answer is not None and answer["allowed"] else 0

    def check_many(self):
        self.ask("check_many", requests=[self.request() for _ in range(self.random.randint(0, 30))])

    def give_back(self):
        if self.leases and self.random.random() < 0.6:
            self.ask(self.random.choice(["release", "renew"]), lease=self.random.choice(self.leases))
        else:
            request = self.request()
            self.ask("refund", attributes=request["attributes"], cost=request["cost"])

    def look(self):
        self.ask(self.random.choice(["status", "hot_keys", "limits.list", "members"]))
        request = self.request()
        answer = self.ask("check", attributes=request["attributes"], cost=request["cost"], peek=True)
        if answer is not None:
            verify(answer)

    def throttle(self):
        self.ask("throttle", key=self.random.choice("abc"), rate=self.random.choice(["1/s", "5 per 1ms", "7/d"]),
                 cost=self.random.choice(COSTS), algorithm=self.random.choice(ALGORITHMS))

    def change_limits(self):
        name = self.random.choice(NAMES)
        if self.random.random() < 0.6:
            self.ask("limits.put", **self.limit(name))
        else:
            self.ask("limits.delete", name=name)

    def reload(self):
        bad = ["limits: [", "limits:\n  - {name: x}\n", ""]
        self.node.set_limits(self.random.choice(bad) if self.random.random() < 0.3 else self.limits_text())
        self.node.process.send_signal(signal.SIGHUP)

    def send_nonsense(self):
        """On a connection of its own, which may end as it likes."""
        sound = rpc.pack([0, 1, "check", [self.request()]])
        data = bytearray(sound * self.random.randint(1, 3))
        for _ in range(self.random.randint(1, 4)):
            data[self.random.randrange(len(data))] = self.random.randrange(256)
        with socket.create_connection(("127.0.0.1", self.node.port), ANSWER_S_MAX) as one:
            one.sendall(data[:self.random.randint(1, len(data))])

    def freeze(self):
        self.node.process.send_signal(signal.SIGSTOP)
        time.sleep(self.random.random() / 5)
        self.node.process.send_signal(signal.SIGCONT)

    def restart(self):
        self.client.close()
        if self.random.random() < 0.5:
            self.node.stop()
        else:
            self.node.kill()
        self.start()

    def start(self):
        self.node.set_limits(self.limits_text())
        self.node.start()
        self.client = rpc.Client(self.node.port, ANSWER_S_MAX)
        self.starts += 1

    # --- the whole ---

    def run(self, build, folder, seconds):
        self.node = node.Node(build, os.path.join(folder, "data"), "", workers=self.random.choice([1, 1, 2]))
        self.start()
        shares = [(self.check, 500), (self.spend, 100), (self.check_many, 60), (self.give_back, 100), (self.look, 30),
                  (self.throttle, 30), (self.change_limits, 20), (self.reload, 15), (self.send_nonsense, 30),
                  (self.freeze, 2), (self.restart, 2)]
        acts, weights = zip(*shares)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.random.choices(acts, weights)[0]()
            assert self.node.process.poll() is None, f"the node ended with status {self.node.process.returncode}"
        self.settle()

    def settle(self):
        """It answers still, also after one more kill, and nothing that was spent has come back."""
        for is_killed in (False, True):
            if is_killed:
                self.client.close()
                self.node.kill()
                self.start()
            answer = self.client.ask("check", attributes={"whole": "x"}, cost=0)
            left = next(limit["remaining"] for limit in answer["limits"] if limit["name"] == "whole")
            assert left <= WHOLE - self.spent, f"{self.spent} were spent, and {left} of {WHOLE} are left"
        self.client.close()
        self.node.stop()


def verify(answer):
    """Does a decision agree with itself?"""
    for limit in answer["limits"]:
        assert 0 <= limit["remaining"] <= limit["limit"], answer
        assert limit["retry_after_ms"] >= -1 and limit["reset_after_ms"] >= 0, answer
        assert limit["allowed"] == (limit["retry_after_ms"] == 0), answer
    deny = [limit for limit in answer["limits"] if limit["mode"] == "enforce" and not limit["allowed"]]
    waits = [limit["retry_after_ms"] for limit in deny]
    assert answer["allowed"] == (not deny), answer
    assert answer["decided_by"] == (deny[0]["name"] if deny else None), answer
    assert answer["retry_after_ms"] == (-1 if -1 in waits else max(waits, default=0)), answer


def complaints(log):
    """What a sanitizer or an assertion has said."""
    with open(log, encoding="utf-8", errors="replace") as file:
        return [line for line in file if "Sanitizer" in line or "runtime error" in line or "ssertion" in line]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--seconds", type=float, default=8)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        storm = Storm(options.seed)
        try:
            storm.run(options.build, folder, options.seconds)
        finally:
            if storm.node is not None:
                storm.node.kill()
                with open(storm.node.log, encoding="utf-8", errors="replace") as log:
                    tail = log.read()[-3000:]
                if sys.exc_info()[0] is not None:
                    print(tail)
        assert not complaints(storm.node.log), complaints(storm.node.log)
        print(f"{storm.asked} asked, {storm.refused} refused, {storm.starts} starts, {storm.spent} spent for good")


if __name__ == "__main__":
    main()
