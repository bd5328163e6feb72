"""`headroomd` from outside: how it is started, and what it says when something around it is not as it should be."""
import os
import resource
import shutil
import re
import signal
import subprocess
import sys
import time

import cli

sys.path.insert(0, os.path.join(cli.SOURCE, "tests", "lib", "py"))
import rpc  # noqa: E402  its folder is known only now

HEADROOMD = os.path.join(os.path.dirname(cli.HEADROOM), "headroomd")
WAIT_S = 60


class Node:
    """A headroomd as a child, which serves when this returns. A shell between may change what it starts with."""

    def __init__(self, case, before="", data="data", text=""):
        case.write("node.yaml", f"node: {{name: n1, region: eu, data: {data}}}\n"
                                f"listen: {{rpc: '127.0.0.1:0'}}\n{text}")
        self.path = os.path.join(case.folder, "log")
        with open(self.path, "wb") as log:
            # pylint: disable-next=consider-using-with
            self.process = subprocess.Popen(["sh", "-c", f'{before} exec "$@"', "sh", HEADROOMD, "--config",
                                             "node.yaml"], stderr=log, cwd=case.folder)
        case.addCleanup(self.end, signal.SIGKILL)

    def log(self):
        with open(self.path, encoding="utf-8") as file:
            return file.read()

    def end(self, number):
        if self.process.returncode is None:
            self.process.send_signal(number)
        return self.process.wait(WAIT_S)


