"""Writes what was measured: one JSON file per run, and the table of docs/performance.md."""

import json
import math

from .measure import Check

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


def summary_markdown(cases):
    """One line per point: reached, missed or not measured, with the checks that decided it."""
    lines = ["| point | | verdict |", "|---|---|---|"]
    for case in cases:
        oks = [check["ok"] for check in case["checks"]]
        verdict = "**missed**" if False in oks else "reached" if oks and None not in oks else "not measured"
        missed = "; ".join(check["text"] for check in case["checks"] if check["ok"] is False)
        lines.append(f"| {case['id']} | {case['title']} | {verdict}{': ' + missed if missed else ''} |")
    return "\n".join(lines) + "\n"


def run_markdown(run):
    machine = run["machine"]
    kind = "virtual machine" if machine["virtual"] else "machine"
    peers = "; ".join(f"{name}: {version}" for name, version in machine["peers"].items())
    head = [
        f"Measured {run['date']} on a {kind} with {machine['cores']} cores ({machine['cpu']}), {machine['memory_gib']} GiB, "
        f"Linux {machine['kernel']}, {machine['system']}. {peers}.", "",
        f"{run['rounds']} interleaved rounds of {run['seconds']:g} s unless a row says otherwise; medians, with the range in brackets. "
        f"Before the run {run['foreign_before']:.2f} of a core was busy with other work"
        f"{'; this was a quick run: its figures show that the harness works, nothing else' if run['quick'] else ''}.", "",
        summary_markdown(run["cases"]), ""]
    return "\n".join(head) + "\n".join(case_markdown(case) for case in run["cases"])


def write(run, folder, document=None):
    """Writes NAME.json and NAME.md into `folder`, and the generated part of `document`."""
    folder.mkdir(parents=True, exist_ok=True)
    name = run["name"]
    (folder / f"{name}.json").write_text(json.dumps(run, indent=1, ensure_ascii=False) + "\n")
    text = run_markdown(run)
    (folder / f"{name}.md").write_text(f"# Bench run {name}\n\n{text}")
    if document and document.exists():
        page = document.read_text()
        before, begin, rest = page.partition(_BEGIN)
        _, end, after = rest.partition(_END)
        if begin and end:
            document.write_text(f"{before}{_BEGIN}\n\n{text}\n{_END}{after}")
    return text
