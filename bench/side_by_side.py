#!/usr/bin/env python3
"""A node beside what it is measured against, in one run on one machine; the ratios are what counts.

usage: side_by_side.py BUILD [--rounds N] [--seconds S]

Unpipelined, 50 connections: headroomd beside bench/echo_uv.c, a bare libuv server that sends the same bytes.
Pipelined, 50 connections with 64 requests in flight on each, a million random keys, one token bucket, detail off:
headroomd beside Redis, by redis-benchmark: INCR, and a GCRA script (gcra.lua) under EVALSHA. Each also with the limit's
durability periodic and reserved, the data on disk. Redis is left out where redis-server or redis-benchmark is not in
PATH; it is started by hand, on a port of its own, without persistence.

Servers run on processor 0 and the client on processor 1. All take turns in each round, after one that is not counted;
numbers are medians of the rounds, with the least and the most. A ratio is the median of the ratios of each round, so
that what disturbs a round disturbs both sides. The processor time of the server is what a request costs it, and hardly
depends on what else the machine does.
"""
import argparse
import contextlib
import csv
import io
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

KEYS = 1_000_000
CONNECTIONS = 50
PIPELINE = 64
FILL_REQUESTS = 5 * KEYS  # nearly every key has a counter then
START_S = 10
STOP_S = 30
BENCH = pathlib.Path(__file__).resolve().parent
DURABILITIES = ("memory", "periodic", "reserved")

# So slow that a counter once spent from stays alive: a full one is forgotten, and its next request is its first again.
LIMITS = """limits:
  - {{name: key-day, key: [api_key], algorithm: token_bucket, rate: 1000/d, burst: 1000, durability: {durability}}}
"""
NODE = """node: {{name: bench, region: here, data: {data}, workers: 1}}
listen: {{rpc: "127.0.0.1:{port}"}}
limits: {limits}
memory: {{counters: 2M, reserved: 2M}}
"""
# The bytes that `headroom bench` sends, with msgid 0 and key 0.
REQUEST = (b"\x94\x00\xce\0\0\0\0\xa5check\x91"
           b"\x82\xaaattributes\x81\xa7api_key\xabk0000000000\xa6detail\xc2")


