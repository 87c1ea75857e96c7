# SPDX-License-Identifier: Apache-2.0
"""Tests networks from an ONNX file to results, with the commands that a person would use."""

import csv
import io
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time
import unittest

import onnx_files as onnx
import program

CHANNELS, SIZE, CLASSES = 16, 6, 5


class Network:
    """conv 3x3, relu, conv 3x3, sum with the image, relu, mean of each channel, matrix product."""

    def __init__(self):
        source = random.Random(1)
        weights = lambda count: [source.uniform(-0.2, 0.2) for _ in range(count)]
        self.first, self.second = weights(CHANNELS**2 * 9), weights(CHANNELS**2 * 9)
        self.last = weights(CHANNELS * CLASSES)
        self.image = [source.uniform(-1, 1) for _ in range(CHANNELS * SIZE * SIZE)]

    def onnx(self, batch=1, classes=CLASSES):
        """Returns the model. Its output is declared to have `classes` columns."""
        image, filters = [batch, CHANNELS, SIZE, SIZE], [CHANNELS, CHANNELS, 3, 3]
        window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        return onnx.model(
            [onnx.node("Conv", ["x", "w1"], ["c1"], **window), onnx.node("Relu", ["c1"], ["r1"]),
             onnx.node("Conv", ["r1", "w2"], ["c2"], **window), onnx.node("Add", ["c2", "x"], ["s"]),
             onnx.node("Relu", ["s"], ["r2"]), onnx.node("GlobalAveragePool", ["r2"], ["p"]),
             onnx.node("Flatten", ["p"], ["f"], axis=1), onnx.node("MatMul", ["f", "v"], ["y"])],
            [onnx.tensor("w1", filters, self.first), onnx.tensor("w2", filters, self.second),
             onnx.tensor("v", [CHANNELS, CLASSES], self.last)],
            [onnx.port("x", image)], [onnx.port("y", [batch, classes])])

    def convolved(self, image, weights):
        at = lambda c, y, x: image[(c * SIZE + y) * SIZE + x] if 0 <= y < SIZE and 0 <= x < SIZE else 0.0
        return [sum(at(c, y + r - 1, x + s - 1) * weights[((k * CHANNELS + c) * 3 + r) * 3 + s]
                    for c in range(CHANNELS) for r in range(3) for s in range(3))
                for k in range(CHANNELS) for y in range(SIZE) for x in range(SIZE)]

    def result(self):
        inner = [max(value, 0.0) for value in self.convolved(self.image, self.first)]
        total = [max(a + b, 0.0) for a, b in zip(self.convolved(inner, self.second), self.image)]
        means = [sum(total[c * SIZE * SIZE:(c + 1) * SIZE * SIZE]) / SIZE**2 for c in range(CHANNELS)]
        return [sum(means[c] * self.last[c * CLASSES + k] for c in range(CHANNELS)) for k in range(CLASSES)]


