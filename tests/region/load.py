"""Steady load on a region: requests that come at a fixed rate whatever the region does, spread over all its nodes.

It is a client as it should be: every request has an id. What a node did not answer, because its connection broke or it
is silent, or could not carry out just then, is asked again at any node under the same id, so that nothing is charged
twice by asking twice."""
import bisect
import collections
import random
import selectors
import socket
import threading
import time

import cluster

WIDE, TIGHT = "wide", "tight"  # limits: one that nobody exhausts, one that always denies some
WIDE_QUOTA = 1_000_000_000
TIGHT_RATE = 20   # a second, and the burst
WIDE_COUNTERS = 18
TIGHT_COUNTERS = 3
PER_SECOND = 1200
NOT_NOW = ("UNAVAILABLE", "DEADLINE_EXCEEDED")
SILENT_S = 0.5    # a node that owes an answer for so long is not asked, and others are asked instead
RECONNECT_S = 0.05
DRAIN_S_MAX = 20
WINDOW_S = 1.0    # what a crash forgets was admitted within that much before it (see forgettable)

LIMITS = """limits:
  - {{name: wide, key: [wide], algorithm: quota, quota: {quota}/year, durability: {durability}}}
  - {{name: tight, key: [tight], algorithm: token_bucket, rate: {rate}/s, burst: {rate}, durability: {durability},
     on_unavailable: deny}}
"""


def limits(durability):
    return LIMITS.format(quota=WIDE_QUOTA, rate=TIGHT_RATE, durability=durability)


class Request:
    def __init__(self, number, counter, now):
        self.id = f"r{number}"
        self.counter = counter
        self.sent_at = now
        self.asked_at = now
        self.is_answered = False


class Link:
    """A connection to one node, or the wish for one."""

    def __init__(self, node):
        self.node = node
        self.client = None
        self.next_try = 0
        self.under_way = {}  # by msgid

    def is_silent(self, now):
        return any(now - request.asked_at > SILENT_S for request in self.under_way.values())


class Phase:
    """What happened from one mark to the next."""

    def __init__(self, name):
        self.name = name
        self.asked = self.admitted = self.denied = self.degraded = self.again = 0
        self.refused = collections.Counter()
        self.longest_wait_s = self.longest_pause_s = 0

    def line(self):
        refused = f", refused {dict(self.refused)}" if self.refused else ""
        return (f"{self.name:24} asked {self.asked:6}, admitted {self.admitted:6}, denied {self.denied:5}, "
                f"degraded {self.degraded:4}, asked again {self.again:4}, longest pause of a counter "
                f"{1000 * self.longest_pause_s:5.0f} ms, longest wait {1000 * self.longest_wait_s:5.0f} ms{refused}")


