"""Pictures of what was measured, as SVG: each case beside its peers, requests over time, and an overview.

Runs by itself under Debian's Python, which has matplotlib: `/usr/bin/python3 bench/harness/plots.py RUN.json FOLDER`.
"""

import json
import math
import os
import sys
from pathlib import Path

# A seed for the names of the elements, and no date: the same figures give the same file.
os.environ.setdefault("SOURCE_DATE_EPOCH", "0")

import matplotlib  # noqa: E402

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402

INK, FAINT, OWN, PEER, BAD = "#1f2328", "#8b949e", "#0b7a75", "#9aa4af", "#cf222e"
# A page may be dark: colours that are exchanged there. Bars stay.
DARK = {INK: "#e6edf3", FAINT: "#7d8590", OWN: "#3fb8af", PEER: "#6e7681", BAD: "#ff7b72"}

# Cases of the overview, each with the load and path that stand for it.
OVERVIEW = [
    ("P2", "A file of 1 KB", "/file-1k.txt"),
    ("P5", "PHP: hello", "/hello.php"),
    ("P23-slim", "PHP: a route of Slim", "/slim/index.php"),
    ("P13", "Python: WSGI hello", "/"),
    ("P15", "Python: ASGI hello", "/"),
    ("P17", "Perl: PSGI hello", "/"),
]

matplotlib.rcParams.update({
    "svg.fonttype": "none", "svg.hashsalt": "tutti", "font.family": "sans-serif", "font.size": 9,
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": FAINT, "xtick.color": INK, "ytick.color": INK,
    "axes.spines.top": False, "axes.spines.right": False, "figure.facecolor": "none", "axes.facecolor": "none",
})


def is_own(server):
    return server.startswith("tutti")


def short(value):
    """Three digits that count: 98,100 · 1.14 · 0.42."""
    if value >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def bars(axes, rows, key, title):
    """A bar for each row, with its value; the range of the rounds as a thin line."""
    values = [row[key]["median"] for row in rows]
    positions = range(len(rows))
    axes.barh(positions, values, height=0.7, color=[OWN if is_own(row["server"]) else PEER for row in rows])
    for position, row, value in zip(positions, rows, values):
        low, high = row[key]["min"], row[key]["max"]
        if high > low:
            axes.plot([low, high], [position, position], color=INK, linewidth=0.8)
        axes.annotate(short(value), (max(value, high), position), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8)
    axes.invert_yaxis()
    axes.set_yticks(list(positions))
    axes.set_yticklabels([row["server"] for row in rows])
    axes.set_xlim(0, max(max(values), max(row[key]["max"] for row in rows)) * 1.25 or 1)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_title(title, fontsize=9, loc="left", color=INK)


def latencies(axes, rows):
    """Median, 99th percentile and slowest of each row, on a scale of tens."""
    for position, row in enumerate(rows):
        points = [max(row[key]["median"], 0.01) for key in ("p50", "p99", "max")]
        colour = OWN if is_own(row["server"]) else PEER
        axes.plot(points, [position] * 3, color=colour, linewidth=2, zorder=1)
        for point, mark in zip(points, ("o", "D", "|")):
            axes.plot([point], [position], marker=mark, color=colour, markersize=7 if mark == "|" else 4.5, markeredgewidth=1.5, zorder=2)
        axes.annotate(short(points[1]), (points[1], position), xytext=(0, 5), textcoords="offset points", ha="center", fontsize=8)
    axes.set_xscale("log")
    ends = [max(row[key]["median"], 0.01) for row in rows for key in ("p50", "max")]
    axes.set_xlim(10 ** math.floor(math.log10(min(ends)) - 0.05), 10 ** math.ceil(math.log10(max(ends)) + 0.05))
    axes.set_ylim(len(rows) - 0.5, -0.7)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=FAINT, alpha=0.3, linewidth=0.5)
    axes.xaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
    axes.set_title("ms: ● median  ◆ 99 %  | slowest", fontsize=9, loc="left", color=INK)


def draw_case(case):
    """Three panels for each load: requests per second, CPU per request, latency."""
    groups = {}
    for row in case["rows"]:
        groups.setdefault((row["load"], row["path"]), []).append(row)
    figure, parts = parts_of([len(rows) for rows in groups.values()])
    for part, ((load, path), rows) in zip(parts, groups.items()):
        part.suptitle(f"{load}   {path}", fontsize=9, x=0.01, ha="left", weight="bold")
        first, second, third = part.subplots(1, 3, gridspec_kw={"width_ratios": (3, 2, 3), **margins(len(rows))})
        bars(first, rows, "rps", "requests per second")
        bars(second, rows, "cpu_us", "CPU µs per request")
        second.set_yticklabels([])
        latencies(third, rows)
    return figure


def parts_of(rows):
    """A figure with a part below the other, each high enough for its rows."""
    heights = [height(count) for count in rows]
    figure = pyplot.figure(figsize=(9.6, sum(heights)))
    return figure, figure.subfigures(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0]


def height(rows):
    """The height of a part with so many rows, in inches."""
    return rows * 0.29 + 1


def margins(rows):
    """Where the panels of a part are: names to the left, titles above, a scale below."""
    return {"left": 0.25, "right": 0.98, "top": 1 - 0.5 / height(rows), "bottom": 0.3 / height(rows), "wspace": 0.08}


