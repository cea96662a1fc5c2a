"""Points about processes: growth under load (P19), and changes while the load goes on (P24)."""

import json
import statistics
import threading
import time

from .loads import Wrk
from .measure import Check, say
from .servers import Tutti

LONGEST_FORK_MS = 10


def p19(context):
    """Scenario 6: 5 to 100 processes by need, beside 100 that are always there; and how soon a new one takes requests."""
    most, spare = context.scale(100, 20), 5
    load, path = Wrk(1, context.scale(1000, 100), 2), "/hello.php"
    static, dynamic, rounds = [], [], []
    for server in context.start([(Tutti, most, f"tutti, {most} processes")]):
        Wrk(1, 16, 1).run(server.url(path))
        for _ in range(context.rounds):
            sample = load.run(server.url(path))
            static.append(sample.rps)
            rounds.append({"processes": most, "rps": round(sample.rps), "p99_ms": sample.p99, "errors": sample.errors})
    context.stop()
    back = None
    for server in context.start([(Tutti, spare, f"tutti, {spare} to {most} processes")]):
        scaling = {"max": most, "spare": spare, "idle_timeout": 2}
        server.control_request("PUT", "/config/applications/php/processes", json.dumps(scaling))
        for _ in range(context.rounds):
            until_idle(server, spare)
            # The first two seconds are for growing, and are not counted.
            first, sample = load.run(server.url(path)), load.run(server.url(path))
            dynamic.append(sample.rps)
            rounds.append({"processes": f"{spare} to {most}", "rps": round(sample.rps), "p99_ms": sample.p99,
                           "errors": first.errors + sample.errors, "running_then": running(server)})
        back = until_idle(server, spare)
        ready = [ready_ms(server) for _ in range(5)]
    context.stop()
    for entry in rounds:
        say(f"  {entry}")
    share = statistics.median(dynamic) / statistics.median(static)
    errors = sum(entry["errors"] for entry in rounds)
    fork = statistics.median(ready)
    checks = [Check(f"from the third second ≥ 0.9 of static: {share:.2f}", share >= 0.9), Check(f"no error: {errors}", errors == 0),
              Check(f"back to {spare} processes afterwards: {back}", back == spare),
              Check(f"a new process takes requests within {LONGEST_FORK_MS} ms: {fork:.1f}", fork <= LONGEST_FORK_MS)]
    return {"id": "P19", "title": f"scenario 6: {spare} to {most} processes by need, {load.connections:,} connections",
            "facts": {"rounds": rounds, "new process, ms": [{"from the change until it is up": round(value, 1)} for value in ready]},
            "target": "≥ 0.9 of static from the third second, no error, back afterwards; a new process ready in ≤ 10 ms"}, checks


def status(server, application="php"):
    return json.loads(server.control_request("GET", f"/status/applications/{application}/processes")[1])


def running(server, application="php"):
    return status(server, application)["running"]


def until_idle(server, count):
    """Waits until there are no more than `count` processes; how many there are."""
    deadline = time.monotonic() + 30
    while running(server) > count and time.monotonic() < deadline:
        time.sleep(0.1)
    return running(server)


def change_ms(server, count, application="php"):
    """From asking for this number of processes until they are up. The change is answered before; `/status` then waits for them, some seconds."""
    begin = time.monotonic()
    code, answer = server.control_request("PUT", f"/config/applications/{application}/processes", json.dumps(count))
    if code != 200:
        raise RuntimeError(f"{server.name}: {count} processes were refused: {answer}")
    while running(server, application) != count:
        if time.monotonic() > begin + 60:
            raise TimeoutError(f"{server.name}: waited 60 s for {count} processes")
    return (time.monotonic() - begin) * 1000


def ready_ms(server):
    """The time until a fifth process is up."""
    change_ms(server, 4)
    until_idle(server, 4)
    return change_ms(server, 5)


def p24(context):
    """The slowest hundredth with and without a change each second."""
    load, path = Wrk(1, 64, context.scale(4, 2)), "/hello.php"
    facts = []
    for server in context.start([(Tutti, 4, None)]):
        Wrk(1, 16, 1).run(server.url(path))
        changes = {
            "nothing": None,
            "restart": lambda: server.control_request("GET", "/control/applications/php/restart"),
            "reconfiguration": Toggle(server),
            "upgrade": lambda: server.control_request("POST", "/control/upgrade"),
        }
        for _ in range(context.rounds):
            for name, change in changes.items():
                sample, count, refused = under(load, server.url(path), change)
                facts.append({"change": name, "times": count, "refused": refused, "rps": round(sample.rps), "p99_ms": sample.p99,
                              "max_ms": sample.max, "errors": sample.errors})
                say(f"  {facts[-1]}")
    context.stop()
    p99 = {name: statistics.median(fact["p99_ms"] for fact in facts if fact["change"] == name) for name in changes}
    checks = [Check(f"{name}: p99 ≤ 2 × that without: {p99[name] / p99['nothing']:.2f}", p99[name] <= 2 * p99["nothing"])
              for name in changes if name != "nothing"]
    checks.append(Check(f"no error: {sum(fact['errors'] for fact in facts)}", all(fact["errors"] == 0 for fact in facts)))
    checks.append(Check(f"each change done: {sum(fact['refused'] for fact in facts)} refused", all(fact["refused"] == 0 for fact in facts)))
    return {"id": "P24", "title": "rolling restart, reconfiguration and upgrade under full load", "facts": {"rounds": facts},
            "target": "p99 ≤ 2 × that without, no error"}, checks


class Toggle:
    """Another route in front, and away again."""

    def __init__(self, server):
        self.server, self.with_it = server, False
        self.routes = server.configuration()["routes"]

    def __call__(self):
        self.with_it = not self.with_it
        extra = [{"match": {"uri": "/none"}, "action": {"return": 404}}] if self.with_it else []
        return self.server.put("/config/routes", extra + self.routes)


def under(load, url, change):
    """One load with `change` made all the while, a second apart: (sample, how often, how often refused)."""
    count = refused = 0
    is_over = threading.Event()

    def make_changes():
        nonlocal count, refused
        while change and not is_over.wait(1):
            count += 1
            refused += change()[0] != 200

    thread = threading.Thread(target=make_changes)
    thread.start()
    try:
        sample = load.run(url)
    finally:
        is_over.set()
        thread.join()
    return sample, count, refused
