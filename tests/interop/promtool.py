"""What a node says at /metrics, under the eyes of Prometheus' own tool: `promtool check metrics` has nothing to say.

    python3 promtool.py BUILD

promtool is the one in PATH, or that of Debian's package, which is unpacked into BUILD/promtool and not installed: its
service has no business on this machine. Where it cannot be had this says so and exits with 77."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib", "py"))
import rpc  # noqa: E402  its folder is known only now

FETCH_S_MAX = 120
LIMITS = """limits:
  - {name: key-rps, key: [api_key], algorithm: token_bucket, rate: 5/s, burst: 5}
  - {name: all-day, algorithm: quota, quota: 1000/day, durability: reserved}
  - {name: export, when: {route: export}, algorithm: concurrency, slots: 2, ttl: 1m}
"""


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def fetch(folder):
    """Debian's, unpacked."""
    folder.mkdir(exist_ok=True)
    try:
        subprocess.run(["apt-get", "-q", "download", "prometheus"], cwd=folder, check=True, timeout=FETCH_S_MAX,
                       capture_output=True)
        for package in folder.glob("prometheus_*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
            package.unlink()
    except (OSError, subprocess.SubprocessError) as problem:
        skip(f"promtool is not installed, and Debian's cannot be had: {problem}")


def find_promtool(build):
    own = build / "promtool" / "usr" / "bin" / "promtool"
    if shutil.which("promtool"):
        return shutil.which("promtool")
    if not own.exists():
        fetch(build / "promtool")
    return own if own.exists() else skip("Debian's package has no promtool")


def use(client):
    """A bit of all that is counted: what is allowed, denied, wrong, and repeated; and a lease."""
    for _ in range(8):
        client.ask("check", attributes={"api_key": "k1"})
    client.ask("check", attributes={"api_key": "k2", "route": "export"}, id="once")
    client.ask("check", attributes={"api_key": "k2", "route": "export"}, id="once")
    client.ask("check", attributes={"api_key": "k3"}, peek=True)
    try:
        client.ask("check", attributes={})
    except rpc.Refused:
        pass


def metrics(build, folder):
    limits = folder / "limits.yaml"
    limits.write_text(LIMITS)
    with subprocess.Popen([build / "headroomd", "--dev", "--data", folder / "data", "--limits", limits, "--rpc",
                           "127.0.0.1:0", "--http", "127.0.0.1:0"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as node:
        try:
            line = node.stdout.readline()
            ports = dict(re.findall(r"(rpc|http) (?:http://)?127\.0\.0\.1:(\d+)", line))
            use(rpc.Client(int(ports["rpc"])))
            with urllib.request.urlopen(f"http://127.0.0.1:{ports['http']}/metrics", timeout=10) as answer:
                return answer.read()
        finally:
            node.terminate()


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    promtool = find_promtool(build)
    with tempfile.TemporaryDirectory() as folder:
        text = metrics(build, pathlib.Path(folder))
    assert b"headroom_decisions_total" in text, text.decode()
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
    said = (checked.stdout + checked.stderr).decode().strip()
    if checked.returncode != 0 or said:
        sys.exit(f"promtool ({checked.returncode}):\n{said}")
    print(f"promtool: {text.count(b'# TYPE')} metrics, nothing to say")


if __name__ == "__main__":
    main()
