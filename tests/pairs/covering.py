"""Covering arrays: rows of capabilities that are on, in which every possible combination of so many of them occurs.

Each capability is on or off in a row. [array] is greedy and deterministic: the same capabilities give the same rows. Must never: leave out
an interaction that is possible; `array` checks its own result.
"""

from itertools import combinations, product

# A row of a suite of pairs starts one server; more capabilities at once would hide each other, and be hard to blame for a fault.
MOST_ON = 9


class Rules:
    """The capabilities that cannot be on together, or without another, each with its reason; and the groups of which a row needs one."""

    def __init__(self, impossible=(), needs=(), one_of=(), free=()):
        # ((a, b), reason): not both.
        self.impossible = {frozenset(pair): reason for pair, reason in impossible}
        # ((a, b), reason): `a` only with `b`.
        self.needs = {pair: reason for pair, reason in needs}
        self.one_of = [tuple(group) for group in one_of]
        # Those that do not count against MOST_ON.
        self.free = set(free)

    def allow(self, row):
        """True if the values chosen so far (name to bool) can be part of a row."""
        on = [name for name, value in row.items() if value]
        if any(frozenset(pair) in self.impossible for pair in combinations(on, 2)):
            return False
        if any(row.get(a) and row.get(b) is False for a, b in self.needs):
            return False
        if any(all(row.get(name) is False for name in group) for group in self.one_of):
            return False
        return sum(name not in self.free for name in on) <= MOST_ON


def interactions(names, strength, rules):
    """All possible values of each choice of so many names: tuples of (name, bool)."""
    for chosen in combinations(names, strength):
        for values in product((True, False), repeat=strength):
            row = dict(zip(chosen, values))
            if rules.allow(row) and rules.allow(completed(row, rules)):
                yield tuple(row.items())


def completed(row, rules):
    """The row with what its values need."""
    row = dict(row)
    for _ in rules.needs:
        for a, b in rules.needs:
            if row.get(a):
                row.setdefault(b, True)
            if row.get(b) is False:
                row.setdefault(a, False)
    return row


def array(names, strength, rules):
    """The rows, each a tuple of the names that are on."""
    # Those that are on matter most: rows begin with them.
    missing = dict.fromkeys(sorted(interactions(names, strength, rules), key=lambda each: -sum(value for _, value in each)))
    rows, uses = [], dict.fromkeys(names, 0)
    while missing:
        row = completed(dict(next(iter(missing))), rules)
        _fill(row, names, (strength, missing, uses), rules)
        covered = [each for each in _covered(row, names, strength) if each in missing]
        assert covered, "a row that covers nothing new"
        for each in covered:
            del missing[each]
        rows.append(tuple(name for name in names if row[name]))
        for name in rows[-1]:
            uses[name] += 1
    return rows


def _fill(row, names, state, rules):
    """Chooses the values that are left, those that cover most first; of equal ones, those that were on least."""
    strength, missing, uses = state
    while left := [name for name in names if name not in row]:
        best = None
        for name in left:
            others = list(row.items())
            for value in (True, False):
                tried = completed(row | {name: value}, rules)
                if not rules.allow(tried):
                    continue
                gain = sum(_ordered(names, (*each, (name, value))) in missing for each in combinations(others, strength - 1))
                rank = (gain, value, -uses[name])
                if best is None or rank > best[0]:
                    best = (rank, tried)
        row.clear()
        row.update(best[1])


def _ordered(names, each):
    return tuple(sorted(each, key=lambda pair: names.index(pair[0])))


def _covered(row, names, strength):
    for chosen in combinations(names, strength):
        yield tuple((name, row[name]) for name in chosen)
