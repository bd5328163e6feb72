"""What the tests of the region share. Each script is run as:

    python3 test_SUBJECT.py BUILD [--long] [--seed N] [--strict] [UNITTEST-ARGUMENT...]

--long: more of everything. --strict: also hold the stated times, which only an idle machine can."""
import argparse
import random
import tempfile
import time
import unittest

import cluster

OPTIONS = argparse.Namespace()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    _, rest = parser.parse_known_args(namespace=OPTIONS)
    print(f"seed {OPTIONS.seed}", flush=True)
    unittest.main(argv=["region"] + rest, verbosity=2)


class Case(unittest.TestCase):
    """Has a folder of its own, which is gone afterwards, and dice that the seed and the test's name tell."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.dice = random.Random(f"{OPTIONS.seed} {self.id()}")

    def region(self, limits, size=3, **options):
        """A region that has not been started, and whose nodes end with the test."""
        folder = tempfile.mkdtemp(dir=self.folder)
        region = cluster.Cluster(OPTIONS.build, folder, limits, size, **options)
        self.enterContext(region)
        return region

    def pool(self, nodes):
        pool = cluster.Pool(nodes)
        self.addCleanup(pool.close)
        return pool

    @staticmethod
    def times(short, long):
        return long if OPTIONS.long else short


def check(attributes, cost=1, **more):
    return {"attributes": attributes, "cost": cost, **more}


def remaining(node, attributes):
    """What is left of the one counter that these attributes touch, in the words of its owner."""
    answer = node.ask("check", attributes=attributes, peek=True)
    assert "degraded" not in answer, answer
    return answer["limits"][0]["remaining"]


def admitted(answers):
    """How many of these answers admit; none may be an error, and none may be decided without the counter's owner."""
    for answer in answers:
        assert isinstance(answer, dict), repr(answer)
        assert "degraded" not in answer, answer
    return sum(answer["allowed"] for answer in answers)


def limits_file(*limits):
    return "limits:\n" + "".join(f"  - {{{limit}}}\n" for limit in limits)
