"""headroom test: the examples of the documentation hold, and what differs is told at its place."""
import glob
import json
import os

import cli

LIMITS = """limits:
  - {name: key-rps, key: [api_key], algorithm: token_bucket, rate: 2/s, burst: 5}
  - {name: jobs, key: [org], algorithm: concurrency, slots: 1, ttl: 60s}
"""

CASES = """limits: limits.yaml
tests:
  - name: passes
    steps:
      - {attributes: {api_key: k1}, times: 8, expect: {allowed: 5, denied: 3}}
  - name: "differs \\"much\\""
    steps:
      - {attributes: {api_key: k1}, times: 8, expect: {allowed: 6, denied: 3}}
      - attributes: {api_key: k1}
        expect:
          allowed: true
          action: delay
          decided_by: null
          retry_after_ms: never
          limits: {key-rps: {remaining: 4, limit: 5}, jobs: {remaining: 1}}
      - {label: held, attributes: {org: acme}, expect: {limits: {jobs: untouched}}}
      - {release: held, expect: {released: false}}
"""

DIFFERENCES = """cases.yaml:8: differs "much", step 1: allowed: wanted 6, got 5
cases.yaml:11: differs "much", step 2: allowed: wanted true, got false
cases.yaml:12: differs "much", step 2: action: wanted delay, got deny
cases.yaml:13: differs "much", step 2: decided_by: wanted null, got key-rps
cases.yaml:14: differs "much", step 2: retry_after_ms: wanted never, got 500
cases.yaml:15: differs "much", step 2: limits.key-rps.remaining: wanted 4, got 0
cases.yaml:15: differs "much", step 2: limits.jobs.remaining: wanted 1, got nothing: the request did not touch it
cases.yaml:16: differs "much", step 3: limits.jobs.touched: wanted false, got true
cases.yaml:17: differs "much", step 4: released: wanted false, got true
2 tests, 1 passed, 1 failed
"""


class Tables(cli.Case):
    def setUp(self):
        super().setUp()
        self.write("limits.yaml", LIMITS)
        self.write("cases.yaml", CASES)

    def test_what_differs_is_told_at_its_place(self):
        self.assertEqual(self.prints("test", "cases.yaml", status=1), DIFFERENCES)

    def test_json_tells_the_same(self):
        report = json.loads(self.prints("test", "--json", "cases.yaml", status=1))
        self.assertEqual((report["tests"], report["passed"], report["failed"]), (2, 1, 1))
        found = report["differences"]
        self.assertEqual(len(found), DIFFERENCES.count("\n") - 1)
        self.assertEqual(found[0], {"file": "cases.yaml", "line": 8, "test": 'differs "much"', "step": 1, "limit": None,
                                    "field": "allowed", "wanted": 6, "got": 5})
        self.assertEqual([(d["limit"], d["wanted"], d["got"]) for d in found[2:]], [
            (None, "delay", "deny"), (None, None, "key-rps"), (None, -1, 500), ("key-rps", 4, 0), ("jobs", 1, None),
            ("jobs", False, True), (None, False, True)])

    def test_json_stays_json_where_a_request_cannot_be_decided(self):
        limits = "".join(f"  - {{name: l{i}, key: [api_key], algorithm: gcra, rate: 1/s}}\n" for i in range(129))
        self.write("many.yaml", "limits:\n" + limits)
        self.write("stops.yaml", "limits: many.yaml\ntests:\n  - name: n\n    steps:\n"
                                 "      - {attributes: {org: o}, expect: {allowed: false}}\n"
                                 "      - {attributes: {api_key: k}, expect: {allowed: true}}\n")
        what = "the request touches more than 128 limits"
        report = json.loads(self.fails(2, f"{what} (stops.yaml:6)", "test", "--json", "stops.yaml"))
        self.assertEqual(len(report.pop("differences")), 1)
        self.assertEqual(report, {"tests": 1, "passed": 0, "failed": 1, "error": what, "where": "stops.yaml:6"})

    def test_a_name_moves_no_cursor(self):
        self.write("cases.yaml", CASES.replace("much", "\\e[2J\\x7f"))
        self.assertEqual(self.prints("test", "cases.yaml", status=1), DIFFERENCES.replace("much", "?[2J?"))
        report = json.loads(self.prints("test", "--json", "cases.yaml", status=1))
        self.assertEqual(report["differences"][0]["test"], 'differs "\x1b[2J\x7f"')

    def test_a_wrong_file_runs_nothing_at_all(self):
        self.write("wrong.yaml", "limits: limits.yaml\ntests: []\n")
        self.assertEqual(self.fails(2, "there are no tests (wrong.yaml:2:8)", "test", "cases.yaml", "wrong.yaml"), "")
        result = self.run_headroom("test", "none.yaml")
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr.decode(), r"^headroom: [^\n]+ \(none\.yaml\)\n$")

    def test_limits_are_found_beside_their_cases(self):
        os.mkdir(os.path.join(self.folder, "below"))
        self.write("below/cases.yaml", CASES.replace("limits.yaml", "../limits.yaml"))
        self.write("below/absolute.yaml", CASES.replace("limits.yaml", os.path.join(self.folder, "limits.yaml")))
        for name in ["below/cases.yaml", "below/absolute.yaml"]:
            self.assertEqual(self.prints("test", name, status=1), DIFFERENCES.replace("cases.yaml", name))


class Examples(cli.Case):
    """docs/examples: the tables pass, and the requests can be replayed."""

    def folders(self):
        found = sorted(glob.glob(os.path.join(cli.SOURCE, "docs/examples/*/limits.yaml")))
        self.assertGreaterEqual(len(found), 4)
        return [os.path.dirname(f) for f in found]

    def test_the_tables_of_all_examples_pass(self):
        out = self.prints("test", *[f"{folder}/cases.yaml" for folder in self.folders()])
        self.assertRegex(out, r"^(\d+) tests, \1 passed, 0 failed\n$")

    def test_the_requests_of_all_examples_are_answered(self):
        for folder in self.folders():
            requests = f"{folder}/requests.jsonl"
            out = self.prints("replay", "--limits", f"{folder}/limits.yaml", requests)
            with open(requests) as file:
                self.assertEqual(len(out.splitlines()), len(file.readlines()))
            self.assertIn('"allowed":true', out)
            self.assertIn('"allowed":false', out)


if __name__ == "__main__":
    cli.main()
