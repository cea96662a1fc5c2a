#!/usr/bin/env python3
"""Pairs of capabilities: `tests/pairs/run.py [--only "CAPABILITY, …"] [--triples] [--part K/N] [--list]`.

Serious faults were found where two capabilities meet. A covering array (covering.py) has each pair of thirty capabilities on and off, and with
`--triples` each three of them; each row of it is a combination, which combination.py runs on a server of its own.

A combination that fails is made smaller: its capabilities are left out one by one while it fails in the same way. The command that runs what
is left alone is printed.
"""

import argparse
import asyncio
import concurrent.futures
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGES = ("aioquic==1.7.2", "h2==4.3.0")
sys.path[:0] = [str(HERE), str(ROOT / "tests/suites")]

from base.context import Context, takes_connections, free_port, wait_until  # noqa: E402

# A combination takes seconds; one that waits for what does not come ends with this many.
MOST_SECONDS = 240


class Etcd:
    """One store for all fleets, each with a prefix of its own."""

    def __init__(self, folder, programs):
        binaries = programs / "etcd-programs"
        subprocess.run([ROOT / "packaging/etcd", binaries], check=True, capture_output=True)
        client, peer = free_port(), free_port()
        self.url = f"http://127.0.0.1:{client}"
        with open(folder / "etcd.log", "wb") as log:
            self.process = subprocess.Popen(
                [binaries / "etcd", "--data-dir", folder / "etcd", "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
                 "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
                 "--initial-cluster", f"default=http://127.0.0.1:{peer}",
                 "--unsafe-no-fsync", "--heartbeat-interval", "50", "--election-timeout", "500", "--log-level", "warn"], stdout=log, stderr=log)
        wait_until(lambda: takes_connections("127.0.0.1", client), 60, "etcd")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def run_one(on, folder, programs, etcd):
    """(seconds, None) or (seconds, the fault) of a combination, in a process of its own."""
    sys.path.insert(0, packages())
    from combination import Combination
    from server import Fault
    begin = time.monotonic()
    combination = Combination(on, folder, programs, etcd)
    fault = None
    try:
        asyncio.run(asyncio.wait_for(combination.run(), MOST_SECONDS))
    except Fault as error:
        fault = f"{error}"
    except asyncio.TimeoutError:
        fault = f"it takes longer than {MOST_SECONDS} seconds"
    except Exception:
        fault = traceback.format_exc()
    finally:
        if fault is not None:
            fault += combination.server.tail()
        combination.server.kill()
        shutil.rmtree(folder, ignore_errors=True)
    return time.monotonic() - begin, fault


def packages():
    """The folder with the clients' packages, fetched once."""
    return str(Context("/", "/", ROOT / ".work/suites").pip(*PACKAGES))


def shrink(on, attempt):
    """The capabilities that are needed for a fault: each is left out while another run still fails."""
    from capabilities import RULES, NAMES
    kept = list(on)
    for name in reversed(on):
        without = [each for each in kept if each != name]
        if RULES.allow({each: each in without for each in NAMES}) and attempt(without) is not None:
            kept = without
    return kept


def rows(options):
    """The combinations to run."""
    from capabilities import NAMES, RULES
    from covering import array
    if options.only:
        chosen = {name.strip() for name in options.only.split(",")}
        if unknown := chosen - set(NAMES):
            sys.exit(f"there is no capability {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
        if not RULES.allow({name: name in chosen for name in NAMES}):
            sys.exit("these cannot be combined: see RULES in tests/pairs/capabilities.py")
        return [tuple(name for name in NAMES if name in chosen)]
    every = array(NAMES, 3 if options.triples else 2, RULES)
    part, parts = (int(text) for text in options.part.split("/"))
    return [row for at, row in enumerate(every) if at % parts == part % parts]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=Path, default=ROOT / "target/debug", help="where cargo has built them; or the `modules` of a dist")
    parser.add_argument("--only", default="", help="one combination: capabilities, separated by commas")
    parser.add_argument("--triples", action="store_true", help="each three capabilities instead of each two")
    parser.add_argument("--part", default="0/1", help="K/N: each N-th combination, from the K-th on")
    parser.add_argument("--jobs", type=int, default=2 * os.cpu_count(), help="combinations at once, most of which wait for processes")
    parser.add_argument("--list", action="store_true", help="the combinations, without running them")
    parser.add_argument("--no-shrink", action="store_true", help="do not look for the capabilities that a fault needs")
    options = parser.parse_args()
    chosen = rows(options)
    if options.list:
        print("\n".join(", ".join(row) for row in chosen))
        return
    sys.exit(run_all(chosen, options))


def run_all(chosen, options):
    """The number of combinations that fail, at most 1."""
    packages()
    folder = Path(tempfile.mkdtemp(prefix="tutti-pairs-"))
    folder.chmod(0o755)
    begin, failed = time.monotonic(), 0
    programs = options.programs.resolve()
    etcd = Etcd(folder, programs) if any("fleet roll-out" in row for row in chosen) else None
    url = etcd.url if etcd else ""
    try:
        # Forked processes would all give away the ports that follow the last one of this process.
        with concurrent.futures.ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
            running = {pool.submit(run_one, row, folder / f"{at}", programs, url): row for at, row in enumerate(chosen)}
            faults = []
            for each in concurrent.futures.as_completed(running):
                seconds, fault = each.result()
                print(f"pairs: {'FAILED' if fault else 'ok'}, {seconds:.1f} s: {', '.join(running[each])}", flush=True)
                if fault:
                    print(f"  {fault}", flush=True)
                    faults.append(running[each])
        for at, row in enumerate(faults):
            report(row, options, lambda less, at=at: run_one(less, folder / f"less-{at}", programs, url)[1])
        failed = len(faults)
    finally:
        if etcd:
            etcd.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"pairs: {len(chosen) - failed} of {len(chosen)} combinations are right, {time.monotonic() - begin:.0f} s", flush=True)
    return 1 if failed else 0


def report(row, options, attempt):
    """Prints how to run a combination that has failed, with fewer capabilities if it then fails, too."""
    least = row if options.no_shrink else shrink(row, attempt)
    print(f'pairs: to run it alone: tests/pairs/run.py --programs {options.programs} --only "{", ".join(least)}"', flush=True)


if __name__ == "__main__":
    main()
