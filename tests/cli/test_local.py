"""`headroom local`: a whole cluster of real nodes on loopback, from start to stop."""
import contextlib
import json
import os
import pty
import signal
import subprocess
import time

import cli

LIMITS = "limits:\n  - {name: ten, key: [user], algorithm: fixed_window, rate: 10 per 366d}\n"
WAIT_S = 60


def is_running(pid):
    with contextlib.suppress(OSError):
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    return False


class Cluster:
    """headroom local as a child, which is up when this returns."""

    def __init__(self, case, *arguments):
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen([cli.HEADROOM, "local", "--json", *arguments], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, cwd=case.folder,
                                        env={**os.environ, "TMPDIR": case.folder})
        case.addCleanup(self.end, signal.SIGKILL)
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.stderr.read().decode())
        answer = json.loads(line)
        self.data, self.nodes = answer["data"], answer["nodes"]

    def end(self, number):
        """Its exit status, and what it complained of."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, errors.decode()


class Local(cli.Case):
    def until(self, condition):
        end = time.monotonic() + WAIT_S
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def test_every_node_serves_and_a_clean_stop_leaves_nothing(self):
        self.write("l.yaml", LIMITS)
        cluster = Cluster(self, "--regions", "eu,us,ap", "--nodes", "2", "--limits", "l.yaml")
        self.assertEqual([(node["name"], node["region"]) for node in cluster.nodes],
                         [(f"{region}-{i}", region) for region in ("eu", "us", "ap") for i in (1, 2)])
        for node in cluster.nodes:
            decision = json.loads(self.prints("check", "user=a", "--json", "--node", node["rpc"]))
            self.assertEqual((decision["node"][:-2], decision["region"]), (node["region"], node["region"]))
            self.assertNotIn("degraded", decision)
            self.assertEqual(decision["limits"][0]["limit"], 10)
        self.assertEqual(cluster.end(signal.SIGINT), (0, ""))
        self.assertFalse(os.path.exists(cluster.data))
        self.assertFalse(any(is_running(node["pid"]) for node in cluster.nodes))

    def test_addresses_differ_and_tell_the_region(self):
        cluster = Cluster(self, "--regions", "eu,us", "--nodes", "2")
        addresses = [node[kind] for node in cluster.nodes for kind in ("rpc", "http", "gossip")]
        self.assertEqual(len(set(addresses)), len(addresses))
        self.assertEqual([node["gossip"].rsplit(":", 1)[0] for node in cluster.nodes],
                         ["tcp://127.0.1.1"] * 2 + ["tcp://127.0.2.1"] * 2)
        self.assertEqual(cluster.end(signal.SIGTERM), (0, ""))

    def test_node_files_are_ones_that_the_check_accepts(self):
        self.write("l.yaml", LIMITS)
        cluster = Cluster(self, "--regions", "eu,us", "--data", "d", "--limits", "l.yaml")
        self.assertEqual(self.prints("config", "check", "d/us-1.yaml").splitlines()[0],
                         "d/us-1.yaml: ok, node us-1 in region us")
        cluster.end(signal.SIGTERM)
        self.assertEqual(os.stat(os.path.join(self.folder, "d", "secret")).st_mode & 0o077, 0)

    def test_data_is_kept_where_it_was_asked_for(self):
        self.write("l.yaml", LIMITS)
        arguments = ("--data", "d", "--limits", "l.yaml")
        remaining = []
        for _ in range(2):
            cluster = Cluster(self, *arguments)
            decision = json.loads(self.prints("check", "user=a", "--cost", "4", "--json", "--node",
                                              cluster.nodes[0]["rpc"]))
            remaining.append(decision["limits"][0]["remaining"])
            self.assertEqual(cluster.end(signal.SIGINT), (0, ""))
        self.assertEqual(remaining, [6, 2])

    def test_a_node_that_is_killed_is_told_and_the_others_go_on(self):
        cluster = Cluster(self, "--nodes", "2")
        os.kill(cluster.nodes[0]["pid"], signal.SIGKILL)
        self.until(lambda: not os.path.exists(f"/proc/{cluster.nodes[0]['pid']}"))
        self.prints("status", "--node", cluster.nodes[1]["rpc"])
        self.assertEqual(cluster.end(signal.SIGINT), (1, "headroom: eu-1 ended by signal 9 "
                                                         f"(its log is {cluster.data}/eu-1.log)\n"))
        self.assertTrue(os.path.exists(cluster.data))

    def test_nodes_do_not_outlive_it(self):
        cluster = Cluster(self, "--nodes", "2")
        self.assertEqual(cluster.end(signal.SIGKILL)[0], -signal.SIGKILL)
        self.until(lambda: not any(is_running(node["pid"]) for node in cluster.nodes))

    def test_it_ends_with_its_terminal(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(cli.HEADROOM, ["headroom", "local", "--json"], {**os.environ, "TMPDIR": self.folder})
        with os.fdopen(terminal, "rb", buffering=0) as screen:
            text = b""
            while b"]}" not in text:
                text += screen.read(4096)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertFalse(any(is_running(node["pid"]) for node in json.loads(text)["nodes"]))

    def test_a_reload_reaches_every_node(self):
        self.write("l.yaml", LIMITS)
        cluster = Cluster(self, "--nodes", "2", "--limits", "l.yaml")
        self.write("l.yaml", LIMITS.replace("name: ten", "name: other"))
        cluster.process.send_signal(signal.SIGHUP)
        for node in cluster.nodes:
            self.until(lambda address=node["rpc"]: "other" in self.prints("limits", "--node", address))
        self.assertEqual(cluster.end(signal.SIGTERM), (0, ""))

    def states(self, node):
        """How a node sees the others, by name."""
        answer = json.loads(self.prints("members", "--json", "--node", node["rpc"]))
        return {member["name"]: member["state"] for member in answer["members"]}

    def sees(self, node, region, is_there):
        states = self.states(node)
        return all((states.get(f"{region}-{i}") == "alive") == is_there for i in (1, 2))

    def test_the_links_that_are_written_lead_through_relays(self):
        cluster = Cluster(self, "--regions", "eu,us", "--data", "d", "--wan-delay", "80ms")
        gossip = [node["gossip"].removeprefix("tcp://") for node in cluster.nodes]
        lines = self.read("d/links").splitlines()
        relays = [line.split()[2] for line in lines if line.startswith("relay ")]
        self.assertEqual(lines, ["delay 80ms", "region eu 127.0.1.1", "region us 127.0.2.1",
                                 f"relay eu {relays[0]} {gossip[0]}", f"relay us {relays[1]} {gossip[1]}"])
        self.assertIn(f'advertise: {{gossip: "tcp://{relays[1]}"}}', self.read("d/us-1.yaml"))
        self.assertIn(f'join: ["tcp://{relays[0]}", "tcp://{relays[1]}"]', self.read("d/us-1.yaml"))
        for what, region, cuts in [("cut", "us", ["cut us"]), ("mute", "eu", ["cut us", "mute eu"]),
                                   ("deaf", "us", ["mute eu", "deaf us"]), ("heal", "eu", ["deaf us"]),
                                   ("heal", "eu", ["deaf us"]), ("heal", "us", [])]:
            self.assertEqual(self.prints("local", what, region, "--data", "d"), "")
            self.assertEqual(self.read("d/links").splitlines(), lines + cuts)
        self.fails(2, 'the cluster has no region "u" (d/links)', "local", "cut", "u", "--data", "d")
        self.assertEqual(cluster.end(signal.SIGINT), (0, ""))

    def test_a_region_that_is_cut_off_is_gone_for_the_others_but_not_for_itself_and_comes_back(self):
        cluster = Cluster(self, "--regions", "eu,us", "--nodes", "2", "--data", "d", "--wan-delay", "20ms")
        eu, us = cluster.nodes[0], cluster.nodes[2]
        self.until(lambda: all(self.sees(node, region, True) for node in (eu, us) for region in ("eu", "us")))
        self.prints("local", "cut", "us", "--data", "d")
        self.until(lambda: self.sees(eu, "us", False) and self.sees(us, "eu", False))
        self.assertTrue(self.sees(eu, "eu", True) and self.sees(us, "us", True))
        self.prints("local", "heal", "us", "--data", "d")
        self.until(lambda: all(self.sees(node, region, True) for node in (eu, us) for region in ("eu", "us")))
        self.assertEqual(cluster.end(signal.SIGINT), (0, ""))

    def read(self, path):
        with open(os.path.join(self.folder, path), encoding="utf-8") as file:
            return file.read()

    def test_only_a_cluster_with_links_can_be_cut(self):
        self.fails(2, "cannot open the file: No such file or directory (d/links)", "local", "cut", "eu", "--data", "d")

    def test_a_table_for_people(self):
        process = subprocess.Popen([cli.HEADROOM, "local"], stdout=subprocess.PIPE, cwd=self.folder,
                                   env={**os.environ, "TMPDIR": self.folder})
        self.addCleanup(process.stdout.close)
        lines = [process.stdout.readline() for _ in range(5)]
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(WAIT_S), 0)
        self.assertIn(b"stop all with Ctrl-C", lines[4])
        head, row = lines[0].split(), lines[1].split()
        self.assertEqual(head, [b"name", b"region", b"rpc", b"http", b"gossip", b"pid"])
        self.assertEqual((row[0], row[1], len(row)), (b"eu-1", b"eu", 6))

    def test_what_cannot_be_is_refused_before_anything_starts(self):
        self.write("bad.yaml", "limits: [{name: a}]\n")
        for message, *arguments in [
            ("a region's name must be 1 to 61 of a-z, 0-9 and \"-\", not \"EU\" (--regions)", "--regions", "EU"),
            ("a region's name must be 1 to 61 of a-z, 0-9 and \"-\", not \"\" (--regions)", "--regions", "eu,"),
            ("each region must have a name of its own, not \"eu\" (--regions)", "--regions", "eu,us,eu"),
            ("at most 8 regions (--regions)", "--regions", ",".join(f"r{i}" for i in range(9))),
            ("--nodes must be a whole number from 1 to 64 (see headroom local --help)", "--nodes", "0"),
            ("from 1 to 32 nodes in each of 2 regions (--nodes)", "--regions", "eu,us", "--nodes", "33"),
            ("a limit needs \"algorithm\" (bad.yaml:1:10)", "--limits", "bad.yaml"),
            ("cannot make the folder: No such file or directory (no/such)", "--data", "no/such"),
            ("local can cut, mute, deaf and heal a region, not eu (see headroom local --help)", "eu"),
            ("local cut takes one REGION, and --data DIR (see headroom local --help)", "cut", "eu"),
            ("local heal takes one REGION, and --data DIR (see headroom local --help)", "heal", "--data", "d"),
            ("--wan-delay must be a time from 1ms to 10s, as 80ms (see headroom local --help)", "--wan-delay", "80"),
            ("--wan-delay must be a time from 1ms to 10s, as 80ms (see headroom local --help)", "--wan-delay", "11s"),
        ]:
            with self.subTest(arguments=arguments):
                self.fails(2, message, "local", *arguments)


if __name__ == "__main__":
    cli.main()
