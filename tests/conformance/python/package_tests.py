"""A package's own tests, unmodified, run by pytest inside a worker; what became of each."""

import os
import sys


class Outcomes:
    """A plugin of pytest's that notes what became of each test."""

    def __init__(self):
        self.outcomes = {}

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.outcomes[report.nodeid] = report.longreprtext
        elif report.when == "call":
            self.outcomes.setdefault(report.nodeid, "passed" if report.passed else "skipped")


def run(folder, plugin, ignored):
    """Runs the tests of the source in `folder`, but for the files `ignored`; blocks."""
    import pytest

    sys.path.insert(0, folder)
    os.chdir(folder)
    # Output and signals are the server's. Tracebacks are Python's own: pytest's parse sources, and Python 3.11's parser fails now and then
    # where another thread parses (its issue 106905).
    arguments = ["-q", "-s", "--tb=native", "-c", os.devnull, "--rootdir", folder, "-p", "no:cacheprovider", "-p", "no:faulthandler",
                 "-W", "ignore", *(f"--ignore={path}" for path in ignored), "tests"]
    code = pytest.main(arguments, plugins=[plugin])
    assert code in (0, 1), f"pytest ended with {code}"
    return plugin.outcomes
