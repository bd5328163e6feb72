"""Regions of real nodes on loopback that are far from one another: `headroom local --wan-delay` plans them and writes
their files; what runs then are processes of this script, which may be killed, cut off and given wrong clocks."""
import json
import os
import signal
import subprocess
import sys
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "region"))
import cluster  # noqa: E402  its folder is known only now
import regions  # noqa: E402

END_S_MAX = 40


class Node(cluster.Server):
    """As cluster.Node, as far as regions.Load needs it."""

    def __init__(self, world, plan):
        self.world = world
        self.name = plan["name"]
        self.region = plan["region"]
        host, port = plan["rpc"].rsplit(":", 1)
        self.host, self.rpc_port = host, int(port)
        self.log = os.path.join(world.folder, f"{self.name}.out")
        self.http = plan["http"]
        self.process = None

    def start(self):
        self.process = self.world.spawn("headroomd", "--config", f"{self.name}.yaml", log=self.name)
        cluster.until(f"{self.name} listens", self.listens)

    def metrics(self):
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=END_S_MAX) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(number) for name, _, number in (line.rpartition(" ") for line in lines if line[:1] != "#")}

    def kill(self):
        process, self.process = self.process, None
        process.kill()
        process.wait(END_S_MAX)


class World:
    """A context: all processes end with it."""

    def __init__(self, build, folder, limits, names=("ap", "eu", "us"), size=2, delay="80ms"):
        self.build = os.path.abspath(build)
        self.folder = os.path.join(folder, "cluster")
        self.names = names
        self.links = None
        self.limits_file = os.path.join(folder, "limits.yaml")
        self.set_limits(limits)
        self.plan = self.make_plan(size, delay)
        self.all = [Node(self, plan) for plan in self.plan]

    def set_limits(self, limits):
        with open(self.limits_file, "w", encoding="utf-8") as file:
            file.write(limits)

    def make_plan(self, size, delay):
        """Where the nodes are. The cluster that wrote the files has ended when this returns."""
        command = [os.path.join(self.build, "headroom"), "local", "--regions", ",".join(self.names), "--nodes",
                   str(size), "--wan-delay", delay, "--limits", self.limits_file, "--data", self.folder, "--json"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
            line = process.stdout.readline()
            process.send_signal(signal.SIGTERM)
        assert line, "headroom local did not come up"
        plan = json.loads(line)["nodes"]
        for node in plan:
            subprocess.run(["rm", "-rf", os.path.join(self.folder, node["name"])], check=True)  # its store
            with open(os.path.join(self.folder, f"{node['name']}.yaml"), "a", encoding="utf-8") as file:
                file.write("chaos: true\n")
        return plan

    def spawn(self, program, *arguments, log):
        with open(os.path.join(self.folder, f"{log}.out"), "ab") as out:
            # pylint: disable-next=consider-using-with
            return subprocess.Popen([os.path.join(self.build, program), *arguments], cwd=self.folder,
                                    stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def __enter__(self):
        self.links = self.spawn("headroom-chaos", "links", "links", log="links")
        for node in self.all:
            node.start()
        for node in self.all:
            cluster.until(f"{node.name} knows all", lambda node=node: len(self.alive(node)) == len(self.all))
            cluster.until(f"{node.name} knows its past", lambda node=node: regions.knows_its_past(node))
        return self

    def __exit__(self, kind, value, trace):
        for node in self.all:
            if node.process is not None:
                node.kill()
        self.links.kill()
        self.links.wait(END_S_MAX)

    @staticmethod
    def alive(node):
        return [member for member in node.ask("members")["members"] if member["state"] == "alive"]

    def nodes(self, region):
        return [node for node in self.all if node.region == region and node.process is not None]

    def headroom(self, *arguments):
        """What the command prints."""
        return subprocess.run([os.path.join(self.build, "headroom"), *arguments], check=True, stdout=subprocess.PIPE,
                              text=True).stdout

    def local(self, what, region):
        """`headroom local cut` and its like."""
        self.headroom("local", what, region, "--data", self.folder)

    def owner(self, region, attributes):
        """The node that answers for the counter in its region."""
        answer = self.nodes(region)[0].ask("check", attributes=attributes, peek=True)
        return next(node for node in self.all if node.name == answer["node"])