class NetworksTest(program.ProgramTest):
    def setUp(self):
        super().setUp()
        self.network = Network()
        self.onnx = self.home / "net.onnx"
        self.onnx.write_bytes(self.network.onnx())
        onnx.write_npy(self.home / "x.npy", [1, CHANNELS, SIZE, SIZE], self.network.image)

    def plan(self, *arguments, **options):
        """Plans the network without measuring, and returns the document of the results."""
        return self.json("tune", "--model", "net.onnx", "--effort", "none", "--db", self.db,
                         "--format", "json", *arguments, **options)

    def expect_right_result(self, *flags, **options):
        self.succeed("run", "net.twart", "--input", "x.npy", "--output", "y.npy", *flags, **options)
        shape, values = onnx.read_npy(self.home / "y.npy")
        self.assertEqual(shape, (1, CLASSES))
        for got, expected in zip(values, self.network.result()):
            self.assertAlmostEqual(got, expected, delta=1e-4)

    def test_without_effort_a_network_runs(self):
        document = self.plan()
        self.assertTrue(document["is_optimal"])
        self.assertEqual(document["measured_schemes"], 0)
        self.assertEqual(document["ended"], "from the database")
        self.assertEqual([p["name"] for p in document["model"]["inputs"]], ["x"])
        self.expect_right_result()

    def test_without_effort_a_database_is_made_for_the_demand_alone(self):
        self.plan()
        self.assertEqual(self.json("db", "info", "--db", self.db, "--format", "json")["records"], 0)
        self.assertEqual(len(self.json("db", "demand", "--db", self.db, "--format", "json")["demands"]), 1)

    def test_predictions_are_kept(self):
        first = self.plan()
        files = list((self.home / ".cache" / "tilewright").glob("predictions-*.json"))
        self.assertEqual(len(files), 1)
        written = files[0].stat().st_mtime_ns
        again = self.plan()
        self.assertEqual(again["predicted_ns"], first["predicted_ns"])
        self.assertEqual(files[0].stat().st_mtime_ns, written)

    def test_a_standing_model_is_made_anew_where_its_script_changed(self):
        script = ("import shutil, sys; open('made', 'a').write('{}');"
                  "shutil.copy('net.onnx', sys.argv[sys.argv.index('-o') + 1])")
        for content, made in ("1", "1"), ("1", "1"), ("2", "12"):
            process = self.tune_standing_model(script.format(content))
            _, errors = process.communicate(timeout=program.PATIENCE_S)
            self.assertEqual(process.returncode, 0, errors)
            self.assertEqual((self.home / "made").read_text(), made)
        self.assertEqual(self.standing_models(), ["tiny.onnx"])

    def test_Fault31_an_interrupt_ends_the_making_of_a_standing_model(self):
        process = self.tune_standing_model(
            "import os, sys, time; open(sys.argv[sys.argv.index('-o') + 1], 'w').close();"
            "open('pid', 'w').write(str(os.getpid())); os.rename('pid', 'begun'); time.sleep(1000)")
        self.addCleanup(process.kill)
        while not (self.home / "begun").exists():
            self.assertIsNone(process.poll())
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=program.PATIENCE_S)
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("interrupted", errors)
        self.assertFalse(os.path.exists("/proc/" + (self.home / "begun").read_text()))
        self.assertEqual(self.standing_models(), [])

    def tune_standing_model(self, script):
        """Starts `tune --model tiny` in a checkout in which this script makes the models."""
        checkout = self.home / "checkout"
        tools, scripts = checkout / "build" / "release" / "tools", checkout / "bench" / "models"
        tools.mkdir(parents=True, exist_ok=True)
        scripts.mkdir(parents=True, exist_ok=True)
        shutil.copy(program.PROGRAM, tools / "tilewright")
        (scripts / "make_models.py").write_text(script)
        environment = {"TILEWRIGHT_CODE_GENERATOR": os.path.join(os.path.dirname(program.PROGRAM), "..", "codegen")}
        return subprocess.Popen([tools / "tilewright", "tune", "--model", "tiny", "--effort", "none"], text=True,
                                cwd=self.home, env={**self.environment, **environment},
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def standing_models(self):
        return [path.name for path in (self.home / ".cache" / "tilewright" / "standing_models").glob("*/*")]

    def test_what_is_read_is_never_replaced(self):
        tune = ["tune", "--model", "net.onnx", "--effort", "none", "--db", self.db, "--output"]
        (self.home / "link.onnx").symlink_to("net.onnx")
        os.mkfifo(self.home / "pipe")
        for output in "net.onnx", "link.onnx", "pipe":
            self.fail_with(2, *tune, output, saying=["[output]", output])
        self.plan()
        model = (self.home / "net.twart").read_bytes()
        for flag in "--output", "--trace":
            self.fail_with(2, "run", "net.twart", flag, "net.twart", saying=["would replace net.twart"])
        self.fail_with(2, "run", "net.twart", "--output", "y.npy", "--trace", "./y.npy", saying=["one file"])
        self.assertEqual((self.home / "net.twart").read_bytes(), model)

    def test_flags_that_contradict_a_network_are_refused(self):
        self.plan()
        self.fail_with(2, "run", "net.twart", "--target", "cuda", saying=["--target cuda contradicts the network"])
        self.fail_with(2, "run", "net.twart", "--op", "dense", saying=["net.twart", "a workload"])
        for verb in "run", "show", "explain":
            for flag in ("--threads", "1"), ("--dtype", "f32"), ("--accuracy", "fast"):
                self.fail_with(2, verb, "net.twart", *flag, saying=["net.twart", f"{flag[0]} applies to kernels"])
        for view in "--steps", "--program", "--c", "--cuda", "--opencl", "--asm":
            self.fail_with(2, "show", "net.twart", view, saying=[f"{view} shows a kernel", "net.twart is a network"])
        for verb in "show", "explain":
            self.fail_with(2, verb, "net.twart", "--target", "host", saying=["--target applies to kernels"])
        # Defaults that are meant for kernels do not prevent a network from running.
        self.assertEqual(self.json("run", "net.twart", "--target", "host", "--format", "json",
                                   environment={"TILEWRIGHT_THREADS": "2"})["threads"], 1)
        onnx.write_npy(self.home / "x.npy", [2, CHANNELS, SIZE, SIZE], self.network.image * 2)
        self.fail_with(2, "run", "net.twart", "--input", "x.npy", "--variant", "0", saying=["not of the shapes of variant 0"])

    def test_an_onnx_file_is_no_tuned_network(self):
        self.fail_with(5, "explain", "net.onnx", saying=["tilewright tune --model"])

    def test_whether_to_merge_convolutions_is_measured(self):
        source = random.Random(2)
        filters = lambda: [source.uniform(-1, 1) for _ in range(CHANNELS**2)]
        (self.home / "net.onnx").write_bytes(onnx.model(
            [onnx.node("Conv", ["x", "w1"], ["a"], kernel_shape=[1, 1]),
             onnx.node("Conv", ["x", "w2"], ["b"], kernel_shape=[1, 1]),
             onnx.node("Concat", ["a", "b"], ["y"], axis=1)],
            [onnx.tensor(name, [CHANNELS, CHANNELS, 1, 1], filters()) for name in ("w1", "w2")],
            [onnx.port("x", [1, CHANNELS, SIZE, SIZE])], [onnx.port("y", [1, 2 * CHANNELS, SIZE, SIZE])]))
        tune = ["tune", "--model", "net.onnx", "--db", self.db, "--trials", "2", "--format", "json"]
        document = self.json(*tune, "--budget", "60s")
        [fusion] = document["fusions"]
        self.assertEqual(fusion["pass"], "merge_siblings")
        self.assertTrue(fusion["is_measured"])
        self.assertEqual(fusion["is_left_out"], fusion["without_ns"] < fusion["with_ns"])
        self.assertEqual("merge_siblings" in [each["name"] for each in document["passes"]], not fusion["is_left_out"])
        self.assertEqual(document["operators"], 3 if fusion["is_left_out"] else 1)
        self.succeed("run", "net.twart", "--input", "x.npy", "--output", "y.npy")
        self.assertEqual(self.json(*tune, "--budget", "10s")["fusions"], [])  # too short to measure fusions
        self.assertEqual(self.json(*tune, "--budget", "60s", "--no-pass", "merge_siblings")["fusions"], [])

    def test_whether_to_compress_blocks_is_measured(self):
        source = random.Random(3)
        rows, columns = 40, 48
        weights = [source.uniform(-1, 1) if (i + j // 16) % 5 == 0 else 0 for i in range(rows) for j in range(columns)]
        (self.home / "net.onnx").write_bytes(onnx.model(
            [onnx.node("MatMul", ["x", "w"], ["y"])], [onnx.tensor("w", [rows, columns], weights)],
            [onnx.port("x", [6, rows])], [onnx.port("y", [6, columns])]))
        document = self.json("tune", "--model", "net.onnx", "--db", self.db, "--trials", "2", "--format", "json",
                             "--budget", "60s")
        [fusion] = document["fusions"]
        self.assertEqual(fusion["pass"], "compress_blocks")
        self.assertTrue(fusion["is_measured"])

    def test_running_needs_no_compiler(self):
        self.plan()
        empty = self.home / "empty"
        empty.mkdir()
        self.expect_right_result(environment={"TILEWRIGHT_CODE_GENERATOR": str(empty), "PATH": str(empty)})

    def test_a_tuned_network_is_measured_and_the_database_remembers(self):
        document = self.json("tune", "--model", "net.onnx", "--db", self.db, "--trials", "2",
                             *program.AMPLE, "--format", "json")
        self.assertGreater(document["measured_schemes"], 0)
        self.assertEqual(len(document["rounds"]) > 0, True)
        self.assertTrue(all(ns > 0 for ns in document["measured_ns"]))
        self.expect_right_result()
        again = self.plan()
        self.assertGreaterEqual(again["measured_schemes"], document["measured_schemes"])
        dry = ["tune", "--model", "net.onnx", "--db", self.db, "--dry-run"]
        known = self.json(*dry, "--format", "json")
        self.assertEqual({kernel["is_measured"] for kernel in known["kernels"]}, {True})
        self.assertGreater(min(kernel["known_trials"] for kernel in known["kernels"]), 0)
        rows = list(csv.DictReader(io.StringIO(self.succeed(*dry, "--format", "csv").out)))
        self.assertEqual([float(row["call_ns"]) for row in rows], [kernel["call_ns"] for kernel in known["kernels"]])

    def test_a_pass_that_is_left_out_changes_no_result(self):
        whole = self.plan()
        changed = [p["name"] for p in whole["passes"] if p["changed"]][-1]
        apart = self.plan("--no-pass", changed)
        self.assertNotIn(changed, [p["name"] for p in apart["passes"]])
        self.assertGreater(apart["operators"], whole["operators"])
        self.expect_right_result()

    def test_weights_of_one_row_are_rounded(self):
        source = random.Random(1)
        weights = [source.uniform(-1, 1) for _ in range(256 * 256)]
        (self.home / "row.onnx").write_bytes(onnx.model(
            [onnx.node("MatMul", ["x", "w"], ["y"])], [onnx.tensor("w", [256, 256], weights)],
            [onnx.port("x", [1, 256])], [onnx.port("y", [1, 256])]))
        plan = ["tune", "--model", "row.onnx", "--db", self.db, "--effort", "none", "--format", "json"]
        whole, rounded = self.json(*plan), self.json(*plan, "--precision", "bf16")
        self.assertIsNone(whole["rounding_error"])
        self.assertGreater(rounded["rounding_error"], 0)
        self.assertLess(rounded["rounding_error"], 2**-8)
        # Packed columns may end in padding, so the ratio may be below 2.
        self.assertGreater(whole["model"]["constant_bytes"], 1.7 * rounded["model"]["constant_bytes"])
        self.assertIn("differ from those in f32 by",
                      self.succeed(*plan[:-2], "--precision", "bf16").out)
        elsewhere = self.json(*plan, "--precision", "bf16", "--target", "arm-64-linux")
        self.assertIsNone(elsewhere["rounding_error"])  # code for that target cannot run here

    def test_symbolic_dimensions_are_given(self):
        self.onnx.write_bytes(self.network.onnx("batch"))
        self.fail_with(2, "tune", "--model", "net.onnx", "--effort", "none", "--db", self.db,
                       saying=["batch"])
        self.plan("--dim", "batch=1")
        self.expect_right_result()

    def test_a_file_holds_a_variant_for_each_batch(self):
        self.onnx.write_bytes(self.network.onnx("batch"))
        document = self.plan("--dim", "batch=1,3")
        self.assertEqual([run["dimensions"] for run in document["variants"]], [{"batch": 1}, {"batch": 3}])
        self.assertEqual([variant["inputs"][0]["shape"][0] for variant in document["model"]["variants"]], [1, 3])
        self.expect_right_result()
        onnx.write_npy(self.home / "x3.npy", [3, CHANNELS, SIZE, SIZE], 3 * self.network.image)
        run = self.json("run", "net.twart", "--input", "x3.npy", "--output", "y3.npy", "--format", "json")
        self.assertEqual(run["variant"], 1)
        shape, values = onnx.read_npy(self.home / "y3.npy")
        self.assertEqual(shape, (3, CLASSES))
        for got, expected in zip(values, 3 * self.network.result()):
            self.assertAlmostEqual(got, expected, delta=1e-4)
        self.assertEqual(self.json("run", "net.twart", "--variant", "1", "--format", "json")["variant"], 1)
        for verb in "show", "explain":
            self.assertIn("variant 1: x [3, 16, 6, 6]", self.succeed(verb, "net.twart").out)
        onnx.write_npy(self.home / "x2.npy", [2, CHANNELS, SIZE, SIZE], 2 * self.network.image)
        self.fail_with(2, "run", "net.twart", "--input", "x2.npy",
                       saying=["x [2, 16, 6, 6]", "expected x [1, 16, 6, 6]; or x [3, 16, 6, 6]"])
        self.fail_with(2, "run", "net.twart", "--variant", "2", saying=["variants 0 to 1"])
        for values in "", "1,", "1,1", "1,x", "0":
            self.fail_with(2, "tune", "--model", "net.onnx", "--dim", f"batch={values}", "--effort", "none",
                           "--db", self.db, saying=["--dim"])
        self.fail_with(2, "tune", "--model", "net.onnx", "--dim", "batch=1", "--dim", "batch=8", "--effort", "none",
                       "--db", self.db, saying=["given twice"])

    def test_variants_share_equal_constants(self):
        # With other algorithms, two variants may transform their weights differently. Strict
        # accuracy has the direct algorithm only.
        self.onnx.write_bytes(self.network.onnx("batch"))
        direct = ("--accuracy", "strict")
        alone = self.plan("--dim", "batch=2", *direct)["model"]["constant_bytes"]
        together = self.plan("--dim", "batch=2,3", *direct)["model"]["constant_bytes"]
        self.assertLess(together, 2 * alone)

    def test_the_arena_is_close_to_its_lower_bound(self):
        model = self.plan()["model"]
        self.assertGreater(model["least_arena_bytes"], 0)
        self.assertLessEqual(model["arena_bytes"], 1.1 * model["least_arena_bytes"])

    def test_a_network_on_two_threads_knows_the_threads_of_each_step(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("one processor")
        document = self.json("tune", "--model", "net.onnx", "--db", self.db, "--trials", "1", "--threads", "2",
                             *program.AMPLE, "--format", "json")
        self.assertTrue(all(step["threads"] in (1, 2) for step in document["model"]["steps"]))
        self.expect_right_result()

    def test_what_can_be_said_of_a_file(self):
        self.plan()
        self.assertIn("conv2d", self.succeed("explain", "net.twart").out)
        self.assertRegex(self.succeed("explain", "net.twart", "--dot").out,
                         r'(?s)\Adigraph .*label="conv2d(?: \(winograd\))?\\n[^"\\]+\\n[0-9.]+ [mµn]s"')
        shown = self.succeed("show", "net.twart").out
        self.assertIn("f32[1, 16, 6, 6]", shown)
        document = self.json("show", "net.twart", "--format", "json")
        self.assertIn("input x: f32[1, 16, 6, 6]", document["graph"])
        steps = [step["name"] for step in document["steps"]]
        profiled = self.json("run", "net.twart", "--profile", "--trace", "t.json", "--format", "json")
        self.assertEqual([step["name"] for step in profiled["steps"]], steps)
        trace = json.loads((self.home / "t.json").read_text())
        self.assertTrue(trace)
        self.assertIn("% of all", self.succeed("run", "net.twart", "--profile").out)
        for verb in ("run", "show", "explain"):
            self.fail_with(2, verb, "net.twart", "--schedule", "any.txt", saying=["net.twart", "--schedule"])

    def with_opencl(self):
        self.environment["POCL_CACHE_DIR"] = str(self.home)
        findings = json.loads(self.run_program("doctor", "--format", "json", "--db", self.db).out)["findings"]
        if not any(finding["name"] == "opencl:0" for finding in findings):
            self.skipTest("[SKIP] no OpenCL device")

    def test_a_network_runs_on_opencl(self):
        self.with_opencl()
        document = self.plan("--target", "opencl")
        self.assertEqual(document["model"]["target"], "opencl")
        self.expect_right_result()
        self.expect_right_result("--target", "opencl:0", "--profile")
        profiled = self.json("run", "net.twart", "--profile", "--format", "json")
        self.assertTrue(profiled["device"])
        self.assertEqual(len(profiled["steps"]), len(document["model"]["steps"]))
        explained = self.succeed("explain", "net.twart").out
        self.assertIn("conv2d", explained)
        self.assertRegex(explained, r"(?m)^call +\d+ launches, submitted one by one: OpenCL has no graphs$")
        self.assertNotIn("threads", self.succeed("show", "net.twart").out)
        self.fail_with(2, "run", "net.twart", "--target", "cuda", saying=["opencl"])
        self.fail_with(2, "tune", "--model", "net.onnx", "--target", "opencl", "--threads", "2",
                       saying=["--threads 2"])

    def test_variants_for_several_batches_run_on_opencl(self):
        self.with_opencl()
        self.onnx.write_bytes(self.network.onnx("batch"))
        self.plan("--target", "opencl", "--dim", "batch=1,3")
        self.expect_right_result()
        onnx.write_npy(self.home / "x3.npy", [3, CHANNELS, SIZE, SIZE], 3 * self.network.image)
        run = self.json("run", "net.twart", "--input", "x3.npy", "--output", "y3.npy", "--profile", "--format", "json")
        self.assertEqual(run["variant"], 1)
        self.assertTrue(run["device"])
        for got, expected in zip(onnx.read_npy(self.home / "y3.npy")[1], 3 * self.network.result()):
            self.assertAlmostEqual(got, expected, delta=1e-4)

    def test_a_network_is_tuned_on_opencl(self):
        self.with_opencl()
        document = self.json("tune", "--model", "net.onnx", "--target", "opencl", "--db", self.db,
                             "--trials", "1", *program.AMPLE, "--format", "json")
        self.assertGreater(document["measured_schemes"], 0)
        self.assertTrue(all(ns > 0 for ns in document["measured_ns"]))
        self.expect_right_result()

    def test_fault50_a_network_for_cuda_is_planned_without_a_gpu_and_says_so_when_run(self):
        present = self.with_nvrtc()
        if present.get("cuda:0"):
            self.plan("--target", "cuda")
            return self.expect_right_result()
        document = self.plan("--target", "cuda:sm_90a")
        self.assertEqual(document["model"]["target"], "cuda:sm_90a")
        self.assertIn("conv2d", self.succeed("explain", "net.twart").out)
        self.fail_with(7, "run", "net.twart", saying=["no NVIDIA driver"])
        self.fail_with(7, "tune", "--model", "net.onnx", "--target", "cuda:sm_90a", "--db", self.db,
                       saying=["--effort none"])

    def with_nvrtc(self):
        findings = json.loads(self.run_program("doctor", "--format", "json", "--db", self.db).out)["findings"]
        present = {finding["name"]: finding["present"] for finding in findings}
        if not present["nvrtc"]:
            self.skipTest("[SKIP] no NVRTC")
        return present

    def test_a_network_for_cuda_is_explained_without_a_gpu(self):
        self.with_nvrtc()
        self.onnx.write_bytes(self.network.onnx("batch"))
        self.plan("--target", "cuda:sm_90a", "--dim", "batch=1,3")
        document = self.json("explain", "net.twart", "--format", "json")
        weights = 4 * CHANNELS**2 * 9
        for batch, variant in zip((1, 3), document["variants"]):
            image, means = 4 * batch * CHANNELS * SIZE**2, 4 * batch * CHANNELS
            steps = {step["name"]: step["gpu"] for step in variant["steps"]}
            read = {name: step["read_bytes"] for name, step in steps.items()}
            written = {name: step["written_bytes"] for name, step in steps.items()}
            self.assertEqual(read, {"r1": image + weights, "r2": 2 * image + weights, "p_1": image,
                                    "y": means + 4 * CHANNELS * CLASSES})
            self.assertEqual(written, {"r1": image, "r2": image, "p_1": means, "y": 4 * batch * CLASSES})
            self.expect_consistent_steps(steps.values())
            call = variant["gpu"]
            self.assertIs(call["is_graph"], True)
            for field in "launches", "read_bytes", "written_bytes", "dram_bytes", "analytic_ns", "launch_ns":
                self.assertAlmostEqual(call[field], sum(step[field] for step in steps.values()))
            self.assertAlmostEqual(call["launch_share"], call["launch_ns"] / call["analytic_ns"])
        self.assertEqual(document["gpu"], document["variants"][0]["gpu"])
        self.expect_table_of(document["variants"][1])
        step = document["steps"][0]
        self.expect_the_figures_of_its_kernel(step)

    def expect_consistent_steps(self, steps):
        """Expects the occupancy and the waves that follow from the blocks and the limits of sm_90a,
        which has 2048 threads on each of 132 multiprocessors. All arrays fit into L2."""
        for step in steps:
            self.assertEqual(step["launches"], len(step["phases"]))
            self.assertEqual(step["dram_bytes"], 0)
            self.assertEqual(step["limited_by"], max(step["resources"], key=lambda one: one["ns"])["resource"])
            for phase in step["phases"]:
                self.assertFalse(phase["registers_estimated"])
                resident = min(phase["blocks_by"].values())
                self.assertEqual(phase["resident_blocks"], resident)
                self.assertEqual(phase["blocks_by"][phase["limited_by"].split(" for ")[0].replace(" ", "_")], resident)
                warps = -(-phase["threads"] // 32)
                self.assertAlmostEqual(phase["occupancy"], resident * warps * 32 / 2048)
                self.assertAlmostEqual(phase["waves"], phase["blocks"] / (132 * resident))

    def expect_table_of(self, variant):
        """Expects the facts and the rows of the second variant."""
        text = self.succeed("explain", "net.twart").out
        text = text[text.index("variant 1: x [3, 16, 6, 6]"):]
        self.assertIn(f"one CUDA graph of {variant['gpu']['launches']} launches\n", text)
        for name, read, written in (("r1", "15.8 KiB", "6.8 KiB"), ("r2", "22.5 KiB", "6.8 KiB"),
                                    ("p_1", "6.8 KiB", "192 B"), ("y", "512 B", "60 B")):
            step = next(step["gpu"] for step in variant["steps"] if step["name"] == name)
            occupancy = f"{100 * step['phases'][0]['occupancy']:.0f}"
            self.assertRegex(text, rf"(?m)^{name} +{step['launches']} .* {step['limited_by']} [0-9]+ % +{read} +"
                                   rf"{written} +0 B +{occupancy}\b.* {step['phases'][0]['limited_by']}")

    def expect_the_figures_of_its_kernel(self, step):
        """Expects that `explain` says the same about the step's kernel alone, which it compiles."""
        (self.home / "step.tw1").write_text(step["schedule"])
        kernel = self.json("explain", "--workload", step["workload"], "--schedule", "step.tw1", "--target",
                           "cuda:sm_90a", "--db", self.db, "--format", "json")
        for field in "analytic_ns", "limited_by", "resources":
            self.assertEqual(step["gpu"][field], kernel[field])
        self.assertEqual(step["gpu"]["phases"], kernel["gpu"]["phases"])
        self.assertEqual(step["gpu"]["compiler"], kernel["gpu"]["compiler"])

    def test_a_shape_that_is_declared_wrongly_is_a_note(self):
        self.onnx.write_bytes(self.network.onnx(classes=CLASSES + 1))
        note, = self.plan()["notes"]
        self.assertEqual(note["kind"], "model_doubtful")
        self.assertEqual(note["first"], "the output 'y' is declared as f32[1, 6], but its nodes give f32[1, 5]")
        self.expect_right_result()

    def test_an_input_becomes_a_constant(self):
        self.onnx.write_bytes(onnx.model([onnx.node("Mul", ["x", "s"], ["y"])], [],
                                         [onnx.port("x", [4]), onnx.port("s", [2, 1])], [onnx.port("y", [2, 4])]))
        self.plan("--constant", "s=2,-0.5")
        onnx.write_npy(self.home / "x.npy", [4], [1.0, 2.0, 3.0, 4.0])
        self.succeed("run", "net.twart", "--input", "x.npy", "--output", "y.npy")
        self.assertEqual(onnx.read_npy(self.home / "y.npy"), ((2, 4), (2, 4, 6, 8, -0.5, -1, -1.5, -2)))
        plan = ["tune", "--model", "net.onnx", "--effort", "none", "--db", self.db]
        for constant, said in (("t=1", "no input 't' that could be a constant; there are s, x"),
                               ("s=1", "1 values, but the input is f32[2, 1]"), ("s", "expected NAME=VALUE"),
                               ("s=one", "expected NAME=VALUE")):
            self.fail_with(2, *plan, "--constant", constant, saying=[said])
        self.fail_with(2, *plan, "--constant", "s=1,2", "--constant", "s=1,2", saying=["given twice"])

    def test_errors_are_one_line(self):
        none = ["--effort", "none", "--db", self.db]
        self.fail_with(7, "tune", "--model", "missing.onnx", *none, saying=["missing.onnx"])
        self.fail_with(7, "tune", "--model", ".", *none, saying=[".: it is a folder, expected an ONNX file"])
        self.fail_with(7, "tune", "--model", "/dev/null", *none, saying=["no regular file"])
        (self.home / "empty.onnx").touch()
        self.fail_with(5, "tune", "--model", "empty.onnx", *none, saying=["empty.onnx is empty"])
        self.fail_with(2, "tune", "--model", "net.onnx", "--op", "conv2d", saying=["--op"])
        self.fail_with(2, "tune", "--op", "conv2d", "--dim", "batch=1", saying=["--model"])
        self.fail_with(2, "tune", "--op", "conv2d", "--precision", "bf16", saying=["--model"])
        self.fail_with(2, "tune", "--model", "net.onnx", "--precision", "fp8", *none, saying=["fp8"])
        self.fail_with(2, "tune", "--model", "net.onnx", "--dim", "batch", *none, saying=["batch"])
        self.fail_with(2, "tune", "--model", "net.onnx", "--no-pass", "magic", *none, saying=["magic"])
        (self.home / "damaged.onnx").write_bytes(self.onnx.read_bytes()[:-100])
        self.fail_with(5, "tune", "--model", "damaged.onnx", *none)
        self.fail_with(7, "tune", "--model", "net.onnx", *none, "--output", "missing/net.twart")

    def test_wrong_arrays_are_refused(self):
        self.plan()
        self.fail_with(2, "run", "net.twart", "--input", "z=x.npy", saying=["'z=x.npy'", "x"])
        onnx.write_npy(self.home / "short.npy", [1, 3], [1, 2, 3])
        self.fail_with(2, "run", "net.twart", "--input", "short.npy", saying=["'x'"])
        onnx.write_npy(self.home / "double.npy", [1], [1], "<f8")
        self.fail_with(2, "run", "net.twart", "--input", "double.npy", saying=["'x'", "f64", "expected f32"])
        onnx.write_npy(self.home / "unsigned.npy", [1], [1], "<u8")
        self.fail_with(3, "run", "net.twart", "--input", "unsigned.npy", saying=["astype"])
        self.fail_with(7, "run", "net.twart", "--input", "missing.npy", saying=["missing.npy cannot be read: No such file"])
        self.fail_with(7, "run", "net.twart", "--input", ".", saying=["cannot be read: Is a directory"])
        (self.home / "empty.npy").touch()
        self.fail_with(5, "run", "net.twart", "--input", "empty.npy", saying=["empty.npy"])
        for flag, text in ("--input", "x="), ("--output", "y="), ("--input", ""):
            self.fail_with(2, "run", "net.twart", flag, text, saying=[flag, "empty"])
        self.fail_with(2, "run", "--op", "conv2d", "--profile", saying=["--profile"])

    def test_files_that_are_no_networks_are_refused(self):
        (self.home / "other.twart").write_bytes(b"something else")
        for verb in "run", "explain", "show":
            self.fail_with(5, verb, "other.twart", saying=["other.twart"])
            self.fail_with(8, verb, "missing.twart", saying=["missing.twart"])

    def test_an_interrupt_keeps_what_was_measured(self):
        process = self.start("tune", "--model", "net.onnx", "--db", self.db, "--budget", "10m",
                             "--effort", "full")
        for line in process.stderr:
            if "best" in line:
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=program.PATIENCE_S)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("to go on:", err)
        self.assertRegex(out, r"(?m)^result +interrupted$")
        self.assertRegex(out, r"(?m)^file +net.twart$")
        self.expect_right_result()
        self.assertGreater(self.plan()["measured_schemes"], 0)

    def test_an_interrupt_before_anything_is_measured_leaves_a_network_too(self):
        self.onnx.write_bytes(self.network.onnx("batch"))
        process = self.start("tune", "--model", "net.onnx", "--db", self.db, "--budget", "10m", "--effort", "full",
                             "--dim", "batch=1,2", "--format", "json")
        self.assertIn("tuning ", process.stderr.readline())
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=program.PATIENCE_S)
        self.assertEqual(process.returncode, 130, err)
        document = json.loads(out)
        self.assertEqual([run["ended"] for run in document["variants"]], ["interrupted"] * 2)
        self.expect_right_result()

    def test_a_second_interrupt_ends_the_run_at_once(self):
        process = self.start("tune", "--model", "net.onnx", "--db", self.db, "--budget", "10m", "--effort", "full")
        self.assertIn("tuning ", process.stderr.readline())
        for number in signal.SIGINT, signal.SIGTERM:  # different, so they cannot become one
            process.send_signal(number)
        out, err = process.communicate(timeout=program.PATIENCE_S)
        self.assertEqual(process.returncode, 130, err)
        self.assertEqual(out, "")
        self.assertFalse((self.home / "net.twart").exists())

    def test_a_dry_run_says_what_would_be_tuned(self):
        dry = ["tune", "--model", "net.onnx", "--db", self.db, "--dry-run"]
        document = self.json(*dry, "--format", "json")
        self.assertEqual(set(os.listdir(self.home)), {"net.onnx", "x.npy", ".cache"})
        self.assertTrue(document["dry_run"])
        self.assertEqual(document["measured_schemes"], 0)
        self.assertEqual(len(document["kernels"]), len({kernel["schedule"] + kernel["workload"] for kernel in document["kernels"]}))
        self.assertGreaterEqual(sum(kernel["calls"] for kernel in document["kernels"]), document["operators"] - 1)
        self.assertEqual({kernel["known_trials"] for kernel in document["kernels"]}, {0})
        self.assertEqual(document["least_tuning_s"], 0.5 * len(document["kernels"]))
        text = self.succeed(*dry).out
        self.assertRegex(text, r"(?m)^tuning takes +at most 60 s \(--budget\); about \d+ s to measure each of \d+ kernels")
        self.assertIn(" predicted", text)

    def test_the_accuracy_is_that_of_each_kernel(self):
        for accuracy in "fast", "strict":
            document = self.json("tune", "--model", "net.onnx", "--db", self.db, "--dry-run", "--accuracy", accuracy,
                                 "--format", "json")
            operators = [kernel["workload"] for kernel in document["kernels"] if kernel["workload"].startswith("conv2d")]
            self.assertEqual({workload.split()[-1] for workload in operators}, {accuracy})

    def test_compile_only_measures_nothing(self):
        document = self.json("tune", "--model", "net.onnx", "--db", self.db, "--compile-only", "--format", "json")
        self.assertEqual(document["ended"], "from the database")
        self.assertEqual(self.json("db", "info", "--db", self.db, "--format", "json")["records"], 0)
        self.expect_right_result()
        foreign = "arm-64-linux" if os.uname().machine == "x86_64" else "x86-64-linux"
        document = self.json("tune", "--model", "net.onnx", "--target", foreign, "--compile-only", "--format", "json")
        self.assertTrue(document["model"]["target"].startswith(foreign))

    def test_csv_holds_numbers(self):
        self.plan()
        sheet = self.succeed("explain", "net.twart", "--format", "csv").out
        rows = list(csv.DictReader(io.StringIO(sheet)))
        self.assertEqual(list(rows[0]), ["step", "computes", "predicted_ns", "share", "arguments"])
        self.assertTrue(all(float(row["predicted_ns"]) > 0 for row in rows))
        self.assertAlmostEqual(sum(float(row["share"]) for row in rows), 1)
        tuned = self.succeed("tune", "--model", "net.onnx", "--effort", "none", "--db", self.db, "--format", "csv").out
        self.assertEqual(tuned, sheet)

    def test_a_drawing_is_made_by_graphviz(self):
        self.plan()
        folder = self.home / "bin"
        folder.mkdir()
        nothing = {"PATH": str(folder)}
        self.fail_with(7, "explain", "net.twart", "--svg", environment=nothing, saying=["Graphviz", "--dot"])
        (folder / "dot").write_text('#!/bin/sh\nif [ "$1" = -Tsvg ]; then echo "<svg>"; /bin/cat "$2"; fi\n')
        (folder / "dot").chmod(0o755)
        drawn = self.succeed("explain", "net.twart", "--svg", environment=nothing).out
        self.assertEqual(drawn, "<svg>\n" + self.succeed("explain", "net.twart", "--dot").out)
        self.fail_with(2, "explain", *program.SMALL, "--svg", saying=["--svg draws a network"])

    def test_variants_are_drawn_side_by_side(self):
        self.onnx.write_bytes(self.network.onnx("batch"))
        self.plan("--dim", "batch=1,3")
        drawn = self.succeed("explain", "net.twart", "--dot").out
        self.assertEqual(drawn.count("digraph"), 1)
        self.assertIn('subgraph cluster_1 {\n  label="variant 1: x [3, 16, 6, 6]";', drawn)
        self.assertIn('"0: x" [shape=ellipse, label="x"]', drawn)
        if shutil.which("dot"):
            self.assertIn("</svg>", self.succeed("explain", "net.twart", "--svg").out)


if __name__ == "__main__":
    program.main()
