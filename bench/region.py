"""What a region costs: a forward against the owner itself, and clients that do not route against those that do.

    python3 bench/region.py BUILD [--rounds N] [--seconds S]

Three real nodes on loopback. Both sides of a ratio are measured in turn, in each round; the ratio is the median of the
rounds' ratios. Targets: latency through a node that is not the owner at most 2.2 times that at the owner (p50, one
request at a time); throughput of clients that do not route at least 0.6 of that of clients that do."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "region"))
import cluster  # noqa: E402  its folder is known only now

LIMITS = """limits:
  - {name: key-rps, key: [api_key], algorithm: token_bucket, rate: 1000000/s, durability: periodic}
"""
KEYS = 10_000
HOP_MAX, SPREAD_MIN = 2.2, 0.6


def bench(build, node, *arguments):
    """What `headroom bench --json` prints."""
    command = [os.path.join(build, "headroom"), "bench", "--node", f"{node.host}:{node.rpc_port}", "--json", *arguments]
    result = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    assert result["errors"] == 0, result
    return result


def latency(build, region, owner, seconds):
    """p50 in us at the owner of the one key, and at another node."""
    other = next(node for node in region.nodes if node is not owner)
    arguments = ("--connections", "1", "--pipeline", "1", "--keys", "1", "--seconds", str(seconds))
    return [bench(build, node, *arguments)["latency_us"]["p50"] for node in (owner, other)]


def throughput(build, region, pipeline, seconds):
    """Requests a second with clients that route, and with clients that do not. Those that route learn where keys are
    while they are measured, which the keys are few enough for."""
    arguments = ("--connections", "24", "--pipeline", str(pipeline), "--keys", str(KEYS), "--seconds", str(seconds))
    routed = bench(build, region.nodes[0], "--route", *arguments)
    spread = bench(build, region.nodes[0], "--spread", *arguments)
    share = 100 * routed["elsewhere"] / routed["requests"]
    assert share < 20, f"{share:.0f} % of the requests of routing clients went to other nodes than the owner"
    return routed["requests_per_second"], spread["requests_per_second"]


def row(name, pairs, ratio, target, holds):
    values = [ratio(*pair) for pair in pairs]
    middle = statistics.median(values)
    first, second = (statistics.median(column) for column in zip(*pairs))
    print(f"| {name} | {first:,.0f} | {second:,.0f} | {middle:.2f} ({min(values):.2f}-{max(values):.2f}) | {target} | "
          f"{'met' if holds(middle) else '**missed**'} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with cluster.Cluster(options.build, folder, LIMITS) as region:
            measure(options, region.start())


def measure(options, region):
    owner_name = region.nodes[0].ask("check", attributes={"api_key": "k" + "0" * 10})["node"]
    owner = next(node for node in region.nodes if node.name == owner_name)
    hops, unpipelined, pipelined = [], [], []
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    for _ in range(options.rounds):
        hops.append(latency(options.build, region, owner, options.seconds))
        unpipelined.append(throughput(options.build, region, 1, options.seconds))
        pipelined.append(throughput(options.build, region, 16, options.seconds))
    print("| | owner / routing | other / not routing | ratio | target | |\n| --- | --- | --- | --- | --- | --- |")
    row("p50 us, one request at a time", hops, lambda own, other: other / own, f"at most {HOP_MAX}",
        lambda value: value <= HOP_MAX)
    for depth, pairs in ((1, unpipelined), (16, pipelined)):
        row(f"requests/s, 24 connections, {depth} deep", pairs, lambda routed, spread: spread / routed,
            f"at least {SPREAD_MIN}", lambda value: value >= SPREAD_MIN)


if __name__ == "__main__":
    sys.exit(main())
