#!/usr/bin/env python3
"""Measures Tutti beside its peers: `bench/run.py [--quick] [--only P1,P5] [--rounds 5] [--seconds 4]`.

What is measured and why is in docs/project/performance.md; bench/README.md tells how to read and add to it.
Needs Debian's nginx, php-fpm, apache2 with mod_php, wrk and ab (`packaging/install-deps bench`).
"""

import argparse
import datetime
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from harness import (  # noqa: E402
    arena, caching, cases, configuration, front, gateways, http3, idle, java, lone, machine, manager, measure, mixed, node, perl, proxy, python, report, ruby, special,
    starts, timeline, tls, wasm)
from harness.network import VethPair  # noqa: E402
from harness.servers import Floor, Place, Tutti, is_installed  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
# The tools that `packaging/fetch-tool` fetches.
os.environ["PATH"] += f"{os.pathsep}{ROOT / '.work/tools/bin'}"
DOCUMENT = ROOT / "docs/project/performance.md"


class Context:
    """Holds what the cases need: sizes, programs, and servers that are started together and always stopped."""

    def __init__(self, options, folder):
        self.root = ROOT
        self.quick = options.quick
        self.seconds = options.seconds
        self.rounds = options.rounds
        self.without_tutti = options.peers_only
        self.beside = options.beside
        self.folder = folder
        self.site = make_site(folder / "site")
        self.load_program = str(Path(options.tools) / "tutti-load")
        Floor.program = str(Path(options.tools) / "tutti-floor")
        Tutti.dist = options.dist
        self.servers = []
        self.started = 0

    def scale(self, full, quick):
        return quick if self.quick else full

    def start(self, wanted, place=None):
        for server_class, workers, title in self.with_other_build(wanted):
            if self.without_tutti and issubclass(server_class, Tutti):
                continue
            missing = is_installed(server_class)
            if missing:
                measure.say(f"  {server_class.label}: left out, {missing}")
                continue
            self.started += 1
            server = server_class(self.folder / f"server{self.started}", self.site, workers, place)
            if title:
                server.label = title
            self.servers.append(server)
            server.start()
        return self.servers

    def with_other_build(self, wanted):
        """With `--beside`, each row of Tutti twice, and no peers."""
        if not self.beside:
            return wanted
        return [row for server, workers, title in wanted if issubclass(server, Tutti)
                for row in ((server, workers, title), (other_build(server, self.beside), workers, title and f"{title}{OTHER}"))]

    def stop(self):
        for server in self.servers:
            server.stop()
        self.servers = []


OTHER = ", the other build"


def other_build(server, dist):
    """The same row with another build of Tutti."""
    return type(f"{server.__name__}Other", (server,), {"dist": dist, "label": f"{server.label}{OTHER}"})


def against_other_build(table):
    """CPU and rate of each row against those of the other build: no CPU figure may be worse by more than 3 %."""
    checks = []
    for row in table.rows:
        other = table.find(f"{row.server}{OTHER}", row.load, row.path)
        if row.samples and other:
            cpu, rate = (row.median(key) / other.median(key) for key in ("cpu_us", "rps"))
            text = f"{row.server}: CPU ≤ 1.03 × the other build's ({row.load}, {row.path}): {cpu:.3f}, req/s {rate:.3f} ×"
            checks.append(measure.Check(text, cpu <= 1.03))
    return checks


