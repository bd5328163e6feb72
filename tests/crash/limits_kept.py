"""Limits that were put or deleted at run time, over restarts of a real node.

    python3 limits_kept.py BUILD

What was put comes back in the order of the puts. What was deleted stays hidden while the limits file has it, and no
longer: when it has gone from the file over a start, and then comes back, it is a new limit."""
import os
import sys
import tempfile

from node import Node

FILE = """limits:
  - {name: old, algorithm: gcra, rate: 1/s}
"""
EMPTY = "limits: []\n"
PUT = ["zebra", "apple", "mango", "kiwi", "fig", "plum"]


def names(node):
    return [limit["name"] for limit in node.client().ask("limits.list")]


def restart(node, limits):
    node.stop()
    node.set_limits(limits)
    node.start()


def check(node):
    client = node.client()
    for name in PUT:
        client.ask("limits.put", name=name, algorithm="gcra", rate="5/s")
    client.ask("limits.put", name="apple", algorithm="gcra", rate="6/s")
    expected = names(node)
    restart(node, FILE)
    assert names(node) == expected, f"{expected} before a restart, {names(node)} after it"
    node.client().ask("limits.delete", name="old")
    restart(node, FILE)
    assert "old" not in names(node), "a deleted limit came back"
    restart(node, EMPTY)
    restart(node, FILE)
    assert "old" in names(node), "a limit stays deleted for ever"
    assert sorted(names(node)) == sorted(PUT + ["old"]), names(node)
    node.stop()


def main():
    with tempfile.TemporaryDirectory() as folder:
        node = Node(sys.argv[1], os.path.join(folder, "data"), FILE)
        try:
            node.start()
            check(node)
        finally:
            node.kill()
    print("limits were kept in order, and forgotten in time")


if __name__ == "__main__":
    sys.exit(main())
