"""The point about large configurations (P31): how long a change takes, and what requests notice of it."""

import json
import statistics
import threading
import time

from .loads import Paced
from .measure import Check, say
from .servers import Tutti

LINES = 10_000
MOST_APPLY_MS = 200
MOST_DELAY_MS = 5


def large(base, generation):
    """`base` with hundreds of routes, each for a host with a few patterns: 10,000 lines as the control API prints them."""
    def step(number):
        return {"match": {"host": [f"site{number}.example.com", f"*.site{number}.example.org"],
                          "uri": [f"/app{number}/*", "!/private/*", f"~^/item/{number}/[0-9]+$"], "method": ["GET", "POST"]},
                "action": {"return": 404, "response_headers": {"X-Generation": str(generation), "X-Site": f"site{number}"}}}

    configuration = dict(base)
    configuration["routes"] = list(base["routes"])
    routes, printed = [], 0
    while printed < LINES:
        routes.append(step(len(routes)))
        printed = len(routes) * 24
    # The route that the load asks for comes first: the load measures the change, not a thousand comparisons.
    configuration["routes"] += routes
    return json.dumps(configuration)


def p31(context):
    """Whole configurations of 10,000 lines, one a second, beside clients that ask at their own pace."""
    load = Paced(context.load_program, context.scale(50, 20), 0.01, context.scale(8, 3))
    rounds, applied = [], []
    for server in context.start([(Tutti, 0, None)]):
        base = server.configuration()
        texts = [large(base, generation) for generation in range(2)]
        load.run(server.url("/return"))
        for _ in range(context.rounds):
            quiet = load.run(server.url("/return"))
            times = []
            is_over = threading.Event()

            def change():
                number = 0
                while not is_over.wait(1):
                    begin = time.monotonic()
                    status, body = server.control_request("PUT", "/config", texts[number % 2])
                    times.append((time.monotonic() - begin) * 1000)
                    number += 1
                    if status != 200:
                        raise RuntimeError(f"the configuration was refused: {body[:500]}")

            thread = threading.Thread(target=change)
            thread.start()
            try:
                busy = load.run(server.url("/return"))
            finally:
                is_over.set()
                thread.join()
            applied += times
            rounds.append({"changes": len(times), "apply_ms": round(statistics.median(times), 1), "slowest_apply_ms": round(max(times), 1),
                           "max_ms": busy.max, "max_without_ms": quiet.max, "p99_ms": busy.p99, "p99_without_ms": quiet.p99,
                           "errors": busy.errors})
            say(f"  {rounds[-1]}")
    context.stop()
    apply = statistics.median(applied)
    delay = statistics.median(entry["max_ms"] for entry in rounds) - statistics.median(entry["max_without_ms"] for entry in rounds)
    errors = sum(entry["errors"] for entry in rounds)
    checks = [Check(f"applied in ≤ {MOST_APPLY_MS} ms: {apply:.0f}", apply <= MOST_APPLY_MS),
              Check(f"slowest answer at most {MOST_DELAY_MS} ms later than without changes: {delay:.1f}", delay <= MOST_DELAY_MS),
              Check(f"no error: {errors}", errors == 0)]
    return {"id": "P31", "title": "configuration of 10,000 lines, changed each second", "facts": {"rounds": rounds},
            "target": "applied in ≤ 200 ms, no request delayed by more than 5 ms"}, checks
