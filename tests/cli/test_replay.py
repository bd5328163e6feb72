"""headroom replay: one answer a line, in order, the same every time; and where it stops."""
import json
import os
import resource
import subprocess

import cli

LIMITS = """limits:
  - {name: key-rps, key: [api_key], algorithm: token_bucket, rate: 2/s, burst: 5}
  - {name: jobs, key: [org], algorithm: concurrency, slots: 1, ttl: 60s}
  - {name: trial, key: [api_key], algorithm: token_bucket, rate: 1/s, burst: 1, mode: shadow}
"""
T = 1700000000000000


def check(at_us, key="k1", **more):
    return json.dumps({"at_us": at_us, "attributes": {"api_key": key}, **more}) + "\n"


def hold(at_us):
    return json.dumps({"at_us": at_us, "attributes": {"org": "acme"}}) + "\n"


def release(at_us, line):
    return json.dumps({"at_us": at_us, "op": "release", "line": line}) + "\n"


class Runs(cli.Case):
    def setUp(self):
        super().setUp()
        self.write("limits.yaml", LIMITS)

    def replay(self, requests, *options):
        return self.prints("replay", "--limits", "limits.yaml", *options, stdin=requests.encode())

    def stops(self, message, requests, *options):
        if isinstance(requests, str):
            requests = requests.encode()
        out = self.fails(2, message, "replay", "--limits", "limits.yaml", *options, stdin=requests)
        return out.splitlines()


