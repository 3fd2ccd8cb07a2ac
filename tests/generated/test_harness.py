"""Tests of what makes, runs and judges the programs: what is broken on purpose must be found.

    test_harness.py BUILD [PART PARTS]    of so many parts one; PART counts from 0
"""

import os
import sys
import tempfile
import unittest

import batch
import classes
import programs
import shapes
import shrink
import verdict

EVEN = ("even", "even_branches", "even_grid", "even_two")


def of_classes(kind, names, count):
    """The first programs of these classes."""
    made = (programs.make(kind, seed) for seed in range(10 * len(classes.CLASSES)))
    return [spec for spec in made if spec["class"] in names][:count]


def mixed(kind):
    """A program in which rank 0 comes to another point than the others, with the same collective."""
    spec = next(spec for spec in of_classes(kind, ("even",), 40) if spec["ranks"] > 2 and not spec["validate"])
    spec["form"] = "plain"
    spec["helpers"] = {}
    point = dict(spec["points"][spec["body"][0]], collective="all_reduce", operation="sum")
    spec["points"] += [point, dict(point)]
    spec["mixed"] = [len(spec["points"]) - 2, len(spec["points"]) - 1]
    if kind == "c":
        spec["compiler"] = ["gcc", "-O1"]
    return spec


class Harness(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = batch.Place(BUILD, folder.name)
        self.alone = self.place.without_join()

    def judge(self, place, specs):
        return [found for at, group in enumerate(batch.group(specs))
                for found in batch.judge_all(place, f"tested_{at}", group)[0]]

    def test_a_seed_is_always_the_same_program(self):
        for kind in ("c", "python", *programs.OF_COMPILERS):
            for seed in range(len(classes.CLASSES)):
                a, b = programs.make(kind, seed), programs.make(kind, seed)
                self.assertEqual(programs.source_of(a), programs.source_of(b))
                self.assertLess(shapes.calls_bound(a), shapes.CALLS_MAX + 1)

    def test_even_programs_are_right_without_nccl_join(self):
        for kind in ("c", "python"):
            for found in self.judge(self.alone, of_classes(kind, EVEN, 8)):
                self.assertEqual(found, {})

    def test_even_programs_whose_calls_a_compiler_may_copy_are_right_without_nccl_join(self):
        specs = [spec for spec in (programs.make("optimised", seed) for seed in range(60)) if spec["even"]]
        for found in self.judge(self.alone, sorted_by_group(specs)):
            self.assertEqual(found, {})

    def test_an_even_program_that_deviates_without_a_line_is_silent(self):
        spec = next(spec for spec in of_classes("c", ("even",), 40) if spec["points"][0]["collective"] == "all_reduce")
        alone = [verdict.Rank([(0, 0, 0, 0, verdict.DONE, 0, *(int(rank == peer) for peer in range(6)), 0)], 1, 0, 0, b"")
                 for rank in range(spec["ranks"])]
        self.assertEqual(verdict.judge(spec, verdict.Result(0, 0, alone)),
                         {"deviates": spec["ranks"], "silent": 1, "split": spec["ranks"] - 1})
        alone[0].text = b"NCCL-JOIN WARN something at collective 0"
        self.assertNotIn("silent", verdict.judge(spec, verdict.Result(0, 0, alone)))

    def test_spoilt_results_are_found(self):
        self.place.tamper = 3
        for kind in ("c", "python"):
            specs = of_classes(kind, EVEN + ("constant", "varying"), 12)
            for spec, found in zip(specs, self.judge(self.place, sorted_by_group(specs))):
                self.assertTrue({"garbage", "wrong", "deviates"} & set(found), (spec["class"], spec["seed"], found))

    def test_points_that_are_mixed_are_found_and_stay_in_what_is_made_smaller(self):
        for kind in ("c", "python"):
            spec = mixed(kind)
            found = self.judge(self.alone, [spec])[0]
            self.assertIn("wrong", found)
            self.assertIn("silent", found)
            before = shapes.calls_bound(spec)
            small, result = shrink.shrink(self.alone, spec, "wrong")
            self.assertIn("wrong", verdict.judge(small, result))
            self.assertEqual((small["ranks"], small["epochs"]), (2, 1))
            self.assertLess(shapes.calls_bound(small), before)
            self.assertIn("WRONG", verdict.schedule(small, result))

    def test_uneven_programs_without_nccl_join_do_not_pass(self):
        self.alone.limit_s = 1
        for found in self.judge(self.alone, of_classes("c", ("constant", "varying", "torn"), 6)):
            self.assertTrue({"hang", "mismatch", "error"} & set(found), found)

    def test_a_rank_that_cannot_start_is_an_error(self):
        os.environ["NCCL_JOIN_DIVISOR"] = "nonsense"
        self.addCleanup(os.environ.pop, "NCCL_JOIN_DIVISOR")
        for found in self.judge(self.place, of_classes("c", ("constant",), 1)):
            self.assertIn("error", found)


def sorted_by_group(specs):
    """The order in which Harness.judge gives its results."""
    ordered = [spec for group in batch.group(specs) for spec in group]
    specs[:] = ordered
    return ordered


def load_tests(loader, _tests, _pattern):
    """The tests of the part that was asked for: every PARTS-th."""
    names = loader.getTestCaseNames(Harness)[PART::PARTS]
    return unittest.TestSuite(Harness(name) for name in names)


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    PART, PARTS = (int(sys.argv.pop(1)), int(sys.argv.pop(1))) if len(sys.argv) > 2 else (0, 1)
    unittest.main(verbosity=2)
