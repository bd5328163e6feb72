"""What three nodes admit together is what one would: one counter asked for everywhere, and many at several owners."""
import collections

import case
import cluster

LIMIT = 300
# No unit comes back while the test lasts.
SHAPES = {
    "token_bucket": f"rate: {LIMIT} per 366d",
    "gcra": f"rate: {LIMIT} per 366d",
    "leaky_bucket": f"rate: {LIMIT} per 366d",
    "fixed_window": f"rate: {LIMIT} per 366d",
    "sliding_window": f"rate: {LIMIT} per 366d",
    "sliding_log": f"rate: {LIMIT} per 366d",
    "quota": f"quota: {LIMIT}/year",
    "concurrency": f"slots: {LIMIT}, ttl: 1h",
}
# How the load is spread: the weights of the three nodes.
SPREADS = {"at one node": (1, 0, 0), "evenly": (1, 1, 1), "mostly at one": (18, 1, 1), "at two": (0, 1, 1)}
PATIENT = {"deadline": "5s"}  # nothing is decided without a counter's owner only because the machine is busy

COUNTERS = 12  # limits that each request touches
KEYS = 4       # values of each limit's key: counters of it
TOGETHER = 48  # requests under way at a time
AUDIT_S_MAX = 3


def name_of(number):
    return f"c{number:02}"


class OneCounter(case.Case):
    def test_exactly_the_limit_is_admitted_by_every_algorithm_however_the_load_is_spread(self):
        shapes = [f"name: {name}-{durability}, key: [{name}-{durability}], algorithm: {name}, {shape}, "
                  f"durability: {durability}".replace("_", "-").replace(f"algorithm: {name.replace('_', '-')}",
                                                                        f"algorithm: {name}")
                  for name, shape in SHAPES.items() for durability in ("memory", "periodic", "reserved")]
        region = self.region(case.limits_file(*shapes), **PATIENT).start()
        pool = self.pool(region.nodes * 2)
        for name in SHAPES:
            for durability in ("memory", "periodic", "reserved"):
                for spread, weights in SPREADS.items():
                    with self.subTest(algorithm=name, durability=durability, spread=spread):
                        self.spend(pool, f"{name}-{durability}".replace("_", "-"), spread, weights)

    def spend(self, pool, limit, spread, weights):
        places = self.dice.choices(range(len(pool.clients)), weights * 2, k=2 * LIMIT)
        answers = pool.ask_all([(place, "check", case.check({limit: spread})) for place in places])
        self.assertEqual(case.admitted(answers), LIMIT)
        rows = [answer["limits"][0]["remaining"] for answer in answers if answer["allowed"]]
        self.assertEqual(sorted(rows), list(range(LIMIT)), "each unit is admitted once")

    def test_costs_of_every_size_never_add_up_to_more(self):
        region = self.region(case.limits_file("name: spend, key: [user], algorithm: quota, quota: 100k/year"),
                             **PATIENT).start()
        pool = self.pool(region.nodes)
        for user in range(self.times(4, 40)):
            costs = [self.dice.choice((1, 7, 100, 2500, 30_000)) for _ in range(300)]
            answers = pool.ask_all([(self.dice.randrange(3), "check", case.check({"user": str(user)}, cost))
                                    for cost in costs])
            case.admitted(answers)
            spent = sum(cost for cost, answer in zip(costs, answers) if answer["allowed"])
            left = case.remaining(region.nodes[user % 3], {"user": str(user)})
            self.assertEqual(spent + left, 100_000)
            self.assertTrue(all(answer["allowed"] or cost > left for cost, answer in zip(costs, answers)),
                            "what would have fit to the end was denied")

    def test_check_many_is_split_and_answered_in_order(self):
        region = self.region(case.limits_file("name: spend, key: [user], algorithm: quota, quota: 10/year"),
                             **PATIENT).start()
        requests = [case.check({"user": f"u{i % 30}"}) for i in range(600)]
        answers = [answer for node in region.nodes for answer in node.ask("check_many", requests=requests[:200])]
        counted = collections.Counter(request["attributes"]["user"]
                                      for request, answer in zip(3 * requests[:200], answers) if answer["allowed"])
        self.assertEqual(counted, {f"u{i}": 10 for i in range(30)})

    def test_the_answer_names_the_owner_and_throttle_counts_in_the_whole_region(self):
        region = self.region(case.limits_file("name: spend, key: [user], algorithm: quota, quota: 10/year"),
                             **PATIENT).start()
        pool = self.pool(region.nodes)
        for user in map(str, range(30)):
            answers = pool.ask_all([(place, "check", case.check({"user": user})) for place in range(3)])
            self.assertEqual(len({answer["node"] for answer in answers}), 1)
            throttled = pool.ask_all([(place % 3, "throttle", {"key": user, "rate": "5 per 366d"})
                                      for place in range(12)])
            self.assertEqual(case.admitted(throttled), 5)


