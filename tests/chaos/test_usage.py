"""headroom-chaos from outside: help, lists, sums of results, wrong usage; and its completions and manual.

Each script is run as: python3 test_SUBJECT.py BUILD [UNITTEST-ARGUMENT...]"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

CHAOS = os.path.join(os.path.abspath(sys.argv[1]), "headroom-chaos")
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
COMMANDS = ["links", "list", "report", "run", "sim"]
SIM = "sim --seeds 3 --lasts 20s --regions 1 --nodes 1 --rps 20 --json".split()
NAMES = re.compile(r"(?m)^  ([a-z][a-z-]*) +\S")


def scenario(name, **held):
    checks = [{"check": check, "bound": "1", "measured": "<2>", "held": is_held} for check, is_held in held.items()]
    return json.dumps({"scenario": name, "phases": [], "checks": checks, "held": all(held.values())}) + "\n"


class Usage(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_chaos(self, *arguments, stdin=""):
        return subprocess.run([CHAOS, *arguments], input=stdin, capture_output=True, text=True, cwd=self.folder,
                              timeout=120, check=False)

    def prints(self, *arguments, stdin="", status=0):
        result = self.run_chaos(*arguments, stdin=stdin)
        self.assertEqual((result.returncode, result.stderr), (status, ""), result.stdout)
        return result.stdout

    def fails(self, message, *arguments, stdin=""):
        result = self.run_chaos(*arguments, stdin=stdin)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (2, "", f"headroom-chaos: {message}\n"))

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)
        return name

    def read(self, *path):
        with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
            return file.read()

    def options(self, command):
        return set(re.findall(r"(?m)^ +(--[a-z-]+)", self.prints(command, "--help")))

    # --- help, and what it promises ---

    def test_every_command_has_help_and_a_version(self):
        self.assertEqual(NAMES.findall(self.prints("--help").split("\n\n")[1]), COMMANDS)
        version = self.prints("--version")
        self.assertRegex(version, r"^headroom-chaos \d+\.\d+\.\d+\n$")
        for command in COMMANDS:
            with self.subTest(command=command):
                self.assertTrue(self.prints(command, "--help").startswith(f"usage: headroom-chaos {command}"))
                self.assertEqual(self.prints(command, "--version"), version)
                if command != "links":
                    self.assertIn("--json", self.options(command))

    def test_wrong_usage_is_one_line_and_status_2(self):
        for message, *arguments in [
            ("no command was given (see headroom-chaos --help)",),
            ("unknown command simulate (see headroom-chaos --help)", "simulate"),
            ("list takes no argument, not faults (see headroom-chaos list --help)", "list", "faults"),
            ("unknown option --csv (see headroom-chaos report --help)", "report", "--csv"),
            ("option --json=1 takes no value (see headroom-chaos list --help)", "list", "--json=1"),
            ("links takes one FILE (see headroom-chaos links --help)", "links"),
            ("sim takes options only, not 3 (see headroom-chaos sim --help)", "sim", "3"),
            ("--faults cannot be fire (see headroom-chaos sim --help)", "sim", "--faults", "fire"),
            ("--regions cannot be 9 (see headroom-chaos sim --help)", "sim", "--regions", "9"),
            ("option --report needs a value (see headroom-chaos run --help)", "run", "--report"),
        ]:
            with self.subTest(arguments=arguments):
                self.fails(message, *arguments)

    def test_the_completions_and_the_manual_know_every_command_and_option(self):
        zsh = self.read("deploy", "completions", "_headroom-chaos")
        manual = self.read("docs", "man", "headroom-chaos.1")
        for command in COMMANDS:
            with self.subTest(command=command):
                options = self.options(command) - {"--defect"}
                self.assertEqual(self.complete(command, "--"), options)
                self.assertRegex(zsh, rf"(?m)^    '{command}:")
                self.assertRegex(manual, rf"\.Cm {command}\b")
                for option in options:
                    self.assertIn(option + "[", zsh)
                    self.assertIn(f"Fl {option[1:]}", manual)
        self.assertEqual(self.complete(""), set(COMMANDS) | {"--help", "--version"})

    def test_the_completions_offer_every_scenario(self):
        names = {each["name"] for each in json.loads(self.prints("list", "--json"))["scenarios"]}
        self.assertEqual(self.complete("run", ""), names)
        zsh = re.search(r"scenarios=\((.*)\)", self.read("deploy", "completions", "_headroom-chaos"))
        self.assertEqual(set(zsh.group(1).split()), names)

    def complete(self, *words):
        script = os.path.join(SOURCE, "deploy", "completions", "headroom-chaos.bash")
        run = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _headroom_chaos; '
               'printf "%s\\n" "${COMPREPLY[@]}"')
        result = subprocess.run(["bash", "-c", run, "bash", script, "headroom-chaos", *words], capture_output=True,
                                text=True, cwd=self.folder, timeout=60, check=True)
        self.assertEqual(result.stderr, "")
        return set(result.stdout.split())

    # --- lists ---

    def test_the_list_as_json_names_what_the_list_names(self):
        texts = self.prints("list").split("\n\n")
        listed = json.loads(self.prints("list", "--json"))
        self.assertEqual(list(listed), ["scenarios", "faults", "invariants"])
        for text, key in zip(texts, listed):
            with self.subTest(key=key):
                self.assertGreater(len(listed[key]), 9)
                self.assertEqual([each["name"] for each in listed[key]], NAMES.findall(text))
                for each in listed[key]:
                    self.assertIn(each["about"], text)

    def test_each_scenario_is_told_of_in_two_lines(self):
        lines = self.prints("list").split("\n\n")[0].splitlines()[1:]
        self.assertEqual([line[2] != " " for line in lines], [True, False] * (len(lines) // 2))

    # --- sums ---

    def test_a_report_is_the_sum_of_its_lines(self):
        result = self.run_chaos(*SIM)
        runs = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual(len(runs), 3)
        self.assertTrue(all(run["passed"] for run in runs))
        lines = result.stdout + scenario("partition", cap=True, heals=True)
        told = json.loads(self.prints("report", "--json", stdin=lines))
        self.assertEqual((told["sim"]["clusters"], told["sim"]["failed"], told["sim"]["seconds"]), (3, 0, 60))
        for key in ("asked", "admitted", "denied", "refused", "lost", "crashes"):
            self.assertEqual(told["sim"][key], sum(run[key] for run in runs), key)
        for kind, count in told["sim"]["faults"].items():
            self.assertEqual(count, sum(fault["kind"] == kind for run in runs for fault in run["faults"]), kind)
        for i, invariant in enumerate(told["sim"]["invariants"]):
            self.assertEqual(invariant["checked"], sum(run["invariants"][i]["checked"] for run in runs), invariant)
        self.assertEqual([run["scenario"] for run in told["run"]], ["partition"])
        self.assertIs(told["held"], True)

    def test_files_and_standard_input_are_summed_alike(self):
        lines = [scenario("one", cap=True), scenario("two", cap=True)]
        paths = [self.write(name, line) for name, line in zip("ab", lines)]
        self.assertEqual(self.prints("report", *paths), self.prints("report", stdin="".join(lines)))
        self.assertRegex(self.prints("report", *paths), r"(?m)^two +cap +1 +<2> +held$")

    def test_whatever_failed_is_told_of_with_the_command_that_repeats_it(self):
        run = json.loads(self.run_chaos(*SIM).stdout.splitlines()[0])
        run["passed"] = False
        run["invariants"][2]["violated"] = 7
        told = self.prints("report", stdin=json.dumps(run), status=1)
        self.assertIn(f"\n# {run['invariants'][2]['name']}: {run['command']}\n", told)
        self.assertIn(", 7 violations\n", told)
        told = json.loads(self.prints("report", "--json", stdin=json.dumps(run), status=1))
        self.assertEqual(told["sim"]["failures"], [{"check": run["invariants"][2]["name"], "command": run["command"]}])
        told = self.prints("report", stdin=scenario("mine", cap=True, heals=False), status=1)
        self.assertRegex(told, r"(?m)^ +heals +1 +<2> +VIOLATED$")

    def test_what_is_no_result_is_refused_with_its_place(self):
        good = scenario("one", cap=True)
        sim = json.loads(self.run_chaos(*SIM).stdout.splitlines()[0])
        without = [{key: value for key, value in sim.items() if key != left_out}
                   for left_out in ("passed", "seconds", "asked", "lost", "invariants", "faults")]
        odd = [{**sim, "asked": -1}, {**sim, "asked": "1"}, {**sim, "invariants": [{"name": "luck"}]},
               {**sim, "faults": [{"kind": "fire"}]}, {**sim, "passed": False, "command": "c" * 2000},
               {"scenario": "s" * 100, "held": True, "checks": []}, {"scenario": "s", "held": 1, "checks": []},
               {"scenario": "s", "held": True}, [], 3]
        for line in ["", "{", good[:-20], "[]x", '{"scenario":"a","scenario":"b"}', *map(json.dumps, without + odd)]:
            with self.subTest(line=line[:200]):
                self.fails("not what sim --json or run --json prints (standard input:2)", "report",
                           stdin=good + line + "\n")
        self.fails("there is no result (empty)", "report", self.write("empty", ""))
        self.fails("cannot open the file: No such file or directory (none)", "report", "none")
        self.fails("cannot read the file: Is a directory (.)", "report", ".")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[2:])
