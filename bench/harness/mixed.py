"""A site where one application computes and another answers shortly (P40): what the short ones wait for the others."""

import os
import shutil
import statistics
import subprocess
import time

from .loads import Paced
from .measure import Check, say
from .servers import NginxFpm, Tutti

SHORT = ("/hello.php", "/file-1k.txt")
COMPUTING = "/compute.php"


class TuttiMixed(Tutti):
    """Two applications: two processes compute, the others answer."""

    def configuration(self):
        configuration = super().configuration()
        php = configuration["applications"]["php"]
        configuration["applications"]["computing"] = {**php, "processes": 2}
        configuration["routes"].insert(0, {"match": {"uri": COMPUTING}, "action": {"pass": "applications/computing"}})
        return configuration


class Computing:
    """Two connections that ask for the page which computes, one request after the other, while the object lives."""

    def __init__(self, url, seconds):
        self.arguments = ["wrk", "-t1", "-c2", f"-d{round(seconds) + 30}s", "--timeout=30s", url]

    def __enter__(self):
        self.popen = subprocess.Popen(self.arguments, stdout=subprocess.DEVNULL)
        time.sleep(0.5)

    def __exit__(self, *exception):
        self.popen.terminate()
        self.popen.wait()


def p40(context):
    """200 requests a second for a short page and for a small file, with and without two that compute."""
    load = Paced(context.load_program, 20, 0.1, max(2, round(context.seconds)))
    # The client waits for no core, as if it were on a machine of its own: its waits are not the server's.
    prefix = ("chrt", "-f", "10") if os.geteuid() == 0 and shutil.which("chrt") else ()
    waits = {}
    servers = context.start([(NginxFpm, 6, None), (TuttiMixed, 4, None)])
    for number in range(context.rounds):
        for path in SHORT:
            for server in servers:
                alone = load.run(server.url(path), prefix)
                with Computing(server.url(COMPUTING), context.seconds):
                    beside = load.run(server.url(path), prefix)
                waits.setdefault((server.name, path), []).append((alone, beside))
                say(f"  round {number + 1}: {server.name:24} {path:14} p90 {alone.p90 * 1000:7.0f} µs alone, {beside.p90 * 1000:7.0f} beside; "
                    f"p99 {alone.p99 * 1000:7.0f}, {beside.p99 * 1000:7.0f}")
    facts, checks = [], []
    for (server, path), samples in waits.items():
        alone = statistics.median(one.p90 for one, _ in samples)
        beside = statistics.median(one.p90 for _, one in samples)
        facts.append({"server": server, "path": path, "alone_p90_us": round(alone * 1000), "beside_p90_us": round(beside * 1000),
                      "beside_p99_us": round(statistics.median(one.p99 for _, one in samples) * 1000), "ratio": round(beside / alone, 2)})
        if server == TuttiMixed.label:
            checks.append(Check(f"p90 of {path} beside two that compute ≤ 1.2 × alone: {beside / alone:.2f}", beside <= 1.2 * alone))
    context.stop()
    return {"id": "P40", "title": "a short page and a file beside an application that computes 20 ms", "facts": {"slowest tenth": facts},
            "target": "p90 of the short ones ≤ 1.2 × without the other"}, checks or [Check("not measured", None)]