class Load(threading.Thread):
    def __init__(self, nodes, seed):
        super().__init__(daemon=True)
        self.dice = random.Random(seed)
        self.links = [Link(node) for node in nodes]
        self.counters = [(WIDE, f"w{i}") for i in range(WIDE_COUNTERS)] + [(TIGHT, f"t{i}")
                                                                            for i in range(TIGHT_COUNTERS)]
        self.waiting_since = {}  # by counter: when the first request was sent that no owner has answered since
        self.admitted = collections.defaultdict(list)  # by counter: when; by owners only
        self.by_owner = collections.defaultdict(list)  # by node: when it admitted, of wide ones
        self.unanswered = []
        self.began = self.ended = time.monotonic()
        self.phases = [Phase("steady")]
        self.selector = selectors.DefaultSelector()
        self.number = 0
        self.is_over = threading.Event()
        self.failure = None

    # --- what the test calls ---

    def mark(self, name):
        self.phases.append(Phase(name))
        return self.phases[-1]

    def add(self, node):
        self.links.append(Link(node))

    def finish(self):
        """Waits for what is under way. Requests that never got an answer are in `unanswered` then."""
        self.is_over.set()
        self.join(DRAIN_S_MAX + 30)
        assert not self.is_alive(), "the load does not end"
        if self.failure is not None:
            raise self.failure

    # --- the thread ---

    def run(self):
        try:
            self.began = time.monotonic()
            self.drive()
            self.drain()
        except Exception as failure:  # pylint: disable=broad-exception-caught
            self.failure = failure
        self.ended = time.monotonic()
        for link in self.links:
            self.drop(link)

    def drive(self):
        while not self.is_over.is_set():
            now = time.monotonic()
            due = int((now - self.began) * PER_SECOND)
            while self.number < due:
                self.ask_next()
            self.turn(0.001)

    def drain(self):
        end = time.monotonic() + DRAIN_S_MAX
        while self.open_requests() and time.monotonic() < end:
            self.turn(0.01)
        self.unanswered = self.open_requests()

    def open_requests(self):
        return [request for link in self.links for request in link.under_way.values() if not request.is_answered]

    def turn(self, seconds):
        for key, _ in self.selector.select(seconds):
            self.receive(key.data)
        now = time.monotonic()
        for link in self.links:
            if link.client is None and now >= link.next_try and link.node.process is not None:
                self.connect(link, now)
            for request in [one for one in link.under_way.values()
                            if not one.is_answered and now - one.asked_at > SILENT_S]:
                self.ask_again(request)

    def connect(self, link, now):
        link.next_try = now + RECONNECT_S
        try:
            link.client = link.node.client()
            self.selector.register(link.client.socket, selectors.EVENT_READ, link)
        except OSError:
            link.client = None

    def drop(self, link):
        if link.client is not None:
            self.selector.unregister(link.client.socket)
            link.client.close()
            link.client = None
        lost, link.under_way = link.under_way, {}
        return [request for request in lost.values() if not request.is_answered]

    def ask_next(self):
        counter = self.counters[self.number % len(self.counters)]
        request = Request(self.number, counter, time.monotonic())
        self.number += 1
        self.phases[-1].asked += 1
        self.waiting_since.setdefault(counter, request.sent_at)
        self.send(request)

    def ask_again(self, request):
        self.phases[-1].again += 1
        self.send(request)

    def send(self, request):
        """To any node that can be asked; where there is none, it is lost and waits for one."""
        request.asked_at = now = time.monotonic()
        for link in self.dice.sample(self.links, len(self.links)):
            if link.client is None or link.is_silent(now):
                continue
            try:
                msgid = link.client.send("check", {"attributes": dict([request.counter]), "id": request.id,
                                                   "detail": False})
                link.under_way[msgid] = request
                return
            except OSError:
                for lost in self.drop(link):
                    self.ask_again(lost)
        self.links[0].under_way[f"lost {request.id}"] = request

    def receive(self, link):
        try:
            more = link.client.socket.recv(1 << 18)
        except (OSError, socket.timeout):
            more = b""
        if not more:
            for lost in self.drop(link):
                self.ask_again(lost)
            return
        link.client.data += more
        for msgid, error, result in cluster.received(link.client):
            request = link.under_way.pop(msgid)
            if request.is_answered:
                continue
            if error is not None and error.split(":")[0] in NOT_NOW:
                self.phases[-1].refused[error] += 1
                self.ask_again(request)
            else:
                request.is_answered = True
                self.note(request, error, result, time.monotonic())

    def note(self, request, error, result, now):
        phase = self.phases[-1]
        phase.longest_wait_s = max(phase.longest_wait_s, now - request.sent_at)
        if error is not None:
            phase.refused[error] += 1
            return
        if result.get("degraded"):
            phase.degraded += 1
            return
        since = self.waiting_since.pop(request.counter, None)
        if since is not None:
            phase.longest_pause_s = max(phase.longest_pause_s, now - since)
        if not result["allowed"]:
            phase.denied += 1
            return
        phase.admitted += 1
        self.admitted[request.counter].append(now)
        if request.counter[0] == WIDE:
            self.by_owner[result["node"]].append(now)

    # --- the audit ---

    def forgettable(self, name, killed_at):
        """What a node's crash may have forgotten with durability periodic: what it admitted in its last flush interval,
        and while that was on its way to the disk and the standby, for which a busy machine takes some time."""
        times = self.by_owner[name]
        return len(times) - bisect.bisect_left(times, killed_at - WINDOW_S)

    def audit(self, node):
        """For each wide counter: (admitted by owners, spent as the counter says)."""
        result = {}
        for counter in self.counters:
            if counter[0] == WIDE:
                answer = node.ask("check", attributes=dict([counter]), peek=True)
                assert "degraded" not in answer, answer
                result[counter[1]] = (len(self.admitted[counter]), WIDE_QUOTA - answer["limits"][0]["remaining"])
        return result

    def most_tight(self):
        """The most that one tight counter has admitted, and what its limit's definition allows for the whole run."""
        most = max(len(self.admitted[counter]) for counter in self.counters if counter[0] == TIGHT)
        return most, int(TIGHT_RATE + TIGHT_RATE * (self.ended - self.began))
