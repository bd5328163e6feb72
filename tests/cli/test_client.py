"""The commands that ask a node, against one that says what the test wants."""
import json
import os
import re
import signal
import socket
import subprocess
import termios
import threading

import cli
import fake_node

LEASE = "0123456789abcdef0000000000000001"
ROW = {"name": "key-rps", "allowed": True, "mode": "enforce", "limit": 100, "remaining": 98, "retry_after_ms": 0,
       "reset_after_ms": 40}
ALLOWED = {"allowed": True, "action": "allow", "decided_by": None, "retry_after_ms": 0, "delay_ms": 0,
           "limits": [ROW], "node": "eu-1", "region": "eu"}
DENIED = {**ALLOWED, "allowed": False, "action": "deny", "decided_by": "key-rps", "retry_after_ms": 1200,
          "limits": [{**ROW, "allowed": False, "remaining": 0, "retry_after_ms": 1200, "reset_after_ms": 2000},
                     {**ROW, "name": "jobs", "limit": 10, "remaining": 4, "reset_after_ms": 60000, "lease": LEASE},
                     {**ROW, "name": "trial", "mode": "shadow", "allowed": False, "remaining": 0,
                      "retry_after_ms": -1}]}
STATUS = {"node": "eu-1", "region": "eu", "version": "0.1.0", "uptime_ms": 125000,
          "limits": {"count": 2, "version": 7, "reloaded_ms_ago": 500, "error": None},
          "counters": 12, "counters_max": 1000, "leases": 1, "leases_max": 10, "connections": 3, "decisions": 2500,
          "denied": 250,
          "by_limit": [{"name": "key-rps", "mode": "enforce", "admitted": 2000, "denied": 250},
                       {"name": "trial", "mode": "shadow", "admitted": 125000, "denied": 0}],
          "store": {"durability": "ok", "lag_ms": 3}, "shards": 2, "news": [1, "two", [3]], "nothing": []}
HOT_KEYS = {"keys": [{"counter": LEASE, "limit": "key-rps", "count": 99, "error": 1, "denied": 5}]}
MEMBERS = {"view": 7, "members": [
    {"name": "eu-1", "region": "eu", "state": "alive", "rpc": "10.0.0.1:7400", "gossip": "tcp://10.0.0.1:7401",
     "incarnation": 12, "zone": "a"},
    {"name": "eu-long", "region": "eu", "state": "suspect", "rpc": "[::1]:7400", "gossip": "tcp://[::1]:7401",
     "incarnation": 3}]}
PARTITIONS = {"owners": [0, 0, 1, -1, 0], "standbys": [1, 1, 0, 0, -1], "epochs": [1]}
LIMITS = [{"name": "key-rps", "key": ["api_key"], "when": {"route": "payments.*", "plan": ["free", "pro"]},
           "algorithm": "token_bucket", "rate": "50/s", "burst": 100},
          {"name": "jobs", "algorithm": "concurrency", "slots": 4, "ttl": "60s",
           "when": {"ip": {"cidr": "10.0.0.0/8"}}}]


class Client(cli.Case):
    def node(self, answers=None, **how):
        node = fake_node.FakeNode(answers, **how)
        self.addCleanup(node.close)
        os.environ["HEADROOM_NODE"] = node.address
        self.addCleanup(os.environ.pop, "HEADROOM_NODE", None)
        return node


