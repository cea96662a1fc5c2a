#!/usr/bin/env python3
"""Everything at once, for hours: `tests/soak/run.py [--hours 4]`, which is `make soak HOURS=4`.

Applications of every language, files and a cached page are asked by HTTP/1, 2 and 3 and by WebSocket; jobs are posted, schedules run, the
configuration changes, applications are restarted, workers and routers killed, and the server is upgraded. It fails when a request is lost
that no killed process had, when a response is wrong, when a job that was accepted is not done, or when memory, descriptors, threads or files
do not stay flat. The readings are in `.work/soak/`, with a picture.
"""

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "bench")]

import readings  # noqa: E402
from applications import CACHED, JOBS, applications, run  # noqa: E402
from events import Events  # noqa: E402
from harness.servers import Tutti, free_port  # noqa: E402

DOMAIN = "soak.test"
# Seconds.
HEARTBEAT = 0.05
CLIENTS = {"HTTP/1": 4, "HTTP/2": 3, "HTTP/3": 3, "WebSocket": 3}


class Soaked(Tutti):
    """All applications behind two listeners, chosen by host; one listener for jobs."""

    patience = 300

    def __init__(self, folder, root, found, talking):
        super().__init__(folder, root, 1)
        self.found, self.talking = found, talking
        self.encrypted_port, self.job_port = free_port(), free_port()
        self.work = root / "work"

    def application(self, members):
        return {"processes": 2, "environment": {"WORK": str(self.work)}, **members}

    def configuration(self):
        host = self.place.host
        php = {"type": "php", "root": str(self.site)}
        everything = {name: self.application(members) for name, (_, members) in self.found.items()}
        everything |= {"cached": self.application(php | {"script": "cached.php"}), "jobs": self.application(php | {"script": "jobs.php"})}
        # Their slots and tables are used again and again.
        for name in ("php", "wsgi", "perl", "resident"):
            everything[name]["limits"] = {"requests": 500}
        # A restart ends no WebSocket before its time.
        for name in self.talking:
            everything[name]["limits"] = {"drain_timeout": 120}
        routes = [{"match": {"host": f"{name}.{DOMAIN}"}, "action": {"pass": f"applications/{name}"}} for name in self.found]
        routes += [{"match": {"host": f"cached.{DOMAIN}"}, "action": {"pass": "applications/cached", "cache": "pages"}},
                   {"match": {"host": f"files.{DOMAIN}"}, "action": {"share": f"{self.site}/files$uri"}}]
        return {
            "listeners": {f"{host}:{self.port}": {"pass": "routes"},
                          f"{host}:{self.encrypted_port}": {"pass": "routes", "tls": {"certificate": "soak"}, "http3": True},
                          f"{host}:{self.job_port}": {"pass": "spoolers/jobs"}},
            "settings": {"listen_threads": 2, "cache": {"pages": {"memory": "16M"}}},
            "routes": routes,
            "applications": everything,
            "spoolers": {"jobs": {"pass": "applications/jobs", "backoff": 1}},
            "schedules": {"each second": {"every": 1, "pass": "applications/php", "uri": "/"}},
        }

    def put_certificate(self, bundle):
        return self.control_request("PUT", "/certificates/soak", bundle)

    def launch(self):
        # The listener needs the certificate before the configuration names it.
        whole, self.configuration = self.configuration, lambda: {}
        super().launch()
        self.configuration = whole
        status, body = self.put_certificate((self.folder.parent / "bundle.pem").read_text())
        assert status == 200, body
        status, body = self.put("/config", self.configuration())
        assert status == 200, body


class Gaps:
    """The times at which a program did not get to run: the longest one, and each that lasted for a second or more, with its end."""

    def __init__(self):
        self.longest, self.long = 0.0, []

    def note(self, seconds, at):
        self.longest = max(self.longest, seconds)
        if seconds >= 1:
            self.long.append({"at": at, "seconds": round(seconds, 2)})

    def watch(self, is_over):
        """Notes the gaps of this program."""
        last = time.monotonic()
        while not is_over.wait(HEARTBEAT):
            now = time.monotonic()
            self.note(now - last, time.time())
            last = now


class Clients:
    """The program in `client`, and what it has reported."""

    def __init__(self, folder, plan):
        run("go", "build", "-o", folder / "client", ".", cwd=HERE / "client")
        (folder / "plan.json").write_text(json.dumps(plan))
        self.wrong, self.requests, self.gaps = [], {}, Gaps()
        self.program = subprocess.Popen([folder / "client", folder / "plan.json"], stdout=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.program.stdout:
            report = json.loads(line)
            if "requests" in report:
                self.requests = report["requests"]
                self.gaps.note(report["gap"], report["at"])
            else:
                self.wrong.append(report)

    @property
    def count(self):
        return sum(self.requests.values())

    def stop(self):
        self.program.send_signal(signal.SIGTERM)
        self.program.wait(120)
        self.reader.join()


def prepare(folder, dist):
    """The applications' folder and the certificate."""
    root = folder / "site"
    shutil.copytree(ROOT / "tests/conformance/contract", root)
    (root / "cached.php").write_text(CACHED)
    (root / "jobs.php").write_text(JOBS)
    (root / "work").mkdir(mode=0o777)
    (root / "work").chmod(0o777)
    (root / "files").mkdir()
    for size in (100, 30_000, 600_000):
        (root / f"files/{size}.txt").write_bytes(bytes(random.Random(size).choices(range(32, 127), k=size)))
    found, talking = applications(root, dist)
    (root / "app.cgi").chmod(0o755)
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=soak",
        "-addext", f"subjectAltName=DNS:*.{DOMAIN}", "-keyout", folder / "key.pem", "-out", folder / "certificate.pem")
    (folder / "bundle.pem").write_text((folder / "certificate.pem").read_text() + (folder / "key.pem").read_text())
    return root, found, talking


