"""A region of real nodes on loopback: each a headroomd with its own files, joined by gossip.

Nodes end by their process id. Each cluster listens on a loopback address of its own, so that clusters that run at the
same time do not take each other's ports."""
import os
import random
import secrets
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib", "py"))
import rpc  # noqa: E402  its folder is known only now

START_S_MAX = 30
SETTLE_S_MAX = 60
STOP_S_MAX = 40
ANSWER_S_MAX = 20
PARTITIONS = 4096


def until(what, condition, seconds=SETTLE_S_MAX):
    """Asks again and again. Returns what the condition gave; fails where it never holds."""
    end = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() >= end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def own_host():
    dice = random.SystemRandom()
    return f"127.{dice.randint(1, 254)}.{dice.randint(0, 254)}.{dice.randint(2, 254)}"


# Below those that the system gives to clients: no connection of anybody can have taken one.
PORT_FIRST = 7001


class Client(rpc.Client):
    """One connection to a node at any address."""

    def __init__(self, host, port, timeout=ANSWER_S_MAX):
        # pylint: disable-next=super-init-not-called
        self.socket = socket.create_connection((host, port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data = b""
        self.msgid = 0

    def ask_all(self, calls):
        """Sends all (method, params) at once. The answers in the order of the calls: results, or rpc.Refused."""
        first = self.msgid + 1
        self.socket.sendall(b"".join(rpc.pack([0, first + i, method, [params]])
                                     for i, (method, params) in enumerate(calls)))
        self.msgid += len(calls)
        answers = {}
        while len(answers) < len(calls):
            msgid, error, result = self.next()
            answers[msgid] = result if error is None else rpc.Refused(error)
        return [answers[first + i] for i in range(len(calls))]


class Pool:
    """A connection to each of some nodes. ask_all sends everything before it reads the first answer, so that requests
    at different nodes are under way at the same time."""

    def __init__(self, nodes):
        self.clients = [node.client() for node in nodes]

    def close(self):
        for client in self.clients:
            client.close()

    def ask_all(self, calls):
        """calls: (which client, method, params). Returns the answers in the order of the calls."""
        places, buffers = {}, [[] for _ in self.clients]
        for i, (which, method, params) in enumerate(calls):
            client = self.clients[which]
            client.msgid += 1
            places[which, client.msgid] = i
            buffers[which].append(rpc.pack([0, client.msgid, method, [params]]))
        answers = [None] * len(calls)
        unsent = {which: b"".join(parts) for which, parts in enumerate(buffers) if parts}
        left = {which: len(parts) for which, parts in enumerate(buffers) if parts}
        with selectors.DefaultSelector() as selector:
            for which in left:
                selector.register(self.clients[which].socket, selectors.EVENT_READ | selectors.EVENT_WRITE, which)
            while left:
                ready = selector.select(ANSWER_S_MAX)
                assert ready, f"no answer within {ANSWER_S_MAX} s; {sum(left.values())} are missing"
                for key, events in ready:
                    self.step(selector, key.data, events, unsent)
                    for msgid, error, result in received(self.clients[key.data]):
                        answers[places.pop((key.data, msgid))] = result if error is None else rpc.Refused(error)
                        left[key.data] -= 1
                    if left[key.data] == 0:
                        selector.unregister(self.clients[key.data].socket)
                        del left[key.data]
        return answers

    def step(self, selector, which, events, unsent):
        client = self.clients[which]
        if events & selectors.EVENT_WRITE:
            sent = client.socket.send(unsent[which][:1 << 16])
            unsent[which] = unsent[which][sent:]
            if not unsent[which]:
                selector.modify(client.socket, selectors.EVENT_READ, which)
        if events & selectors.EVENT_READ:
            more = client.socket.recv(1 << 18)
            if not more:
                raise ConnectionResetError("the node has closed the connection")
            client.data += more


def received(client):
    """The answers that have come in whole."""
    at = 0
    answers = []
    try:
        while True:
            (_, msgid, error, result), at = rpc.unpack(client.data, at)
            answers.append((msgid, error, result))
    except rpc.Short:
        client.data = client.data[at:]
    return answers


class Server:
    """What can be asked: has name, host, rpc_port, and log (a path); process, where it runs."""

    def listens(self):
        assert self.process.poll() is None, f"{self.name} ended at its start:\n{self.read_log()[-3000:]}"
        try:
            self.client().close()
            return True
        except OSError:
            return False

    def client(self):
        return Client(self.host, self.rpc_port)

    def ask(self, method, **params):
        client = self.client()
        try:
            return client.ask(method, **params)
        finally:
            client.close()

    def read_log(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()


class Node(Server):
    def __init__(self, cluster, name, region):
        self.cluster = cluster
        self.name = name
        self.region = region
        self.host = cluster.host
        self.rpc_port = PORT_FIRST + 2 * len(cluster.nodes)  # the cluster's host is its own
        self.gossip_port = self.rpc_port + 1
        self.gossip = f"tcp://{self.host}:{self.gossip_port}"
        self.data = os.path.join(cluster.folder, name)
        self.file = self.data + ".yaml"
        self.log = self.data + ".log"
        self.process = None
        self.is_stopped = False

    def write(self, **changes):
        """The node file. changes: what is other than in the cluster's other ones."""
        settings = {"cluster": self.cluster.name, "region": self.region, "secret_file": self.cluster.secret_file,
                    "join": self.cluster.seeds, "limits": self.cluster.limits_file, "deadline": self.cluster.deadline,
                    "advertise": {}, **changes}
        advertise = ", ".join(f'{key}: "{value}"' for key, value in settings["advertise"].items())
        lines = [f"node: {{name: {self.name}, region: {settings['region']}, data: {self.data}}}",
                 f'listen: {{rpc: "{self.host}:{self.rpc_port}", gossip: "{self.gossip}"}}',
                 f"advertise: {{{advertise}}}" if advertise else "",
                 f"cluster: {{name: {settings['cluster']}, join: {settings['join']}, "
                 f"secret_file: {settings['secret_file']}, call_deadline: {settings['deadline']}}}",
                 f"limits: {settings['limits']}",
                 "memory: {counters: 20k, leases: 4k, log_blocks: 4k, reserved: 4k}",
                 "storage: {map_max: 1GiB}"]
        with open(self.file, "w", encoding="utf-8") as file:
            file.write("\n".join(lines).replace("'", '"') + "\n")

    def start(self):
        with open(self.log, "ab") as log:
            # pylint: disable-next=consider-using-with
            self.process = subprocess.Popen([self.cluster.program, "--config", self.file], stdin=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL, stderr=log)
        until(f"{self.name} listens", self.listens, START_S_MAX)
        return self

    def end(self, number):
        """Its exit status."""
        if self.process is None:
            return None
        self.resume()
        self.process.send_signal(number)
        try:
            return self.process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return "it hung"
        finally:
            self.process = None

    def kill(self):
        self.end(signal.SIGKILL)

    def stop(self):
        status = self.end(signal.SIGTERM)
        assert status == 0, f"{self.name}, told to stop, ended with status {status}:\n{self.read_log()[-3000:]}"

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)
        self.is_stopped = True

    def resume(self):
        if self.is_stopped:
            self.process.send_signal(signal.SIGCONT)
            self.is_stopped = False


class Cluster:
    """In a folder that is there. A context: its nodes are killed at the end."""

    def __init__(self, build, folder, limits, size=3, region="eu", deadline="20ms"):
        self.program = os.path.join(os.path.abspath(build), "headroomd")
        self.folder = folder
        self.name = "c" + secrets.token_hex(4)
        self.region = region
        self.host = own_host()
        self.deadline = deadline  # for another node's answer
        self.limits_file = os.path.join(folder, "limits.yaml")
        self.secret_file = os.path.join(folder, "secret")
        self.nodes = []
        self.seeds = []
        self.set_limits(limits)
        write_secret(self.secret_file)
        for _ in range(size):
            self.add()
        self.seeds = [node.gossip for node in self.nodes]
        for node in self.nodes:
            node.write()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for node in self.nodes:
            node.kill()
        if kind is not None and os.environ.get("REGION_LOGS"):
            shutil.copytree(self.folder, os.environ["REGION_LOGS"], dirs_exist_ok=True)

    def set_limits(self, limits):
        with open(self.limits_file, "w", encoding="utf-8") as file:
            file.write(limits)

    def add(self):
        """One more node, which knows of those before it, and is not started yet."""
        node = Node(self, f"n{len(self.nodes) + 1}", self.region)
        self.nodes.append(node)
        node.write()
        return node

    def start(self):
        for node in self.nodes:
            node.start()
        self.settle()
        return self

    def running(self):
        return [node for node in self.nodes if node.process is not None and not node.is_stopped]

    def settle(self, nodes=None):
        """Waits until these nodes (those that run) answer for all partitions among themselves, and all say so alike."""
        nodes = self.running() if nodes is None else nodes
        until(f"{', '.join(node.name for node in nodes)} share the partitions", lambda: self.is_settled(nodes))

    def is_settled(self, nodes):
        try:
            maps = [self.owners(node) for node in nodes]
            parts = [node.ask("status")["cluster"] for node in nodes]
        except (OSError, rpc.Refused):
            return False
        names = {node.name for node in nodes}
        return (all(one == maps[0] for one in maps) and set(maps[0]) == names and
                [part["partitions_held"] for part in parts] == [maps[0].count(node.name) for node in nodes] and
                all(part["has_lease"] for part in parts))

    @staticmethod
    def owners(node):
        """The name of each partition's owner, or None, as this node knows it."""
        answer = node.ask("members", partitions=True)
        names = [member["name"] for member in answer["members"]]
        return [names[i] if i >= 0 else None for i in answer["partitions"]["owners"]]

    @staticmethod
    def states(node):
        return {member["name"]: member["state"] for member in node.ask("members")["members"]}


def write_secret(path):
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
        file.write(secrets.token_hex(32))
