"""Runs sites one after the other, each in a folder of its own, and tells what became of each."""

import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path


class Fault(Exception):
    """A fault of a site, without where in this code it was found."""


def run_each(sites, wanted, what, run):
    """Ends the program: successfully if `run(SITE, FOLDER)`, which returns what to say, has raised nothing for any.

    `wanted` are names of sites; none means all. `what(SITE)` is how one is printed.
    """
    folder = Path(tempfile.mkdtemp(prefix="tutti-real-"))
    folder.chmod(0o755)
    passed, failed = 0, 0
    try:
        for site in sites:
            if wanted and site.name not in wanted:
                continue
            begin = time.monotonic()
            try:
                said = run(site, folder / site.name)
            except Fault as fault:
                failed += 1
                print(f"{fault}\n{what(site)}: FAILED", flush=True)
            except Exception:
                failed += 1
                traceback.print_exc()
                print(f"{what(site)}: FAILED", flush=True)
            else:
                passed += 1
                first, *rest = said.splitlines()
                print("\n".join([f"{what(site)}: ok, {first}, {time.monotonic() - begin:.1f} s", *rest]), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)