def make_site(folder):
    """The one site that every server serves."""
    shutil.copytree(ROOT / "bench/site", folder)
    line = b"0123456789abcdefghijklmnopqrstuvwxyz and on it goes to sixty-4\n"
    for name, size in (("file-1k.txt", 1024), ("file-100k.txt", 100 * 1024), ("file-10m.bin", 10 * 1024 * 1024)):
        (folder / name).write_bytes((line * (size // len(line) + 1))[:size])
    # Text as people write it, for compression; the same bytes by PHP.
    (folder / "page-20k.html").write_bytes((ROOT / "docs/reference/options.md").read_bytes()[:20 * 1024])
    (folder / "page.php").write_text("<?php readfile(__DIR__ . '/page-20k.html');\n")
    for entry in [folder, *folder.rglob("*")]:
        entry.chmod(0o755 if entry.is_dir() else 0o644)
    return folder


def run_case(context, case):
    """The servers of one case, the same bytes from each, and its interleaved rounds."""
    table = measure.Table()
    pair = VethPair() if case.place == "veth" else None
    try:
        if pair:
            pair.create()
        place = Place(pair.address, pair.server_prefix) if pair else None
        servers = context.start(case.servers, place)
        for server in servers:
            if pair:
                server.client_prefix = pair.client_prefix
        problems = []
        if not pair:
            for path in dict.fromkeys(path for _, path in case.loads):
                problems += measure.same_bytes(servers, path, case.is_alike)
        for problem in problems:
            measure.say(f"  UNLIKE: {problem}")
        measure.interleave(table, servers, case.loads, case.rounds or context.rounds, lambda *what: warm_up(context, *what))
        for server in servers:
            memory = measure.memory_mib(server)
            for row in table.rows:
                if row.server == server.name:
                    row.pss_mib = memory
    finally:
        context.stop()
        if pair:
            pair.remove()
    head = {"id": case.id, "title": case.title, "target": case.target, "note": case.note}
    return report.case_record(head, table.rows, table.facts, against_other_build(table) if context.beside else case.verdict(table), problems)


def warm_up(context, server, load, path):
    """A second of the same page: caches filled, opcache compiled, processes there."""
    from harness.loads import Wrk
    if not path.startswith("/sleep"):
        Wrk(1, 16, 1).run(server.url(path), getattr(server, "client_prefix", ()))


def run_special(context, function):
    try:
        head, checks = function(context)
    finally:
        context.stop()
    facts = head.pop("facts")
    return report.case_record({"note": "", **head}, [], facts, checks, [])


def build_tools(options):
    """The floor and the open-loop client, in release, unless `--tools` says where they are."""
    if options.tools:
        return
    subprocess.run(["cargo", "build", "-q", "--release", "-p", "tutti-floor", "-p", "tutti-load"], cwd=ROOT, check=True)
    options.tools = str(Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release")


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one short round of everything, smaller: shows that it works")
    parser.add_argument("--only", default="", help="points to run, such as P1,P5,P4-veth")
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--seconds", type=float, default=None)
    parser.add_argument("--peers-only", action="store_true", help="leave Tutti out")
    parser.add_argument("--dist", default=str(ROOT / "dist"), help="the built Tutti (default dist/)")
    parser.add_argument("--beside", default=None, help="another build of Tutti (its dist/): each row with both, and no peers")
    parser.add_argument("--tools", default=None, help="folder of tutti-floor and tutti-load (default: build them)")
    parser.add_argument("--results", default=str(ROOT / "bench/results"))
    parser.add_argument("--name", default=None, help="name of the result files (default: the date)")
    parser.add_argument("--document", action="store_true", help="also put tables and pictures into docs/project/performance.md and docs/project/plots")
    parser.add_argument("--again", nargs="+", metavar="RUN.json", help="measure nothing: one run of these, the last that has a case counts")
    parser.add_argument("--wait", type=int, default=120, help="seconds to wait for a quiet machine")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.seconds = options.seconds or (1 if options.quick else 4)
    return options


def stop_once(_signal, _frame):
    """Ends the run by an exception, so that every server is stopped; a second signal must not cut that short."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def main():
    signal.signal(signal.SIGINT, stop_once)
    signal.signal(signal.SIGTERM, stop_once)
    options = parse_options()
    if options.again:
        run = report.merged(options.again)
        if options.document:
            report.document(run, DOCUMENT, Path(options.results))
        print(report.run_markdown(run))
        return
    build_tools(options)
    now = datetime.datetime.now(datetime.UTC)
    folder = Path(tempfile.mkdtemp(prefix="tutti-bench-"))
    folder.chmod(0o755)
    wanted = {name.strip().upper() for name in options.only.split(",") if name.strip()}
    failures = []
    run = {"name": options.name or now.strftime("%Y-%m-%d-%H%M") + ("-quick" if options.quick else ""),
           "date": now.strftime("%Y-%m-%d %H:%M UTC"), "machine": machine.describe(), "rounds": options.rounds,
           "seconds": options.seconds, "quick": options.quick,
           "foreign_before": machine.wait_for_quiet(patience=0 if options.quick else options.wait), "cases": []}
    try:
        context = Context(options, folder)
        interleaved = [*cases.all_cases(context), *perl.cases(context), *ruby.cases(context), *node.cases(context), *java.cases(context), *python.cases(context), *wasm.cases(context),
                       *proxy.cases(context), *gateways.cases(context), *lone.cases(context),
                       tls.p25(context), *front.cases(context), *http3.cases(context), *caching.cases(context), *arena.cases(context)]
        plan = [(case.id, lambda case=case: run_case(context, case)) for case in interleaved]
        plan += [(function.__name__.upper(), lambda function=function: run_special(context, function))
                 for function in (special.p8, special.p11, special.p12, special.p41, special.p44, manager.p19, manager.p24, configuration.p31, starts.p38, idle.p39, mixed.p40,
                                  special.s1)]
        plan.append(("P24-time", lambda: run_special(context, timeline.p24_time)))
        plan.sort(key=lambda entry: (entry[0][0], int(entry[0].partition("-")[0][1:])))
        for identifier, action in plan:
            if wanted and identifier.upper() not in wanted and identifier.partition("-")[0].upper() not in wanted:
                continue
            measure.say(f"{identifier}")
            try:
                run["cases"].append(action())
            except (RuntimeError, TimeoutError, OSError) as error:
                measure.say(f"  {identifier} FAILED: {error}")
                failures.append(identifier)
        text = report.write(run, Path(options.results))
        if options.document:
            report.document(run, DOCUMENT, Path(options.results))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(text)
    unlike = [problem for case in run["cases"] for problem in case["problems"]]
    if failures or unlike:
        sys.exit(f"could not be measured: {', '.join(failures) or '–'}; unlike answers: {len(unlike)}")


if __name__ == "__main__":
    main()