class Members(Client):
    def test_members_are_a_table_for_people(self):
        node = self.node({"members": MEMBERS})
        self.assertEqual(self.prints("members"),
                         "view 7\n"
                         "name     region  state    rpc            gossip               incarnation\n"
                         "eu-1     eu      alive    10.0.0.1:7400  tcp://10.0.0.1:7401           12\n"
                         "eu-long  eu      suspect  [::1]:7400     tcp://[::1]:7401               3\n")
        self.assertEqual(node.asked, [("members", {})])

    def test_partitions_are_counted_for_people(self):
        node = self.node({"members": {**MEMBERS, "partitions": PARTITIONS}})
        self.assertEqual([line.split()[-3:] for line in self.prints("members", "--partitions").splitlines()[2:]],
                         [["12", "3", "2"], ["3", "1", "2"]])
        self.assertEqual(node.asked, [("members", {"partitions": True})])

    def test_json_is_the_answer_itself(self):
        self.node({"members": {**MEMBERS, "partitions": PARTITIONS}})
        self.assertEqual(json.loads(self.prints("members", "--json", "--partitions")),
                         {**MEMBERS, "partitions": PARTITIONS})

    def test_an_answer_that_is_none_is_said_to_be_that(self):
        for answer in [{}, {"view": 1}, {"view": 1, "members": 3}, {"view": "a", "members": []}, [],
                       {**MEMBERS, "partitions": {"owners": [0]}}, {**MEMBERS, "partitions": {"owners": ["a"]}},
                       {"view": 1, "members": [{}] * 513}, {"view": 1, "members": [{"name": 3}]}]:
            with self.subTest(answer=str(answer)[:60]):
                node = self.node({"members": answer})
                self.fails(3, f"the node's answer cannot be understood ({node.address})", "members")

    def test_a_node_can_be_forgotten(self):
        node = self.node({"members.forget": {"forgotten": True}})
        self.assertEqual(self.prints("members", "forget", "eu-2"), "forgotten\n")
        self.assertEqual(node.asked, [("members.forget", {"name": "eu-2"})])

    def test_a_node_that_cannot_be_forgotten_is_an_error(self):
        node = self.node({"members.forget": KeyError("NOT_FOUND: there is no such member")})
        self.fails(2, f"NOT_FOUND: there is no such member ({node.address})", "members", "forget", "eu-2")

    def test_wrong_usage(self):
        help_of = "(see headroom members --help)"
        self.fails(2, f"members can only forget, not eu-2 {help_of}", "members", "eu-2")
        self.fails(2, f"members forget takes one NAME, and no --partitions {help_of}", "members", "forget")
        self.fails(2, f"members forget takes one NAME, and no --partitions {help_of}", "members", "forget", "a", "b")
        self.fails(2, f'a node\'s name must be 1 to 64 of a-z, 0-9 and -, not "EU" {help_of}',
                   "members", "forget", "EU")


