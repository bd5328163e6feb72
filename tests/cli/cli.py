"""What the tests of the command share: running it, and files for it to read.

Each script is run as: python3 test_SUBJECT.py HEADROOM SOURCE_DIR [UNITTEST-ARGUMENT...]"""
import os
import subprocess
import sys
import tempfile
import unittest

HEADROOM = os.path.abspath(sys.argv[1])
SOURCE = os.path.abspath(sys.argv[2])


def main():
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])


class Case(unittest.TestCase):
    """Runs in a folder of its own, which is gone afterwards."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, content):
        mode = "wb" if isinstance(content, bytes) else "w"
        with open(os.path.join(self.folder, name), mode) as file:
            file.write(content)
        return name

    def run_headroom(self, *arguments, stdin=b"", stdout=subprocess.PIPE):
        return subprocess.run([HEADROOM, *arguments], input=stdin, stdout=stdout, stderr=subprocess.PIPE,
                              cwd=self.folder, timeout=120, check=False)

    def fails(self, status, message, *arguments, stdin=b""):
        """It must exit so, with exactly one line on standard error. Returns what it printed."""
        result = self.run_headroom(*arguments, stdin=stdin)
        self.assertEqual(result.stderr.decode(), f"headroom: {message}\n")
        self.assertEqual(result.returncode, status)
        return result.stdout.decode()

    def prints(self, *arguments, stdin=b"", status=0):
        """It must exit so, and complain of nothing. Returns what it printed."""
        result = self.run_headroom(*arguments, stdin=stdin)
        self.assertEqual(result.stderr.decode(), "")
        self.assertEqual(result.returncode, status)
        return result.stdout.decode()
