#!/usr/bin/env python3
"""Agents, debuggers, profilers and coverage tools on applications that Tutti serves: `tests/agents/run.py [--quick] [--only NAME,…]`.

Each case installs one tool at a pinned version, switches it on with the example of docs/languages/agents.md, sends requests, and checks what
the tool has seen: a collector or a debugger's client of this folder is at the other end. Nothing leaves this machine.
"""

import argparse
import signal
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "tests/real"), str(ROOT / "bench")]

from cases import java, node, perl, php, python, ruby  # noqa: E402
from each import run_each  # noqa: E402
from case import HOST  # noqa: E402
from harness.servers import Place, Tutti  # noqa: E402


class AgentTutti(Tutti):
    """Configured by one PUT with what the case says."""

    patience = 320

    def __init__(self, folder, case, dist):
        self.dist = dist
        self.case = case
        super().__init__(folder, case.root, place=Place(HOST))

    def configuration(self):
        configuration = self.case.configuration(f"{HOST}:{self.port}")
        # An agent that changes classes takes its time on a busy machine.
        configuration["applications"]["shop"].setdefault("limits", {})["start_timeout"] = 300
        return configuration

    def stop(self):
        # A quick stop would kill what needs more than two seconds to write its results.
        for process in reversed(self.processes):
            process.stop(signal.SIGQUIT, 60)
        self.processes = []


def run(case_class, options, folder):
    """Prepares one case, serves it and checks what its tool has seen."""
    folder.mkdir()
    folder.chmod(0o755)
    case = case_class(folder)
    server = AgentTutti(folder / "server", case, options.dist)
    try:
        case.prepare()
        case.build(options.dist)
        server.start()
        said = case.check(server)
        server.stop()
        return case.after_stop(server) or said
    except BaseException:
        print(f"--- the log:\n{server.log_tail()}", file=sys.stderr)
        raise
    finally:
        server.stop()
        case.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dist", default=str(ROOT / "dist"))
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--quick", action="store_true", help="only those that take seconds and install little")
    options = parser.parse_args()
    cases = [case for module in (php, python, node, java, ruby, perl) for case in module.CASES]
    wanted = {name for name in options.only.split(",") if name}
    cases = [case for case in cases if case.name in wanted or not wanted and (case.is_quick or not options.quick)]
    run_each(cases, wanted, lambda case: f"agent {case.name}", lambda case, folder: run(case, options, folder))


if __name__ == "__main__":
    main()
