#!/usr/bin/env python3
"""Runs the test suites of others against a built server: `tests/suites/run.py [--only NAME,…] [--quick] [--check] [--dist FOLDER]`.

A suite is a module `tests/suites/NAME.py`. Its docstring is one line, which says what it covers; `VERSION` names the suite's version, or its
source and the date of it; `QUICK = True` puts it into `make test`, where all of them have a minute together. `run(context)` returns or yields a
`Case` for each case, under the suite's own name; `MOST_WARNINGS` is the number of warnings that it may have. `tests/conformance/NAME/known.txt` has the cases that are not met: a name and a reason a line.
A case that fails and is not there fails the run, and so does one that is there and passes.

The results are written to docs/project/conformance.md. `--check` compares them instead.
"""

import argparse
import difflib
import importlib
import os
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from base import Context, Missing  # noqa: E402
from base import case as cases_of, page  # noqa: E402
from base.context import ROOT  # noqa: E402


class Suite:
    """A module beside this program."""

    def __init__(self, file):
        self.file = file
        self.name = file.stem
        self.module = importlib.import_module(file.stem)
        self.covers = self.module.__doc__.strip()
        self.version = self.module.VERSION
        self.is_quick = getattr(self.module, "QUICK", False)
        self.most_warnings = getattr(self.module, "MOST_WARNINGS", None)
        if "\n" in self.covers:
            raise ValueError(f"{file}: the docstring is one line, which the results page shows")

    def run(self, options, kept):
        """Its cases, from a folder that is removed afterwards."""
        folder = Path(tempfile.mkdtemp(prefix="tutti-suite-"))
        folder.chmod(0o755)
        dist = dist_of(options.programs.resolve(), folder / "dist") if options.programs else options.dist
        context = Context(folder, dist, kept)
        try:
            return list(self.module.run(context))
        finally:
            context.stop()
            shutil.rmtree(folder, ignore_errors=True)


def skipped(suite, reason):
    """As `tutti_testkit::skip!` tells it."""
    print(f"suite {suite.name}: skipped: {reason}", flush=True)
    if os.environ.get("TUTTI_SKIPPED"):
        with open(os.environ["TUTTI_SKIPPED"], "a", encoding="utf-8") as file:
            file.write(f"suite {suite.name}\t{reason}\n")


def dist_of(programs, folder):
    """Makes what `make build` would have made of the programs that cargo has built, with links."""
    for name in ("bin", "modules"):
        (folder / name).mkdir(parents=True)
    (folder / "bin/tuttid").symlink_to(programs / "tutti")
    for program in (*programs.glob("tutti-*"), programs / "java"):
        if program.suffix != ".d" and (program.is_dir() or os.access(program, os.X_OK)):
            (folder / "modules" / program.name).symlink_to(program)
    return folder


def run_one(suite, options):
    """(row, section) for the results page, or None, and what is wrong."""
    begin = time.monotonic()
    try:
        reasons = cases_of.known(suite.name)
        cases = suite.run(options, ROOT / ".work/suites")
    except Missing as reason:
        skipped(suite, reason)
        return None, []
    except Exception:
        traceback.print_exc()
        print(f"suite {suite.name}: FAILED", flush=True)
        return None, ["it ended with an error"]
    if options.verbose:
        for case in cases:
            print(f"  {case.outcome} {case.name}{f': {case.detail}' if case.detail else ''}")
    wrong = list(cases_of.complaints(cases, reasons, suite.most_warnings))
    counts = ", ".join(f"{number} {outcome}" for outcome in cases_of.OUTCOMES if (number := sum(case.outcome == outcome for case in cases)))
    print(f"suite {suite.name}: {'FAILED' if wrong else 'ok'}, {len(cases)} cases: {counts}, {time.monotonic() - begin:.1f} s", flush=True)
    for line in wrong:
        print(f"  {line}", flush=True)
    return page.result(suite, cases, reasons), wrong


def compare(old, new):
    """True if the page is as this run finds it."""
    if old == new:
        return True
    print("".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True), "docs/project/conformance.md", "this run")), flush=True)
    print("docs/project/conformance.md is not as this run finds it: `make test-suites` writes it", flush=True)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    parser.add_argument("--programs", type=Path, help="in place of --dist, where cargo has built them: target/debug")
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--quick", action="store_true", help="those of `make test`")
    parser.add_argument("--check", action="store_true", help="compare the results page instead of writing it")
    parser.add_argument("--verbose", action="store_true", help="each case")
    options = parser.parse_args()
    options.dist = options.dist.resolve()
    wanted = {name for name in options.only.split(",") if name}
    suites = [Suite(file) for file in sorted(HERE.glob("*.py")) if file.name != "run.py"]
    if unknown := wanted - {suite.name for suite in suites}:
        sys.exit(f"there is no suite {', '.join(sorted(unknown))}")
    chosen = [suite for suite in suites if (not wanted or suite.name in wanted) and (suite.is_quick or not options.quick)]
    results, is_right = {}, True
    for suite in chosen:
        result, wrong = run_one(suite, options)
        is_right = is_right and not wrong
        if result and not wrong:
            results[suite.name] = result
    old = page.read()
    new = page.update(old, results, {suite.name for suite in suites})
    if options.check:
        is_right = compare(old, new) and is_right
    else:
        page.PAGE.write_text(new, encoding="utf-8")
    sys.exit(0 if is_right else 1)


if __name__ == "__main__":
    main()
