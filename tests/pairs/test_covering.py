"""The covering arrays: nothing possible is left out, nothing impossible is in, and the same input gives the same rows."""

import unittest
from itertools import combinations

from capabilities import NAMES, PROTOCOLS, RULES
from covering import MOST_ON, Rules, array, completed, interactions


class Covering(unittest.TestCase):
    def covers(self, names, strength, rules):
        rows = array(names, strength, rules)
        values = [{name: name in row for name in names} for row in rows]
        for row in values:
            self.assertTrue(rules.allow(row), row)
        for each in interactions(names, strength, rules):
            self.assertTrue(any(all(row[name] == value for name, value in each) for row in values), each)
        return rows

    def test_each_pair_is_on_and_off(self):
        rows = self.covers(NAMES, 2, RULES)
        for a, b in combinations(NAMES, 2):
            is_covered = any(a in row and b in row for row in rows)
            self.assertNotEqual(is_covered, frozenset((a, b)) in RULES.impossible, (a, b))
        self.assertEqual(rows, array(NAMES, 2, RULES))

    def test_each_three_of_some_are_on_and_off(self):
        self.covers(NAMES[:9], 3, Rules(one_of=[PROTOCOLS], free=PROTOCOLS))

    def test_what_is_impossible_is_left_out(self):
        rules = Rules(impossible=[(("a", "b"), "they exclude each other")], needs=[(("c", "a"), "it is a part of it")], one_of=[("a", "b")])
        rows = self.covers(("a", "b", "c", "d"), 2, rules)
        self.assertFalse(any({"a", "b"} <= set(row) or "c" in row and "a" not in row for row in rows), rows)
        self.assertEqual(completed({"c": True}, rules), {"c": True, "a": True})

    def test_a_row_is_small_enough_to_blame(self):
        for row in array(NAMES, 2, RULES):
            self.assertLessEqual(len(set(row) - RULES.free), MOST_ON)


if __name__ == "__main__":
    unittest.main()
