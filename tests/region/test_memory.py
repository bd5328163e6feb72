"""What a region remembers: limits put at run time, answers to ids, leases and counters, over changes and restarts."""
import os
import shutil
import time

import case
import cluster

QUOTA = 1000
FILE = case.limits_file(f"name: spend, key: [user], algorithm: quota, quota: {QUOTA}/year, durability: periodic",
                        f"name: sure, key: [sure], algorithm: quota, quota: {QUOTA}/year, durability: reserved",
                        "name: hold, key: [job], algorithm: concurrency, slots: 10, ttl: 1h")
USERS = [f"u{i}" for i in range(40)]
PATIENT = {"deadline": "5s"}
FLUSHED_S = 1.0  # more than the flush interval and the commit behind it


def names(node):
    return [limit["name"] for limit in node.ask("limits.list")]


def spend_some(region, cost=7):
    """Of every counter, at nodes in turn."""
    nodes = region.running()
    for i, user in enumerate(USERS):
        answer = nodes[i % len(nodes)].ask("check", attributes={"user": user, "sure": user}, cost=cost + i)
        assert answer["allowed"] and "degraded" not in answer, answer


class Memory(case.Case):
    def check_spent(self, node, cost=7):
        for i, user in enumerate(USERS):
            for name in ("user", "sure"):
                with self.subTest(counter=f"{name}={user}"):
                    self.assertEqual(QUOTA - case.remaining(node, {name: user}), cost + i)

    def restart_in_turn(self, region):
        for node in region.nodes:
            node.stop()
            region.settle()
            node.start()
            region.settle()


class Limits(Memory):
    def all_have(self, region, expected):
        cluster.until(f"every node has {expected}",
                      lambda: all(sorted(names(node)) == sorted(expected) for node in region.running()))

    def test_a_put_and_a_delete_reach_every_node_and_survive_restarts(self):
        region = self.region(FILE, **PATIENT).start()
        region.nodes[0].ask("limits.put", name="one", algorithm="gcra", rate="5/s")
        region.nodes[1].ask("limits.put", name="two", algorithm="gcra", rate="5/s")
        self.all_have(region, ["spend", "sure", "hold", "one", "two"])
        region.nodes[2].ask("limits.delete", name="one")
        region.nodes[1].ask("limits.delete", name="hold")
        self.all_have(region, ["spend", "sure", "two"])
        self.restart_in_turn(region)
        self.all_have(region, ["spend", "sure", "two"])
        for node in region.nodes:
            node.stop()
        for node in region.nodes:
            node.start()
        region.settle()
        self.all_have(region, ["spend", "sure", "two"])

    def test_the_newest_put_wins_everywhere(self):
        region = self.region(FILE, **PATIENT).start()
        for rate in range(1, 20):
            region.nodes[rate % 3].ask("limits.put", name="one", algorithm="gcra", rate=f"{rate}/s")
        cluster.until("every node has the last one", lambda: all(
            node.ask("limits.get", name="one")["rate"] == region.nodes[1].ask("limits.get", name="one")["rate"]
            for node in region.nodes))
        self.assertIn("19", str(region.nodes[0].ask("limits.get", name="one")["rate"]))

    def test_a_node_that_was_away_hears_of_what_it_missed(self):
        region = self.region(FILE, **PATIENT).start()
        region.nodes[0].ask("limits.put", name="one", algorithm="gcra", rate="5/s")
        self.all_have(region, ["spend", "sure", "hold", "one"])
        region.nodes[2].stop()
        region.settle()
        region.nodes[0].ask("limits.put", name="two", algorithm="gcra", rate="5/s")
        region.nodes[0].ask("limits.delete", name="one")
        region.nodes[2].start()
        self.all_have(region, ["spend", "sure", "hold", "two"])

    def test_a_put_limit_decides_alike_at_every_node(self):
        region = self.region(FILE, **PATIENT).start()
        region.nodes[0].ask("limits.put", name="ten", key=["k"], algorithm="quota", quota="10/year")
        self.all_have(region, ["spend", "sure", "hold", "ten"])
        pool = self.pool(region.nodes)
        answers = pool.ask_all([(i % 3, "check", case.check({"k": "x"})) for i in range(30)])
        self.assertEqual(case.admitted(answers), 10)


