# SPDX-License-Identifier: Apache-2.0
"""Tests of the program with devices: the OpenCL devices that the machine has, and a GPU that a fake CUDA
driver simulates. TW_FAKE_CUDA names the library of that driver."""

import fcntl
import json
import os
import signal

import program

SCALE = "input a: f32[256]\nb: f32[i=256] = a[i] * 2.0\n"


class Devices(program.ProgramTest):
    def setUp(self):
        super().setUp()
        self.environment["POCL_CACHE_DIR"] = str(self.home)
        (self.home / "scale.tw").write_text(SCALE)

    def on_opencl(self, *arguments):
        done = self.run_program(*arguments)
        if "[opencl] no" in done.err:
            self.skipTest("[SKIP] no OpenCL device")
        self.assertEqual(done.returncode, 0, done.err)
        return done

    def with_a_gpu(self):
        drivers = self.home / "drivers"
        drivers.mkdir()
        (drivers / "libcuda.so.1").symlink_to(os.environ["TW_FAKE_CUDA"])
        self.environment["LD_LIBRARY_PATH"] = str(drivers)

    def without_a_driver(self):
        drivers = self.home / "none"
        drivers.mkdir()
        for name in ("libcuda.so.1", "libOpenCL.so.1"):
            (drivers / name).write_text("no library")
        self.environment["LD_LIBRARY_PATH"] = str(drivers)

    def findings(self):
        document = json.loads(self.run_program("doctor", "--format", "json", "--db", self.db).out)
        return {finding["name"]: finding for finding in document["findings"]}

    def test_doctor_names_devices(self):
        self.with_a_gpu()
        findings = self.findings()
        self.assertEqual(findings["cuda:0"]["text"],
                         "Fake GPU, cuda:sm_90a, 132 multiprocessors, 1024 MiB, driver for CUDA 13.0")
        self.assertTrue(findings["cuda:0"]["present"])
        if "opencl" not in findings:
            self.assertIn(", opencl, ", findings["opencl:0"]["text"])
        if findings["nvrtc"]["present"]:
            self.assertRegex(findings["nvrtc"]["text"], r"CUDA 1\d\.\d, .*libnvrtc.*, compiles for .*sm_80")
            _, targets = findings["nvrtc"]["text"].split(", compiles for ")
            for target in targets.split(", "):
                self.json("tune", *program.SMALL, "--target", target, "--dry-run", "--format", "json")
            named = self.json("tune", *program.SMALL, "--target", "cuda:0", "--dry-run", "--format", "json")
            self.assertEqual(named["results"][0]["target"], "cuda:sm_90a")
        for verb in ("tune", "run", "show"):
            self.fail_with(2, verb, *program.SMALL, "--target", "cuda:1", saying=["no device 1"])

    def test_doctor_without_devices_is_no_failure(self):
        self.without_a_driver()
        done = self.run_program("doctor", "--db", self.db)
        for words in ("no NVIDIA driver", "no OpenCL"):
            line = next(line for line in done.out.splitlines() if words in line)
            self.assertTrue(line.startswith("-- "), line)
        self.assertTrue(self.findings()["cuda"]["ok"])
        self.assertFalse(self.findings()["opencl"]["present"])

    def test_run_on_opencl(self):
        document = json.loads(self.on_opencl("run", *program.SMALL, "--target", "opencl", "--format", "json").out)
        self.assertEqual(document["target"], "opencl")
        self.assertEqual(document["record"], "")
        self.assertGreaterEqual(document["checked_elements"], 2)
        self.assertLess(document["largest_error"], 1e-4)
        self.assertGreater(document["latency_ns"], 0)
        self.fail_with(2, "show", *program.SMALL, "--target", "opencl", "--asm", saying=["--asm", "--opencl"])
        text = self.succeed("run", "--expr", "scale.tw", "--target", "opencl").out
        for word in ("workload", "checked", "latency", "GFLOP/s", "multiprocessors"):
            self.assertIn(word, text)

    def test_layouts_that_are_asked_for_on_opencl(self):
        layouts = ["--layout", "a=MK16k", "--layout", "out=NM"]
        what = [*program.SMALL, *layouts, "--target", "opencl", "--db", self.db, "--format", "json"]
        tuned = json.loads(self.on_opencl("tune", "--trials", "2", *program.AMPLE, *what).out)["results"][0]
        self.assertEqual(tuned["layouts"], "a=MK16k out=NM")
        self.assertIn("set_layout a MK16k\nset_layout out NM\n", tuned["schedule"])
        ran = self.json("run", *what)
        self.assertEqual((ran["record"], ran["layouts"]), (tuned["record"], tuned["layouts"]))
        self.assertLess(ran["largest_error"], 1e-4)
        self.assertGreater(ran["latency_ns"], 0)
        shown = self.json("show", *program.SMALL, *layouts, "--target", "cuda:sm_90a", "--cuda", "--format", "json")
        self.assertIn("set_layout out NM\n", shown["schedule"])
        self.assertIn("__global__", shown["cuda"])

    def test_run_takes_the_best_record_of_the_device(self):
        self.on_opencl("tune", "--expr", "scale.tw", "--target", "opencl", "--trials", "2", *program.AMPLE,
                       "--db", self.db, "--format", "json")
        table = self.succeed("db", "query", "--db", self.db).out
        self.assertIn("target", table.splitlines()[0])
        self.assertIn(" opencl ", table)
        known = self.json("db", "query", "--db", self.db, "--status", "ok", "--format", "json")["records"]
        run = self.json("run", "--expr", "scale.tw", "--target", "opencl", "--db", self.db, "--format", "json")
        self.assertIn(run["record"], [record["record"] for record in known])
        again = self.json("run", run["record"][:16], "--db", self.db, "--format", "json")
        self.assertEqual([again["target"], again["record"]], ["opencl", run["record"]])
        named = self.json("run", run["record"][:16], "--db", self.db, "--target", "opencl:0", "--format", "json")
        self.assertEqual(named["record"], run["record"])
        self.fail_with(2, "run", run["record"][:16], "--db", self.db, "--target", "host",
                       saying=["--target host contradicts the record", "opencl"])
        self.fail_with(2, "run", run["record"][:16], "--db", self.db, "--target", "opencl:63",
                       saying=["no device 63"])

    def test_fault31_an_interrupt_ends_the_wait_for_a_device(self):
        self.on_opencl("run", "--expr", "scale.tw", "--target", "opencl")
        lock, queue = (os.open(f"/tmp/tilewright-opencl.{name}", os.O_RDONLY | os.O_CREAT, 0o644)
                       for name in ("lock", "queue"))
        self.addCleanup(os.close, lock)
        self.addCleanup(os.close, queue)
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = self.start("tune", "--expr", "scale.tw", "--target", "opencl", "--db", self.db)
        self.addCleanup(process.kill)
        self.assertIn("tuning ", process.stderr.readline())  # interrupts are caught from here on
        while process.poll() is None:  # the first process that waits for the device locks the queue
            try:
                fcntl.flock(queue, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.flock(queue, fcntl.LOCK_UN)
            except BlockingIOError:
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=program.PATIENCE_S)
        self.assertEqual(process.returncode, 130, err)
        self.assertEqual(out, "")
        self.assertIn("interrupted; to go on:", err)
        self.assertNotIn("another tuner", err)

    def test_fault50_run_without_a_driver(self):
        self.without_a_driver()
        for target, words in (("cuda", "no NVIDIA driver"), ("cuda:sm_80", "no NVIDIA driver"),
                              ("opencl", "[opencl] no OpenCL")):
            self.fail_with(7, "run", *program.SMALL, "--target", target, saying=(words,))


if __name__ == "__main__":
    program.main()
