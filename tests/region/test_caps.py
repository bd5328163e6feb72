"""Global caps over three regions of two nodes: what they admit together never passes the cap, whatever is offered
where, while a node is killed, or a whole region stands still."""
import os
import signal
import subprocess
import time

import case
import regions
import rpc

RATE = 300  # a second, and the burst
LIMITS = f"""limits:
  - {{name: rate, algorithm: token_bucket, rate: {RATE}/s, burst: {RATE}, scope: global, when: {{route: rate}},
     on_unavailable: deny}}
  - {{name: units, algorithm: quota, quota: 6000/day, scope: global, when: {{route: units}}, on_unavailable: deny}}
  - {{name: slots, algorithm: concurrency, slots: 30, ttl: 1h, scope: global, when: {{route: slots}},
     on_unavailable: deny}}
"""
OFFERED = 3 * RATE


class Caps(case.Case):
    def world(self, limits=LIMITS):
        world = regions.World(case.OPTIONS.build, self.folder, limits)
        self.enterContext(world)
        return world.start()

    def world_of_two(self):
        """Of three, of which the third is not planned yet."""
        world = regions.World(case.OPTIONS.build, self.folder, LIMITS)
        self.enterContext(world)
        third = world.regions.pop("us")
        world.names = ("ap", "eu")
        for region in world.regions.values():
            for node in region.nodes:
                world.write(node)
        world.start()
        world.regions["us"] = third
        world.names = ("ap", "eu", "us")
        return world

    def phase(self, world, what, offered, seconds, route="rate", during=None):
        """offered: requests a second by region. Prints and returns the admissions."""
        loads = [regions.Load(world, name, {"route": route}, rate) for name, rate in offered.items()]
        begin = time.monotonic()
        for load in loads:
            load.start()
        if during is not None:
            during()
        time.sleep(max(0, begin + seconds - time.monotonic()))
        for load in loads:
            load.end()
        lasted = time.monotonic() - begin
        admissions = [one for load in loads for one in load.admitted]
        print(f"{what:34} offered {sum(offered.values()):5}/s, admitted {len(admissions) / lasted:6.1f}/s of {RATE}, "
              f"above a stream of that: {regions.peak(admissions, RATE):6.1f} of {RATE}, "
              f"{100 * len(admissions) / (RATE * lasted):5.1f} %, failed {sum(load.failed for load in loads)}",
              flush=True)
        self.assertEqual(sum(load.degraded for load in loads), 0)
        return admissions

    def test_a_rate_is_held_wherever_the_load_comes_from(self):
        world = self.world()
        ap = world.regions["ap"].nodes
        seconds = self.times(6, 30)

        def kill_one():
            time.sleep(seconds / 3)
            node = world.regions["us"].nodes[0]
            node.kill()
            time.sleep(2)
            node.start()

        def cut_region():
            time.sleep(1)
            for node in ap:
                node.pause()
            time.sleep(10)
            for node in ap:
                node.resume()

        third = {name: OFFERED // 3 for name in world.names}
        all_admissions = []
        phases = (
            ("from eu alone", {"eu": OFFERED}, seconds, None),
            ("from us alone", {"us": OFFERED}, seconds, None),
            ("from all", third, seconds, None),
            ("from all, a node of us is killed", third, seconds, kill_one),
            ("from eu and us, ap stands still", {"eu": OFFERED // 2, "us": OFFERED // 2}, 14, cut_region),
            ("from all again", third, seconds, None),
        )
        for what, offered, lasting, during in phases:
            admissions = self.phase(world, what, offered, lasting, during=during)
            all_admissions += admissions
            with self.subTest(phase=what):
                self.assertGreater(len(admissions), RATE)
        self.assertLessEqual(regions.peak(all_admissions, RATE), RATE * 1.002)

    def test_a_quota_is_never_exceeded_by_one_unit(self):
        world = self.world()
        spent = 0
        for name in world.names:
            spent += len(self.phase(world, f"a quota, from {name}", {name: OFFERED}, self.times(3, 6), route="units"))
        for node in world.regions["eu"].nodes:
            node.kill()
        for node in world.regions["eu"].nodes:
            node.start()
        world.regions["eu"].settle()
        spent += len(self.phase(world, "a quota, after all of eu were killed", {name: OFFERED for name in world.names},
                                self.times(4, 8), route="units"))
        print(f"spent {spent} of 6000", flush=True)
        self.assertLessEqual(spent, 6000)
        self.assertGreater(spent, 3000)

    def test_slots_are_shared_out(self):
        world = self.world()
        held = 0
        for _ in range(20):
            for name in world.names:
                for _ in range(4):
                    answer = world.nodes(name)[0].ask("check", attributes={"route": "slots"})
                    held += answer["allowed"]
            time.sleep(0.1)
        self.assertLessEqual(held, 30)
        self.assertGreaterEqual(held, 28)

    def test_a_denial_for_want_of_share_says_so(self):
        world = self.world()
        answer = world.nodes("eu")[0].ask("check", attributes={"route": "rate"}, cost=RATE // 2)
        self.assertFalse(answer["allowed"])
        self.assertIs(answer["limits"][0].get("share"), True)
        answer = world.nodes("eu")[0].ask("check", attributes={"route": "rate"}, cost=RATE + 1)
        self.assertNotIn("share", answer["limits"][0])
        self.assertEqual(answer["retry_after_ms"], -1)

    def test_a_global_limit_cannot_be_given_on_the_spot(self):
        world = self.world()
        node = world.nodes("eu")[0]
        with self.assertRaisesRegex(rpc.Refused, "INVALID_ARGUMENT: a limit given on the spot cannot be global"):
            node.ask("throttle", key="k", rate="5/s", scope="global")
        self.assertTrue(node.ask("throttle", key="k", rate="5/s", scope="region")["allowed"])

    def settle_epoch(self, world, epoch, names=None):
        for name in names or world.names:
            for node in world.nodes(name):
                regions.cluster.until(f"{name} {node.name} is at epoch {epoch}",
                                      lambda node=node: regions.caps_of(node)["epoch"] == epoch
                                      and regions.knows_its_past(node))

    def test_a_region_that_is_lost_holds_up_no_change_once_it_is_removed(self):
        world = self.world()
        for node in world.regions["us"].nodes:
            node.kill()
        lower = LIMITS.replace(f"rate: {RATE}/s", f"rate: {RATE // 3}/s")
        regions.reload(world, lower)
        left = ("ap", "eu")
        for name in left:
            for node in world.nodes(name):
                node.process.send_signal(signal.SIGHUP)
                time.sleep(0.3)
        time.sleep(7)
        self.assertFalse(all(regions.caps_of(node)["adopted"] and regions.caps_of(node)["epoch"] == 2
                             for name in left for node in world.nodes(name)))
        node = world.nodes("eu")[0]
        command = [os.path.join(case.OPTIONS.build, "headroom"), "region", "remove", "us", "--node",
                   f"{node.host}:{node.rpc_port}"]
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(refused.returncode, 2, refused.stderr)  # without --lost
        done = subprocess.run(command + ["--lost"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.settle_epoch(world, 2, left)
        removed = {one["name"]: one["removed"] for one in regions.caps_of(world.nodes("ap")[0])["regions"]}
        self.assertEqual(removed, {"eu": False, "us": True})
        admissions = self.phase(world, "a third of the rate, us is gone", {name: OFFERED for name in left}, 6)
        self.assertLessEqual(len(admissions), RATE + 6.5 * RATE / 3)
        self.assertGreater(len(admissions), 6 * RATE / 3 * 0.4)

    @staticmethod
    def restart_all(world, names, weights):
        """One node after another, with a node file that has these weights."""
        for name in names:
            for node in world.regions[name].nodes:
                world.write(node, weights)
                node.stop()
                node.start()
                world.regions[name].settle()

    def test_a_region_joins_and_leaves_and_a_reserve_changes_without_more_than_the_cap(self):
        if not case.OPTIONS.long:
            self.skipTest("only with --long")
        world = self.world_of_two()
        loads = [regions.Load(world, "eu", {"route": "rate"}, OFFERED)]
        loads[0].start()
        self.restart_all(world, ("ap", "eu"), {"ap": 1, "eu": 1, "us": 0})  # no new epoch: nothing is shared out anew
        for node in world.regions["us"].nodes:
            world.write(node, {"ap": 1, "eu": 1, "us": 0})
            node.start()
        world.regions["us"].settle()
        loads.append(regions.Load(world, "us", {"route": "rate"}, OFFERED))
        loads[1].start()
        for epoch, weight in ((2, 1), (3, 0)):
            self.restart_all(world, world.names, {"ap": 1, "eu": 1, "us": weight})
            self.settle_epoch(world, epoch)
            home = [one["home"] for one in regions.caps_of(world.nodes("us")[0])["limits"] if one["name"] == "rate"]
            self.assertEqual(home, [RATE // 3 * weight])
            time.sleep(2)
            print(f"us has weight {weight}: admitted so far {[len(load.admitted) for load in loads]}", flush=True)
        regions.reload(world, LIMITS.replace(f"burst: {RATE}, scope", f"burst: {RATE}, reserve: 60%, scope"))
        for name in world.names:
            for node in world.nodes(name):
                node.process.send_signal(signal.SIGHUP)
                time.sleep(0.3)
        self.settle_epoch(world, 4)
        time.sleep(2)
        for load in loads:
            load.end()
        admissions = [one for load in loads for one in load.admitted]
        above = regions.peak(admissions, RATE)
        print(f"over all changes: above a stream of {RATE}/s {above:.1f} of {RATE}", flush=True)
        self.assertLessEqual(above, RATE * 1.002)
        self.assertGreater(len(loads[1].admitted), RATE)

    def test_weights_change_one_node_after_another_without_more_than_the_cap(self):
        world = self.world()
        weights = {"ap": 4, "eu": 1, "us": 1}
        load = regions.Load(world, "eu", {"route": "rate"}, OFFERED)
        load.start()
        self.restart_all(world, world.names, weights)
        self.settle_epoch(world, 2)
        load.end()
        self.assertLessEqual(regions.peak(load.admitted, RATE), RATE * 1.002)
        shown = [one for one in regions.caps_of(world.nodes("ap")[0])["limits"] if one["name"] == "rate"]
        self.assertEqual(shown[0]["home"], RATE * 4 // 6)

    def test_a_lower_cap_holds_when_all_have_read_it(self):
        world = self.world()
        lower = LIMITS.replace(f"rate: {RATE}/s", f"rate: {RATE // 3}/s")
        regions.reload(world, lower)
        for name in world.names:
            for node in world.nodes(name):
                node.process.send_signal(signal.SIGHUP)
                time.sleep(0.3)
        for name in world.names:
            for node in world.nodes(name):
                regions.cluster.until(f"{name} {node.name} goes on to the next epoch",
                                      lambda node=node: regions.caps_of(node)["epoch"] == 2
                                      and regions.knows_its_past(node))
        time.sleep(1)
        admissions = self.phase(world, "a third of the rate", {name: OFFERED for name in world.names}, 6)
        self.assertLessEqual(len(admissions), RATE + 6.5 * RATE / 3)


if __name__ == "__main__":
    case.main()
