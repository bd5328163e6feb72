#!/usr/bin/env python3
"""A node beside what it is measured against, in one run on one machine; the ratios are what counts.

usage: side_by_side.py BUILD [--sections A,B...] [--rounds N] [--seconds S] [--keys N] [--keys-many N] [--markdown FILE]

Headroom under each durability; a bare libuv server that sends the same bytes (echo_uv.c); Redis, by INCR and by a GCRA
script (gcra.lua) under EVALSHA; throttlecrab by its RESP; Gubernator by gRPC. One client for all (load.c): the same
keys, connections and depth. What is not installed is left out with a word; throttlecrab and Gubernator are built once,
in a temporary folder, where cargo and go are there to do it. Each server has processor 0, the client processor 1.

All take turns in each round, after one that is not counted; numbers are medians of the rounds, with the least and the
most. A ratio is the median of the ratios of each round, so that what disturbs a round disturbs both sides.

--markdown puts the result between the two marks in FILE (docs/BENCHMARKS.md), whole or not at all.
"""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import cost
import peers
from lab import (CLIENT_CPU, Load, alternate, machine, median, note, rate_table, ratio, spread, table, verdict)

CONNECTIONS, DEPTH = 50, 64
MEMORY = "headroomd, memory"
INCR = "redis, INCR"
AS_REDIS = f"{MEMORY}, at the rate of {INCR}"
BEGIN, END = "<!-- side_by_side.py: begin -->\n", "<!-- side_by_side.py: end -->\n"

# (who, least ratio of Headroom's rate to theirs)
UNPIPELINED = (("libuv echo", 0.95), (INCR, 1), ("redis, GCRA by EVALSHA", 1), ("throttlecrab", 1),
               ("gubernator", 1))
PIPELINED = (("libuv echo", 0.6), (INCR, 2.5), ("redis, GCRA by EVALSHA", 10), ("throttlecrab", 3),
             ("gubernator", 20))
BATCHED = (("gubernator", 3),)
DURABLE = (("headroomd, periodic", 0.9), ("headroomd, reserved", 0.8))


class Lab:
    """Where the servers of a section live, all stopped at its end."""

    def __init__(self, options):
        self.build = options.build.resolve()
        self.rounds, self.seconds = options.rounds, options.seconds
        self.keys, self.keys_many = options.keys, options.keys_many
        self.servers = contextlib.ExitStack()

    def __enter__(self):
        self.folder = pathlib.Path(self.servers.enter_context(tempfile.TemporaryDirectory(prefix="headroom-bench-")))
        return self

    def __exit__(self, *_):
        self.servers.close()

    def keep(self, server):
        self.servers.callback(server.stop)
        return server

    def load(self, name, server, tongue, request, **more):
        shape = {"keys": self.keys, "connections": CONNECTIONS, "depth": DEPTH, **more}
        return Load(name, server, tongue, request, tool=self.build / "bench" / "load", folder=self.folder, **shape)

    def node(self, durability, counters):
        return self.keep(peers.start_headroom(self.build, self.folder, durability, counters))

    def alternate(self, loads, during=None):
        return alternate(loads, self.rounds, self.seconds, during)


# --- who there is ---

def headroom_loads(lab):
    nodes = [lab.node(durability, 2 * lab.keys) for durability in peers.DURABILITIES]
    loads = [lab.load(node.name, node, "rpc", peers.check()) for node in nodes]
    echo, tongue = peers.start_echo(lab.build, lab.folder, nodes[0])
    return loads, lab.load("libuv echo", lab.keep(echo), tongue, peers.check())


def redis_loads(lab):
    if not peers.is_there("redis-server"):
        return []
    redis = lab.keep(peers.start_redis(lab.folder))
    return [lab.load(INCR, redis, "resp", peers.INCR),
            lab.load("redis, GCRA by EVALSHA", redis, "resp", peers.gcra(redis))]


def gubernator_load(lab, count, **more):
    server = lab.keep(peers.start_gubernator(lab.keys))
    return lab.load("gubernator", server, "grpc", peers.get_rate_limits(count), **more)


