"""The picture of `bench/fleet.py`: how a document comes to all nodes, and how they come back to a store that was away.

Runs by itself under Debian's Python, which has matplotlib: `/usr/bin/python3 bench/harness/fleet_plot.py fleet.json FOLDER`.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from plots import BAD, FAINT, INK, OWN, PEER, pyplot, save  # noqa: E402


def draw(run):
    """Nodes that have the document over time, and connections begun in each tenth of a second."""
    figure, (first, second) = pyplot.subplots(1, 2, figsize=(9.6, 3), layout="constrained")
    count = run["nodes"]
    longest = max(one["command"] for one in run["roll_outs"])
    for one in run["roll_outs"]:
        times = one["times"]
        first.step([0, *times, longest * 1.05], [0, *range(1, count + 1), count], where="post", color=OWN, linewidth=0.9)
        first.plot([one["command"]], [count], marker="|", color=INK, markersize=9)
    first.set_xlim(0, longest * 1.05)
    first.set_ylim(0, count * 1.06)
    first.set_xlabel("seconds since `tutti fleet put` was begun")
    first.set_title(f"nodes with the document, {len(run['roll_outs'])} roll-outs; | the command knows of all", fontsize=9, loc="left", color=INK)
    for number, one in enumerate(run["deaths"]):
        slots = one["slots"]
        begin = 10
        seconds = [(index - begin) / 10 for index in range(len(slots))]
        second.step(seconds, [slot[0] for slot in slots], where="post", color=OWN if number == 0 else PEER, linewidth=0.9)
        second.axvline(one["back"] - begin / 10, color=BAD if number == 0 else FAINT, linewidth=0.8, linestyle=":")
    second.axvline(0, color=INK, linewidth=0.8, linestyle=":")
    top = second.get_ylim()[1]
    second.annotate("etcd is killed", (0, top), xytext=(3, -8), textcoords="offset points", fontsize=8)
    second.annotate("it is back", (run["deaths"][0]["back"] - 1, top), xytext=(3, -8), textcoords="offset points", fontsize=8)
    second.set_xlabel("seconds")
    second.set_ylim(0, top)
    second.set_title(f"connections begun by {count:,} nodes in each tenth of a second", fontsize=9, loc="left", color=INK)
    return figure


def description(run):
    """The picture in words, for readers who cannot see it."""
    last = sorted(one["last"] for one in run["roll_outs"])
    death = run["deaths"][0]
    return (f"{run['nodes']} nodes have a document {last[len(last) // 2]:.2f} seconds after the command was begun (median of {len(last)} roll-outs, longest {last[-1]:.2f}); "
            f"after an etcd was away for {death['away']} seconds all follow it again within {death['all_follow_after']} seconds, "
            f"with at most {death['most_attempts_in_a_tenth']} connections begun in a tenth of a second")


if __name__ == "__main__":
    found = json.loads(Path(sys.argv[1]).read_text())
    save(draw(found), Path(sys.argv[2]) / "fleet.svg", description(found))
