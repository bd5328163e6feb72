"""Several regions of real nodes on loopback, which share global caps; and a load on them that keeps account of what was
admitted when."""
import tempfile
import threading
import time

import cluster
import rpc

STEP_S = 0.05


class World:
    """Regions of a few nodes each. A context: all nodes are killed at the end."""

    def __init__(self, build, folder, limits, names=("ap", "eu", "us"), size=2):
        self.names = names
        self.regions = {name: cluster.Cluster(build, tempfile.mkdtemp(dir=folder), limits, size, region=name)
                        for name in names}
        first = self.regions[names[0]]
        self.limits_file = first.limits_file
        for region in self.regions.values():
            region.name = first.name
            region.secret_file = first.secret_file
            region.limits_file = first.limits_file
            region.seeds = [node.gossip for one in self.regions.values() for node in one.nodes]
        for region in self.regions.values():
            for node in region.nodes:
                self.write(node)

    def write(self, node, weights=None):
        node.write()
        weights = weights or {}
        entries = ", ".join(f"{name}: {{weight: {weights.get(name, 1)}}}" for name in self.names)
        with open(node.file, "a", encoding="utf-8") as file:
            file.write(f"regions: {{{entries}}}\n")

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for region in self.regions.values():
            region.__exit__(kind, value, trace)

    def start(self):
        """All at once: then wait until each region is one, and knows whether it is new."""
        for region in self.regions.values():
            for node in region.nodes:
                node.start()
        for region in self.regions.values():
            region.settle()
        for region in self.regions.values():
            for node in region.nodes:
                cluster.until(f"{region.region} {node.name} knows its past", lambda node=node: knows_its_past(node))
        return self

    def nodes(self, name):
        return self.regions[name].running()


def caps_of(node):
    return node.ask("status")["caps"]


def knows_its_past(node):
    caps = caps_of(node)
    return caps["adopted"] and caps["agreed"] and caps["origin"] != "unknown"


class Load(threading.Thread):
    """So many requests a second at the running nodes of one region, whatever comes of them. A node that is gone is left
    out until it is back."""

    def __init__(self, world, region, attributes, per_second):
        super().__init__(daemon=True)
        self.world = world
        self.region = region
        self.params = {"attributes": attributes, "detail": False}
        self.per_second = per_second
        self.is_over = False
        self.admitted = []  # (sent, answered)
        self.denied = self.failed = self.degraded = 0

    def run(self):
        pool, due, count = None, time.monotonic(), 0.0
        while not self.is_over:
            count += self.per_second * STEP_S
            batch, count = int(count), count - int(count)
            try:
                pool = pool or cluster.Pool(self.world.nodes(self.region))
                self.ask(pool, batch)
            except (OSError, AssertionError):
                self.failed += batch
                pool = pool and pool.close()
            due += STEP_S
            time.sleep(max(0, due - time.monotonic()))
        if pool:
            pool.close()

    def ask(self, pool, batch):
        sent = time.monotonic()
        places = [i % len(pool.clients) for i in range(batch)]
        answers = pool.ask_all([(place, "check", self.params) for place in places])
        answered = time.monotonic()
        for answer in answers:
            if isinstance(answer, rpc.Refused):
                self.failed += 1
            elif answer["allowed"]:
                self.degraded += "degraded" in answer
                self.admitted.append((sent, answered))
            else:
                self.denied += 1

    def end(self):
        self.is_over = True
        self.join()


def peak(admissions, rate):
    """The most that was ever admitted above a steady stream of this rate, less what the answers' own time may hide: the
    level of a bucket that drains at that rate (Lindley), which the burst bounds."""
    level, last, highest = 0.0, None, 0.0
    for _, at in sorted(admissions, key=lambda one: one[1]):
        level = max(0.0, level - rate * (at - last)) + 1 if last is not None else 1.0
        last = at
        highest = max(highest, level)
    slowest = max((answered - sent for sent, answered in admissions), default=0.0)
    return highest - rate * slowest


def reload(world, limits):
    with open(world.limits_file, "w", encoding="utf-8") as file:
        file.write(limits)
