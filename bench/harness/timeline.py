"""Requests over time while a server reloads its code or its configuration (P24-time)."""

import os
import signal
import threading
import time

from .loads import Paced
from .manager import Toggle
from .measure import Check, say
from .servers import Apache, NginxFpm, Tutti

# Each request takes 20 ms in PHP, so some are always under way.
PATH = "/sleep.php?ms=20"
WORKERS = 16
CLIENTS, INTERVAL = 40, 0.1


def changes(server):
    """Something that an operator does to such a server: (seconds after the start, its name, how)."""
    if isinstance(server, Tutti):
        return [(2, "restart of PHP", lambda: server.control_request("GET", "/control/applications/php/restart")),
                (5, "reconfiguration", Toggle(server)),
                (8, "upgrade", lambda: server.control_request("POST", "/control/upgrade"))]
    if isinstance(server, NginxFpm):
        fpm, nginx = server.roots
        return [(2, "reload of FPM (USR2)", lambda: os.kill(fpm, signal.SIGUSR2)),
                (5, "reload of nginx (HUP)", lambda: os.kill(nginx, signal.SIGHUP))]
    return [(2, "graceful restart (USR1)", lambda: os.kill(server.roots[0], signal.SIGUSR1)),
            (5, "graceful restart (USR1)", lambda: os.kill(server.roots[0], signal.SIGUSR1))]


def p24_time(context):
    """An open loop against each server, one after the other: what it answers in each tenth of a second."""
    load = Paced(context.load_program, CLIENTS, INTERVAL, context.scale(10, 3))
    facts, lines = [], []
    for server_class in (Tutti, NginxFpm, Apache):
        # Apache needs a process for each connection, and as many again for those that still have a kept one when it restarts.
        workers = 2 * CLIENTS + 16 if server_class is Apache else WORKERS
        for server in context.start([(server_class, workers, None)]):
            made = [entry for entry in changes(server) if entry[0] < load.seconds]
            sample = under(load, server.url(PATH), made)
            facts.append({"server": server.name, "requests": sample.requests, "errors": sample.errors, "p50_ms": round(sample.p50, 1),
                          "p99_ms": round(sample.p99, 1), "max_ms": round(sample.max, 1), **{key: sample.detail[key] for key in ("failed", "statuses")}})
            say(f"  {facts[-1]}")
            lines.append({"server": server.name, "slot_ms": sample.detail["slot_ms"], "slots": sample.detail["slots"], "late": sample.detail["skipped"],
                          "changes": [[at, name] for at, name, _ in made]})
        context.stop()
    own = [fact["errors"] for fact in facts if fact["server"] == Tutti.label]
    check = Check(f"no error: {sum(own)}", sum(own) == 0) if own else Check("no error: not measured", None)
    title = f"{CLIENTS / INTERVAL:g} requests a second of 20 ms each, through reloads"
    return {"id": "P24-time", "title": title, "target": "no error", "facts": {"servers": facts}, "timelines": lines}, [check]


def under(load, url, made):
    """One load, with each change at its time."""
    def make():
        begin = time.monotonic()
        for at, _, change in made:
            time.sleep(max(0.0, begin + at - time.monotonic()))
            change()

    thread = threading.Thread(target=make)
    thread.start()
    try:
        return load.run(url)
    finally:
        thread.join()