class ManyOwners(case.Case):
    """Requests that touch twelve counters each, of several owners, all at the same time."""

    def start(self, quota, durability):
        limits = [f"name: {name_of(i)}, key: [{name_of(i)}], algorithm: quota, quota: {quota}/year, "
                  f"durability: {durability}" for i in range(COUNTERS)]
        region = self.region(case.limits_file(*limits), **PATIENT).start()
        owners = {region.nodes[0].ask("check", attributes={name_of(i): str(key)}, peek=True)["node"]
                  for i in range(COUNTERS) for key in range(KEYS)}
        self.assertEqual(owners, {"n1", "n2", "n3"})
        return region

    def draw(self):
        return {name_of(i): str(self.dice.randrange(KEYS)) for i in range(COUNTERS)}

    def run_load(self, region, count):
        requests = [(self.dice.randrange(6), "check", case.check(self.draw(), self.dice.randint(1, 3), detail=False))
                    for _ in range(count)]
        pool = self.pool(region.nodes * 2)
        answers = [answer for first in range(0, count, TOGETHER)
                   for answer in pool.ask_all(requests[first:first + TOGETHER])]
        return requests, answers

    def audit(self, region, quota, requests, answers):
        """What the counters say was spent is what was admitted, in each of them; soon, for what was denied at one owner
        may just be on its way back at another."""
        spent = {(name_of(i), str(key)): 0 for i in range(COUNTERS) for key in range(KEYS)}
        for (_, _, params), answer in zip(requests, answers):
            self.assertIsInstance(answer, dict, repr(answer))
            self.assertNotIn("degraded", answer)
            for pair in params["attributes"].items() if answer["allowed"] else ():
                spent[pair] += params["cost"]
        self.assertLessEqual(max(spent.values()), quota)
        cluster.until("the counters have spent what was admitted",
                      lambda: all(quota - case.remaining(region.nodes[place % 3], dict([pair])) == cost
                                  for place, (pair, cost) in enumerate(spent.items())), AUDIT_S_MAX)

    def test_requests_that_all_fit_are_all_admitted_under_contention(self):
        for durability in ("periodic", "reserved"):
            with self.subTest(durability=durability):
                region = self.start(1_000_000, durability)
                requests, answers = self.run_load(region, self.times(600, 20_000))
                denied = [answer for answer in answers if not (isinstance(answer, dict) and answer["allowed"])]
                self.assertEqual(denied, [])
                self.audit(region, 1_000_000, requests, answers)

    def test_all_or_nothing_and_the_sum_of_all_counters_closes(self):
        for durability in ("periodic", "reserved"):
            with self.subTest(durability=durability):
                region = self.start(200, durability)
                requests, answers = self.run_load(region, self.times(1500, 20_000))
                self.audit(region, 200, requests, answers)
                self.spend_the_rest(region)

    def spend_the_rest(self, region):
        """Nothing is left held: what is not spent can be, to the last unit."""
        for i in range(COUNTERS):
            attributes = {name_of(i): "0"}
            left = case.remaining(region.nodes[0], attributes)
            answers = self.pool(region.nodes).ask_all([(n % 3, "check", case.check(attributes))
                                                       for n in range(left + 3)])
            self.assertEqual(case.admitted(answers), left)

    def test_an_id_decides_once_whichever_node_hears_it_again(self):
        region = self.start(100_000, "periodic")
        pool = self.pool(region.nodes * 2)
        decided = 0
        for number in range(self.times(20, 500)):
            params = case.check(self.draw(), id=f"id-{number}", detail=False)
            answers = self.ask_until_answered(pool, [(place, "check", params) for place in range(6)])
            self.assertEqual(case.admitted(answers), 6)
            # Where a busy machine kept an owner from answering in time, its limit was decided without it.
            whole = {tuple(sorted(answer.items())) for answer in answers if not answer.get("degraded")}
            self.assertLessEqual(len(whole), 1, whole)
            decided += len(whole)
        spent = sum(100_000 - case.remaining(region.nodes[0], {name_of(0): str(key)}) for key in range(KEYS))
        self.assertEqual(spent, decided)

    def ask_until_answered(self, pool, calls):
        """What could not be carried out just then is asked again, which the id makes safe."""
        answers = pool.ask_all(calls)
        for _ in range(20):
            again = [i for i, answer in enumerate(answers) if str(answer).startswith("UNAVAILABLE")]
            for i, answer in zip(again, pool.ask_all([calls[i] for i in again]) if again else []):
                answers[i] = answer
        return answers

    def test_refunds_reach_every_owner(self):
        region = self.start(1000, "periodic")
        attributes = self.draw()
        region.nodes[0].ask("check", attributes=attributes, cost=400)
        self.assertEqual(region.nodes[1].ask("refund", attributes=attributes, cost=150), {"refunded": True})
        rows = region.nodes[2].ask("check", attributes=attributes, peek=True, cost=0)["limits"]
        self.assertEqual([row["remaining"] for row in rows], [750] * COUNTERS)


class Connections(case.Case):
    def test_a_client_that_goes_leaves_nothing_held(self):
        """It closes its connection with requests of several owners under way. Each is counted whole, or not at all."""
        limits = [f"name: {name_of(i)}, key: [{name_of(i)}], algorithm: quota, quota: 100k/year"
                  for i in range(COUNTERS)]
        region = self.region(case.limits_file(*limits), **PATIENT).start()
        attributes = {name_of(i): "x" for i in range(COUNTERS)}
        for _ in range(self.times(10, 200)):
            client = self.dice.choice(region.nodes).client()
            requests = [[0, msgid, "check", [case.check(attributes)]] for msgid in range(50)]
            client.socket.sendall(b"".join(map(cluster.rpc.pack, requests)))
            client.close()
        cluster.until("all counters have spent the same", lambda: self.spent_alike(region, attributes))

    @staticmethod
    def spent_alike(region, attributes):
        rows = [case.remaining(region.nodes[0], {name: value}) for name, value in attributes.items()]
        return len(set(rows)) == 1


if __name__ == "__main__":
    case.main()