class Replay(Runs):
    def test_an_answer_has_exactly_these_bytes(self):
        self.assertEqual(
            self.replay(check(T)),
            '{"allowed":true,"action":"allow","decided_by":null,"retry_after_ms":0,"delay_ms":0,"limits":['
            '{"name":"key-rps","allowed":true,"mode":"enforce","limit":5,"remaining":4,"retry_after_ms":0,'
            '"reset_after_ms":500},'
            '{"name":"trial","allowed":true,"mode":"shadow","limit":1,"remaining":0,"retry_after_ms":0,'
            '"reset_after_ms":1000}]}\n')

    def test_a_burst_passes_and_the_rest_waits(self):
        answers = [json.loads(a) for a in self.replay(check(T) * 8 + check(T + 1100000) * 3).splitlines()]
        self.assertEqual([a["allowed"] for a in answers], [True] * 5 + [False] * 3 + [True, True, False])
        self.assertEqual(answers[-1]["decided_by"], "key-rps")
        self.assertEqual(answers[-1]["retry_after_ms"], 400)

    def test_the_same_input_gives_the_same_bytes(self):
        requests = "".join(check(T + i * 1000, f"k{i % 7}") + hold(T + i * 1000) for i in range(500))
        self.assertEqual(self.replay(requests), self.replay(requests))

    def test_a_file_and_standard_input_are_the_same(self):
        self.write("requests.jsonl", check(T) * 3)
        from_file = self.prints("replay", "--limits", "limits.yaml", "requests.jsonl")
        self.assertEqual(from_file, self.replay(check(T) * 3))
        self.assertEqual(from_file, self.replay(check(T) * 3, "-"))

    def test_a_time_that_runs_backwards_counts_as_the_line_above(self):
        backwards = self.replay(check(T) * 5 + check(T - 10**9) + check(0))
        self.assertEqual(backwards, self.replay(check(T) * 7))

    def test_peek_and_cost_0_consume_nothing(self):
        answers = self.replay(check(T, peek=True) * 3 + check(T, cost=0) + check(T, cost=5) + check(T, peek=True))
        self.assertEqual([json.loads(a)["allowed"] for a in answers.splitlines()], [True] * 5 + [False])

    def test_a_release_gives_back_the_lease_of_its_line(self):
        lines = self.replay(hold(T) + hold(T) + release(T, 1) + release(T, 1) + hold(T) + release(T, 2)).splitlines()
        self.assertRegex(json.loads(lines[0])["limits"][0]["lease"], "^[0-9a-f]{32}$")
        self.assertNotIn("lease", json.loads(lines[1])["limits"][0])
        self.assertEqual([lines[2], lines[3], lines[5]],
                         ['{"released":true}', '{"released":false}', '{"released":false}'])
        self.assertTrue(json.loads(lines[4])["allowed"])

    def test_no_requests_are_no_answers(self):
        self.assertEqual(self.replay(""), "")

    def test_crlf_and_a_last_line_without_an_end_are_read(self):
        plain = self.replay(check(T) * 3)
        self.assertEqual(self.replay((check(T) * 3).replace("\n", "\r\n")), plain)
        self.assertEqual(self.replay((check(T) * 3).rstrip("\n")), plain)

    def test_a_malformed_line_stops_it_after_the_answers_to_all_earlier_lines(self):
        for message, line in [
            ("the line is blank", ""),
            ("the line is blank", " \r"),
            ("unknown key \"x\"", '{"at_us":1,"attributes":{"a":"b"},"x":1}'),
            ("attributes is missing", '{"at_us":1}'),
            ("at_us must be a whole number from 0 to 9000000000000000", '{"at_us":1.5,"attributes":{"a":"b"}}'),
            ("cost must be a whole number from 0 to 9007199254740991",
             '{"at_us":1,"attributes":{"a":"b"},"cost":9007199254740992}'),
            ("line must be the number of an earlier line", release(T, 4).strip()),
            ("not valid JSON: unable to decode byte 0xff", b'{"at_us":1,"attributes":{"a":"\xff"}}'),
            ("not valid JSON: control character 0x0", b'{"at_us":1,"attributes":{"a":"\x00"}}'),
        ]:
            with self.subTest(line=line):
                line = line.encode() if isinstance(line, str) else line
                out = self.stops_near(message, check(T).encode() * 3 + line + b"\n" + check(T).encode())
                self.assertEqual(len(out), 3)

    def stops_near(self, message, requests):
        result = self.run_headroom("replay", "--limits", "limits.yaml", stdin=requests)
        error = result.stderr.decode()
        self.assertEqual(result.returncode, 2)
        self.assertTrue(error.startswith(f"headroom: {message}"), error)
        self.assertTrue(error.endswith(" (standard input:4)\n"), error)
        self.assertEqual(error.count("\n"), 1)
        return result.stdout.decode().splitlines()

    def test_a_malformed_line_is_named_by_file_and_number(self):
        self.write("requests.jsonl", check(T) + "\n")
        out = self.fails(2, "the line is blank (requests.jsonl:2)",
                         "replay", "--limits", "limits.yaml", "requests.jsonl")
        self.assertEqual(len(out.splitlines()), 1)

    def test_a_line_may_hold_a_mebibyte_and_no_more(self):
        line = check(T).strip()
        fits = line + " " * (1024 * 1024 - len(line))
        self.assertEqual(len(self.replay(fits + "\n" + check(T)).splitlines()), 2)
        message = "a line may hold at most 1048576 bytes (standard input:2)"
        for too_long in [fits + " \n", fits + " " * 300000 + "\n", "x" * 5000000]:
            self.assertEqual(len(self.stops(message, check(T) + too_long)), 1)

    def test_files_that_are_not_there_are_named(self):
        self.fails(2, "cannot open the requests: No such file or directory (none.jsonl)",
                   "replay", "--limits", "limits.yaml", "none.jsonl")
        self.fails(2, "cannot read the requests: Is a directory (.)", "replay", "--limits", "limits.yaml", ".")
        result = self.run_headroom("replay", "--limits", "none.yaml")
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr.decode(), r"^headroom: [^\n]+ \(none\.yaml\)\n$")

    def test_limits_that_are_wrong_are_named_by_line_and_column(self):
        self.write("wrong.yaml", "limits:\n  - {name: a, algorithm: gcra, rate: 1/s, bursts: 5}\n")
        result = self.run_headroom("replay", "--limits", "wrong.yaml", stdin=check(T).encode())
        self.assertEqual((result.returncode, result.stdout), (2, b""))
        self.assertRegex(result.stderr.decode(), r"^headroom: [^\n]*bursts[^\n]* \(wrong\.yaml:2:\d+\)\n$")

    def test_more_live_counters_than_room_say_what_to_raise(self):
        requests = "".join(check(T, f"k{i}") for i in range(1000))
        result = self.run_headroom("replay", "--limits", "limits.yaml", "--counters", "100", stdin=requests.encode())
        self.assertEqual(result.returncode, 2)
        answered = result.stdout.count(b"\n")
        self.assertEqual(result.stderr.decode(), "headroom: no room for more than 100 counters: raise --counters "
                                                 f"(standard input:{answered + 1})\n")
        self.assertGreaterEqual(answered, 50)

    def test_counters_that_leave_next_to_no_room_stop_it_rather_than_take_hours(self):
        self.write("brim.yaml", "limits:\n  - {name: k, key: [api_key], algorithm: token_bucket, "
                                "rate: 1 per 49999ms, burst: 1}\n")
        requests = "".join(check(T + 1000 * i, f"k{i}") for i in range(150000)).encode()
        for counters, message in [("50000", b"no room for more than 50000 counters: raise --counters"),
                                  ("51000", b"")]:
            with self.subTest(counters=counters):
                before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
                result = self.run_headroom("replay", "--limits", "brim.yaml", "--summary", "--counters", counters,
                                           stdin=requests)
                seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
                self.assertIn(message, result.stderr)
                self.assertEqual(result.returncode, 2 if message else 0)
                self.assertLess(seconds, 10)

    def test_each_answer_comes_before_the_next_request_is_awaited(self):
        command = [cli.HEADROOM, "replay", "--limits", "limits.yaml"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self.folder) as process:
            for _ in range(3):
                process.stdin.write(check(T).encode())
                process.stdin.flush()
                self.assertTrue(json.loads(process.stdout.readline())["allowed"])
            process.stdin.close()
            self.assertEqual(process.wait(timeout=60), 0)

    def test_output_that_cannot_be_written_stops_it(self):
        with open("/dev/full", "w") as full:
            result = self.run_headroom("replay", "--limits", "limits.yaml", stdin=check(T).encode(), stdout=full)
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr,
                         b"headroom: cannot write the answers: No space left on device (standard output)\n")

    def test_a_reader_that_went_away_stops_it(self):
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as gone:
            result = self.run_headroom("replay", "--limits", "limits.yaml", stdin=check(T).encode(), stdout=gone)
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr, b"headroom: cannot write the answers: Broken pipe (standard output)\n")