class Daemon(cli.Case):
    def refuses(self, message, *arguments):
        result = subprocess.run([HEADROOMD, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                                cwd=self.folder, timeout=WAIT_S, check=False)
        self.assertEqual(result.stderr.decode(), f"headroomd: {message}\n")
        self.assertEqual(result.returncode, 2)

    def serve(self, **how):
        node = Node(self, **how)
        self.until(lambda: "event=ready" in node.log() or node.process.poll() is not None)
        self.assertIsNone(node.process.poll(), node.log())
        return node

    def until(self, condition):
        end = time.monotonic() + WAIT_S
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def test_wrong_usage_is_one_line_that_names_what_is_wrong(self):
        for message, *arguments in [
            ("either --config FILE or --dev (see headroomd --help)",),
            ("unknown option --bogus (see headroomd --help)", "--bogus"),
            ("unknown option -x (see headroomd --help)", "-x"),
            ("option --config needs a value (see headroomd --help)", "--config"),
            ("option --dev=1 takes no value (see headroomd --help)", "--dev=1"),
            ("an argument that is no option: x (see headroomd --help)", "--dev", "x"),
            ("the value of --config is empty (see headroomd --help)", "--config", ""),
            ("the value of --data is empty (see headroomd --help)", "--dev", "--data", ""),
            ("the value of --limits is empty (see headroomd --help)", "--dev", "--limits", ""),
        ]:
            with self.subTest(arguments=arguments):
                self.refuses(message, *arguments)

    def test_a_node_runs_and_stops_whichever_standard_streams_are_closed(self):
        for closed in ("<&-", ">&-", "<&- >&-"):
            with self.subTest(closed=closed):
                node = self.serve(before=f"exec {closed};")
                self.assertEqual(node.end(signal.SIGTERM), 0, node.log())

    def test_a_store_is_not_opened_under_a_secret_made_anew(self):
        self.assertEqual(self.serve().end(signal.SIGTERM), 0)
        secret = os.path.join(self.folder, "data", "secret")
        shutil.move(secret, os.path.join(self.folder, "kept"))
        self.refuses("the store is there, but the secret that its counters are named under is gone "
                     f"({self.folder}/data/secret)", "--config", f"{self.folder}/node.yaml")
        shutil.move(os.path.join(self.folder, "kept"), secret)
        self.assertEqual(self.serve().end(signal.SIGTERM), 0)

    def test_a_store_is_not_opened_under_another_secret(self):
        self.assertEqual(self.serve().end(signal.SIGTERM), 0)
        secret = os.path.join(self.folder, "data", "secret")
        with open(secret, encoding="ascii") as file:
            was = file.read()
        self.write("data/secret", "another secret of some length\n")
        self.refuses("the store's counters are named under another secret than this one: bring that back, or move the "
                     f"store away ({self.folder}/data/secret)", "--config", f"{self.folder}/node.yaml")
        self.write("data/secret", was)
        self.assertEqual(self.serve().end(signal.SIGTERM), 0)

    def test_a_shared_secret_that_changed_is_told_of(self):
        for text, is_told in (("one secret of some length", False), ("one secret of some length", False),
                              ("another secret of some length", True), ("another secret of some length", False)):
            self.write("shared", text)
            os.chmod(os.path.join(self.folder, "shared"), 0o600)
            node = self.serve(text="cluster: {secret_file: shared}\n")
            self.assertEqual(node.end(signal.SIGTERM), 0)
            self.assertEqual("level=warn event=secret_changed" in node.log(), is_told, node.log())

    def test_a_store_of_another_node_is_named_once(self):
        self.assertEqual(self.serve().end(signal.SIGTERM), 0)
        self.write("other.yaml", "node: {name: n2, region: eu, data: data}\nlisten: {rpc: '127.0.0.1:0'}\n")
        self.refuses(f"the store belongs to node n1 of cluster headroom ({self.folder}/data/store)", "--config",
                     f"{self.folder}/other.yaml")

    def test_a_store_that_cannot_grow_is_told_of_in_the_log_once_and_at_the_end(self):
        self.write("l.yaml", "limits:\n  - {name: q, key: [k], algorithm: quota, quota: 1/year}\n")
        node = self.serve(before="ulimit -f 128;", text="limits: l.yaml\n")
        client = rpc.Client(int(re.search(r" rpc=127\.0\.0\.1:(\d+)", node.log())[1]), WAIT_S)
        self.addCleanup(client.close)
        for hundred in range(50):
            requests = [{"attributes": {"k": f"{hundred} {i}"}} for i in range(100)]
            self.assertTrue(all(d["allowed"] for d in client.ask("check_many", requests=requests)))
        self.until(lambda: "level=error event=store_failing" in node.log())
        self.until(lambda: client.ask("status")["store"]["batches_failed"] > 2)
        self.assertEqual(node.end(signal.SIGTERM), 0)
        self.assertEqual(node.log().count("event=store_failing"), 1)
        self.assertIn("level=error event=not_saved", node.log())

    def test_damaged_counters_are_told_of_with_how_many_there_may_have_been(self):
        self.write("l.yaml", "limits:\n  - {name: q, key: [k], algorithm: quota, quota: 1/year}\n")
        node = self.serve(text="limits: l.yaml\n")
        client = rpc.Client(int(re.search(r" rpc=127\.0\.0\.1:(\d+)", node.log())[1]), WAIT_S)
        for thousand in range(10):
            client.ask("check_many", requests=[{"attributes": {"k": f"{thousand} {i}"}} for i in range(1000)])
        client.close()
        self.assertEqual(node.end(signal.SIGTERM), 0)
        page_bytes, large_flag, inside = 4096, 4, 2000
        with open(os.path.join(self.folder, "data", "store", "data.mdb"), "r+b") as file:
            data = bytearray(file.read())
            for page in range(0, len(data), page_bytes):
                if data[page] == page // page_bytes % 256 and data[page + 10] == large_flag:
                    data[page + inside] ^= 1
            file.seek(0)
            file.write(data)
        node = self.serve(text="limits: l.yaml\n")
        told = re.search(r"event=records_damaged kind=\S+ count=(\d+) bytes=(\d+) lost_at_most=(\d+)", node.log())
        self.assertIsNotNone(told, node.log())
        restored = int(re.search(r" restored=(\d+)", node.log().splitlines()[-1])[1])
        self.assertGreaterEqual(restored + int(told[3]), 10000)
        client = rpc.Client(int(re.findall(r" rpc=127\.0\.0\.1:(\d+)", node.log())[-1]), WAIT_S)
        self.addCleanup(client.close)
        store = client.ask("status")["store"]
        self.assertEqual((store["damaged_records"], store["damaged_bytes"]), (int(told[1]), int(told[2])))

    def test_it_takes_the_descriptors_that_it_may_have(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard < 2048:
            self.skipTest(f"no more than {hard} descriptors are to be had")
        node = self.serve(before="ulimit -S -n 256;", text="rpc: {connections: 1500}\n")
        self.assertGreaterEqual(resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE)[0], 1500)
        self.assertNotIn("event=few_descriptors", node.log())

    def test_it_says_so_where_it_has_fewer_descriptors_than_connections(self):
        node = self.serve(before="ulimit -n 300;", text="rpc: {connections: 1500}\n")
        self.assertIn("level=warn event=few_descriptors", node.log())
        self.assertIn("descriptors=300 wanted=1636 connections=164", node.log())
        self.assertEqual(node.end(signal.SIGTERM), 0)


if __name__ == "__main__":
    cli.main()
