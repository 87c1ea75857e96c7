#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests comparisons of two schedules side by side."""
import pathlib
import re
import tempfile
import unittest

import records

import tilewright as tw


class Comparing(unittest.TestCase):
    def setUp(self):
        self.workload = tw.make_workload("dense", m=48, n=64, k=40)
        self.tiled = (tw.Schedule(self.workload).split("out", "n", 16, names=("no", "lane"))
                      .reorder("out", ["m", "no", "k", "lane"]).cache_write("out", "no"))
        self.vectors = self.tiled.vectorize("out", "lane")

    def database(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return tw.Store(str(pathlib.Path(folder.name) / "t.db"))

    def test_steps_times_and_loops(self):
        comparison = tw.compare(self.tiled, self.vectors)
        self.assertEqual(comparison.only_in_a, [])
        self.assertEqual(comparison.only_in_b, ["vectorize out n.1"])
        self.assertGreater(comparison.predicted_a.total_ns, comparison.predicted_b.total_ns)
        self.assertIsNone(comparison.measured_a)
        name, a, b = comparison.resources[0]
        self.assertTrue(all(abs(a - b) >= abs(x - y) for _, x, y in comparison.resources), name)
        text = str(comparison)
        self.assertIn("+ vectorize out n.1", text)
        self.assertRegex(text, r"for n\.1 in 0\.\.16 +\| +vector n\.1 in 0\.\.16")

    def test_equal_schedules_differ_in_nothing(self):
        comparison = tw.compare(self.tiled, self.tiled)
        self.assertEqual(comparison.only_in_a + comparison.only_in_b, [])
        self.assertNotIn("|", comparison.programs)

    def test_displays_itself_under_names(self):
        comparison = tw.compare(self.tiled, self.vectors, names=("mine", "tuned"))
        self.assertEqual(repr(comparison), "<Comparison: 0 steps only in mine, 1 only in tuned>")
        bundle = comparison._repr_mimebundle_()
        self.assertEqual(bundle["text/plain"], str(comparison))
        self.assertRegex(bundle["text/plain"], r"\A +mine +tuned\npredicted +")
        page = records.Markup(bundle["text/html"])
        for part in ("steps of mine", "loops of tuned", "vectorize out n.1", "vector n.1 in 0..16", "predicted"):
            self.assertIn(part, page.text)
        # The two programs differ in three lines of the loop that became a vector. Its statements
        # are equal.
        marked = re.findall("<td[^>]*background:#.*?</td>", bundle["text/html"])
        self.assertEqual(len(marked), 2 * 3 + 1)
        for cell in marked:  # in notebooks, the background of code would cover the mark
            self.assertRegex(cell, "<pre[^>]*background:none")

    def test_schedules_of_a_gpu_have_its_limits(self):
        gpu = "cuda:sm_90a"
        schedule = tw.default_schedule(tw.make_workload("dense", m=1024, n=1024, k=1024, dtype="f16"), gpu)
        comparison = tw.compare(schedule, schedule, target=gpu)
        self.assertEqual(comparison.target, gpu)
        loops = str(schedule.program(gpu)).splitlines()
        self.assertIn(loops[0], str(comparison))
        self.assertIn(loops[0], records.Markup(comparison.html()).text)

    def test_hostile_names_are_text(self):
        comparison = tw.compare(self.tiled, self.vectors, names=(records.HOSTILE, "b"))
        bundle = comparison._repr_mimebundle_()
        page = records.Markup(bundle["text/html"])
        self.assertNotIn("script", page.tags)
        for character in "\u202e\u2066\x07":
            self.assertNotIn(character, bundle["text/html"] + bundle["text/plain"])

    def test_a_target_that_is_spelled_out_is_this_machine(self):
        spelled_out = tw.tune(self.workload, db=self.database(), trials=1, budget=600).best.target
        self.assertNotEqual(spelled_out, "host")
        for schedule in (self.tiled, self.vectors):
            here = tw.predicted_time(schedule)
            there = tw.predicted_time(schedule, target=spelled_out)
            self.assertEqual((here.total_ns, here.resources), (there.total_ns, there.resources))
            self.assertEqual(tw.predict(self.workload, [str(schedule)], target=spelled_out),
                             tw.predict(self.workload, [str(schedule)], target="host"))
        self.assertEqual(tw.device(spelled_out), tw.device())

    def test_measured_times_of_a_database(self):
        store = self.database()
        tuned = [tw.tune(self.workload, db=store, schedule=s, trials=1, budget=600)
                 for s in (self.tiled, self.vectors)]
        self.assertEqual(tuned[0].schedule, str(self.tiled))
        self.assertGreater(tuned[0].progress.given_ns, 0)
        comparison = tw.compare(self.tiled, self.vectors, workload=self.workload, db=store)
        self.assertGreater(comparison.measured_a, 0)
        self.assertGreater(comparison.measured_b, 0)
        of_records = tw.compare(tuned[0].best, tuned[1])
        self.assertEqual(of_records.only_in_b, ["vectorize out n.1"])
        self.assertEqual(of_records.measured_a, tuned[0].latency_ns)

    def test_other_things_are_refused(self):
        with self.assertRaisesRegex(TypeError, "Schedules, Records or Tuneds, not str"):
            tw.compare("tw1", self.tiled)


if __name__ == "__main__":
    unittest.main()
