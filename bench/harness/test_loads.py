"""The reports of wrk and ab are read right, the bad ones above all: an error that is not counted is a false victory. And so are stored runs."""

import json
import tempfile
import unittest
import xml.etree.ElementTree as tree
from pathlib import Path

from . import report
from .loads import parse_ab, parse_wrk

WRK_BAD = """Running 2s test @ http://127.0.0.1:43210/json.php
  1 threads and 10000 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   154.76ms  291.18ms   5.73s    94.04%
    Req/Sec   177.77k    12.76k  192.20k    68.42%
  Latency Distribution
     50%  104.07ms
     75%  111.01ms
     90%  170.46ms
     99%    1.73s
  350000 requests in 2.00s, 110.30MB read
  Socket errors: connect 1, read 20, write 300, timeout 4000
  Non-2xx or 3xx responses: 349000
Requests/sec: 175000.00
Transfer/sec:     55.15MB
"""

AB_BAD = """Document Path:          /missing
Concurrency Level:      100
Time taken for tests:   0.097 seconds
Complete requests:      1000
Failed requests:        7
   (Connect: 0, Receive: 0, Length: 0, Exceptions: 7)
Non-2xx responses:      43
Requests per second:    10000.00 [#/sec] (mean)

Percentage of the requests served within a certain time (ms)
  50%      9
  66%     10
  99%     12
 100%     19 (longest request)
"""


class Reports(unittest.TestCase):
    def test_wrk_counts_good_answers_only(self):
        sample = parse_wrk(WRK_BAD, {"seconds": 2.0})
        self.assertEqual((sample.requests, sample.rps), (1000, 500.0))
        self.assertEqual(sample.errors, 1 + 20 + 300 + 4000 + 349_000)
        self.assertEqual((sample.p50, sample.p99, sample.max), (104.07, 1730.0, 5730.0))

    def test_wrk_without_errors(self):
        text = "\n".join(line for line in WRK_BAD.splitlines() if "errors" not in line and "Non-2xx" not in line)
        sample = parse_wrk(text, {})
        self.assertEqual((sample.requests, sample.rps, sample.errors, sample.detail), (350_000, 175_000.0, 0, {}))

    def test_ab_counts_good_answers_only(self):
        sample = parse_ab(AB_BAD, {})
        self.assertEqual((sample.requests, sample.rps, sample.errors), (950, 9500.0, 50))
        self.assertEqual((sample.p50, sample.p99, sample.max), (9.0, 12.0, 19.0))


RESULTS = Path(__file__).resolve().parent.parent / "results"


class Pictures(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name)

    def draw(self, run):
        file = self.path / "run.json"
        file.write_text(json.dumps(run))
        return report.draw(file, self.path / "plots")

    def test_a_picture_has_each_server_and_its_figure(self):
        spread = {key: {"median": value, "min": value, "max": value} for key, value in
                  {"rps": 98_123.0, "cpu_us": 14.4, "p50": 0.5, "p99": 1.33, "max": 5.0}.items()}
        rows = [{"server": name, "load": "wrk -t1 -c64", "path": "/<&>", **spread} for name in ("tutti", "nginx <fast> & good")]
        slots = [[40, 0, 20.0], [30, 10, 900.0]]
        line = {"server": "tutti", "slot_ms": 100, "slots": slots, "late": 3, "changes": [[0.1, "restart & more"]]}
        cases = [{"id": "P5", "title": "a <title>", "rows": rows}, {"id": "P24-time", "title": "time", "rows": [], "timelines": [line]}]
        self.assertEqual(self.draw({"cases": cases}), ["P5.svg", "P24-time.svg"])
        case, line = (tree.parse(self.path / "plots" / name) for name in ("P5.svg", "P24-time.svg"))
        texts = " ".join("".join(element.itertext()) for element in case.iter())
        for text in ("tutti", "nginx <fast> & good", "98,100", "14.4", "1.33"):
            self.assertIn(text, texts)
        texts = " ".join("".join(element.itertext()) for element in line.iter())
        for text in ("10 errors, 3 requests not made", "restart & more"):
            self.assertIn(text, texts)

    def test_the_last_run_that_has_a_case_counts_and_says_when(self):
        run = report.merged([RESULTS / "2026-11-21.json", RESULTS / "2026-11-21-evening.json"])
        cases = {case["id"]: case for case in run["cases"]}
        self.assertIn("Measured 2026-11-21 20:00 UTC", cases["P24"]["note"])
        self.assertNotIn("Measured", cases["P1"]["note"])
        self.assertEqual([case["id"] for case in run["cases"]][:6], ["P1", "P2", "P3", "P4-loopback", "P4-veth", "P5"])


if __name__ == "__main__":
    unittest.main()
