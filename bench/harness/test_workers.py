"""Starts and memory of workers are judged right, and a start is over when the process is up: not when the change is answered."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

from . import idle, languages, starts
from .cases import ratio
from .manager import change_ms
from .measure import Table
from .servers import Tutti, is_installed

LISTENS = "import socket, sys, time; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); print('started', flush=True); time.sleep(60)"


class Control:
    """A control socket whose application has one process more at each question."""

    name = "fake"

    def __init__(self, running, code=200):
        self.running, self.code, self.asked = running, code, []

    def control_request(self, method, path, body=None):
        self.asked.append((method, path, body))
        if method == "PUT":
            return self.code, "no"
        self.running += 1
        return 200, json.dumps({"running": self.running, "starting": 0, "idle": self.running})


class Starts(unittest.TestCase):
    def test_a_start_ends_when_the_process_is_up(self):
        control = Control(running=1)
        change_ms(control, 4, "python")
        self.assertEqual(control.asked, [("PUT", "/config/applications/python/processes", "4"), *[("GET", "/status/applications/python/processes", None)] * 3])

    def test_a_change_that_is_refused_is_no_start(self):
        with self.assertRaisesRegex(RuntimeError, "refused"):
            change_ms(Control(running=3, code=400), 4)

    def test_each_start_has_its_bound(self):
        medians = {languages.PHP.label: 10, languages.RUBY.label: 10.1, languages.NODE.label: 65, starts.NODE_EMPTY: 50, starts.NODE_ALONE: 49,
                   languages.JAVA.label: 60, starts.JETTY: 60, "without": 99}
        checks = starts.verdict([{"start": what, "median_ms": value} for what, value in medians.items()], "without")
        by_start = {check.text: check.ok for check in checks}
        self.assertEqual({text: ok for text, ok in by_start.items() if ok is not None}, {
            "PHP: a new process takes requests within 10 ms: 10": True,
            "Ruby: a new process takes requests within 10 ms: 10.1": False,
            "tutti, Node.js ≤ 1.3 × node -e 0, to its end: 1.30": True,
            "tutti, Node.js ≤ 1.3 × node, the same script: 1.33": False,
            "tutti, Java ≤ 1.3 × plain Jetty, the same servlet: 1.00": True,
            "tutti, Java ≤ 0.6 × without: 0.61": False})
        self.assertEqual([text for text, ok in by_start.items() if ok is None],
                         [*(f"{language}: a new process takes requests within 10 ms: not measured" for language in ("Python", "Perl", "WebAssembly")),
                          "tutti, Go ≤ 1.3 × the same program alone: not measured"])


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def start(self, code, **more):
        return starts.until_listening(lambda port: [sys.executable, "-c", code, str(port)], self.folder / "log", **more)

    def test_a_program_has_started_when_it_listens_or_says_so(self):
        self.assertGreater(self.start(LISTENS), 0)
        self.assertGreater(self.start(LISTENS, word="started"), 0)

    def test_a_program_that_ends_has_not_started(self):
        with self.assertRaisesRegex(RuntimeError, "no reason"):
            self.start("raise SystemExit('no reason')")

    def test_a_server_without_the_host_of_its_language_is_left_out(self):
        (self.folder / "bin").mkdir()
        (self.folder / "modules").mkdir()
        (self.folder / "bin/tuttid").touch()
        of_ruby = type("OfRuby", (Tutti,), {"dist": str(self.folder), "host": "tutti-ruby*"})
        self.assertIn("tutti-ruby", is_installed(of_ruby))
        (self.folder / "modules/tutti-ruby3.1").touch()
        self.assertIsNone(is_installed(of_ruby))


class Memory(unittest.TestCase):
    def test_a_worker_is_weighed_against_each_peer_of_its_language(self):
        facts = [("PHP", "nginx + php-fpm", 2.0), ("PHP", "tutti, PHP", 1.0), ("Perl", "starman", 2.0), ("Perl", "uwsgi", 1.0), ("Perl", "tutti, Perl", 1.5),
                 ("Python", "uwsgi", 0.1), ("Python", "tutti, Python", 1.0)]
        checks = idle.verdict([{"language": language, "server": server, "mib_per_worker": size} for language, server, size in facts])
        measured = {check.text: check.ok for check in checks if check.ok is not None}
        self.assertEqual(measured, {
            "PHP: memory ≤ 1.0 × nginx + php-fpm's: 0.50": True, "Perl: memory ≤ 1.0 × starman's: 0.75": True,
            "Perl: memory ≤ 1.0 × uwsgi's: 1.50": False, "Python: memory ≤ 1.0 × uwsgi's: 10.00": False})
        self.assertIn("Python: memory ≤ 1.0 × gunicorn's: not measured", [check.text for check in checks])


class Ratios(unittest.TestCase):
    def test_a_peer_without_any_answer_is_no_measure(self):
        table = Table()
        for server, rate in (("tutti", 5.0), ("nginx", 0.0)):
            table.row(server, "load", "/").samples.append({"rps": rate})
        self.assertIsNone(ratio(table, "rps", "load", "/", at_least=1.0).ok)


if __name__ == "__main__":
    unittest.main()
