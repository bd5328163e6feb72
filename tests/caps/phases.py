"""One cap over three regions of two nodes, 80 ms from one another, asked for three times over: from one region, from
another, from all; with clocks 5 s apart; with a region cut off; with an owner killed. Prints for each phase what was
offered and admitted, the cap, and what was used of it.

    python3 phases.py BUILD [--short] [--rate N]

Exit status: 0 the cap held and was used; 1 not."""
import argparse
import tempfile
import threading
import time

import far
import regions

ROW = "{:38} {:>9} {:>10} {:>7} {:>8} {:>9} {:>6}"


def limits(rate, units):
    return f"""limits:
  - {{name: rate, algorithm: token_bucket, rate: {rate}/s, burst: {rate}, scope: global, when: {{route: rate}},
     on_unavailable: deny}}
  - {{name: units, algorithm: quota, quota: {units}/day, scope: global, when: {{route: units}}, on_unavailable: deny}}
"""


class Run:
    def __init__(self, world, rate, units):
        self.world = world
        self.rate = rate
        self.units = units
        self.admissions = []
        self.failures = []

    def phase(self, what, offered, seconds, least=0.0, during=None, route="rate"):
        """offered: requests a second by region. least: of the cap is to be used."""
        loads = [regions.Load(self.world, name, {"route": route}, rate) for name, rate in offered.items()]
        fault = threading.Thread(target=during, daemon=True) if during else None
        begin = time.monotonic()
        for one in loads + ([fault] if fault else []):
            one.start()
        time.sleep(seconds)
        if fault:
            fault.join()
        for load in loads:
            load.end()
        lasted = time.monotonic() - begin
        admitted = [one for load in loads for one in load.admitted]
        self.report(what, sum(offered.values()), admitted, lasted, sum(load.failed for load in loads), route, least)
        return admitted

    def report(self, what, offered, admitted, lasted, failed, route, least):
        cap = self.units if route == "units" else self.rate * lasted
        above = "-" if route == "units" else f"{regions.peak(admitted, self.rate):.0f}"
        used = len(admitted) / cap
        print(ROW.format(what, f"{offered}/s", len(admitted), f"{cap:.0f}", above, f"{100 * used:.1f} %", failed),
              flush=True)
        if used < least:
            self.failures.append(f"{what}: {100 * used:.1f} % of the cap were used, {100 * least:.0f} wanted")

    def rates(self, seconds):
        world, triple = self.world, 3 * self.rate
        third = {name: self.rate for name in world.names}
        owner = world.owner("eu", {"route": "rate"})

        def skew():
            for i, node in enumerate(world.all):
                node.ask("chaos.clock", wall_offset_ms=5000 if i % 2 else -5000)

        def cut():
            time.sleep(1)
            world.local("cut", "us")
            time.sleep(seconds * 2 - 2)
            world.local("heal", "us")

        def kill():
            time.sleep(seconds / 3)
            owner.kill()
            time.sleep(2)
            owner.start()

        for what, offered, lasting, least, during in (
                ("from eu alone", {"eu": triple}, seconds, 0.7, None),
                ("from us alone", {"us": triple}, seconds, 0.7, None),
                ("from all", third, seconds, 0.8, None),
                ("from all, clocks 5 s ahead and behind", third, seconds, 0.8, skew),
                ("from all, us is cut off", third, seconds * 2, 0.7, cut),
                ("from all, healed", third, seconds, 0.8, None),
                ("from all, the owner in eu is killed", third, seconds, 0.3, kill),
                ("from all again", third, seconds, 0.7, None)):
            self.admissions += self.phase(what, offered, lasting, least, during)
        above = regions.peak(self.admissions, self.rate)
        print(f"above a stream of {self.rate}/s, over all phases: {above:.1f} of the burst of {self.rate}", flush=True)
        if above > self.rate * 1.002:
            self.failures.append("more was admitted than the cap allows")

    def quota(self, seconds):
        spent = 0
        for name in self.world.names:
            spent += len(self.phase(f"a quota, from {name}", {name: self.units // seconds}, seconds, 0, None, "units"))
        print(f"spent {spent} of {self.units} units", flush=True)
        if not self.units * 0.6 <= spent <= self.units:
            self.failures.append("the quota was exceeded, or not used")
        self.metrics(spent)

    def metrics(self, spent):
        """What the nodes count is what was answered, and what was charged to answers that came too late."""
        metrics = [node.metrics() for node in self.world.all]
        counted = sum(one['headroom_global_admitted_total{limit="units"}'] for one in metrics)
        for part in ("share", "reserve", "lent", "borrowed"):
            if not all(f'headroom_global_{part}{{limit="units"}}' in one for one in metrics):
                self.failures.append(f"a node has no headroom_global_{part}")
        shown = self.world.headroom("top", "--once", "--node", f"{self.world.all[0].host}:{self.world.all[0].rpc_port}")
        if not all(text in shown for text in ("global limit", "\nunits ", "other regions:")):
            self.failures.append("top shows no global limits")
        if not spent <= counted <= self.units:
            self.failures.append(f"{counted:.0f} units were counted as admitted")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--rate", type=int, default=300)
    options = parser.parse_args()
    units = 10 * options.rate
    with tempfile.TemporaryDirectory() as folder:
        with far.World(options.build, folder, limits(options.rate, units)) as world:
            run = Run(world, options.rate, units)
            print(ROW.format("phase", "offered", "admitted", "cap", "above", "used", "failed"), flush=True)
            run.rates(5 if options.short else 16)
            run.quota(4 if options.short else 8)
    for failure in run.failures:
        print(failure)
    return 1 if run.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
