"""A headroomd of its own on loopback, with a data folder that outlives it: to be killed, stopped and started again."""
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib", "py"))
import rpc  # noqa: E402  its folder is known only now

START_S_MAX = 20
STOP_S_MAX = 20


class Node:
    def __init__(self, build, data, limits, workers=1):
        """limits: the text of a limits file. workers: may be changed before a start."""
        self.workers = workers
        self.program = os.path.join(os.path.abspath(build), "headroomd")
        self.data = data
        self.limits = os.path.join(os.path.dirname(os.path.abspath(data)), "limits.yaml")
        self.log = os.path.join(os.path.dirname(os.path.abspath(data)), "log")
        self.process = None
        self.port = self.port_wanted = 0
        self.http = ""
        self.set_limits(limits)

    def set_limits(self, limits):
        with open(self.limits, "w", encoding="utf-8") as file:
            file.write(limits)

    def start(self):
        """Returns when it serves. It names its port in its first line."""
        with open(self.log, "ab") as log:
            command = [self.program, "--dev", "--data", self.data, "--limits", self.limits,
                       "--rpc", f"127.0.0.1:{self.port_wanted}", "--workers", str(self.workers)]
            # pylint: disable-next=consider-using-with
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        line = self.process.stdout.readline().decode()
        if not line.startswith("headroomd: rpc 127.0.0.1:"):
            self.kill()
            with open(self.log, encoding="utf-8", errors="replace") as log:
                raise AssertionError("the node did not start:\n" + log.read()[-4000:])
        self.port = int(line.split("127.0.0.1:")[1].split(",")[0])
        self.http = line.split("http http://")[1].split(",")[0]

    def client(self):
        return rpc.Client(self.port)

    def kill(self):
        self.end(signal.SIGKILL)

    def stop(self):
        """A clean stop, which must end with status 0."""
        status = self.end(signal.SIGTERM)
        assert status == 0, f"a node that was told to stop ended with status {status}"

    def end(self, number):
        if self.process is None:
            return None
        self.process.send_signal(number)
        try:
            status = self.process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            status = "it hung"
        self.process.stdout.close()
        self.process = None
        return status


def until(what, seconds, condition):
    """Asks again and again, and fails where it never holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.02)
