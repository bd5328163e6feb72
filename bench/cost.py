"""What becomes of a node's speed when it has more to hold, or more to do: many keys, many limits, a store that commits,
limits that are read anew, and clients that do not behave. Sections of side_by_side.py."""
import contextlib
import resource
import select
import signal
import socket
import threading
import time

import peers
from lab import median, ratio, spread, table, verdict

FEW_KEYS = 100_000
RELOAD_S = 0.2
SETTLE_S = 1  # until the node has accepted all, or taken all that it will take
IDLE, HALF_OPEN, DEAF = 10_000, 1_000, 10
DESCRIPTORS = 256  # that a process has besides its idle connections
PACE = 0.5  # of the peak, for quantiles


def section_size(lab):
    loads = []
    for keys in (FEW_KEYS, lab.keys_many):
        node = lab.keep(peers.start_node(lab.build, lab.folder, f"{keys:,} keys", peers.limits_text("memory"), keys))
        loads.append(lab.load(node.name, node, "rpc", peers.check(), keys=keys))
        loads[-1].fill()
    yield compare(lab, "Many keys, 64 deep", loads, 0.7)


def route_limits(count):
    """As many limits besides the first, each of one route."""
    return "".join(f"  - {{name: route-{i}, key: [api_key], when: {{route: r{i:04}}}, rate: 1000/d, algorithm: gcra, "
                   f"durability: memory}}\n" for i in range(count - 1))


def section_limits(lab):
    loads = []
    for count in (10, 1000):
        limits = peers.limits_text("memory", route_limits(count))
        node = lab.keep(peers.start_node(lab.build, lab.folder, f"{count:,} limits", limits, 2_000_000))
        loads.append(lab.load(node.name, node, "rpc", peers.check((b"route", b"r0003")), keys=FEW_KEYS))
        loads[-1].fill()
    yield compare(lab, "Many limits, two of them touched by each request, 64 deep", loads, 0.8)


def compare(lab, title, loads, least):
    results = lab.alternate(loads)
    few, many = results
    values, costs = ratio(results, many, few), ratio(results, many, few, "cost_ns")
    rows = [(name, spread([seen.per_second for seen in rounds]),
             f"{median([seen.cost_ns for seen in rounds]) / 1000:.2f}", "", "") for name, rounds in results.items()]
    rows.append((f"{many} / {few}", spread(values, ".2f"), spread(costs, ".2f"), f"at least {least}",
                 verdict(median(values), least=least)))
    return f"### {title}\n\n" + table(("", "checks/s", "server us/check", "target", ""), rows)


# --- disturbances: each is a context, in which the load runs ---

@contextlib.contextmanager
def in_thread(work, every_s):
    over = threading.Event()

    def run():
        while not over.wait(every_s):
            work()

    thread = threading.Thread(target=run)
    thread.start()
    yield
    over.set()
    thread.join()


@contextlib.contextmanager
def connections(server, count, begin=b""):
    with contextlib.ExitStack() as all_of_them:
        for _ in range(count):
            connection = all_of_them.enter_context(socket.create_connection(("127.0.0.1", server.port), 5))
            if begin:
                connection.sendall(begin)
        time.sleep(SETTLE_S)
        yield


@contextlib.contextmanager
def deaf_clients(server, count):
    """They ask as long as the node takes requests, and read no answer."""
    requests = peers.check() * 256
    with contextlib.ExitStack() as all_of_them:
        deaf = [all_of_them.enter_context(socket.create_connection(("127.0.0.1", server.port), 5))
                for _ in range(count)]
        sent = dict.fromkeys(deaf, 0)
        for connection in deaf:
            connection.setblocking(False)

        def push():
            for connection in select.select([], deaf, [], 0)[1]:
                with contextlib.suppress(OSError):  # the node may close them: that is its right
                    sent[connection] += connection.send(requests[sent[connection] % len(requests):])

        with in_thread(push, 0.001):
            time.sleep(SETTLE_S)
            yield


def reload_often(server):
    return in_thread(lambda: server.process.send_signal(signal.SIGHUP), RELOAD_S)


def disturbances(memory, periodic, idle):
    """By name: the server that is asked, and what goes on meanwhile."""
    return {
        "nothing else": (memory, contextlib.nullcontext),
        "the store commits (periodic)": (periodic, contextlib.nullcontext),
        f"1,000 limits are read anew every {RELOAD_S * 1000:.0f} ms": (memory, lambda: reload_often(memory)),
        f"{idle:,} idle connections": (memory, lambda: connections(memory, idle)),
        f"{HALF_OPEN:,} half-open frames": (memory, lambda: connections(memory, HALF_OPEN, peers.check()[:20])),
        f"{DEAF} clients that never read": (memory, lambda: deaf_clients(memory, DEAF)),
    }


def section_disturbed(lab):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # both sides of the idle connections need theirs
    more = route_limits(1000)
    nodes = [lab.keep(peers.start_node(lab.build, lab.folder, durability, peers.limits_text(durability, more),
                                       2_000_000)) for durability in ("memory", "periodic")]
    loads, during = [], {}
    for name, (node, beside) in disturbances(*nodes, min(IDLE, hard - DESCRIPTORS)).items():
        loads.append(lab.load(name, node, "rpc", peers.check(), depth=1))
        during[name] = beside
    for load in loads[:2]:
        load.fill()
    with nodes[0].turn():
        peak = max(loads[0].run(1).per_second for _ in range(3))
    paced = [load.named(load.name, rate=round(peak * PACE)) for load in loads]
    results = lab.alternate(paced, during)
    yield (f"### What goes on beside, at {paced[0].rate:,} requests a second (half of the peak), 50 connections\n\n" +
           table(("", "p50 us", "p99 us", "p99.9 us", "p99 / quiet p99", "p99.9 / p99, at most 3"),
                 disturbed_rows(results)))


def disturbed_rows(results):
    quiet = next(iter(results))
    rows = []
    for name, rounds in results.items():
        tail = [seen.p99_9 / max(seen.p99, 1) for seen in rounds]
        rows.append((name, *(spread([getattr(seen, what) for seen in rounds]) for what in ("p50", "p99", "p99_9")),
                     spread(ratio(results, name, quiet, "p99"), ".2f"),
                     f"{spread(tail, '.2f')}: {verdict(median(tail), most=3)}"))
    return rows
