"""A node with several workers, each a slice of its counters, over connections that land on any of them.

    python3 workers.py BUILD [--workers N] [--seed S]

A limit admits just what it says, however many connections ask; several limits in one request are spent together or not
at all; an id is charged once, a lease is released, a cost is given back through any connection; limits that are put,
and a file that is read again, hold for all at once; status and metrics are sums; a drain under load answers what it
took, and nothing is lost by it, nor by a start with another number of workers."""
import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "crash"))
from node import Node, until  # noqa: E402  its folder is known only now

CONNECTIONS = 12  # of which all land on one of two workers once in two thousand times
LIMIT = """  - name: {name}
    key: [{key}]
    algorithm: quota
    quota: {quota}/year
    durability: {durability}
"""
USERS, PLANS = 7, 3
USER_QUOTA, PLAN_QUOTA = 100, 150
LIMITS = ("limits:\n" + LIMIT.format(name="user", key="user", quota=USER_QUOTA, durability="reserved") +
          LIMIT.format(name="plan", key="plan", quota=PLAN_QUOTA, durability="periodic") +
          LIMIT.format(name="one", key="one", quota=1000, durability="periodic") +
          LIMIT.format(name="many", key="many", quota=1000000, durability="reserved") +
          LIMIT.format(name="bulk", key="bulk", quota=1000000, durability="periodic") +
          """  - name: hold
    key: [hold]
    algorithm: concurrency
    slots: 2
    ttl: 1h
""")


def together(node, work, count=CONNECTIONS):
    """Runs work(client, number) on so many connections at a time; the sum of what they return."""
    results, failures = [], []

    def one(number):
        client = node.client()
        try:
            results.append(work(client, number))
        except Exception as failure:  # pylint: disable=broad-exception-caught
            failures.append(failure)
        client.close()

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a connection has no answer"
    assert not failures, repr(failures[0])
    return sum(results)


def peek(client, **attributes):
    return client.ask("check", attributes=attributes, peek=True)["limits"][0]["remaining"]


def allows(client, **attributes):
    answer = client.ask("check", attributes=attributes)
    assert not answer.get("degraded"), answer
    return answer["allowed"]


def check_exactness(node):
    """Pipelined, with others' requests in between."""
    def work(client, number):
        for i in range(300):
            client.send("check", {"attributes": {"one": f"k{i % 3}"}, "detail": i % 2 == 0})
        return sum(client.next()[2]["allowed"] for _ in range(300)) + 0 * number

    admitted = together(node, work)
    assert admitted == 3000, f"{admitted} of 3 quotas of 1000 were admitted"


def check_several_limits(node, chance):
    seeds = [chance.random() for _ in range(CONNECTIONS)]

    def work(client, number):
        own = random.Random(seeds[number])
        return sum(allows(client, user=f"u{own.randrange(USERS)}", plan=f"p{own.randrange(PLANS)}")
                   for _ in range(150))

    admitted = together(node, work)
    client = node.client()
    by_user = sum(USER_QUOTA - peek(client, user=f"u{i}") for i in range(USERS))
    by_plan = sum(PLAN_QUOTA - peek(client, plan=f"p{i}") for i in range(PLANS))
    assert admitted == by_user == by_plan, f"{admitted} admitted, users spent {by_user}, plans {by_plan}"
    assert admitted == PLANS * PLAN_QUOTA, f"{admitted} of {PLANS * PLAN_QUOTA} were admitted"


def check_many(node):
    def work(client, _):
        requests = [{"attributes": {"bulk": f"m{i % 50}"}} for i in range(1000)]
        decisions = client.ask("check_many", requests=requests)
        refused = [decision for decision in decisions if "allowed" not in decision]
        assert not refused, f"{len(refused)} were refused: {refused[0]}"
        return sum(decision["allowed"] for decision in decisions)

    assert together(node, work) == CONNECTIONS * 1000
    client = node.client()
    spent = sum(1000000 - peek(client, bulk=f"m{i}") for i in range(50))
    assert spent == CONNECTIONS * 1000, f"{spent} spent"


def check_ids(node):
    def work(client, _):
        for i in range(40):
            assert client.ask("check", attributes={"many": f"id{i % 9}"}, id=f"id-{i}")["allowed"]
        return 0

    together(node, work)
    client = node.client()
    spent = sum(1000000 - peek(client, many=f"id{i}") for i in range(9))
    assert spent == 40, f"40 ids were charged {spent} times"


def check_leases_and_refunds(node):
    clients = [node.client() for _ in range(6)]
    for i in range(24):
        lease = clients[i % 6].ask("check", attributes={"hold": f"h{i}"})["limits"][0]["lease"]
        assert clients[(i + 1) % 6].ask("renew", lease=lease)["renewed"]
        assert clients[(i + 2) % 6].ask("release", lease=lease)["released"]
        assert not clients[(i + 3) % 6].ask("release", lease=lease)["released"]
        assert peek(clients[(i + 4) % 6], hold=f"h{i}") == 2
        attributes = {"many": f"r{i}", "plan": f"r{i}"}
        assert clients[i % 6].ask("check", attributes=attributes, cost=5)["allowed"]
        assert clients[(i + 1) % 6].ask("refund", attributes=attributes, cost=5)["refunded"]
        assert peek(clients[(i + 2) % 6], many=f"r{i}") == 1000000
        assert peek(clients[(i + 3) % 6], plan=f"r{i}") == PLAN_QUOTA