def draw_timeline(case):
    """Good answers and the slowest of each tenth of a second, for each server below the other."""
    lines = case["timelines"]
    figure, grid = pyplot.subplots(len(lines) * 2, 1, squeeze=False, sharex=True, figsize=(9.6, 2.5 * len(lines)),
                                   gridspec_kw={"height_ratios": (2, 1) * len(lines)}, layout="constrained")
    longest = max(line["slot_ms"] * len(line["slots"]) / 1000 for line in lines)
    slowest_of_all = max(slot[2] for line in lines for slot in line["slots"])
    busiest = max(slot[0] + slot[1] for line in lines for slot in line["slots"])
    for index, line in enumerate(lines):
        rate, slowest = grid[2 * index][0], grid[2 * index + 1][0]
        seconds = [number * line["slot_ms"] / 1000 for number in range(len(line["slots"]))]
        per_second = 1000 / line["slot_ms"]
        good, bad = ([slot[column] * per_second for slot in line["slots"]] for column in (0, 1))
        colour = OWN if is_own(line["server"]) else PEER
        rate.stackplot(seconds, good, bad, colors=[colour, BAD], step="post")
        errors = sum(slot[1] for slot in line["slots"])
        lost = f"{errors or 'no'} error{'' if errors == 1 else 's'}" + (f", {line['late']} requests not made, since clients waited" if line["late"] else "")
        rate.set_title(f"{line['server']}: answers per second; {lost}", fontsize=9, loc="left", color=INK)
        rate.set_ylim(0, busiest * per_second * 1.05)
        slowest.plot(seconds, [slot[2] for slot in line["slots"]], color=colour, linewidth=1.2)
        slowest.set_ylim(0, slowest_of_all * 1.05)
        slowest.set_ylabel("slowest,\nms", fontsize=8)
        for at, name in line["changes"]:
            for axes in (rate, slowest):
                axes.axvline(at, color=INK, linewidth=0.8, linestyle=":")
            rate.annotate(name, (at, busiest * per_second), xytext=(3, -1), textcoords="offset points", fontsize=8, va="top")
        rate.set_xlim(0, longest)
    grid[-1][0].set_xlabel("seconds")
    return figure


def draw_overview(cases):
    """Throughput and tail beside the peers, a part for each kind of application."""
    found = []
    for identifier, title, path in OVERVIEW:
        case = next((case for case in cases if case["id"] == identifier), None)
        rows = [row for row in case["rows"] if row["path"] == path and not row["server"].startswith("floor")] if case else []
        if rows:
            load = rows[0]["load"]
            found.append((title, [row for row in rows if row["load"] == load], load))
    if not found:
        return None
    figure, parts = parts_of([len(rows) for _, rows, _ in found])
    for part, (title, rows, load) in zip(parts, found):
        part.suptitle(f"{title}, {load}", fontsize=9, x=0.01, ha="left", weight="bold")
        first, second = part.subplots(1, 2, gridspec_kw=margins(len(rows)))
        bars(first, rows, "rps", "requests per second")
        latencies(second, rows)
    return figure


def save(figure, path, description):
    """An SVG whose colours follow the page, and that says what it shows."""
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    rules = "".join(f'[style*="{kind}: {light}"]{{{kind}:{dark}!important}}' for light, dark in DARK.items() for kind in ("fill", "stroke"))
    style = f"<title>{escaped(description)}</title><style>@media(prefers-color-scheme:dark){{{rules}}}</style>"
    text = path.read_text()
    begin = text.index("<svg")
    end = text.index(">", begin) + 1
    # The lines that matplotlib writes of itself are of no use to a reader.
    before, _, rest = text[end:].partition("<metadata>")
    rest = rest.partition("</metadata>")[2] if rest else ""
    path.write_text(f'{text[begin:end - 1]} role="img">{style}{before}{rest}')


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;")


def description(case):
    """The picture in words, for readers who cannot see it: the figures are in the table beside it."""
    if case.get("timelines"):
        lost = [f"{line['server']} {sum(slot[1] for slot in line['slots'])} errors, {line['late']} requests not made" for line in case["timelines"]]
        return f"{case['id']}, {case['title']}: " + "; ".join(lost)
    rows = [f"{row['server']} {short(row['rps']['median'])} requests per second, 99th percentile {short(row['p99']['median'])} ms"
            for row in case["rows"]]
    return f"{case['id']}, {case['title']}: " + "; ".join(rows)


def draw(run, folder):
    """Draws all of a run; returns the names of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for case in run["cases"]:
        name = picture(case)
        if name:
            save(draw_timeline(case) if case.get("timelines") else draw_case(case), folder / name, description(case))
            names.append(name)
    figure = draw_overview(run["cases"])
    if figure:
        save(figure, folder / "overview.svg", "Requests per second and the slowest hundredth, Tutti beside its peers; the figures are in docs/project/performance.md")
        names.append("overview.svg")
    return names


def picture(case):
    """The name of a case's picture; None: it has none."""
    return f"{case['id']}.svg" if case["rows"] or case.get("timelines") else None


if __name__ == "__main__":
    print("\n".join(draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))))