class Check(Client):
    def test_an_allowed_request_is_told_with_each_limit(self):
        self.node({"check": ALLOWED})
        self.assertEqual(self.prints("check", "api_key=k1"),
                         "allowed\n"
                         "  limit            remaining   of  retry  reset\n"
                         "  key-rps  allows         98  100      -   40ms\n"
                         "answered by eu-1 in eu\n")

    def test_a_denial_names_the_limit_and_exits_1(self):
        self.node({"check": DENIED})
        self.assertEqual(self.prints("check", "api_key=k1", status=1),
                         "denied by key-rps, retry after 1.2s\n"
                         "  limit            remaining   of  retry  reset\n"
                         "  key-rps  denies          0  100   1.2s     2s\n"
                         f"  jobs     allows          4   10      -     1m  lease {LEASE}\n"
                         "  trial    denies          0  100  never   40ms  shadow\n"
                         "answered by eu-1 in eu\n")

    def test_a_delay_is_told(self):
        self.node({"check": {**ALLOWED, "action": "delay", "delay_ms": 500, "degraded": True}})
        text = self.prints("check", "a=1")
        self.assertTrue(text.startswith("allowed after a delay of 500ms\n"), text)
        self.assertTrue(text.endswith("answered by eu-1 in eu, without a counter's owner, who could not be asked\n"))

    def test_json_is_the_decision_on_one_line(self):
        self.node({"check": DENIED})
        text = self.prints("check", "api_key=k1", "--json", status=1)
        self.assertEqual(text, json.dumps(DENIED, separators=(",", ":")) + "\n")

    def test_what_was_asked_reaches_the_node(self):
        node = self.node({"check": ALLOWED, "refund": {"refunded": True}})
        self.prints("check", "api_key=k=1", "--cost", "2", "route=zahlung.überweisen", "--id", "once")
        self.prints("peek", "empty=")
        self.prints("refund", "a=b", "--cost=3")
        self.assertEqual(node.asked, [
            ("check", {"attributes": {"api_key": "k=1", "route": "zahlung.überweisen"}, "cost": 2, "id": b"once"}),
            ("check", {"attributes": {"empty": ""}, "peek": True}),
            ("refund", {"attributes": {"a": "b"}, "cost": 3})])

    def test_a_peek_says_what_would_be(self):
        self.node({"check": DENIED})
        self.assertTrue(self.prints("peek", "a=1", status=1).startswith("would be denied by key-rps,"))

    def test_no_colour_without_a_terminal(self):
        self.node({"check": DENIED})
        self.assertNotIn("\033", self.prints("check", "a=1", status=1))

    def test_colour_on_a_terminal_unless_refused(self):
        self.node({"check": DENIED})
        self.assertIn("\033[31mdenied\033[0m by", self.on_terminal({"TERM": "xterm"}))
        self.assertNotIn("\033", self.on_terminal({"TERM": "xterm", "NO_COLOR": "1"}))
        self.assertNotIn("\033", self.on_terminal({"TERM": "dumb"}))

    def on_terminal(self, environment):
        master, slave = os.openpty()
        with os.fdopen(master, "rb", buffering=0) as screen:
            child = subprocess.Popen([cli.HEADROOM, "check", "a=1"], stdout=slave,
                                     env={"HEADROOM_NODE": os.environ["HEADROOM_NODE"], **environment})
            os.close(slave)
            text = b""
            try:
                while chunk := screen.read(4096):
                    text += chunk
            except OSError:
                pass  # the other side has closed
            self.assertEqual(child.wait(60), 1)
        return text.decode()

    def test_a_nodes_text_cannot_move_the_cursor(self):
        self.node({"check": {**ALLOWED, "node": "a\033[2J\u009b\n", "limits": []}})
        self.assertEqual(self.prints("check", "a=1"),
                         "allowed\n  no limit touches this request\nanswered by a?[2J?? in eu\n")
        self.assertIn('"node":"a\\u001b[2J\\u009b\\u000a"', self.prints("check", "a=1", "--json"))

    def test_wrong_usage(self):
        for message, *arguments in [
            ("no attribute was given: NAME=VALUE (see headroom check --help)", "check"),
            ('an attribute must be NAME=VALUE, not "k1" (see headroom check --help)', "check", "k1"),
            ('an attribute\'s name must be 1 to 64 of a-z, 0-9, _ . -, not "K" (see headroom peek --help)',
             "peek", "K=1"),
            ("the attribute a is there twice (see headroom check --help)", "check", "a=1", "a=2"),
            ("at most 32 attributes (see headroom check --help)", "check", *[f"a{i}=1" for i in range(33)]),
            ("--cost must be a whole number from 0 to 9007199254740991 (see headroom check --help)",
             "check", "a=1", "--cost", "-1"),
            ("--cost N is missing (see headroom refund --help)", "refund", "a=1"),
            ("--id must have 1 to 128 bytes (see headroom check --help)", "check", "a=1", "--id", ""),
            ("unknown option --id (see headroom peek --help)", "peek", "a=1", "--id", "x"),
            ("--timeout must be a time from 1ms to 1h, as 250ms or 5s (see headroom check --help)",
             "check", "a=1", "--timeout", "5"),
            ('--node must be HOST:PORT, as 127.0.0.1:7400 or [::1]:7400, not "nowhere" (see headroom check --help)',
             "check", "a=1", "--node", "nowhere"),
            ("no lease was given (see headroom release --help)", "release"),
            ('a lease must be 32 hexadecimal digits, not "12" (see headroom renew --help)', "renew", "12"),
            ("limits can list, get, put and delete, not show (see headroom limits --help)", "limits", "show"),
            ("limits get takes one NAME (see headroom limits --help)", "limits", "get"),
            ("either --requests or --seconds (see headroom bench --help)",
             "bench", "--requests", "1", "--seconds", "1"),
            ("--skew must be a number from 0 to 10 (see headroom bench --help)", "bench", "--skew", "nan"),
            ("--route takes at most 16777216 --keys (see headroom bench --help)",
             "bench", "--route", "--keys", "16777217"),
            ("top needs a terminal; --once does not (see headroom top --help)", "top"),
        ]:
            with self.subTest(arguments=arguments):
                self.node({})
                self.assertEqual(self.fails(2, message, *arguments), "")


