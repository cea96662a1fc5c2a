"""The reports of wrk and ab are read right, the bad ones above all: an error that is not counted is a false victory."""

import unittest

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


if __name__ == "__main__":
    unittest.main()