class Summary(Runs):
    REQUESTS = check(T) * 8 + check(T, cost=6) + check(T, peek=True) + hold(T) * 2 + release(T, 11)

    def test_the_table_is_for_people(self):
        self.assertEqual(self.replay(self.REQUESTS, "--summary").splitlines(), [
            "limit    mode           asked     admitted       denied  worst retry",
            "key-rps                     9            5            4  never",
            "jobs                        2            1            1  1m",
            "trial    shadow             9            1            8  never",
            "total                      11            6            5  never",
            "besides: 1 peeks, 1 releases",
        ])

    def test_json_has_the_same_numbers(self):
        summary = json.loads(self.replay(self.REQUESTS, "--summary", "--json"))
        self.assertEqual(summary["limits"][1], {"name": "jobs", "mode": "enforce", "asked": 2, "admitted": 1,
                                                "denied": 1, "worst_retry_ms": 60000})
        self.assertEqual(summary["total"], {"asked": 11, "admitted": 6, "denied": 5, "worst_retry_ms": -1})
        self.assertEqual((summary["peeks"], summary["releases"]), (1, 1))

    def test_a_limit_admits_what_it_was_charged_for_and_denies_what_it_denied_itself(self):
        self.write("limits.yaml", "limits:\n"
                                  "  - {name: wide, algorithm: fixed_window, rate: 100/d}\n"
                                  "  - {name: narrow, key: [api_key], algorithm: fixed_window, rate: 2/d}\n"
                                  "  - {name: trial, algorithm: fixed_window, rate: 1/d, mode: shadow}\n")
        summary = json.loads(self.replay(check(T) * 5 + check(T, cost=0), "--summary", "--json"))
        self.assertEqual([(r["asked"], r["admitted"], r["denied"]) for r in summary["limits"] + [summary["total"]]],
                         [(6, 3, 0), (6, 3, 3), (6, 2, 4), (6, 3, 3)])

    def test_a_malformed_line_prints_no_table(self):
        self.assertEqual(self.stops("the line is blank (standard input:2)", check(T) + "\n", "--summary"), [])


if __name__ == "__main__":
    cli.main()
