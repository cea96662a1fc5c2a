"""Writes what was measured: one JSON file per run, and the table of docs/project/performance.md."""

import json
import math
import subprocess
import tempfile
from pathlib import Path

from .measure import Check, say

_BEGIN, _END = "<!-- begin: make bench -->", "<!-- end: make bench -->"


def _number(value, digits=0):
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return f"{value:,.{digits}f}"


def _latency(value):
    return _number(value, 2 if value < 10 else 0)


def _mark(check: Check):
    return {True: "reached", False: "**missed**", None: "not measured"}[check.ok]


def case_markdown(case):
    """One case as a section: rows, facts, verdict."""
    lines = [f"### {case['id']} · {case['title']}", "", f"To reach: {case['target']}.", ""]
    if case.get("note"):
        lines += [case["note"], ""]
    if case["rows"]:
        lines += ["| server | load | path | req/s (range) | p50 ms | p99 ms | max ms | errors | CPU µs/req (range) | PSS MiB |",
                  "|---|---|---|---|---|---|---|---|---|---|"]
        for row in case["rows"]:
            rps, cpu = row["rps"], row["cpu_us"]
            lines.append(
                f"| {row['server']} | {row['load']} | {row['path']} | {_number(rps['median'])} ({_number(rps['min'])}–{_number(rps['max'])}) "
                f"| {_latency(row['p50']['median'])} | {_latency(row['p99']['median'])} | {_latency(row['max']['median'])} "
                f"| {row['errors']:,} | {_number(cpu['median'], 1)} ({_number(cpu['min'], 1)}–{_number(cpu['max'], 1)}) | {_number(row['pss_mib'], 1)} |")
        lines.append("")
    for title, facts in case["facts"].items():
        if not facts:
            continue
        keys = list(dict.fromkeys(key for fact in facts for key in fact))
        lines += [f"{title}:", "", "| " + " | ".join(key.replace("_", " ") for key in keys) + " |", "|" + "---|" * len(keys)]
        lines += ["| " + " | ".join(str(fact.get(key, "–")) for key in keys) + " |" for fact in facts]
        lines.append("")
    lines += [f"- {check['verdict']}: {check['text']}" for check in case["checks"]]
    lines += [f"- unlike: {problem}" for problem in case["problems"]]
    return "\n".join(lines) + "\n"


def case_record(case, rows, facts, checks, problems):
    """The JSON form of a case; `case` has id, title, target, note."""
    def summary(row, key):
        low, high = row.range(key)
        return {"median": row.median(key), "min": low, "max": high}

    records = []
    for row in rows:
        if row.samples:
            records.append({"server": row.server, "load": row.load, "path": row.path, "errors": row.total("errors"),
                            "requests": row.total("requests"), "pss_mib": row.pss_mib, "samples": row.samples,
                            **{key: summary(row, key) for key in ("rps", "p50", "p99", "max", "cpu_us", "foreign_cores")}})
    return {**case, "rows": records, "facts": facts, "problems": problems,
            "checks": [{"text": check.text, "ok": check.ok, "verdict": _mark(check)} for check in checks]}


def _verdict(case):
    """The verdict of a point, with the checks that it missed."""
    oks = [check["ok"] for check in case["checks"]]
    verdict = "**missed**" if False in oks else "reached" if oks and None not in oks else "not measured"
    missed = "; ".join(check["text"] for check in case["checks"] if check["ok"] is False)
    return f"{verdict}{': ' + missed if missed else ''}"


def summary_markdown(cases):
    """One line per point: reached, missed or not measured, with the checks that decided it."""
    lines = ["| point | | verdict |", "|---|---|---|", *(f"| {case['id']} | {case['title']} | {_verdict(case)} |" for case in cases)]
    return "\n".join(lines) + "\n"


def merged(files):
    """Several runs as one: the machine is that of the first, each case of the last that has it."""
    runs = [json.loads(Path(file).read_text()) for file in files]
    cases = {}
    for run in runs:
        for case in run["cases"]:
            if run is not runs[0]:
                case["note"] = f"{case['note']} Measured {run['date']}.".strip()
            cases[case["id"]] = case
    return {**runs[0], "name": runs[-1]["name"], "cases": sorted(cases.values(), key=_order)}


def _order(case):
    number, _, rest = case["id"].partition("-")
    return number[0], int(number[1:]), rest


def draw(run_file, folder):
    """Draws a run by Debian's Python, which has matplotlib; the names of the pictures."""
    program = Path(__file__).with_name("plots.py")
    done = subprocess.run(["/usr/bin/python3", program, run_file, folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        say(f"no pictures: {(done.stderr.strip().splitlines() or ['?'])[-1]}; hint: packaging/install-deps bench")
        return []
    return done.stdout.split()


def run_markdown(run):
    """All rows of a run."""
    return "\n".join([*machine_markdown(run), summary_markdown(run["cases"]), *(case_markdown(case) for case in run["cases"])])


def write(run, folder):
    """Writes NAME.json and NAME.md into `folder`; the text of the latter."""
    folder.mkdir(parents=True, exist_ok=True)
    name = run["name"]
    (folder / f"{name}.json").write_text(json.dumps(run, indent=1, ensure_ascii=False) + "\n")
    text = run_markdown(run)
    (folder / f"{name}.md").write_text(f"# Bench run {name}\n\n{text}")
    return text


def machine_markdown(run):
    """The machine and the length of a run: one sentence per line."""
    machine = run["machine"]
    kind = "virtual machine" if machine["virtual"] else "machine"
    peers = "; ".join(f"{name}: {version}" for name, version in machine["peers"].items())
    return [
        f"Measured {run['date']} on a {kind} with {machine['cores']} cores ({machine['cpu']}), {machine['memory_gib']} GiB, "
        f"Linux {machine['kernel']}, {machine['system']}.",
        f"{peers}.",
        f"{run['rounds']} interleaved rounds of {run['seconds']:g} s unless a row says otherwise; medians, with the range in brackets.",
        f"Before the run {run['foreign_before']:.2f} of a core was busy with other work"
        f"{'; this was a quick run: its figures show that the harness works, nothing else' if run['quick'] else ''}.", ""]


def document_markdown(run, pictures):
    """The table of points, each with its target and its verdict, and the pictures."""
    lines = [*machine_markdown(run), "| point | what | to reach | verdict |", "|---|---|---|---|"]
    lines += [f"| {case['id']} | {case['title']} | {case['target']} | {_verdict(case)} |" for case in run["cases"]]
    for case in run["cases"]:
        if f"{case['id']}.svg" in pictures:
            lines += ["", f"![{case['id']}: {case['title']}](plots/{case['id']}.svg)"]
    return "\n".join(lines) + "\n"


def document(run, page, results):
    """Puts a run into the generated part of a page, with its pictures beside the page, and all its rows into `results`."""
    before, begin, rest = page.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise RuntimeError(f"{page} has no `{_BEGIN}` and `{_END}`")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(run, file)
        file.flush()
        pictures = draw(file.name, page.parent / "plots")
    (results / "full-run.md").write_text(f"# The last full run\n\n{run_markdown(run)}")
    page.write_text(f"{before}{_BEGIN}\n\n{document_markdown(run, pictures)}\n{_END}{after}")
