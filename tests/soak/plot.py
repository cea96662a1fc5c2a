"""The picture of a soak: memory, descriptors and processes over time, and how many requests there were.

Runs by itself under Debian's Python, which has matplotlib: `/usr/bin/python3 tests/soak/plot.py result.json soak.svg`.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench/harness"))

from plots import FAINT, INK, OWN, PEER, pyplot, save  # noqa: E402

CORE = (("router", OWN), ("main", INK), ("controller", PEER))


def draw(result):
    readings = result["readings"]
    hours = [reading["seconds"] / 3600 for reading in readings]
    figure, grid = pyplot.subplots(3, 1, sharex=True, figsize=(9.6, 6), layout="constrained")
    memory, counts, rate = grid
    for kind, colour in CORE:
        memory.plot(hours, [reading["memory"].get(kind, 0) for reading in readings], color=colour, linewidth=1, label=kind)
    memory.set_title("memory that no other process has, MiB", fontsize=9, loc="left", color=INK)
    for name, colour in (("descriptors", OWN), ("threads", INK), ("files", PEER), ("processes", FAINT)):
        counts.plot(hours, [reading[name] for reading in readings], color=colour, linewidth=1, label=name)
    counts.set_title("of main, router and controller; files of the server; processes of all", fontsize=9, loc="left", color=INK)
    steps = list(zip(readings, readings[1:]))
    rate.plot(hours[1:], [(after["requests"] - before["requests"]) / (after["seconds"] - before["seconds"]) for before, after in steps], color=OWN, linewidth=0.8)
    rate.set_title("requests per second", fontsize=9, loc="left", color=INK)
    rate.set_xlabel("hours")
    for axes in grid:
        # With room for the names above the lines.
        axes.set_ylim(0, axes.get_ylim()[1] * 1.25)
        axes.axvline(result["steady_at"] / 3600, color=INK, linewidth=0.8, linestyle=":")
    memory.annotate("no more killed routers and upgrades", (result["steady_at"] / 3600, 0), xytext=(3, 4), textcoords="offset points", fontsize=8)
    for axes in (memory, counts):
        axes.legend(frameon=False, fontsize=8, ncols=4, loc="upper right")
    return figure


def description(result):
    """The picture in words, for readers who cannot see it."""
    return (f"{sum(result['requests'].values()):,} requests in {result['hours']:g} hours: memory of main, router and controller grew by "
            f"{result['grown_mib']} MiB in the second half; {result['after']['descriptors']} descriptors at the end, {result['at_rest']['descriptors']} before the load")


if __name__ == "__main__":
    found = json.loads(Path(sys.argv[1]).read_text())
    save(draw(found), Path(sys.argv[2]), description(found))