def all_loads(lab):
    loads, echo = headroom_loads(lab)
    loads += redis_loads(lab)
    if peers.is_there("throttlecrab-server"):
        loads.append(lab.load("throttlecrab", lab.keep(peers.start_throttlecrab(lab.keys)), "resp", peers.THROTTLE))
    batch = None
    if peers.is_there("gubernator"):
        loads.append(gubernator_load(lab, 1))
        batch = loads[-1].named("gubernator", request=peers.get_rate_limits(peers.BATCH), depth=1)
    for load in loads:
        (batch if load.name == "gubernator" else load).fill()
    return [echo, *loads], batch


# --- sections ---

def short(name):
    return name.removeprefix("headroomd, ")


def ratio_row(results, one, other, least):
    values, costs = ratio(results, one, other), ratio(results, one, other, "cost_ns")
    return (f"{short(one)} / {short(other)}", spread(values, ".2f"), f"at least {least}",
            verdict(median(values), least=least), spread(costs, ".2f"))


def ratio_rows(results, targets):
    pairs = [(MEMORY, other, least) for other, least in targets] + [(one, MEMORY, least) for one, least in DURABLE]
    return [ratio_row(results, *pair) for pair in pairs if pair[0] in results and pair[1] in results]


def at_half(lab, loads, results):
    """Each at half of its own peak, open loop; and Headroom at half of Redis', for a machine's hiccups hurt
    the more, the more is asked."""
    rate = {load.name: max(1, round(median([seen.per_second for seen in results[load.name]]) / 2)) for load in loads}
    paced = [load.named(load.name, rate=rate[load.name]) for load in loads]
    if INCR in rate:
        paced += [load.named(AS_REDIS, rate=rate[INCR]) for load in loads if load.name == MEMORY]
    seen = lab.alternate(paced)
    text = table(("at half of its peak", "checks/s", "p50 us", "p99 us", "p99.9 us"),
                 [(load.name, f"{load.rate:,}",
                   *(spread([getattr(each, what) for each in seen[load.name]]) for what in ("p50", "p99", "p99_9")))
                  for load in paced])
    return text, seen


def latency_rows(seen):
    rows = []
    for name, rate in ((MEMORY, "its own peak"), (AS_REDIS, "Redis' peak")):
        if name in seen and INCR in seen:
            values = ratio(seen, name, INCR, "p99")
            rows.append((f"p99 at half of {rate}, memory / {INCR}", spread(values, ".2f"), "at most 1",
                         verdict(median(values), most=1), ""))
    for name, rounds in seen.items():
        if name.startswith("headroomd") and name != AS_REDIS:
            values = [each.p99_9 / max(each.p99, 1) for each in rounds]
            rows.append((f"p99.9 / p99 at half the peak, {short(name)}", spread(values, ".2f"), "at most 3",
                         verdict(median(values), most=3), ""))
    return rows


RATIO_HEADS = ("ratio of the rates", "", "target", "", "of the server's time")


def beside(lab, title, loads, targets):
    results = lab.alternate(loads)
    latencies, seen = at_half(lab, loads, results)
    rows = ratio_rows(results, targets) + latency_rows(seen)
    return "\n".join((f"### {title}\n", rate_table(results), latencies, table(RATIO_HEADS, rows), ahead(results, seen)))


def ahead(results, seen):
    """In what a peer is better than Headroom, said in words."""
    lines = []
    for name in results:
        if name.startswith("headroomd") or name == "libuv echo":
            continue
        at = [f"{what.replace('_', '.')} at half of its own peak" for what in ("p50", "p99", "p99_9")
              if median(ratio(seen, name, MEMORY, what)) < 1]
        if median(ratio(results, name, MEMORY)) > 1:
            at.append("checks a second")
        if median(ratio(results, name, MEMORY, "cost_ns")) < 1:
            at.append("processor time for a check")
        if at:
            lines.append(f"{name} ({', '.join(at)})")
    return f"Ahead of Headroom: {'; '.join(lines) or 'nobody, in these numbers'}.\n"


def section_peers(lab):
    loads, batch = all_loads(lab)
    single = [load.named(load.name, depth=1) for load in loads]
    yield beside(lab, f"One request at a time, {CONNECTIONS} connections, {lab.keys:,} keys", single, UNPIPELINED)
    yield beside(lab, f"{DEPTH} deep, {CONNECTIONS} connections, {lab.keys:,} random keys", loads, PIPELINED)
    many = loads[1].named(MEMORY, request=peers.check_many(), depth=1)
    results = lab.alternate([many, *([batch] if batch else [])])
    yield "\n".join((f"### Batches of {peers.BATCH:,}, one at a time on each of {CONNECTIONS} connections\n",
                     rate_table(results), table(RATIO_HEADS, ratio_rows(results, BATCHED))))


