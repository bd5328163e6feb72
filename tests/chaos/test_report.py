"""The reports of sim and run in a real browser: their figures, as the DOM has them, are those of the same run's --json,
and the pages are drawn, light and dark. Skipped where there is no Chromium.

    test_report.py HEADROOM-CHAOS [FOLDER]    FOLDER: where the pictures stay
"""

import html.parser
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

RUN = "sim --caps --seed 12 --regions 3 --nodes 2 --rps 100 --lasts 60s --faults cut,crash --no-shrink".split()
SCENARIO = """\
name: "<two>"
about: two regions of one node, of which one stands still
cluster: {regions: [eu, us], nodes: 1}
cap: {rate: 100/s, burst: 10, reserve: 20%}
load: 200/s
lasts: 6s
faults: [{at: 2s, for: 1s, pause: us-1}, {at: 4s, for: 500ms, cut: eu}]
"""
BROWSER = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars".split()
SKIPPED = 77


class Page(html.parser.HTMLParser):
    """What stands where: texts by id, the cells of tables, figures, and how many of what is drawn."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.figures, self.texts, self.counts = {}, [], {}, {}
        self.table = self.key = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.counts[attrs.get("class")] = self.counts.get(attrs.get("class"), 0) + 1
        if tag == "table":
            self.table = self.tables.setdefault(attrs["id"], [])
        elif tag == "tr":
            self.table.append([])
        elif tag in ("td", "th"):
            self.table[-1].append("")
            self.key = "cell"
        elif "data-figure" in attrs:
            self.key = ("figure", attrs["data-figure"])
        elif attrs.get("id") in ("verdict", "command"):
            self.key = ("text", attrs["id"])

    def handle_endtag(self, tag):
        if tag in ("td", "th", "b", "pre", "span"):
            self.key = self.key if self.key == "cell" and tag not in ("td", "th") else None

    def handle_data(self, data):
        if self.key == "cell":
            self.table[-1][-1] += data
        elif self.key is not None:
            kind, name = self.key
            if kind == "figure":
                self.figures.append((name, data))
            else:
                self.texts[name] = self.texts.get(name, "") + data


def whole(text):
    return int(text.replace(",", ""))


def check_page(page, run):
    assert page.texts["verdict"] == ("Every invariant held" if run["passed"] else "Violated"), page.texts
    assert f"--seed {run['seed']} " in page.texts["command"], page.texts
    told = {row[0]: (row[1], whole(row[2])) for row in page.tables["invariants"][1:]}
    assert len(told) == len(run["invariants"]), told
    for invariant in run["invariants"]:
        word, checks = told[invariant["name"]]
        assert checks == invariant["checked"], (invariant, checks)
        assert (word == "violated") == (invariant["violated"] > 0), (invariant, word)
    assert [row[0] for row in page.tables["latency"][1:]] == ["calm", "faults", "healed"]
    assert all(whole(row[1]) > 0 and re.fullmatch(r"[\d.]+ ms", row[3]) for row in page.tables["latency"][1:])
    assert len(page.tables["faults"]) > 1
    assert page.counts["svg"] == page.counts["card timeline"] >= 5, page.counts
    assert page.counts["share"] == 3 * 3, page.counts  # three caps, three regions
    figures = [name for name, _ in page.figures]
    assert figures == ["utilisation", "overshoot"] * 3, page.figures
    for name, text in page.figures:
        value = float(text.split()[0])
        assert 20 < value <= 100.5 if name == "utilisation" else value == 0, page.figures


def check_run_page(page, run):
    assert page.texts["verdict"] == ("Everything held" if run["held"] else "Violated"), page.texts
    assert page.texts["command"] == run["command"], page.texts
    assert [(row[0], row[1] == "held", row[2], row[3]) for row in page.tables["checks"][1:]] == \
        [(check["check"], check["held"], check["bound"], check["measured"]) for check in run["checks"]]
    rows = iter(page.tables["phases"][1:])
    for phase in run["phases"]:
        for region in phase["regions"]:
            told = [region[key] for key in ("offered", "admitted", "denied", "no_answer")]
            row = next(rows)
            assert row[:2] == [phase["phase"], region["region"]] and [whole(cell) for cell in row[2:6]] == told, row
        row = next(rows)
        assert (row[1], whole(row[3]), whole(row[6])) == ("all", phase["admitted"], phase["cap"]), row
    assert [(row[0], whole(row[1])) for row in page.tables["latency"][1:]] == \
        [(phase["phase"], phase["latency_us"]["count"]) for phase in run["phases"]]
    assert [row[0] for row in page.tables["faults"][1:]] == ["pause us-1", "cut eu"], page.tables["faults"]
    assert (page.counts["svg"], page.counts["share"]) == (1, 2), page.counts
    assert [name for name, _ in page.figures] == ["utilisation", "overshoot"], page.figures


def picture_size(path):
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", path
    return struct.unpack(">II", data[16:24])


def browse(browser, *arguments):
    done = subprocess.run([browser, *BROWSER, "--window-size=1100,2400", *arguments],
                          capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()[-500:]
    return done.stdout.decode()


def look(browser, folder, report, name):
    """The page as the browser has it, and its pictures."""
    profile = f"--user-data-dir={folder}/profile"
    page = Page(browse(browser, profile, "--dump-dom", report.as_uri()))
    pictures = []
    for shade, more in (("light", []), ("dark", ["--force-dark-mode"])):
        picture = report.parent / f"{name}-{shade}.png"
        browse(browser, profile, *more, f"--screenshot={picture}", report.as_uri())
        assert picture_size(picture) == (1100, 2400)
        assert picture.stat().st_size > 60_000, "nothing much is drawn"
        pictures.append(picture.read_bytes())
    assert pictures[0] != pictures[1]
    return page


def main():
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        print("skipped: there is no chromium to look at the report with")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="headroom-report-") as folder:
        kept = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else folder)
        kept.mkdir(parents=True, exist_ok=True)
        report = kept.resolve() / "sim.html"
        done = subprocess.run([sys.argv[1], *RUN, "--json", "--report", report], capture_output=True, check=True)
        check_page(look(browser, folder, report, "sim"), json.loads(done.stdout))
        report = kept.resolve() / "run.html"
        scenario = pathlib.Path(folder) / "scenario.yaml"
        scenario.write_text(SCENARIO, encoding="utf-8")
        done = subprocess.run([sys.argv[1], "run", scenario, "--json", "--report", report, "--data", f"{folder}/data"],
                              capture_output=True, check=False, timeout=100)
        assert done.returncode in (0, 1), done.stderr.decode()  # a busy machine may break a promise, and is told of
        check_run_page(look(browser, folder, report, "run"), json.loads(done.stdout))
    return 0


if __name__ == "__main__":
    sys.exit(main())
