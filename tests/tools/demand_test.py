# SPDX-License-Identifier: Apache-2.0
"""Tests demands: the runs that leave them, their lists, their removal, and the effect of tuning
them."""

import csv
import io
import json
import os
import pathlib
import random
import sqlite3
import subprocess

import onnx_files as onnx
import program

NOBODY = 65534
BUDGETS = ["5s", "20s", "80s"]  # tried in turn, as a busy machine may tune no kernel in 5 s
ROWS, INNER, COLUMNS = 24, 48, 40


def product(seed=1, columns=COLUMNS):
    """Returns the model y = relu(x w)."""
    source = random.Random(seed)
    return onnx.model(
        [onnx.node("MatMul", ["x", "w"], ["p"]), onnx.node("Relu", ["p"], ["y"])],
        [onnx.tensor("w", [INNER, columns], [source.uniform(-1, 1) for _ in range(INNER * columns)])],
        [onnx.port("x", [ROWS, INNER])], [onnx.port("y", [ROWS, columns])])


class Demand(program.ProgramTest):
    def setUp(self):
        super().setUp()
        (self.home / "net.onnx").write_bytes(product())

    def plan(self, *arguments, **options):
        return self.json("tune", "--model", "net.onnx", "--effort", "none", "--db", self.db, "--format", "json",
                         *arguments, **options)

    def demands(self, *arguments):
        return self.json("db", "demand", "--db", self.db, "--format", "json", *arguments)["demands"]

    def change(self, sql, *values):
        connection = sqlite3.connect(self.db)
        with connection:
            connection.execute(sql, values)
        connection.close()

    def as_nobody(self):
        """Returns options that start the program as a user who may read the home, but may write
        only to a folder in it."""
        if os.geteuid() != 0:
            self.skipTest("[SKIP] needs another user than root to become")
        self.home.chmod(0o755)
        own = self.home / "own"
        own.mkdir()
        os.chown(own, NOBODY, NOBODY)
        try:
            subprocess.run([program.PROGRAM, "version"], user=NOBODY, capture_output=True, check=True)
        except (PermissionError, subprocess.CalledProcessError):
            self.skipTest("[SKIP] another user cannot run the program here")
        return {"user": NOBODY, "environment": {"HOME": str(own)}}

    # ---- who leaves it ----

    def test_a_plan_leaves_the_kernels_that_it_uses(self):
        self.assertFalse(pathlib.Path(self.db).exists())
        planned = self.plan()
        [demand] = self.demands()
        self.assertRegex(demand["demand"], "^[0-9a-f]{64}$")
        self.assertEqual((demand["name"], demand["threads"], demand["asked"]), ("net", 1, 1))
        self.assertEqual(demand["latency_ns"], planned["predicted_ns"])
        self.assertEqual(demand["first_ns"], demand["latency_ns"])
        self.assertEqual((demand["wanted_kernels"], demand["measured_kernels"]), (len(demand["kernels"]), 0))
        self.assertGreater(len(demand["kernels"]), 0)
        for kernel in demand["kernels"]:
            self.assertGreater(kernel["latency_ns"], 0)
            self.assertGreaterEqual(kernel["runs"], 1)
            self.assertEqual((kernel["is_measured"], kernel["trials"], kernel["best_ns"]), (False, 0, 0))
        self.assertEqual(demand["used_ns"], demand["best_ns"])
        self.assertGreater(demand["expected_saving"], 0.01)

    def test_a_network_that_is_planned_again_is_the_same_demand(self):
        self.plan()
        self.plan()
        (self.home / "net.onnx").write_bytes(product(seed=2))  # other weights give the same kernels
        self.plan("--output", "other.twart")
        [demand] = self.demands()
        self.assertEqual(demand["asked"], 3)
        self.assertGreaterEqual(demand["asked_ms"], demand["first_ms"])
        (self.home / "net.onnx").write_bytes(product(columns=8))
        self.plan("--output", "other.twart")
        self.assertEqual(len(self.demands()), 2)

    def test_a_dry_run_leaves_nothing(self):
        self.json("tune", "--model", "net.onnx", "--db", self.db, "--dry-run", "--format", "json")
        self.assertFalse(pathlib.Path(self.db).exists())

    def test_a_run_that_its_budget_cuts_short_leaves_its_operator(self):
        for budget in BUDGETS:
            done = self.run_program("tune", "--op", "dense", "--shape", "m=512,n=512,k=512", "--db", self.db, "--effort",
                                    "full", "--budget", budget)
            if done.returncode == 0:
                break
            self.assertEqual(done.returncode, 6, done.err)
        [demand] = self.demands()
        self.assertEqual(demand["name"], "dense")
        [kernel] = demand["kernels"]
        self.assertIn("m=512", kernel["workload"])
        self.assertGreater(kernel["trials"], 0)
        self.assertTrue(kernel["is_measured"])
        self.assertGreaterEqual(kernel["used_ns"], kernel["best_ns"])

    def test_a_run_that_ends_by_itself_leaves_nothing(self):
        self.tuned()
        self.assertEqual(self.demands(), [])
        self.succeed("tune", *program.SMALL, "--db", self.db, "--effort", "none")
        self.assertEqual(self.demands(), [])

    def test_an_operator_without_a_kernel_leaves_demand_where_there_is_a_database(self):
        unknown = ["tune", "--op", "dense", "--shape", "m=33,n=9,k=7", "--db", self.db, "--effort", "none"]
        self.fail_with(4, *unknown)
        self.assertFalse(pathlib.Path(self.db).exists())
        self.tuned()
        self.fail_with(6, *unknown)
        [demand] = self.demands()
        self.assertEqual((demand["kernels"][0]["schedule"], demand["used_ns"]), ("", 0))

    def test_Fault103_who_may_only_read_leaves_nothing(self):
        self.tuned()
        options = self.as_nobody()
        os.chmod(self.db, 0o444)
        planned = self.run_program("tune", "--model", "net.onnx", "--effort", "none", "--db", self.db,
                                   "--output", str(self.home / "own" / "net.twart"), **options)
        self.assertEqual(planned.returncode, 0, planned.err)
        self.assertIn("the demand of net is not kept", planned.err)
        self.assertTrue((self.home / "own" / "net.twart").is_file())
        unknown = self.run_program("tune", "--op", "dense", "--shape", "m=33,n=9,k=7", "--db", self.db,
                                   "--effort", "none", **options)
        self.assertEqual(unknown.returncode, 6, unknown.err)
        self.assertNotIn("demand", unknown.err)
        self.assertEqual(self.demands(), [])

    # ---- how it is listed and forgotten ----

    def test_demand_is_listed(self):
        self.plan()
        [demand] = self.demands()
        listed = self.succeed("db", "demand", "--db", self.db).out
        self.assertIn(demand["demand"][:16], listed)
        for column in ("used", "best", "gained", "expected", "asked", "name"):
            self.assertIn(column, listed.splitlines()[0])
        [row] = csv.DictReader(io.StringIO(self.succeed("db", "demand", "--db", self.db, "--format", "csv").out))
        self.assertEqual(row["demand"], demand["demand"])
        self.assertEqual(float(row["used_ns"]), demand["used_ns"])
        self.assertEqual(int(row["kernels"]), len(demand["kernels"]))
        self.assertEqual(self.demands("--target", "host", "--device", "this"), [demand])
        self.assertEqual(self.demands("--device", "another"), [])
        self.assertEqual(self.demands("--target", "arm-64-linux"), [])

    def test_one_demand_with_its_kernels(self):
        self.plan()
        [demand] = self.demands()
        entry = ["--entry", demand["demand"][:8]]
        self.assertEqual(self.demands(*entry), [demand])
        shown = self.succeed("db", "demand", "--db", self.db, *entry).out
        self.assertIn(demand["kernels"][0]["workload"].split()[0], shown)
        self.assertIn("trials", shown)
        for wrong in ("ffffffffffff", "x"):
            self.fail_with(2, "db", "demand", "--db", self.db, "--entry", wrong, saying=[f"--entry {wrong}", "db demand"])

    def test_a_demand_is_forgotten(self):
        self.plan()
        [demand] = self.demands()
        self.fail_with(2, "db", "demand", "--db", self.db, "--drop", saying=["--entry"])
        self.fail_with(2, "db", "demand", "--db", self.db, "--drop", "--entry", "0" * 64, saying=["--entry"])
        self.assertEqual(self.demands(), [demand])
        dropped = self.succeed("db", "demand", "--db", self.db, "--drop", "--entry", demand["demand"]).out
        self.assertIn("the demand of net is forgotten", dropped)
        self.assertEqual(self.demands(), [])
        self.plan()
        dropped = self.json("db", "demand", "--db", self.db, "--drop", "--entry", demand["demand"][:16], "--format", "json")
        self.assertEqual(dropped["dropped"], 1)

    def test_databases_take_no_demand_from_each_other(self):
        self.plan()
        other = str(self.home / "other.db")
        self.succeed("db", "merge", self.db, "--db", other)
        self.assertEqual(self.json("db", "demand", "--db", other, "--format", "json")["demands"], [])

    # ---- working it off ----

    def test_demand_is_worked_off(self):
        self.plan()
        for budget in BUDGETS:
            document = self.json("tune", "--demand", "--db", self.db, "--budget", budget, "--effort", "full",
                                 "--format", "json")
            if document["tuned_kernels"] > 0:
                break
        self.assertTrue(document["demand"])
        self.assertTrue(document["sandbox"])
        self.assertGreaterEqual(document["tuned_kernels"], 1)
        self.assertGreaterEqual(document["waves"], 1)
        [before], [after] = document["before"], document["after"]
        self.assertEqual(before["demand"], after["demand"])
        self.assertEqual((before["measured_kernels"], before["measured_share"]), (0, 0))
        self.assertGreaterEqual(after["measured_kernels"], 1)
        self.assertGreater(sum(kernel["trials"] for kernel in after["kernels"]), 0)
        self.assertGreater(after["best_ns"], 0)
        self.assertLess(after["expected_saving"], before["expected_saving"])
        self.assertEqual([d["demand"] for d in self.demands()], [after["demand"]])

    def test_a_database_without_demand_says_so(self):
        self.tuned()
        for form in "table", "json":
            done = self.succeed("tune", "--demand", "--db", self.db, "--budget", "5s", "--format", form)
            self.assertIn("nobody has left a demand", done.err)
            self.assertIn("--effort none", done.err)
        self.assertEqual(json.loads(done.out)["after"], [])
        self.assertIn("nobody has left a demand", self.succeed("db", "demand", "--db", self.db).err)
        self.assertEqual(self.demands(), [])

    def test_demand_of_other_devices_is_left_alone(self):
        self.plan()
        self.change("UPDATE demands SET device = 'Another CPU; 2 cores'")
        done = self.succeed("tune", "--demand", "--db", self.db, "--budget", "5s", "--format", "json")
        document = json.loads(done.out)
        self.assertEqual((document["tuned_kernels"], document["before"]), (0, []))
        self.assertIn("is of a device like this one", done.err)
        self.assertEqual(self.demands("--device", "this"), [])
        self.assertEqual(self.demands()[0]["device"], "Another CPU; 2 cores")

    def test_what_makes_no_sense_is_refused(self):
        self.plan()
        demand = ["tune", "--demand", "--db", self.db]
        self.fail_with(2, *demand, "--effort", "none", saying=["--effort none", "db demand"])
        for flags in (["--op", "dense"], ["--model", "net.onnx"], ["--threads", "2"], ["--refresh"]):
            self.fail_with(2, *demand, *flags, saying=[flags[0]])
        self.fail_with(4, "tune", "--demand", "--db", str(self.home / "none.db"), saying=["none.db"])

    # ---- planning again ----

    def refresh(self, *arguments, **options):
        return self.json("tune", "--model", "net.onnx", "--refresh", "--db", self.db, "--format", "json", *arguments,
                         **options)

    def test_refresh_writes_where_there_is_no_file(self):
        self.assertNotIn("refresh", self.refresh())
        self.succeed("run", "net.twart")

    def test_refresh_replaces_the_file_where_the_network_is_faster(self):
        self.plan()
        before = (self.home / "net.twart").read_bytes()
        self.succeed("tune", "--demand", "--db", self.db, "--budget", "6s", "--effort", "full")
        document = self.refresh()["refresh"]
        self.assertTrue(document["is_measured"])
        self.assertEqual(document["is_kept"], document["latency_ns"] > 0.99 * document["former_ns"])
        now = (self.home / "net.twart").read_bytes()
        if document["is_kept"]:
            self.assertEqual(now, before)
        else:
            self.assertNotEqual(now, before)
        self.succeed("run", "net.twart")
        said = self.succeed("tune", "--model", "net.onnx", "--refresh", "--db", self.db).out
        self.assertRegex(said, "refreshed +(the file stays as it was|replaced): .* before, .* as planned now, timed by turns")

    def test_Fault102_refresh_keeps_the_file_of_another_network(self):
        self.plan()
        before = (self.home / "net.twart").read_bytes()
        for other in (product(columns=8), product(seed=2)):
            (self.home / "net.onnx").write_bytes(other)
            self.fail_with(5, "tune", "--model", "net.onnx", "--refresh", "--db", self.db,
                           saying=["[refresh]", "'net.twart' holds another network"])
            self.assertEqual((self.home / "net.twart").read_bytes(), before)

    def test_Fault102_refresh_keeps_the_file_for_other_threads(self):
        self.plan()
        before = (self.home / "net.twart").read_bytes()
        self.fail_with(5, "tune", "--model", "net.onnx", "--refresh", "--db", self.db, "--threads", "2",
                       saying=["[refresh]", "'net.twart' is for 1 thread", "--threads 1"])
        self.assertEqual((self.home / "net.twart").read_bytes(), before)

    def test_refresh_is_about_a_network(self):
        self.fail_with(2, "tune", *program.SMALL, "--refresh", "--db", self.db, saying=["--refresh", "--model"])
        self.fail_with(2, "tune", "--model", "net.onnx", "--refresh", "--effort", "full", "--db", self.db,
                       saying=["--effort"])


if __name__ == "__main__":
    program.main()