def plan(server, root, found, talking, pause, folder):
    """Returns the requests of the clients, with the responses that are due."""
    targets = [{"host": f"{name}.{DOMAIN}", "pages": {"/": f"Hello from {greeting}\n"}, "echoes": True, "talks": name in talking}
               for name, (greeting, _) in found.items()]
    targets.append({"host": f"cached.{DOMAIN}", "pages": {"/": "Hello from the cache\n" * 1000}})
    targets.append({"host": f"files.{DOMAIN}", "pages": {f"/{file.name}": file.read_text() for file in (root / "files").iterdir()}})
    host = server.place.host
    return {"plain": f"{host}:{server.port}", "encrypted": f"{host}:{server.encrypted_port}", "authority": str(folder / "certificate.pem"),
            "clients": CLIENTS, "pause": pause, "targets": targets}


def watch(server, clients, events, seconds):
    """Readings until the time is over."""
    found = []
    while (passed := time.monotonic() - events.began) < seconds:
        time.sleep(min(10, seconds / 30))
        reading = readings.read(server, events.began) | {"requests": clients.count, "wrong": len(clients.wrong)}
        found.append(reading)
        print(f"{passed:7.0f} s  {readings.core(reading):6.1f} MiB  {reading['descriptors']:4} descriptors  {reading['processes']:3} processes  "
              f"{clients.count:10,} requests  {len(clients.wrong)} wrong", flush=True)
        if clients.program.poll() is not None:
            raise RuntimeError("the clients have ended")
    return found


def verdict(server, clients, events, found, at_rest, root):
    """Returns sentences about what is wrong."""
    for report in clients.wrong:
        report["explained"] = events.explains(report["begun"], report["at"], report["host"].split(".")[0], report["protocol"])
    unexplained = [report for report in clients.wrong if not report["explained"]]
    wrong = [f"{report['protocol']} {report['host']}: {report['wrong']} (begun {report['begun']:.3f}, at {report['at']:.3f})" for report in unexplained]
    wrong += events.failed
    if left := events.undelivered(root / "work/jobs"):
        wrong.append(f"{len(left)} of {len(events.jobs)} jobs were not done: {left[:5]}")
    time.sleep(15)  # Idle connections of the clients, and workers above the number that is due.
    after = readings.read(server, events.began)
    steady = [reading for reading in found if reading["seconds"] > (events.steady_at - events.began) * 1.1]
    wrong += readings.faults(steady, at_rest, after)
    wrong += [f"the log: {line}" for line in readings.alerts(server)][:10]
    return wrong, after, readings.growth(steady)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=4)
    parser.add_argument("--dist", default=str(ROOT / "dist"))
    parser.add_argument("--pause", type=int, default=40, help="milliseconds between two requests of a client, on average")
    options = parser.parse_args()
    seconds = options.hours * 3600
    results = ROOT / ".work/soak"
    results.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="tutti-soak-"))
    folder.chmod(0o755)
    Soaked.dist = options.dist
    root, languages, talking = prepare(folder, options.dist)
    server = Soaked(folder / "server", root, languages, talking)
    try:
        server.start()
        at_rest = readings.read(server, time.monotonic())
        clients = Clients(folder, plan(server, root, languages, talking, options.pause, folder))
        began = time.time()
        events = Events(server, [*languages, "cached", "jobs"], seconds)
        gaps = Gaps()
        watched = threading.Thread(target=gaps.watch, args=(events.is_over,))
        watched.start()
        try:
            events.start(seconds)
            found = watch(server, clients, events, seconds)
        finally:
            events.stop()
            watched.join()
            clients.stop()
        wrong, after, grown = verdict(server, clients, events, found, at_rest, root)
        shutil.copy(server.folder / "log", results / "log")
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    explained = sum(report["explained"] for report in clients.wrong)
    result = {"hours": options.hours, "requests": clients.requests, "events": events.done, "jobs": len(events.jobs), "lost with killed processes": explained,
              "wrong": wrong, "grown_mib": round(grown, 2), "at_rest": at_rest, "after": after, "history": events.history, "reports": clients.wrong,
              "gaps": {name: {"longest": round(each.longest, 2), "long": each.long} for name, each in (("clients", clients.gaps), ("events", gaps))},
              "began": began, "steady_at": events.steady_at - events.began, "readings": found}
    (results / "result.json").write_text(json.dumps(result, indent=1))
    subprocess.run(["/usr/bin/python3", HERE / "plot.py", results / "result.json", results / "soak.svg"], check=False)
    print(f"{clients.count:,} requests, {len(events.jobs):,} jobs, {events.done}; {explained} requests were lost with the process that had them; "
          f"main, router and controller grew by {grown:.1f} MiB; {len(wrong)} wrong; "
          f"the clients did not get to run for up to {clients.gaps.longest:.1f} s")
    for line in wrong[:30]:
        print(f"  {line}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
