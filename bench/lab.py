"""What the benchmarks of whole servers share: servers on one processor, loads on another, rounds in which all take
turns, and tables. The client is bench/load.c for all of them."""
import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import time

SERVER_CPU, CLIENT_CPU = "0", "1"
START_S = 120  # a full store is read first
STOP_S = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A program on its processor, on a port of loopback. ready(ask) says whether it answers as it should."""

    def __init__(self, name, port, argv, ready, environment=None):
        self.name, self.port = name, port
        begin = time.monotonic()
        self.process = subprocess.Popen(["taskset", "-c", SERVER_CPU, *map(str, argv)],
                                        env={**os.environ, **(environment or {})},
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not self.answers(ready):
            if time.monotonic() > begin + START_S or self.process.poll() is not None:
                status = self.process.poll()
                self.stop()
                why = f"no answer within {START_S} s" if status is None else f"it ended with status {status}"
                raise RuntimeError(f"{name} does not start: {why}")
            time.sleep(0.02)
        self.started_after_s = time.monotonic() - begin

    def answers(self, ready):
        try:
            return ready(self.ask)
        except OSError:
            return False

    def ask(self, request, wait_s=0.2):
        """One request, and what the server has sent a moment later."""
        with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
            connection.sendall(request)
            time.sleep(wait_s)
            connection.settimeout(5)
            return connection.recv(1 << 16)

    def cpu_ns(self):
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)

    def memory_bytes(self):
        """What it has for itself: the mapped pages of a store are the kernel's to take back."""
        status = dict(line.split(":", 1) for line in
                      pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines())
        return sum(int(status[name].split()[0]) for name in ("RssAnon", "RssShmem")) * 1024

    @contextlib.contextmanager
    def turn(self):
        """The others stand still meanwhile: what a store has yet to write would be paid by them."""
        self.process.send_signal(signal.SIGCONT)
        yield
        self.process.send_signal(signal.SIGSTOP)

    def stop(self):
        """Returns how long it took."""
        begin = time.monotonic()
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        return time.monotonic() - begin


@dataclasses.dataclass
class Round:
    """What a load saw in one turn. cost_ns: processor time of the server for a check."""
    per_second: float
    cost_ns: float
    p50: int
    p99: int
    p99_9: int
    errors: int
    unsent: int


@dataclasses.dataclass
class Load:
    """Requests of one kind to one server. A batch is a request with more than one check."""
    name: str
    server: Server
    tongue: str
    request: bytes
    keys: int
    connections: int
    depth: int
    tool: pathlib.Path
    folder: pathlib.Path
    rate: int = 0  # requests a second; 0: as answers come

    def run(self, seconds):
        path = self.folder / "request"
        path.write_bytes(self.request)
        argv = [self.tool, self.server.port, self.tongue, path, self.connections, self.depth, self.keys, seconds,
                self.rate]
        before = self.server.cpu_ns()
        done = subprocess.run(["taskset", "-c", CLIENT_CPU, *map(str, argv)], capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{self.name}: {done.stderr.strip()}")
        seen = json.loads(done.stdout)
        us = seen["latency_us"]
        cost_ns = (self.server.cpu_ns() - before) / max(seen["checks"], 1)
        return Round(seen["per_second"], cost_ns, us["p50"], us["p99"], us["p99_9"], seen["errors"], seen["unsent"])

    def fill(self):
        """Each key once."""
        return dataclasses.replace(self, rate=0).run(0)

    def named(self, name, **changes):
        return dataclasses.replace(self, name=name, **changes)


def alternate(loads, rounds, seconds, during=None):
    """For each load its rounds, all taking turns; a first turn is not counted. during: by a load's name, what goes on
    beside it."""
    results = {load.name: [] for load in loads}
    for turn in range(rounds + 1):
        for load in loads:
            beside = (during or {}).get(load.name, contextlib.nullcontext)
            with load.server.turn(), beside():
                seen = load.run(seconds if turn > 0 else 1)
            if turn > 0:
                results[load.name].append(seen)
    for load in loads:
        errors = sum(seen.errors for seen in results[load.name])
        if errors > 0:
            note(f"{load.name}: {errors} requests were answered by an error, and are not counted")
    return results


def note(text):
    print(text, file=sys.stderr, flush=True)


def median(values):
    return statistics.median(values)


def spread(values, form=",.0f"):
    return f"{median(values):{form}} ({min(values):{form}}-{max(values):{form}})"


def ratio(results, one, other, what="per_second"):
    """Of each round's own: what disturbs a round disturbs both sides."""
    pairs = zip(results[one], results[other])
    return [getattr(first, what) / max(getattr(second, what), 1e-9) for first, second in pairs]


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]) + "\n"


def rate_table(results):
    heads = ("", "checks/s", "server us/check", "p50 us", "p99 us", "p99.9 us")
    rows = [(name, spread([seen.per_second for seen in rounds]),
             f"{median([seen.cost_ns for seen in rounds]) / 1000:.2f}",
             *(f"{median([getattr(seen, quantile) for seen in rounds]):,.0f}" for quantile in ("p50", "p99", "p99_9")))
            for name, rounds in results.items()]
    return table(heads, rows)


def verdict(value, least=None, most=None):
    is_met = (least is None or value >= least) and (most is None or value <= most)
    return "met" if is_met else "**missed**"


def machine():
    model = [line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="ascii")
             if line.startswith("model name")]
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return (f"{time.strftime('%Y-%m-%d')}, {len(model)} cores of {model[0]}, {gib:.0f} GiB, Linux "
            f"{os.uname().release}, load average {open('/proc/loadavg', encoding='ascii').read().split()[0]}")