def check_limits_hold_at_once(node):
    """A limit that is put holds for every connection from the answer on; so does a file that is read again."""
    clients = [node.client() for _ in range(CONNECTIONS)]
    for number, client in enumerate(clients):
        client.ask("limits.put", name="put", key=["put"], algorithm="quota", quota=f"{number + 1}/year")
        for other in clients:
            assert other.ask("limits.get", name="put")
            row = other.ask("check", attributes={"put": f"x{number}"}, peek=True)["limits"][0]
            assert row["limit"] == number + 1, row
    node.set_limits(LIMITS + LIMIT.format(name="late", key="late", quota=3, durability="memory"))
    node.process.send_signal(signal.SIGHUP)
    until("the file is read again", 20, lambda: any(limit["name"] == "late"
                                                    for limit in clients[0].ask("limits.list")))
    assert sum(allows(client, late="x") for client in clients) == 3
    for client in clients:
        client.close()


def check_limits_under_load(node):
    """Limits come and go while others ask: the workers stand still for it, and everybody goes on."""
    def work(client, number):
        for i in range(60):
            if number < 3:
                client.ask("limits.put", name=f"n{number}", key=["many"], algorithm="token_bucket", rate=f"{i + 1}k/s")
                client.ask("status")
            else:
                client.ask("check", attributes={"many": f"l{i}", "plan": f"l{i % 5}-{number}"})
        return 0

    together(node, work)
    client = node.client()
    for number in range(3):
        client.ask("limits.delete", name=f"n{number}")


def check_sums(node, workers):
    client = node.client()
    before = client.ask("status")
    assert before["shards"] == workers, before
    assert before["errors"] == 0, before
    together(node, lambda client, number: sum(allows(client, many=f"s{number}") for _ in range(20)))
    after = client.ask("status")
    assert after["decisions"] == before["decisions"] + 20 * CONNECTIONS, (before, after)
    many = [row for row in after["by_limit"] if row["name"] == "many"]
    assert many[0]["admitted"] >= 20 * CONNECTIONS, many
    others = [node.client() for _ in range(5)]
    assert [other.ask("members")["members"][0]["name"] for other in others] == ["dev"] * 5
    assert client.ask("status")["connections"] == 6
    keys = client.ask("hot_keys")["keys"]
    assert len(keys) > 3 and [key["count"] for key in keys] == sorted((key["count"] for key in keys), reverse=True)
    with urllib.request.urlopen(f"http://{node.http}/metrics", timeout=20) as answer:
        page = answer.read().decode()
    assert f'method="check"}} {count_checks(page)}' in page and count_checks(page) > 1000, page


def count_checks(page):
    return int([line for line in page.splitlines() if 'method="check"' in line][0].split()[-1])


def check_drain(node, workers):
    """Under load a stop answers all that it took, and keeps it; the next start may have another number of workers."""
    counted, stopping = [0] * CONNECTIONS, threading.Event()

    def work(client, number):
        under_way = 0
        try:
            while True:
                while under_way < 16:
                    client.send("check", {"attributes": {"many": f"d{number}", "plan": f"d{number}-{counted[number]}"}})
                    under_way += 1
                _, error, result = client.next()
                under_way -= 1
                counted[number] += error is None and result["allowed"]
                if counted[number] > 200:
                    stopping.set()
        except OSError:
            return 0

    load = threading.Thread(target=together, args=(node, work))
    load.start()
    assert stopping.wait(60)
    node.stop()
    load.join(60)
    assert not load.is_alive()
    for count in (workers, 1, workers + 1, workers):
        node.workers = count
        node.start()
        client = node.client()
        assert client.ask("status")["shards"] == count
        spent = [1000000 - peek(client, many=f"d{number}") for number in range(CONNECTIONS)]
        for number in range(CONNECTIONS):
            assert counted[number] <= spent[number] <= counted[number] + 16, (counted, spent)
        assert peek(client, one="k0") == 0
        assert allows(client, many="each start")
        client.close()
        node.stop()
    node.start()
    assert peek(node.client(), many="each start") == 1000000 - 4


def check_killed(node):
    """Reserved: what was answered is never given again, whichever worker answered, whatever number starts next."""
    for workers in (3, 2, 1, 4):
        before = [1000000 - peek(node.client(), many=f"k{i}") for i in range(8)]
        together(node, lambda client, number: sum(allows(client, many=f"k{i}") for i in range(8) for _ in range(10)))
        node.kill()
        node.workers = workers
        node.start()
        after = [1000000 - peek(node.client(), many=f"k{i}") for i in range(8)]
        for one, other in zip(before, after):
            assert other >= one + 10 * CONNECTIONS, (before, after)


def check_alone_on_its_port(node):
    """A second node cannot take a part of what is meant for the first."""
    other = Node(os.path.dirname(node.program), node.data + "-other", LIMITS, node.workers)
    other.port_wanted = node.port
    try:
        other.start()
    except AssertionError as failure:
        assert "cannot listen" in str(failure), failure
        return
    other.kill()
    raise AssertionError("two nodes listen on one port")


def run(arguments, folder):
    chance = random.Random(arguments.seed)
    node = Node(arguments.build, os.path.join(folder, "data"), LIMITS, arguments.workers)
    try:
        node.start()
        check_alone_on_its_port(node)
        check_exactness(node)
        check_several_limits(node, chance)
        check_many(node)
        check_ids(node)
        check_leases_and_refunds(node)
        check_limits_hold_at_once(node)
        check_limits_under_load(node)
        check_sums(node, arguments.workers)
        check_drain(node, arguments.workers)
        check_killed(node)
        node.stop()
    finally:
        node.kill()
    with open(node.log, encoding="utf-8") as log:
        assert "handles_left_open" not in log.read()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        run(arguments, folder)


if __name__ == "__main__":
    sys.exit(main())
