"""Reads from /proc how much the server's processes hold, and checks that it stays flat."""

import os
import re
import statistics
import time
from pathlib import Path

from harness.processes import command, tree, written_bytes

# Growth of the memory of main, router and controller from the first quarter of the steady phase to the last: the caches of a few threads, not
# a leak of bytes for each request.
ALLOWED_MIB = 4.0
# Descriptors, threads and files at rest may differ by what a thread keeps for the next request.
ALLOWED_COUNT = 12
CORE = ("main", "router", "controller")


def role(pid):
    """`main`, `router`, `controller`, `prototype`, `application`; None for other processes, such as the children of applications."""
    found = re.match(r'tutti: (?:"[^"]*" )?(\w+)', command(pid))
    return found and found[1]


def entries(folder):
    try:
        return len(os.listdir(folder))
    except OSError:
        return 0


def files(*folders):
    """All files but the last configurations, of which a hundred are kept."""
    return sum(len(names) for folder in folders for place, _, names in os.walk(folder) if Path(place).name != "history")


def read(server, began):
    """One reading: MiB that the processes of each role have written and share with none; descriptors and threads of the core's processes; files of the server; how many processes there are."""
    memory, descriptors, threads, processes = {}, 0, 0, 0
    sizes = written_bytes(server.roots[0])
    for pid in tree(server.roots[0]):
        kind = role(pid)
        if kind is None:
            continue
        processes += 1
        memory[kind] = memory.get(kind, 0) + sizes.get(pid, 0) / 1024 / 1024
        if kind in CORE:
            descriptors += entries(f"/proc/{pid}/fd")
            threads += entries(f"/proc/{pid}/task")
    return {"seconds": time.monotonic() - began, "memory": memory, "descriptors": descriptors, "threads": threads, "processes": processes,
            "files": files(server.folder / "state", server.folder / "tmp")}


def core(reading):
    return sum(reading["memory"].get(kind, 0) for kind in CORE)


def growth(readings):
    """MiB from the first quarter of these readings to the last."""
    sizes = [core(reading) for reading in readings]
    quarter = max(1, len(sizes) // 4)
    return statistics.median(sizes[-quarter:]) - statistics.median(sizes[:quarter])


def faults(steady, before, after):
    """Returns sentences about what is not flat: memory in the steady phase, and the rest at rest before and after the load."""
    found = []
    grown = growth(steady)
    if grown > ALLOWED_MIB:
        found.append(f"main, router and controller grew by {grown:.1f} MiB in the steady phase; {ALLOWED_MIB:g} are allowed")
    for name in ("descriptors", "threads", "files"):
        if after[name] > before[name] + ALLOWED_COUNT:
            found.append(f"{name}: {before[name]} at rest before the load, {after[name]} after it")
    return found


def alerts(server):
    """Lines of the log that should not be there: panics, and alerts but for processes that were killed and what they were to serve."""
    explained = ("SIGKILL", "killed by signal 9", "parts of the stored configuration cannot be applied")
    lines = Path(server.folder / "log").read_text(errors="replace").splitlines()
    return [line for line in lines if "panicked" in line or "[alert]" in line and not any(words in line for words in explained)]
