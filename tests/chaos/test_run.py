"""`headroom-chaos run` on real nodes: a partition that heals, a promise that is broken, and what is refused.

Each script is run as: python3 test_SUBJECT.py BUILD [UNITTEST-ARGUMENT...]"""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib", "py"))
import rpc  # noqa: E402  its folder is known only now

BUILD = os.path.abspath(sys.argv[1])
CHAOS = os.path.join(BUILD, "headroom-chaos")
RUN_S_MAX = 150

ALONE = """\
name: alone
cluster: {regions: [eu], nodes: 1}
cap: {rate: 100/s, burst: 10, reserve: 20%}
load: 200/s
lasts: 5s
"""


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_chaos(self, *arguments):
        return subprocess.run([CHAOS, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              cwd=self.folder, env={**os.environ, "TMPDIR": self.folder}, timeout=RUN_S_MAX,
                              check=False)

    def write(self, text):
        with open(os.path.join(self.folder, "s.yaml"), "w", encoding="utf-8") as file:
            file.write(text)
        return "s.yaml"

    def fails(self, message, *arguments):
        result = self.run_chaos("run", *arguments)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (2, "", f"headroom-chaos: {message}\n"))

    def test_the_cap_holds_while_a_region_is_cut_off_and_all_is_well_again(self):
        result = self.run_chaos("run", "partition", "--seconds", "15", "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        answer = json.loads(result.stdout)
        self.assertEqual((answer["scenario"], answer["held"]), ("partition", True))
        self.assertEqual([phase["phase"] for phase in answer["phases"]], ["calm", "faults", "after"])
        self.assertEqual([check["check"] for check in answer["checks"]],
                         ["cap", "reserve", "answers", "heals", "processes"])
        for phase in answer["phases"]:
            self.assertEqual([region["region"] for region in phase["regions"]], ["eu", "us", "ap"])
            self.assertEqual(phase["admitted"], sum(region["admitted"] for region in phase["regions"]))
            self.assertTrue(all(region["offered"] > 0 for region in phase["regions"]))
        offered = sum(region["offered"] for phase in answer["phases"] for region in phase["regions"])
        self.assertEqual(offered, 15 * 3 * 600)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_promise_that_is_broken_is_told_and_its_logs_are_kept(self):
        scenario = self.write(ALONE + "faults: [{at: 1s, for: 2s, kill: eu-1}]\nexpect: {answers: 95%}\n")
        result = self.run_chaos("run", scenario, "--data", "d")
        self.assertEqual((result.returncode, result.stderr), (1, ""))
        verdicts = {line.split()[0]: line.split()[-1] for line in result.stdout.splitlines() if line}
        self.assertEqual((verdicts["cap"], verdicts["answers"], verdicts["processes"]), ("held", "VIOLATED", "held"))
        self.assertIn("files and logs are in", result.stdout)
        self.assertTrue(os.path.exists(os.path.join(self.folder, "d", "eu-1.log")))

    def test_it_can_be_stopped_and_leaves_no_process(self):
        # pylint: disable-next=consider-using-with
        process = subprocess.Popen([CHAOS, "run", self.write(ALONE), "--data", "d"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, cwd=self.folder)
        self.addCleanup(process.kill)
        client = self.connect(os.path.join(self.folder, "d", "eu-1.yaml"))
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=RUN_S_MAX)
        self.assertEqual((process.returncode, errors), (1, "headroom-chaos: stopped before its end (alone)\n"))
        with self.assertRaises(OSError):
            client.ask("status")
        client.close()

    def connect(self, node_file):
        """To a node, as soon as its file is there and it answers."""
        end = time.monotonic() + RUN_S_MAX
        while True:
            self.assertLess(time.monotonic(), end)
            with contextlib.suppress(OSError, IndexError, ValueError):
                with open(node_file, encoding="utf-8") as file:
                    return rpc.Client(int(file.read().split('rpc: "127.0.0.1:')[1].split('"')[0]))
            time.sleep(0.02)

    def test_a_node_has_nothing_of_the_simulator_in_it(self):
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "base", "defect.h")
        with open(source, encoding="utf-8") as file:
            words = re.findall(r'X\([A-Z_]+, "([a-z-]+)"', file.read())
        self.assertGreater(len(words), 20)
        words += ["hr_sim_", "step-wall", "swizzle", "kill-owner"]
        with open(os.path.join(BUILD, "headroomd"), "rb") as file:
            node = file.read()
        self.assertEqual([word for word in words if word.encode() in node], [])
        self.assertIn(b"chaos.clock", node)
        with open(CHAOS, "rb") as file:
            self.assertIn(b"swizzle", file.read())

    def test_clocks_can_be_set_only_where_the_node_file_allows_it(self):
        for chaos in (True, False):
            with self.subTest(chaos=chaos):
                node_file = os.path.join(self.folder, f"{chaos}.yaml")
                with open(node_file, "w", encoding="utf-8") as file:
                    file.write(f'node: {{name: n, region: eu, data: "{chaos}"}}\nlisten: {{rpc: "127.0.0.1:0"}}\n'
                               f'chaos: {"true" if chaos else "false"}\n')
                self.clock_is_set(node_file, chaos)

    def clock_is_set(self, node_file, chaos):
        # pylint: disable-next=consider-using-with
        process = subprocess.Popen([os.path.join(BUILD, "headroomd"), "--config", node_file], stderr=subprocess.PIPE,
                                   text=True, cwd=self.folder)
        try:
            port = process.stderr.readline().split("rpc=127.0.0.1:")[1].split()[0]
            client = rpc.Client(int(port))
            uptime = client.ask("status")["uptime_ms"]
            if chaos:
                self.assertEqual(client.ask("chaos.clock", steady_offset_ms=3600000, wall_offset_ms=-5000),
                                 {"set": True})
                self.assertGreaterEqual(client.ask("status")["uptime_ms"], uptime + 3600000)
            else:
                with self.assertRaisesRegex(rpc.Refused, "PERMISSION_DENIED: the node's file does not say chaos: true"):
                    client.ask("chaos.clock", wall_offset_ms=5000)
            client.close()
        finally:
            process.terminate()
            process.communicate(timeout=RUN_S_MAX)

    def test_every_scenario_that_is_listed_can_be_printed_and_is_good(self):
        text = self.run_chaos("list").stdout
        names = re.findall(r"(?m)^  (\S+)", text.split("\n\n")[0])
        self.assertIn("partition", names)
        for name in names:
            with self.subTest(name=name):
                printed = self.run_chaos("run", name, "--print")
                self.assertEqual((printed.returncode, printed.stderr), (0, ""))
                self.assertTrue(printed.stdout.startswith(f"name: {name}\n"))

    def test_what_cannot_be_is_refused_before_anything_starts(self):
        see = "(see headroom-chaos run --help)"
        self.fails(f"run takes one SCENARIO {see}")
        self.fails(f"run takes one SCENARIO {see}", "partition", "lossy")
        self.fails(f"--seconds must be a whole number from 1 to 3600 {see}", "partition", "--seconds", "0")
        self.fails(f"--print is for the scenarios of headroom-chaos list, not s.yaml {see}", "s.yaml", "--print")
        self.fails("cannot open the file: No such file or directory (s.yaml)", "s.yaml")
        self.fails("cut needs a region of the cluster (s.yaml:6:16)",
                   self.write(ALONE + "faults: [{cut: us}]\n"))
        self.assertEqual(os.listdir(self.folder), ["s.yaml"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[2:])
