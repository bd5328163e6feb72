"""What a request costs where its limit is global, beside one whose limit is regional: two loads of the same rate at the
same time, at the one node that owns both counters, in three regions of two nodes, 80 ms from one another. Whatever
disturbs one disturbs the other. Prints percentiles of each turn and of all: nothing waits for another region, so they
should not differ. Exit status: 1 where they do, by more than a twentieth.

    python3 caps.py BUILD [--turns N] [--seconds N] [--rate N]"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "caps"))
import far  # noqa: E402  its folder is known only now

KINDS = ("region", "global")
RATIO_MAX = 1.05
EACH = 6  # limits, of which one of each kind has the same owner
KEY = "k0000000000"  # the one that `headroom bench --keys 1` asks for


def limits(rate):
    """Twice what is offered, so that nothing is denied; a region is at home with a third, so shares have to move."""
    return "limits:\n" + "".join(
        f"  - {{name: {kind}-{i}, key: [{kind}-{i}], algorithm: token_bucket, rate: {2 * rate}/s, burst: {2 * rate}, "
        f"scope: {kind}}}\n" for kind in KINDS for i in range(EACH))


def find_pair(world):
    """A node, and of each kind an attribute whose counter it owns."""
    for node in world.nodes("eu"):
        owned = {kind: [name for name in (f"{kind}-{i}" for i in range(EACH))
                        if world.owner("eu", {name: KEY}) is node] for kind in KINDS}
        if all(owned.values()):
            return node, {kind: names[0] for kind, names in owned.items()}
    raise SystemExit("no node owns a counter of each kind: try again")


def start(options, node, attribute):
    command = [os.path.join(options.build, "headroom"), "bench", "--json", "--node", f"{node.host}:{node.rpc_port}"]
    for name, value in (("seconds", options.seconds), ("rate", options.rate), ("connections", 4),
                        ("attribute", attribute), ("keys", 1)):
        command += [f"--{name}", str(value)]
    # pylint: disable-next=consider-using-with
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def turn(options, node, attributes, order):
    """Both at once. The answers by kind."""
    processes = {kind: start(options, node, attributes[kind]) for kind in order}
    answers = {}
    for kind, process in processes.items():
        out, _ = process.communicate()
        assert process.returncode == 0, "headroom bench failed"
        answers[kind] = json.loads(out)
    return answers


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rate", type=int, default=2000)
    options = parser.parse_args()
    turns = []
    with tempfile.TemporaryDirectory() as folder:
        with far.World(options.build, folder, limits(options.rate)) as world:
            node, attributes = find_pair(world)
            for i in range(options.turns):
                turns.append(turn(options, node, attributes, KINDS if i % 2 else KINDS[::-1]))
                print("; ".join(f"{kind}: p50 {turns[-1][kind]['latency_us']['p50']} us, "
                                f"p99 {turns[-1][kind]['latency_us']['p99']} us, allowed "
                                f"{turns[-1][kind]['allowed']} of {turns[-1][kind]['requests']}" for kind in KINDS),
                      flush=True)
    is_met = True
    for name in ("p50", "p99"):
        middle = {kind: statistics.median(one[kind]["latency_us"][name] for one in turns) for kind in KINDS}
        ratio = statistics.median(one["global"]["latency_us"][name] / one["region"]["latency_us"][name]
                                  for one in turns)
        is_met = is_met and ratio <= RATIO_MAX
        print(f"{name}: region {middle['region']:.0f} us, global {middle['global']:.0f} us (medians); "
              f"global / region {ratio:.3f} (median of the turns' ratios; at most {RATIO_MAX} is wanted)")
    return 0 if is_met else 1


if __name__ == "__main__":
    raise SystemExit(main())