class Unreachable(Client):
    """Each is one line and status 3."""

    def test_nobody_listens(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = "127.0.0.1:%d" % taken.getsockname()[1]
        for command in (["check", "a=1"], ["release", LEASE], ["status"], ["limits"], ["explain", "a=1"],
                        ["top", "--once"], ["bench"]):
            with self.subTest(command=command):
                self.fails(3, f"the node cannot be reached: Connection refused ({address})",
                           *command, "--node", address)

    def test_no_such_host(self):
        message = r"^headroom: the node cannot be reached: .+ \(no-such-host\.invalid:7400\)\n$"
        result = self.run_headroom("status", "--node", "no-such-host.invalid:7400")
        self.assertRegex(result.stderr.decode(), message)
        self.assertEqual(result.returncode, 3)

    def test_a_node_that_is_silent(self):
        silent = threading.Event()
        self.addCleanup(silent.set)
        node = self.node({"check": lambda params: silent.wait(60)})
        self.fails(3, f"the node did not answer within 50ms ({node.address})", "check", "a=1", "--timeout", "50ms")

    def test_a_node_that_closes(self):
        whole = fake_node.pack([1, 1, None, ALLOWED])
        for cut in range(0, len(whole), 7):
            with self.subTest(cut=cut):
                node = self.node(raw=whole[:cut])
                self.fails(3, f"the node closed the connection before it answered ({node.address})", "check", "a=1")

    def test_garbage(self):
        for raw in (b"\xc1", b"HTTP/1.1 400 Bad Request\r\n\r\n", fake_node.pack([1, 1]), b"\xdb\xff\xff\xff\xff",
                    b"\x91" * 20):
            with self.subTest(raw=raw):
                node = self.node(raw=raw)
                self.fails(3, f"what answers does not speak the protocol of a node ({node.address})", "check", "a=1")

    def test_an_answer_to_another_method(self):
        node = self.node({"check": {"released": True}, "release": ALLOWED, "status": [1], "limits.list": 7,
                          "hot_keys": {}})
        for command in (["check", "a=1"], ["release", LEASE], ["status"], ["explain", "a=1"], ["top", "--once"]):
            with self.subTest(command=command):
                self.fails(3, f"the node's answer cannot be understood ({node.address})", *command)

    def test_an_error_is_told_by_its_code(self):
        for status, error in [(2, "INVALID_ARGUMENT: cost must be less"), (2, "NOT_FOUND: there is no limit x"),
                              (2, "UNIMPLEMENTED: no"), (3, "UNAVAILABLE: not yet"), (3, "RESOURCE_EXHAUSTED: full"),
                              (3, "DEADLINE_EXCEEDED: late"), (3, "INTERNAL: oh")]:
            with self.subTest(error=error):
                node = self.node({"check": ValueError(error)})
                self.fails(status, f"{error} ({node.address})", "check", "a=1")

    def test_ipv6_and_the_option_before_the_environment(self):
        self.node(raw=b"")
        try:
            node = fake_node.FakeNode({"check": ALLOWED}, family=socket.AF_INET6)
        except OSError:
            self.skipTest("this machine has no IPv6")
        self.addCleanup(node.close)
        self.prints("check", "a=1", "--node", node.address)
        self.assertEqual(len(node.asked), 1)

    def test_an_environment_that_is_wrong(self):
        os.environ["HEADROOM_NODE"] = "7400"
        self.addCleanup(os.environ.pop, "HEADROOM_NODE", None)
        self.fails(2, 'HEADROOM_NODE must be HOST:PORT, as 127.0.0.1:7400 or [::1]:7400, not "7400"'
                   " (see headroom status --help)", "status")


class Leases(Client):
    def test_release_and_renew(self):
        node = self.node({"release": lambda params: {"released": params["lease"] == LEASE},
                          "renew": {"renewed": True, "ttl_ms": 60000}})
        self.assertEqual(self.prints("release", LEASE.upper()), "released\n")
        self.assertEqual(self.prints("release", "f" * 32, status=1), "there is no such lease\n")
        self.assertEqual(self.prints("renew", LEASE), "renewed\n")
        self.assertEqual(self.prints("renew", LEASE, "--json"), '{"renewed":true,"ttl_ms":60000}\n')
        self.assertEqual(node.asked[0], ("release", {"lease": LEASE}))

    def test_refund(self):
        self.node({"refund": {"refunded": False}})
        self.assertEqual(self.prints("refund", "a=1", "--cost", "1", status=1), "there was nothing to give back\n")


class Status(Client):
    def test_a_status_is_an_aligned_list(self):
        self.node({"status": STATUS})
        self.assertEqual(self.prints("status"), """\
node          eu-1
region        eu
version       0.1.0
uptime_ms     125000 (2m 5s)
limits:
  count            2
  version          7
  reloaded_ms_ago  500
  error            -
counters      12
counters_max  1000
leases        1
leases_max    10
connections   3
decisions     2500
denied        250
by_limit:
  name     mode     admitted  denied
  key-rps  enforce      2000     250
  trial    shadow     125000       0
store:
  durability  ok
  lag_ms      3
shards        2
news:
  1
  two
  [3]
nothing  none
""")

    def test_json_is_what_the_node_said(self):
        status = {**STATUS, "real": 0.5, "below": -3, "text": "\"\\\t\u00e9\U0001f600", "bin": b"\xff\xfe"}
        self.node({"status": status})
        text = self.prints("status", "--json")
        self.assertEqual(json.loads(text), {**status, "bin": "\ufffd\ufffd"})
        self.assertEqual(text.count("\n"), 1)

    def test_top_once(self):
        self.node({"status": STATUS, "hot_keys": HOT_KEYS})
        self.assertEqual(self.prints("top", "--once"), f"""\
eu-1 in eu, headroom 0.1.0, up 2m 5s
decisions/s 20   denied/s 2   connections 3
counters 12 of 1000   leases 1 of 10

limit    mode       admitted/s      denied/s
trial    shadow           1000             0
key-rps  enforce            16             2

counter (1 in 8)                       count      denied  too high  limit
{LEASE}          99           5         1  key-rps
""")
        self.assertEqual(json.loads(self.prints("top", "--json")), {"status": STATUS, "hot_keys": HOT_KEYS})

    def test_top_on_a_terminal_ends_with_q(self):
        self.node({"status": STATUS, "hot_keys": HOT_KEYS})
        master, slave = os.openpty()
        self.addCleanup(os.close, master)
        child = subprocess.Popen([cli.HEADROOM, "top"], stdin=slave, stdout=slave, stderr=slave,
                                 env={**os.environ, "TERM": "xterm", "LINES": "24", "COLUMNS": "40"})
        os.close(slave)
        text = b""
        while b"counter" not in text.split(b"limit", 1)[-1]:
            text += os.read(master, 4096)
        os.write(master, b"q")
        self.assertEqual(child.wait(60), 0)
        self.assertIn(b"eu-1 in eu", text)

    def test_top_takes_any_size_of_the_screen(self):
        node = self.node({"status": STATUS, "hot_keys": HOT_KEYS})
        master, slave = os.openpty()
        self.addCleanup(os.close, master)
        child = subprocess.Popen([cli.HEADROOM, "top"], stdin=slave, stdout=slave, stderr=slave,
                                 env={"TERM": "xterm", "HEADROOM_NODE": node.address}, start_new_session=True)
        for rows, columns in [(24, 80), (1, 1), (5, 200), (200, 3), (60, 120)]:
            termios.tcsetwinsize(slave, (rows, columns))
            child.send_signal(signal.SIGWINCH)
            self.assertTrue(os.read(master, 65536))  # it draws anew
        os.close(slave)
        os.write(master, b"q")
        self.assertEqual(child.wait(60), 0)


class Limits(Client):
    def test_the_list_is_a_limits_file(self):
        self.node({"limits.list": LIMITS})
        text = self.prints("limits")
        self.assertEqual(text, """\
limits:
  - name: key-rps
    key: [api_key]
    when: {route: "payments.*", plan: [free, pro]}
    algorithm: token_bucket
    rate: 50/s
    burst: 100
  - name: jobs
    algorithm: concurrency
    slots: 4
    ttl: 60s
    when: {ip: {cidr: 10.0.0.0/8}}
""")
        self.write("limits.yaml", text)
        self.assertEqual(self.prints("config", "check", "limits.yaml"), "limits.yaml: ok, 2 limits\n")
        self.assertEqual(json.loads(self.prints("limits", "list", "--json")), LIMITS)

    def test_no_limits(self):
        self.node({"limits.list": []})
        self.assertEqual(self.prints("limits"), "limits: []\n")

    def test_get_and_delete(self):
        node = self.node({"limits.get": LIMITS[1], "limits.delete": {}})
        self.assertTrue(self.prints("limits", "get", "jobs").startswith("limits:\n  - name: jobs\n"))
        self.assertEqual(self.prints("limits", "delete", "jobs"), "deleted jobs\n")
        self.assertEqual(node.asked, [("limits.get", {"name": "jobs"}), ("limits.delete", {"name": "jobs"})])

    def test_put_a_limits_file(self):
        node = self.node({"limits.list": LIMITS, "limits.put": {}})
        self.write("limits.yaml", self.prints("limits"))
        self.assertEqual(self.prints("limits", "put", "limits.yaml"), "put key-rps\nput jobs\n")
        self.assertEqual(node.asked[1:], [("limits.put", limit) for limit in LIMITS])

    def test_put_one_limit_alone(self):
        node = self.node({"limits.put": {}})
        self.write("one.json", json.dumps(LIMITS[0]))
        self.assertEqual(self.prints("limits", "put", "one.json"), "put key-rps\n")
        self.assertEqual(node.asked, [("limits.put", LIMITS[0])])

    def test_nothing_of_a_wrong_file_is_put(self):
        node = self.node({"limits.put": {}})
        self.write("limits.yaml", "limits:\n  - {name: a, algorithm: gcra, rate: 1/s}\n  - {name: b}\n")
        result = self.run_headroom("limits", "put", "limits.yaml")
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr.decode(), r"^headroom: .+ \(limits\.yaml:3:5\)\n$")
        self.write("list.yaml", "- 1\n")
        self.fails(2, "neither a limit with a name nor a limits file (list.yaml:1:1)", "limits", "put", "list.yaml")
        self.assertEqual(node.asked, [])


