"""A node whose disk is full, for real: its data is on a small file system of its own, which is filled and freed again.

    python3 disk_full.py BUILD

Periodic limits go on; reserved ones, which spend only what the disk knows, are UNAVAILABLE; the status says why; and
once there is room again everything comes back by itself, and what was spent in between is on the disk."""
import contextlib
import os
import subprocess
import sys
import tempfile
import time

from node import Node, until
from rpc import Refused

SIZE = "8m"

LIMITS = """limits:
  - name: kept
    key: [kept]
    algorithm: quota
    quota: 1M/year
    durability: reserved
  - name: written-behind
    key: [behind]
    algorithm: quota
    quota: 1M/year
"""


@contextlib.contextmanager
def small_disk(folder):
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder], check=True, capture_output=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(path):
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            pass  # full to the last page but one
        try:
            while True:
                file.write(bytes(512))
        except OSError:
            pass


def spend(client, name, value, cost=1):
    return client.ask("check", attributes={name: value}, cost=cost)["allowed"]


def is_unavailable(client, value):
    try:
        spend(client, "kept", value)
    except Refused as refused:
        assert str(refused).startswith("UNAVAILABLE: "), refused
        return True
    return False


def left(client, name, value):
    return client.ask("check", attributes={name: value}, peek=True)["limits"][0]["remaining"]


def store_state(client):
    return client.ask("status")["store"]["state"]


def use_up_room(client, filler):
    """Fills the disk until the store says that it fails. It may reuse pages of its own for a while: so there is always
    something new to be written."""
    number = 0

    def fails():
        nonlocal number
        fill(filler)
        for _ in range(200):
            number += 1
            assert spend(client, "behind", f"filler {number}")
        return store_state(client) != "ok"

    until("the store fails on a full disk", 60, fails)


def check(node, filler):
    client = node.client()
    assert spend(client, "kept", "before", 10)
    assert spend(client, "behind", "before", 10)
    assert store_state(client) == "ok"
    use_up_room(client, filler)
    started = time.monotonic()
    assert is_unavailable(client, "new"), "a reserved limit was spent from on a full disk"
    assert time.monotonic() - started < 5
    for number in range(100):
        assert spend(client, "behind", f"during {number % 10}")
    assert store_state(client) != "ok"
    os.unlink(filler)
    until("a reserved limit is served again", 30, lambda: not is_unavailable(client, "after"))
    until("the status is good again", 30, lambda: store_state(client) == "ok")
    time.sleep(1)  # what was kept back is written
    node.kill()
    node.start()
    client = node.client()
    assert left(client, "behind", "before") == 999_990
    assert left(client, "kept", "before") <= 999_990
    for number in range(10):
        assert left(client, "behind", f"during {number}") == 999_990, left(client, "behind", f"during {number}")
    assert left(client, "kept", "after") < 1_000_000
    node.stop()


def main():
    if os.geteuid() != 0:
        print("skipped: only root can make a small file system")
        return
    with tempfile.TemporaryDirectory() as folder:
        disk = os.path.join(folder, "disk")
        os.mkdir(disk)
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(small_disk(disk))
            except subprocess.CalledProcessError as failure:
                print("skipped: cannot make a small file system:", failure.stderr.decode().strip())
                return
            node = Node(sys.argv[1], os.path.join(disk, "data"), LIMITS)
            node.log = os.path.join(folder, "log")
            try:
                node.start()
                check(node, os.path.join(disk, "filler"))
            finally:
                node.kill()
    print("a full disk: served on, said so, and came back")


if __name__ == "__main__":
    sys.exit(main())
