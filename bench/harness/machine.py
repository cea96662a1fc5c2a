"""Names the machine and the peers' versions, so that a figure is never read without them; waits for quiet."""

import os
import platform
import subprocess
import time
from pathlib import Path

from .processes import machine_busy_seconds


def describe():
    """Tells what a reader needs to judge the figures."""
    cpu = Path("/proc/cpuinfo").read_text()
    model = next((line.partition(":")[2].strip() for line in cpu.splitlines() if line.startswith("model name")), "?")
    memory = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "virtual": " hypervisor " in cpu,
        "memory_gib": round(int(memory.split()[1]) / 1024 / 1024),
        "kernel": platform.release().split("-")[0],
        "system": release.get("PRETTY_NAME", "?").strip('"'),
        "peers": versions(),
    }


def versions():
    commands = {"nginx": ["nginx", "-v"], "apache": ["apache2", "-v"], "php": ["php", "-v"], "wrk": ["wrk", "-v"], "ab": ["ab", "-V"], "h2o": ["h2o", "-v"],
                "puma": ["puma", "-V"], "node": ["node", "-v"]}
    found = {}
    for name, command in commands.items():
        try:
            output = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            continue
        found[name] = (output.stdout + output.stderr).strip().splitlines()[0].strip()
    return found


def foreign_load(seconds=1.0):
    """Share of one core that is in use while we do nothing."""
    before = machine_busy_seconds()
    time.sleep(seconds)
    return (machine_busy_seconds() - before) / seconds


def wait_for_quiet(limit=0.15, patience=300):
    """Waits until less than `limit` of a core is busy, at most `patience` seconds; returns the last reading."""
    deadline = time.monotonic() + patience
    while True:
        load = foreign_load()
        if load <= limit or time.monotonic() > deadline:
            return load