def section_memory(lab):
    """Each filled alone, then stopped."""
    many = lab.keys_many
    starts = [(MEMORY, "rpc", peers.check(), lambda: peers.start_headroom(lab.build, lab.folder, "memory", many))]
    if peers.is_there("redis-server"):
        starts.append((INCR, "resp", peers.INCR, lambda: peers.start_redis(lab.folder)))
    if peers.is_there("throttlecrab-server"):
        starts.append(("throttlecrab", "resp", peers.THROTTLE, lambda: peers.start_throttlecrab(many // 2)))
    if peers.is_there("gubernator"):
        starts.append(("gubernator", "grpc", peers.get_rate_limits(peers.BATCH),
                       lambda: peers.start_gubernator(many // 2)))
    rows = []
    for name, tongue, request, start in starts:
        server = start()
        try:
            depth = 1 if tongue == "grpc" else DEPTH
            lab.load(name, server, tongue, request, keys=many, depth=depth).fill()
            used = server.memory_bytes()
            rows.append((name, f"{used / (1 << 20):,.0f}", f"{used / many:.1f}"))
        finally:
            server.stop()
    yield f"### Memory, {many:,} keys\n\n" + table(("", "resident MiB", "bytes a key"), rows)


def restarted(lab, name, start, request, tongue, restored):
    """Filled, stopped and started again: how long until the first right answer. restored: how many keys it has then."""
    many = lab.keys_many
    server = start()
    try:
        lab.load(name, server, tongue, request, keys=many).fill()
    finally:
        stopped_s = server.stop()
    server = start()
    try:
        return name, f"{stopped_s:.1f}", f"{server.started_after_s:.1f}", f"{restored(server):,}"
    finally:
        server.stop()


def restored_counters(lab, server):
    argv = [lab.build / "headroom", "status", "--json", "--node", f"127.0.0.1:{server.port}"]
    return json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)["restored"]


def section_start(lab):
    rows = [restarted(lab, "headroomd, periodic",
                      lambda: peers.start_headroom(lab.build, lab.folder, "periodic", lab.keys_many), peers.check(),
                      "rpc", lambda server: restored_counters(lab, server))]
    if peers.is_there("redis-server"):
        rows.append(restarted(lab, "redis, INCR, by its snapshot",
                              lambda: peers.start_redis(lab.folder, "--save", "100000 1"), peers.INCR, "resp",
                              lambda server: int(server.ask(b"DBSIZE\r\n")[1:])))
    yield (f"### Stop and start with {lab.keys_many:,} keys in the store\n\n" +
           table(("", "clean stop s", "until it answers s", "keys restored"), rows))


SECTIONS = {"peers": section_peers, "memory": section_memory, "start": section_start, "size": cost.section_size,
            "limits": cost.section_limits, "disturbed": cost.section_disturbed}


def run_section(section, options):
    """Its texts. One that fails says so in its place, and the others go on."""
    try:
        with Lab(options) as lab:
            yield from section(lab)
    except RuntimeError as error:
        yield f"Failed: {error}\n"


def put_into(path, text):
    page = path.read_text()
    head, rest = page.split(BEGIN)
    path.write_text(head + BEGIN + "\n" + text + "\n" + END + rest.split(END)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path, help="a release build, with the targets load and echo_uv")
    parser.add_argument("--sections", default=",".join(SECTIONS), help=f"some of {','.join(SECTIONS)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=1, help="of each load in each round")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--keys-many", type=int, default=10_000_000, help="where the cost of many keys is measured")
    parser.add_argument("--markdown", type=pathlib.Path, help="also put the result into this file, between the marks")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the servers are stopped on the way out
    os.sched_setaffinity(0, {int(CLIENT_CPU)})  # what it does beside a load must not cost the server
    texts = [f"{machine()}; medians of {options.rounds} rounds of {options.seconds} s (least-most).\n"]
    print(texts[0], flush=True)
    for name in options.sections.split(","):
        for text in run_section(SECTIONS[name], options):
            texts.append(text)
            print(text, flush=True)
    if options.markdown:
        put_into(options.markdown, "\n".join(texts))
    note(machine())


if __name__ == "__main__":
    sys.exit(main())
