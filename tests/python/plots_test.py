#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the contents of the plots' specifications, and that Vega-Lite accepts them."""
import json
import pathlib
import tempfile
import unittest

import records

import tilewright as tw
from tilewright import plots

try:
    import vl_convert
except ImportError:
    vl_convert = None


def layers_of(view, mark):
    """Returns the rows of each layer with this mark."""
    return [layer["data"]["values"] for layer in view["layer"]
            if (layer["mark"] if isinstance(layer["mark"], str) else layer["mark"]["type"]) == mark]


class Plots(unittest.TestCase):
    def check(self, plot):
        """Checks that the specification is JSON without NaN, and that Vega-Lite compiles and draws
        it. Returns the specification."""
        json.dumps(plot.spec, allow_nan=False)
        self.assertEqual(plot._repr_mimebundle_()[plots.VEGA_LITE_MIME], plot.spec)
        if vl_convert is None:
            print("[SKIP] vl-convert-python is not installed: specifications are not drawn")
            return plot.spec
        self.assertTrue(vl_convert.vegalite_to_svg(plot.spec).startswith("<svg"))
        return plot.spec

    def test_best_so_far_over_trials(self):
        spec = self.check(plots.best_so_far(records.search(8), untuned_ns=20_000))
        steps = layers_of(spec, "line")[0]
        self.assertEqual([(step["x"], step["latency_us"]) for step in steps],
                         [(1, 9.0005), (2, 4.50125), (3, 2.252125), (8, 2.252125)])
        self.assertEqual(len(layers_of(spec, "point")[0]), 6)
        self.assertEqual([row["x"] for row in layers_of(spec, "tick")[0]], [4, 8])
        self.assertEqual(layers_of(spec, "rule")[0], [{"name": "untuned", "latency_us": 20}])
        self.assertEqual(spec["title"]["subtitle"], ["arithmetic at the peak: 244.5 ns"])

    def test_trials_without_a_time_are_in_the_legend(self):
        trials = records.search(8)
        trials[1].status = "unstable"
        spec = self.check(plots.best_so_far(trials))
        scale = spec["layer"][0]["encoding"]["color"]["scale"]
        self.assertEqual(scale["domain"], ["ok", "unstable", "no time"])
        self.assertEqual(len(set(scale["range"])), 3)
        self.assertNotIn(plots.ORANGE, scale["range"])  # the colour of lines for bounds
        ticks = next(layer for layer in spec["layer"] if layer["mark"]["type"] == "tick")
        self.assertEqual(ticks["encoding"]["color"]["scale"], scale)
        self.assertEqual({row["kind"] for row in ticks["data"]["values"]}, {"no time"})

    def test_names_of_lines_stand_beside_the_frame_and_apart(self):
        trials = [records.record(trial=i + 1, latency_ns=250.5 + i) for i in range(3)]  # the bound is 244.5 ns
        spec = self.check(plots.best_so_far(trials, untuned_ns=252))
        names = [layer for layer in spec["layer"] if layer["mark"]["type"] == "text"]
        self.assertEqual([name["data"]["values"][0]["name"] for name in names], ["untuned", "arithmetic at the peak"])
        self.assertEqual({name["encoding"]["x"]["value"] for name in names}, {plots._WIDTH + 6})
        trials[0].latency_ns = 900.5
        close = self.check(plots.best_so_far(trials, untuned_ns=246))
        shifts = [layer["mark"]["dy"] for layer in close["layer"] if layer["mark"]["type"] == "text"]
        self.assertEqual(shifts[0], 0)
        self.assertGreater(shifts[1], 8)

    def test_best_so_far_over_time_joins_sessions(self):
        second = records.search(4, session="s2")
        for begun_ms in (1, 1_000_000):  # at the same time as the first search, and later
            for record in second:
                record.created_ms += begun_ms
            spec = self.check(plots.best_so_far(records.search(4) + second, over="time"))
            self.assertEqual([row["x"] for row in layers_of(spec, "point")[0]],
                             [0, 0.5, 1, 1.5, 2, 2.5])

    def test_best_so_far_finds_the_default_schedule_and_this_machines_memory(self):
        workload = tw.parse_workload(records.DENSE)
        default = str(tw.default_schedule(workload))
        here = dict(device=tw.device(), target="host")
        trials = [records.record(schedule=default, latency_ns=70_000.5, **here),
                  records.record(trial=2, **here)]
        spec = self.check(plots.best_so_far(trials))
        self.assertEqual(layers_of(spec, "rule")[0],
                         [{"name": "default schedule", "latency_us": 70.0005}])
        self.assertIn("arrays once from L1", spec["title"]["subtitle"][1])

    def test_without_any_valid_trial(self):
        plot = plots.best_so_far([records.failed()])
        self.check(plot)
        self.assertIn("no valid trial", plot.text)

    def test_nothing_to_draw_is_said(self):
        for plot in (plots.knobs([records.record()]), plots.failures([records.record()]),
                     plots.timeline([]), plots.roofline([records.failed()]),
                     plots.predicted_against_measured([records.failed()], [1])):
            self.check(plot)

    def test_records_that_cannot_be_compared_are_refused(self):
        other = records.record(device="another")
        for plot in (plots.best_so_far, plots.knobs, plots.predicted_against_measured):
            with self.assertRaisesRegex(tw.UsageError, "records of 2 workloads"):
                plot([records.record(), other])
            with self.assertRaisesRegex(tw.UsageError, "records of 0 workloads"):
                plot([])
        with self.assertRaisesRegex(tw.UsageError, "trial or time"):
            plots.best_so_far([records.record()], over="cost")

    def test_rank_correlation(self):
        self.assertAlmostEqual(plots.rank_correlation([1, 2, 3, 4], [10, 20, 30, 90]), 1)
        self.assertAlmostEqual(plots.rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]), -1)
        # Ranks 0, 1.5, 1.5, 3 against 0, 1, 2, 3: 4.5 / sqrt(4.5 * 5).
        self.assertAlmostEqual(plots.rank_correlation([1, 2, 2, 3], [1, 2, 3, 4]), 0.9486833)
        self.assertIsNone(plots.rank_correlation([1, 1, 1], [1, 2, 3]))

    def test_predictions_are_judged_by_round(self):
        trials = records.search(16)
        right = [record.latency_ns for record in trials]
        predicted = right[:8] + [1 / ns if ns else 0 for ns in right[8:]]
        plot = plots.predicted_against_measured(trials, predicted, trials_per_round=6)
        rounds = self.check(plot)["hconcat"][1]["layer"][0]["data"]["values"]
        self.assertEqual([(row["round"], row["trials"], row["rank_correlation"]) for row in rounds],
                         [(1, 6, 1), (2, 6, -1)])

    def test_predictions_come_from_the_analytic_model(self):
        workload = tw.parse_workload(records.DENSE)
        fast = str(tw.default_schedule(workload))
        predicted = tw.predict(workload, [fast, "tw1\n", "tw1\nsplit nothing m 2\n"])
        self.assertLess(predicted[0], predicted[1])
        self.assertIsNone(predicted[2])
        trials = [records.record(schedule=text, trial=i, latency_ns=1000.5 + i)
                  for i, text in enumerate([fast, "tw1\n"])]
        spec = self.check(plots.predicted_against_measured(trials))
        self.assertEqual(len(spec["hconcat"][0]["layer"][1]["data"]["values"]), 2)

    def test_roofline(self):
        spec = self.check(plots.roofline(records.search() + [records.failed(op="other")]))
        points = layers_of(spec, "point")[0]
        self.assertEqual(len(points), 1)
        self.assertAlmostEqual(points[0]["intensity"], 24576.5 / (4 * (16 * 24 + 24 * 32 + 16 * 32)))
        roofs = tw.roofs()
        spec = self.check(plots.roofline(records.search(), roofs))
        self.assertEqual({row["roof"].split(",")[0] for row in layers_of(spec, "line")[0]},
                         {"peak"} | {level.name for level in roofs.levels})
        for row in layers_of(spec, "line")[0]:
            self.assertLessEqual(row["gflops"], 100.5)  # the measured peak

    def test_operators_of_a_roofline_look_different(self):
        trials = [records.record(op=f"op{i}", workload=tw.make_workload("dense", m=16 + i, n=32, k=24).key)
                  for i in range(40)]
        trials += [records.record(op="op39", workload=tw.make_workload("dense", m=99, n=32, k=24).key)]
        for count in (12, 41):
            spec = self.check(plots.roofline(trials[-count:]))
            encoding = next(layer for layer in spec["layer"] if layer["mark"]["type"] == "point")["encoding"]
            color, shape = encoding["color"]["scale"], encoding["shape"]["scale"]
            self.assertEqual(color["domain"], shape["domain"])
            looks = list(zip(color["range"], shape["range"], strict=True))
            self.assertEqual(len(set(looks)), len(looks))
        self.assertEqual((len(looks), color["domain"][-1]), (24, "other"))
        self.assertIn("op39", color["domain"])

    def test_labels_of_numbers_are_evenly_spaced(self):
        spec = self.check(plots.best_so_far(records.search(8)))
        self.assertEqual(spec["layer"][0]["encoding"]["x"]["axis"]["labelOverlap"], "parity")
        for mark in ("x", "y"):
            axis = self.check(plots.roofline(records.search(), tw.roofs()))["layer"][0]["encoding"][mark]["axis"]
            self.assertGreater(len(axis["values"]), 1)
        self.assertEqual(plots._log_between(0.3, 600)["axis"]["values"], [1, 10, 100])
        self.assertEqual(plots._log_between(3, 60)["axis"]["values"], [5, 10, 20, 50])
        rounds = self.check(plots.predicted_against_measured(records.search(), [1.5 + i for i in range(24)], 6))
        self.assertEqual(rounds["hconcat"][1]["layer"][0]["encoding"]["x"]["axis"]["labelOverlap"], "parity")

    def test_colours_of_few_layouts_are_far_apart(self):
        def distance(a, b):
            return sum(abs(int(a[i:i + 2], 16) - int(b[i:i + 2], 16)) for i in (1, 3, 5))
        for i, a in enumerate(plots._LAYOUT_COLORS[:5]):
            for b in plots._LAYOUT_COLORS[:i]:
                self.assertGreater(distance(a, b), 110, (a, b))

    def test_knobs_that_matter_explain_the_variance(self):
        spec = self.check(plots.knobs(records.search()))
        importance = {row["decision"]: row["explained"]
                      for row in spec["vconcat"][0]["data"]["values"]}
        self.assertGreater(importance["out.x_tile"], 0.95)
        self.assertLess(importance["out.y_tile"], 0.2)
        self.assertNotIn("out.strategy", importance)  # it is the same in all trials
        self.check(plots.knobs([records.record(configuration="")]))

    def test_configurations(self):
        self.assertEqual(plots.parse_configuration("c: cpu_tile place=1 x=14; out: loops"),
                         {"algorithm": "direct", "c.strategy": "cpu_tile", "c.place": "1", "c.x": "14",
                          "out.strategy": "loops"})
        self.assertEqual(plots.parse_configuration("winograd_4; out: loops"),
                         {"algorithm": "winograd_4", "out.strategy": "loops"})

    def test_failures_of_one_reason_are_one_bar(self):
        trials = records.search() + [records.failed(reason=f"element {i} differs by 1e-{i}")
                                     for i in range(1, 4)]
        trials.append(records.failed(status="crash", reason="signal 11"))
        rows = self.check(plots.failures(trials))["data"]["values"]
        self.assertEqual([(row["status"], row["trials"]) for row in rows][:1], [("wrong", 6)])
        self.assertIn("crash: signal #", [row["why"] for row in rows])
        self.assertIn("0 of 1 trial", plots.failures([records.record()]).text)

    def test_a_long_reason_of_a_failure_is_whole(self):
        reason = "all measurements were disturbed: the fastest kernel took much longer than the machine needs for it"
        plot = plots.failures([records.failed(status="unstable", reason=reason), records.failed(trial=2)])
        long = next(row for row in self.check(plot)["data"]["values"] if row["status"] == "unstable")
        self.assertEqual(long["lines"].replace("\n", " "), "unstable: " + reason)
        self.assertLessEqual(max(map(len, long["lines"].split("\n"))), 60)
        self.assertIn(reason, plots.failures([records.failed(reason=reason)]).text)

    def test_layouts_of_a_network(self):
        plot = plots.layouts(records.plan())
        spec = self.check(plot)
        nodes, edges = layers_of(spec, "point")[0], layers_of(spec, "line")[0]
        self.assertEqual([(node["kind"], node["row"]) for node in nodes],
                         [("input", 0), ("transform", 1), ("kernel", 2), ("kernel", 3)])
        self.assertEqual({edge["layout"] for edge in edges}, {"row-major", "NCHW16c"})
        self.assertEqual(len({edge["edge"] for edge in edges}), 4)
        self.assertEqual(plot.text, "net: 5.0 µs: 4.5 µs in 2 kernels, 500.0 ns in 1 transform")

    def test_pieces_of_a_concatenation_in_place_lead_to_its_reader(self):
        plan = records.plan()
        plan.steps = [
            records.make_step("left", "conv2d n=1", 1, records.argument("x", "input 0"),
                              records.argument("a", "arena 0", is_output=True)),
            records.make_step("right", "conv2d n=1", 1, records.argument("x", "input 0"),
                              records.argument("b", "arena 4096", is_output=True)),
            records.make_step("both", "conv2d n=1", 1, records.argument("concat", "arena 0", channels=32),
                              records.argument("c", "arena 8192", is_output=True)),
            # A single tensor uses the memory of both pieces again.
            records.make_step("later", "conv2d n=1", 1, records.argument("c", "arena 8192"),
                              records.argument("d", "arena 0", is_output=True, channels=32)),
            records.make_step("last", "conv2d n=1", 1, records.argument("d", "arena 0", channels=32),
                              records.argument("z", "output 0", is_output=True))]
        spec = self.check(plots.layouts(plan))
        nodes = {(node["lane"], node["row"]): node["name"] for node in layers_of(spec, "point")[0]}
        edges = {}
        for point in layers_of(spec, "line")[0]:
            edges.setdefault(point["edge"], []).append((point["lane"], point["row"]))
        self.assertEqual(sorted((nodes[points[0]], nodes[points[-1]]) for points in edges.values()),
                         [("both", "later"), ("later", "last"), ("left", "both"), ("right", "both"), ("x", "left"),
                          ("x", "right")])

    def test_costs_of_a_network(self):
        rows = self.check(plots.costs(records.plan()))["data"]["values"]
        self.assertEqual({row["computes"]: row["time_us"] for row in rows},
                         {"transform": 0.5, "conv2d": 3, "add": 1.5})

    def test_the_timeline_of_a_call(self):
        spec = self.check(plots.timeline([("a", 1000, 3000), ("b", 3500, 4000)]))
        self.assertEqual([(row["begin_us"], row["end_us"]) for row in spec["data"]["values"]],
                         [(0, 2), (2.5, 3)])

    def test_hostile_names_reorder_nothing(self):
        hostile = records.HOSTILE
        trial = records.record(workload=hostile, op=hostile, device=hostile, session=hostile,
                               configuration=f"{hostile}: a x=1")
        bad = records.failed(workload=hostile, device=hostile, reason=hostile)
        for plot in (plots.best_so_far([trial]), plots.roofline([trial]), plots.knobs([trial]),
                     plots.failures([bad]), plots.layouts(records.plan(hostile, hostile)),
                     plots.costs(records.plan(hostile, hostile)), plots.timeline([(hostile, 1, 2)])):
            self.check(plot)
            text = json.dumps(plot.spec, ensure_ascii=False) + repr(plot)
            for character in "\u202e\u2066\x07\n":
                self.assertNotIn(character, text)

    def test_are_saved(self):
        plot = plots.best_so_far(records.search())
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "plot.json"
            plot.save(path)
            self.assertEqual(json.loads(path.read_text()), plot.spec)
            with self.assertRaisesRegex(tw.UsageError, ".json or .svg"):
                plot.save(path.with_suffix(".bmp"))


if __name__ == "__main__":
    unittest.main()