class Server:
    """A program on processor 0, on a port of loopback."""

    def __init__(self, name, port, argv):
        self.name, self.port = name, port
        self.process = subprocess.Popen(["taskset", "-c", "0", *map(str, argv)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    self.stop()
                    sys.exit(f"side_by_side: {name} does not start")
                time.sleep(0.02)

    def cpu_ns(self):
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)

    def ask(self, request):
        """One request, and what the server has sent half a second later."""
        with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
            connection.sendall(request)
            time.sleep(0.5)
            return connection.recv(4096)

    @contextlib.contextmanager
    def turn(self):
        """The others stand still meanwhile: what a store has yet to write would be paid by them."""
        self.process.send_signal(signal.SIGCONT)
        yield
        self.process.send_signal(signal.SIGSTOP)

    def stop(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def client(argv):
    done = subprocess.run(["taskset", "-c", "1", *map(str, argv)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"side_by_side: {argv[0]}: {done.stderr.strip()}")
    return done.stdout


class HeadroomLoad:
    def __init__(self, build, server, pipeline):
        self.name, self.server, self.errors = server.name, server, 0
        self.argv = [build / "headroom", "bench", "--json", "--timeout", "60s", "--keys", KEYS,
                     "--connections", CONNECTIONS, "--pipeline", pipeline, "--node", f"127.0.0.1:{server.port}"]

    def warm_up(self, seconds):
        self.run(seconds)

    def run(self, seconds):
        result = json.loads(client([*self.argv, "--seconds", seconds]))
        self.errors += result["errors"]
        us = result["latency_us"]
        decided = result["requests"] - result["errors"]  # an error is no decision: it does not count
        return decided, decided / result["seconds"], (us["p50"], us["p99"], us["p99_9"])

    def fill(self):
        client([*self.argv, "--requests", FILL_REQUESTS])


class RedisLoad:
    def __init__(self, name, server, command):
        self.name, self.server, self.command = name, server, command
        self.per_second, self.errors = 100_000, 0

    def warm_up(self, seconds):
        for _ in range(2):
            self.per_second = self.run(seconds)[1]

    def run(self, seconds):
        count = max(CONNECTIONS * PIPELINE, int(self.per_second * seconds))
        text = client(["redis-benchmark", "-p", self.server.port, "-c", CONNECTIONS, "-P", PIPELINE, "-r", KEYS,
                       "-n", count, "--csv", *self.command])
        row = next(csv.DictReader(io.StringIO(text)))
        us = [round(float(row[f"{quantile}_latency_ms"]) * 1000) for quantile in ("p50", "p99")]
        return count, float(row["rps"]), (*us, None)


def start_node(build, folder, durability):
    data = folder / durability
    data.mkdir()
    port = free_port()
    (data / "limits.yaml").write_text(LIMITS.format(durability=durability))
    (data / "node.yaml").write_text(NODE.format(data=data, port=port, limits=data / "limits.yaml"))
    return Server(f"headroomd, {durability}", port, [build / "headroomd", "--config", data / "node.yaml"])


def start_echo(build, folder, node):
    answer = folder / "answer"
    answer.write_bytes(node.ask(REQUEST))
    port = free_port()
    return Server("libuv echo", port, [build / "bench" / "echo_uv", port, len(REQUEST), answer])


def start_redis():
    port = free_port()
    return Server("redis", port, ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "",
                                  "--appendonly", "no"])


def redis_loads(server):
    script = (BENCH / "gcra.lua").read_bytes()
    loaded = server.ask(b"*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%d\r\n%s\r\n" % (len(script), script))
    sha = loaded.split(b"\r\n")[1].decode()
    gcra = ["EVALSHA", sha, "1", "gcra:__rand_int__", "1000", "86400", "1000", "1"]
    tried = server.ask((" ".join(gcra) + "\r\n").encode())
    if not tried.startswith(b"*4\r\n:1\r\n"):
        sys.exit(f"side_by_side: the GCRA script fails: {tried!r}")
    return [RedisLoad("redis, INCR", server, ["INCR", "incr:__rand_int__"]),
            RedisLoad("redis, GCRA by EVALSHA", server, gcra)]


def run_rounds(loads, rounds, seconds):
    """For each load its rounds: (requests a second, server ns a request, quantiles in us)."""
    results = {load.name: [] for load in loads}
    for load in loads:
        with load.server.turn():
            load.warm_up(seconds)
    for _ in range(rounds):
        for load in loads:
            with load.server.turn():
                before = load.server.cpu_ns()
                count, per_second, quantiles = load.run(seconds)
                results[load.name].append((per_second, (load.server.cpu_ns() - before) / count, quantiles))
    for load in loads:
        if load.errors > 0:
            print(f"{load.name}: {load.errors} requests were answered by an error")
    return results


def spread(values, form):
    return f"{statistics.median(values):{form}} ({min(values):{form}}-{max(values):{form}})"


def print_loads(title, results):
    print(f"\n{title}\n{'':24} {'requests/s':>28} {'server ns/request':>26} "
          f"{'p50 us':>8} {'p99 us':>8} {'p99.9 us':>9}")
    for name, rounds in results.items():
        per_second, cost, quantiles = zip(*rounds)
        row = [statistics.median(values) if None not in values else None for values in zip(*quantiles)]
        p50, p99, p999 = ("-" if value is None else f"{value:.0f}" for value in row)
        print(f"{name:24} {spread(per_second, '.0f'):>28} {spread(cost, '.0f'):>26} {p50:>8} {p99:>8} {p999:>9}")


def print_ratio(results, name, base, target):
    if name not in results or base not in results:
        return
    pairs = list(zip(results[name], results[base]))
    ratio = [one[0] / other[0] for one, other in pairs]
    cost = [one[1] / other[1] for one, other in pairs]
    verdict = "met" if statistics.median(ratio) >= target else "MISSED"
    print(f"  {name} / {base}: {spread(ratio, '.2f')}, at least {target}: {verdict}; "
          f"server time {spread(cost, '.2f')}")


def print_ratios(results, base, targets):
    print("  ratios of requests/s, and of the server's time for each:")
    for other, target in targets:
        print_ratio(results, base, other, target)
    for durability, target in (("periodic", 0.9), ("reserved", 0.8)):
        print_ratio(results, f"headroomd, {durability}", base, target)


def print_machine():
    model = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    print(f"{time.strftime('%Y-%m-%d')}, {len(model)} cores of {model[0]}, Linux {os.uname().release}, "
          f"load {' '.join(open('/proc/loadavg').read().split()[:3])}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path, help="a release build, with the target echo_uv")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2, help="of each load in each round")
    options = parser.parse_args()
    build = options.build.resolve()
    print_machine()
    with tempfile.TemporaryDirectory(prefix="headroom-bench-") as folder, contextlib.ExitStack() as servers:

        def keep(server):
            servers.callback(server.stop)
            return server

        folder = pathlib.Path(folder)
        nodes = [keep(start_node(build, folder, durability)) for durability in DURABILITIES]
        echo = keep(start_echo(build, folder, nodes[0]))
        pipelined = [HeadroomLoad(build, node, PIPELINE) for node in nodes]
        for load in pipelined:
            with load.server.turn():
                load.fill()
        unpipelined = [HeadroomLoad(build, server, 1) for server in (echo, *nodes)]
        results = run_rounds(unpipelined, options.rounds, options.seconds)
        print_loads(f"unpipelined, {CONNECTIONS} connections", results)
        print_ratios(results, "headroomd, memory", [("libuv echo", 0.9)])
        if shutil.which("redis-server") and shutil.which("redis-benchmark"):
            pipelined += redis_loads(keep(start_redis()))
        else:
            print("\nredis-server or redis-benchmark is not installed: nothing is compared with Redis")
        results = run_rounds(pipelined, options.rounds, options.seconds)
        print_loads(f"pipelined, {CONNECTIONS} connections, {PIPELINE} deep, {KEYS} keys", results)
        print_ratios(results, "headroomd, memory", [("redis, INCR", 2), ("redis, GCRA by EVALSHA", 8)])
    print_machine()


if __name__ == "__main__":
    main()