class Explain(Client):
    REQUEST = ["api_key=k1", "route=payments.write", "ip=192.0.2.1"]
    TEXT = """\
key-rps: not touched
  key api_key: it is "k1"
  when route is "payments.*": holds, it is "payments.write"
  when plan is any of "free", "pro": fails, it is missing
jobs: not touched
  one counter for all requests
  when ip is in "10.0.0.0/8": fails, it is "192.0.2.1"
touched: 0 of 2 limits
"""

    def test_the_nodes_limits(self):
        self.node({"limits.list": LIMITS})
        self.assertEqual(self.prints("explain", *self.REQUEST), self.TEXT)

    def test_a_files_limits_need_no_node(self):
        self.write("limits.yaml", "limits: " + json.dumps(LIMITS))
        self.assertEqual(self.prints("explain", *self.REQUEST, "--limits", "limits.yaml"), self.TEXT)

    def test_json(self):
        self.write("limits.yaml", "limits: " + json.dumps(LIMITS))
        text = self.prints("explain", "plan=free", "route=x", "ip=10.1.1.1", "--limits", "limits.yaml", "--json")
        self.assertEqual(json.loads(text), {"limits": [
            {"name": "key-rps", "touched": False, "key": [{"attribute": "api_key", "present": False}],
             "when": [{"attribute": "route", "present": True, "holds": False},
                      {"attribute": "plan", "present": True, "holds": True}]},
            {"name": "jobs", "touched": True, "key": [],
             "when": [{"attribute": "ip", "present": True, "holds": True}]}]})


