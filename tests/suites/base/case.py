"""The outcome of a case, and the reasons of those that are known not to be met."""

from dataclasses import dataclass
from pathlib import Path

CONFORMANCE = Path(__file__).resolve().parent.parent.parent / "conformance"
# A `warn` is met, but not in the way that the suite prefers; a `note` is a warning in a case that the suite does not score.
OUTCOMES = ("pass", "warn", "note", "fail", "skip")


class Missing(Exception):
    """A suite cannot run here: a program that it needs is not installed."""


@dataclass(frozen=True)
class Case:
    """One case under the suite's own name. The detail is for a person, and names no port, path or time: the results page has it."""

    name: str
    outcome: str
    detail: str = ""

    def __post_init__(self):
        if self.outcome not in OUTCOMES:
            raise ValueError(f"`{self.outcome}` is no outcome of {self.name}")
        if not self.name or len(self.name.split()) != 1:
            raise ValueError(f"the name `{self.name}` is not one word")


def known(suite):
    """The cases that `tests/conformance/SUITE/known.txt` says are not met: {name: reason}. Each line is a name and its reason."""
    file = CONFORMANCE / suite / "known.txt"
    reasons = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        if not line.strip() or line.startswith("#"):
            continue
        name, _, reason = line.partition(" ")
        if not reason.strip():
            raise ValueError(f"{file}: `{name}` has no reason")
        if name in reasons:
            raise ValueError(f"{file}: `{name}` is there twice")
        reasons[name] = reason.strip()
    return reasons


def complaints(cases, reasons, most_warnings=None):
    """Returns what is wrong with a run: a case that fails and is not known, one that is known and does not fail, and too many warnings."""
    seen = set()
    warnings = [case.name for case in cases if case.outcome == "warn"]
    if most_warnings is not None and len(warnings) > most_warnings:
        yield f"{len(warnings)} warnings, and at most {most_warnings} are allowed: {', '.join(warnings)}"
    for case in cases:
        if case.name in seen:
            yield f"{case.name} is there twice"
        seen.add(case.name)
        if case.outcome == "fail" and case.name not in reasons:
            yield f"{case.name} fails: {case.detail}"
        if case.outcome == "pass" and case.name in reasons:
            yield f"{case.name} passes: take it out of known.txt"
        if case.outcome in ("warn", "note") and case.name in reasons:
            yield f"{case.name} is only a warning now ({case.detail}): take it out of known.txt"
    if not seen:
        yield "there is no case"
    for name in reasons:
        if name not in seen:
            yield f"{name} is in known.txt, and no such case was run"