class Counters(Memory):
    def test_a_rolling_restart_loses_nothing(self):
        region = self.region(FILE, **PATIENT).start()
        spend_some(region)
        self.restart_in_turn(region)
        for node in region.nodes:
            self.check_spent(node)

    def test_a_restart_of_all_at_once_keeps_the_counters(self):
        region = self.region(FILE, **PATIENT).start()
        spend_some(region)
        for node in region.nodes:
            node.stop()
        for node in reversed(region.nodes):
            node.start()
        region.settle()
        self.check_spent(region.nodes[0])

    def test_a_crash_of_all_at_once_keeps_what_was_flushed(self):
        region = self.region(FILE, **PATIENT).start()
        spend_some(region)
        time.sleep(FLUSHED_S)
        for node in region.nodes:
            node.kill()
        for node in region.nodes:
            node.start()
        region.settle()
        for i, user in enumerate(USERS):
            self.assertGreaterEqual(QUOTA - case.remaining(region.nodes[0], {"user": user}), 7 + i, user)
            self.assertGreaterEqual(QUOTA - case.remaining(region.nodes[1], {"sure": user}), 7 + i, user)

    def test_a_lone_node_with_gossip_keeps_its_counters_over_a_clean_restart(self):
        region = self.region(FILE, size=1, **PATIENT).start()
        spend_some(region)
        region.nodes[0].stop()
        region.nodes[0].start()
        region.settle()
        self.check_spent(region.nodes[0])

    def test_the_last_of_two_keeps_everything(self):
        region = self.region(FILE, size=2, **PATIENT).start()
        spend_some(region)
        region.nodes[0].stop()
        region.settle()
        self.check_spent(region.nodes[1])
        region.nodes[1].stop()
        region.nodes[1].start()
        region.settle()
        self.check_spent(region.nodes[1])

    def test_an_old_store_never_overrules_newer_state(self):
        """A node comes back with the data folder that it had before its counters went on."""
        region = self.region(FILE, **PATIENT).start()
        spend_some(region, 7)
        node = region.nodes[0]
        node.stop()
        old = os.path.join(region.folder, "old")
        shutil.copytree(node.data, old)
        node.start()
        region.settle()
        spend_some(region, 13)
        time.sleep(FLUSHED_S)
        for end in (node.stop, node.kill):
            with self.subTest(end=end.__name__):
                end()
                shutil.rmtree(node.data)
                shutil.copytree(old, node.data)
                region.settle()
                node.start()
                region.settle()
                for i, user in enumerate(USERS):
                    spent = QUOTA - case.remaining(node, {"user": user})
                    self.assertEqual(spent, 20 + 2 * i, user)


class Ids(Memory):
    def ask(self, node, number):
        return node.ask("check", attributes={"user": USERS[number % len(USERS)]}, id=f"id-{number}", cost=3)

    def test_an_id_is_known_at_every_node_and_after_a_hand_over(self):
        region = self.region(FILE, **PATIENT).start()
        first = [self.ask(region.nodes[number % 3], number) for number in range(60)]
        again = [self.ask(region.nodes[(number + 1) % 3], number) for number in range(60)]
        self.assertEqual(again, first)
        region.nodes[0].stop()
        region.settle()
        for node in region.running():
            self.assertEqual([self.ask(node, number) for number in range(60)], first)
        joined = region.add().start()
        region.settle()
        self.assertEqual([self.ask(joined, number) for number in range(60)], first)
        spent = sum(QUOTA - case.remaining(joined, {"user": user}) for user in USERS)
        self.assertEqual(spent, 3 * 60)


class Leases(Memory):
    def take(self, region, count):
        return [region.nodes[i % 3].ask("check", attributes={"job": f"j{i}"}, cost=2)["limits"][0]["lease"]
                for i in range(count)]

    def check_free(self, node, number, slots):
        self.assertEqual(case.remaining(node, {"job": f"j{number}"}), slots)

    def test_a_lease_is_renewed_and_released_at_any_node(self):
        region = self.region(FILE, **PATIENT).start()
        for i, lease in enumerate(self.take(region, 20)):
            renewed = region.nodes[(i + 1) % 3].ask("renew", lease=lease)
            self.assertTrue(renewed["renewed"])
            self.check_free(region.nodes[i % 3], i, 8)
            self.assertEqual(region.nodes[(i + 2) % 3].ask("release", lease=lease), {"released": True})
            self.assertEqual(region.nodes[i % 3].ask("release", lease=lease), {"released": False})
            self.check_free(region.nodes[i % 3], i, 10)

    def test_a_lease_is_released_after_a_hand_over_and_after_a_crash(self):
        for change in ("stop", "kill"):
            with self.subTest(change=change):
                region = self.region(FILE, **PATIENT).start()
                leases = self.take(region, 30)
                time.sleep(FLUSHED_S)
                getattr(region.nodes[0], change)()
                region.settle()
                nodes = region.running()
                for i, lease in enumerate(leases):
                    self.check_free(nodes[i % 2], i, 8)
                    self.assertEqual(nodes[i % 2].ask("release", lease=lease), {"released": True}, i)
                    self.check_free(nodes[(i + 1) % 2], i, 10)


if __name__ == "__main__":
    case.main()