class Bench(Client):
    def decide(self, params):
        if params["attributes"]["api_key"] == "k0000000000":
            raise ValueError("UNAVAILABLE: not now")
        return {**ALLOWED, "allowed": params["attributes"]["api_key"] != "k0000000001"}

    def test_each_request_is_answered_and_counted(self):
        node = self.node({"check": self.decide})
        result = json.loads(self.prints("bench", "--connections", "4", "--pipeline", "3", "--requests", "500",
                                        "--keys", "4", "--cost", "2", "--json"))
        keys = [params["attributes"]["api_key"] for _, params in node.asked]
        self.assertEqual(len(keys), 500)
        self.assertEqual(set(keys), {f"k{i:010}" for i in range(4)})
        self.assertEqual(node.asked[0][1]["cost"], 2)
        self.assertIs(node.asked[0][1]["detail"], False)
        self.assertEqual(result["requests"], 500)
        self.assertEqual(result["errors"], keys.count("k0000000000"))
        self.assertEqual(result["denied"], keys.count("k0000000001"))
        self.assertEqual(result["allowed"], 500 - result["errors"] - result["denied"])
        latency = list(result["latency_us"].values())
        self.assertEqual(latency, sorted(latency))
        self.assertGreater(latency[0], 0)

    def test_an_open_loop_charges_a_stall_to_all_who_waited(self):
        begun = threading.Event()

        def stall_once(params):
            if not begun.is_set():
                begun.set()
                threading.Event().wait(0.3)
            return ALLOWED

        self.node({"check": stall_once})
        result = json.loads(self.prints("bench", "--connections", "1", "--requests", "100", "--rate", "500", "--json"))
        self.assertEqual(result["requests"], 100)
        self.assertGreater(result["latency_us"]["p50"], 100000)  # those due in the first 200 ms waited till 300 ms
        self.assertGreaterEqual(result["latency_us"]["max"], 300000)

    def test_a_fixed_time_ends(self):
        self.node({"check": ALLOWED})
        text = self.prints("bench", "--connections", "2", "--seconds", "1", "--rate", "200", "--skew", "0.99",
                           "--detail", "on")
        match = re.fullmatch(r"(\d+) answers in (\d\.\d{3}) s: \d+ a second\n"
                             r"allowed (\d+), denied 0, errors 0, unsent (\d+)\n"
                             r"latency in us: p50 \d+, p90 \d+, p99 \d+, p99\.9 \d+, max \d+\n", text)
        self.assertTrue(match, text)
        answers, seconds, allowed, unsent = map(float, match.groups())
        self.assertEqual(answers, allowed)
        self.assertEqual(answers + unsent, 200)
        self.assertGreaterEqual(seconds, 1)

    def region(self):
        """Two nodes, each of which says that the first owns even keys, and the second odd ones."""
        def decide(params):
            return {**ALLOWED, "node": "eu-1" if int(params["attributes"]["api_key"][1:]) % 2 == 0 else "eu-2"}

        def members(_):
            nodes = [("eu-1", "eu", "alive", first), ("eu-2", "eu", "alive", second), ("eu-3", "eu", "dead", second),
                     ("us-1", "us", "alive", second)]
            return {"view": 1, "members": [{"name": name, "region": region, "state": state, "rpc": node.address,
                                            "gossip": "tcp://10.0.0.1:7401", "incarnation": 1}
                                           for name, region, state, node in nodes]}

        answers = {"check": decide, "status": {"node": "eu-2", "region": "eu"}, "members": members}
        first, second = self.node(answers), self.node(answers)
        return [first, second]

    @staticmethod
    def asked_of_another(nodes):
        return sum(method == "check" and int(params["attributes"]["api_key"][1:]) % 2 != place
                   for place, node in enumerate(nodes) for method, params in node.asked)

    def test_routing_asks_the_owner_once_it_is_known(self):
        nodes = self.region()
        result = json.loads(self.prints("bench", "--route", "--connections", "2", "--requests", "1000", "--keys", "40",
                                        "--json"))
        self.assertEqual(result["requests"], 1000)
        self.assertEqual(result["elsewhere"], self.asked_of_another(nodes))
        self.assertLessEqual(result["elsewhere"], 40)  # each key at most once: one request is under way at each node

    def test_spreading_asks_any_live_node_of_the_region(self):
        nodes = self.region()
        text = self.prints("bench", "--spread", "--connections", "2", "--requests", "1000", "--keys", "40")
        self.assertIn(f"\nof 2 nodes; decided by another one than was asked: {self.asked_of_another(nodes)}\n", text)
        self.assertGreater(self.asked_of_another(nodes), 300)
        self.assertTrue(all(len(node.asked) > 10 for node in nodes))

    def test_a_node_of_the_region_that_cannot_be_reached_ends_it(self):
        gone = {"name": "eu-1", "region": "eu", "state": "alive", "rpc": "127.0.0.1:1", "gossip": "", "incarnation": 1}
        self.node({"status": {"node": "eu-2", "region": "eu"}, "members": {"view": 1, "members": [gone]}})
        self.fails(3, "the node cannot be reached: Connection refused (127.0.0.1:1)", "bench", "--spread")

    def test_a_region_without_a_live_node_is_none(self):
        node = self.node({"status": {"node": "eu-2", "region": "eu"}, "members": {"view": 1, "members": []}})
        self.fails(3, f"the node knows of no node of its region that is alive ({node.address})", "bench", "--spread")

    def test_a_node_that_closes_or_raves_or_falls_silent(self):
        node = self.node(raw=b"")
        self.fails(3, f"the node closed the connection ({node.address})", "bench", "--connections", "2")
        node = self.node(raw=b"\xc1")
        self.fails(3, f"what answers does not speak the protocol of a node ({node.address})",
                   "bench", "--connections", "1")
        node = self.node(raw=fake_node.pack([1, 77, None, ALLOWED]))
        self.fails(3, f"the node answered what was not asked ({node.address})", "bench", "--connections", "1")
        silent = threading.Event()
        self.addCleanup(silent.set)
        node = self.node({"check": lambda params: silent.wait(60)})
        self.fails(3, f"the node does not answer any more ({node.address})",
                   "bench", "--connections", "1", "--timeout", "60ms")


if __name__ == "__main__":
    cli.main()
