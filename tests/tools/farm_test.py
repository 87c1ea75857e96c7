# SPDX-License-Identifier: Apache-2.0
"""Tests tuning on a farm of this machine: its schedulers and members are processes on loopback. pip
installs Dask once into a folder of the build tree. Where that fails, the tests are skipped."""

import asyncio
import contextlib
import hashlib
import importlib
import json
import logging
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import onnx_files as onnx
import program

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TW_TEST_BUILD", ROOT / "build" / "release"))
REQUIREMENTS = ROOT / "tools" / "requirements/farm.txt"


def dask():
    """Returns the folder that holds Dask and the packages that it needs."""
    folder, stamp = BUILD / "farm-packages", BUILD / "farm-packages.sha256"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    done = subprocess.run([sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet",
                           "--only-binary", ":all:", "--target", folder, "-r", REQUIREMENTS],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise unittest.SkipTest("[SKIP] Dask cannot be installed: " + done.stderr.strip().splitlines()[-1])
    stamp.write_text(wanted)
    return folder


def setUpModule():
    folder = dask()
    importlib.invalidate_caches()
    sys.path[1:1] = [str(ROOT / "bench" / "farm"), str(BUILD / "python"), str(folder)]
    os.environ["PYTHONPATH"] = f"{BUILD / 'python'}:{folder}"


def command_of(process):
    """Returns the command line of a process, or "" if the process has ended."""
    try:
        return pathlib.Path(f"/proc/{process}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, program.PATIENCE_S))


class SleepingMembers(unittest.TestCase):
    """Tests that jobs survive failures of stations, members and schedulers. The stations only sleep
    (bench/farm/farm.py)."""

    @classmethod
    def setUpClass(cls):
        import distributed  # configures its logging when it is imported
        import farm as bench
        from tilewright import farm
        logging.getLogger(distributed.__name__).setLevel(logging.CRITICAL)
        cls.bench, cls.farm = bench, farm
        cls.cluster = cls.enterClassContext(bench.Cluster())
        for name in ("first", "second"):
            cls.cluster.add_member(name)

    def farm_of(self, cluster, patience_s=60):
        return self.farm.Farm(cluster.address, patience_s)

    def test_Fault69_jobs_survive_members_and_schedulers_and_never_overlap(self):
        async def jobs(cluster):
            async with self.farm_of(cluster) as runner:
                await self.bench.with_members(runner, 2)
                replies = await self.bench.sleep_on(runner, 0.001, 400)
                self.assertEqual(len(replies), 400)
                self.assertEqual(len({name for name, _, _ in replies}), 2)

                under_way = asyncio.ensure_future(self.bench.sleep_on(runner, 0.05, 20))
                await asyncio.sleep(0.2)
                cluster.kill_worker(0)
                replies += await under_way
                self.assertEqual(len(replies), 420)

                under_way = asyncio.ensure_future(self.bench.sleep_on(runner, 0.05, 20))
                await asyncio.sleep(0.2)
                cluster.kill_scheduler()
                cluster.start_scheduler()
                replies += await under_way
                self.assertEqual(len(replies), 440)
                self.assertEqual(self.bench.overlaps(replies), 0)

        run(jobs(self.cluster))

    def test_Fault69_members_that_share_processes_rejoin_and_no_job_is_lost(self):
        async def jobs(cluster):
            async with self.farm_of(cluster) as runner:
                await self.bench.with_members(runner, 6)
                replies = await self.bench.sleep_on(runner, 0.01, 60)
                self.assertEqual(len({name for name, _, _ in replies}), 6)
                self.assertEqual(self.bench.overlaps(replies), 0)
            async with self.bench.Tuner(cluster) as tuner:
                figures = await self.bench.recovered(cluster, tuner, 6, [0.01, 0.02])
                self.assertEqual(figures["jobs_lost"], 0)

        with self.bench.Cluster() as cluster:
            cluster.add_members(6, 2)
            run(jobs(cluster))

    def test_Fault69_a_station_that_dies_or_hangs_is_its_jobs_fault_alone(self):
        async def jobs(cluster):
            async with self.farm_of(cluster) as runner:
                died, _ = await runner.perform("measure", b"die", self.bench.RESOURCES, 60)
                self.assertIn("exited with code 9", died)
                began = time.monotonic()
                hung, _ = await runner.perform("measure", b"1000", self.bench.RESOURCES, 0.5)
                self.assertIn("before the limit", hung)
                self.assertLess(time.monotonic() - began, 100)
                self.assertEqual(len(await self.bench.sleep_on(runner, 0)), 1)

        run(jobs(self.cluster))

    def test_Fault69_a_farm_that_stays_away_is_lost(self):
        async def jobs(cluster):
            async with self.farm_of(cluster) as runner:
                await self.bench.with_members(runner, 1)
            async with self.farm_of(cluster, patience_s=2) as runner:
                with self.assertRaisesRegex(self.farm.Lost, "no member offers device and device:other since 2 s"):
                    await runner.perform("measure", b"0", ["device", "device:other"], 60)
            async with self.farm_of(cluster, patience_s=2) as runner:
                await self.bench.sleep_on(runner, 0)
                under_way = asyncio.ensure_future(self.bench.sleep_on(runner, 1000))
                await asyncio.sleep(0.2)
                cluster.kill_scheduler()
                with self.assertRaisesRegex(self.farm.Lost, "cannot be reached"):
                    await under_way
            with self.assertRaisesRegex(self.farm.Lost, "cannot be reached"):
                async with self.farm_of(cluster, patience_s=1):
                    pass

        with self.bench.Cluster() as cluster:
            cluster.add_member("only")
            run(jobs(cluster))

    def test_Fault68_who_has_no_certificate_is_not_served(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=farm",
                        "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)
        tls = {"DASK_DISTRIBUTED__COMM__TLS__CA_FILE": str(folder / "cert.pem")}
        for role in ("SCHEDULER", "WORKER", "CLIENT"):
            tls[f"DASK_DISTRIBUTED__COMM__TLS__{role}__CERT"] = str(folder / "cert.pem")
            tls[f"DASK_DISTRIBUTED__COMM__TLS__{role}__KEY"] = str(folder / "key.pem")
        script = ("import asyncio, sys\nfrom tilewright import farm\nimport farm as bench\n"
                  "async def go():\n"
                  "    async with farm.Farm(sys.argv[1], float(sys.argv[2])) as runner:\n"
                  "        await bench.with_members(runner, 1)\n"
                  "        print(len(await bench.sleep_on(runner, 0)))\n"
                  "asyncio.run(go())\n")

        def ask(patience_s, environment):
            path = f"{os.environ['PYTHONPATH']}:{ROOT / 'bench' / 'farm'}"
            return subprocess.run([sys.executable, "-c", script, cluster.address, str(patience_s)], capture_output=True,
                                  text=True, env={**os.environ, **environment, "PYTHONPATH": path},
                                  timeout=program.PATIENCE_S)

        with self.bench.Cluster("tls", environment=tls) as cluster:
            cluster.add_member("only")
            served = ask(60, tls)
            self.assertEqual(served.stdout, "1\n", served.stderr + cluster.log())
            refused = ask(1, {})
            self.assertNotEqual(refused.returncode, 0)
            self.assertEqual(refused.stdout, "")


class OnAFarm(program.ProgramTest):
    """Tests the program on a farm whose members measure. All tests share the scheduler; members end
    with their test."""

    @classmethod
    def setUpClass(cls):
        import farm as bench
        cls.cluster = cls.enterClassContext(bench.Cluster())

    def setUp(self):
        super().setUp()
        self.environment.update({"PYTHONPATH": os.environ["PYTHONPATH"], "TILEWRIGHT_PYTHON": sys.executable})
        if self.cluster.scheduler.poll() is not None:  # a test has killed it
            self.cluster.start_scheduler()
        self.address = self.cluster.address.replace("tcp", "dask")

    def member(self, *arguments, environment=None):
        process = self.start("worker", "--join", self.address, *arguments, environment=environment)
        self.addCleanup(process.communicate)
        self.addCleanup(process.terminate)
        for line in process.stderr:
            if " joined " in line:
                return process
        self.fail(f"the member did not join: exit code {process.wait()}")

    def farm(self, *arguments):
        return ("--workers", self.address, "--patience", "5s", *arguments)

    def test_a_run_on_members_that_measure_and_build(self):
        # The member has a processor with fewer features than the machine that tunes.
        lesser = {"TILEWRIGHT_MAX_ISA": "sse41"}
        self.member("--labels", "fast", "--offers", "both", environment=lesser)
        result = self.tune(*self.farm("--label", "fast"))["results"][0]
        self.assertEqual(result["ended"], "trials done")
        self.assertTrue(pathlib.Path(result["artifact"]).is_file())
        records = [json.loads(line) for line in self.succeed("db", "export", "-", "--db", self.db).out.splitlines()]
        self.assertEqual(len(records), sum(result["trials"].values()))
        self.assertFalse([record for record in records if "avx" in record["target"]])
        # The records have the member's target and device, so a look-up with that target finds them.
        again = self.tune("--effort", "none", environment=lesser)["results"][0]
        self.assertEqual(again["record"], result["record"])

        self.fail_with(75, "tune", *program.SMALL, "--db", self.db, *self.farm("--label", "slow"),
                       saying=["with the label slow; they have fast"])

    def network(self, *arguments):
        """Returns the command that tunes a small network on the farm."""
        (self.home / "net.onnx").write_bytes(onnx.model(
            [onnx.node("MatMul", ["x", "w"], ["p"]), onnx.node("Relu", ["p"], ["y"])],
            [onnx.tensor("w", [16, 16], [0.5] * 256)], [onnx.port("x", [8, 16])], [onnx.port("y", [8, 16])]))
        return ("tune", "--model", "net.onnx", "--db", self.db, "--budget", "10m", "--output", "net.twart",
                "--workers", self.address, *arguments)

    def started_and_measuring(self, *arguments):
        """Starts a run and returns its process as soon as the run has stored a record."""
        process = self.start(*arguments)
        while self.count() == 0:
            self.assertIsNone(process.poll(), process.stderr.read() if process.poll() is not None else "")
            time.sleep(0.2)
        return process

    def assert_ends(self, process, code):
        """Waits for the process to end, checks its exit code, and returns its standard error."""
        _, err = process.communicate(timeout=program.PATIENCE_S)
        self.assertEqual(process.returncode, code, err)
        return err

    def test_Fault69_a_network_whose_farm_is_lost_goes_on_with_the_same_command(self):
        member = self.member()
        process = self.started_and_measuring(*self.network("--effort", "full", "--patience", "5s"))
        self.cluster.kill_scheduler()
        err = self.assert_ends(process, 75)
        self.assertRegex(err[err.rfind("tilewright: ["):], program.ONE_ERROR)
        self.assertIn("cannot be reached", err)
        self.assertFalse((self.home / "net.twart").exists())
        measured = self.count()
        self.assertGreater(measured, 0)
        self.succeed("db", "verify", "--db", self.db)

        member.terminate()
        member.wait(program.PATIENCE_S)
        self.cluster.start_scheduler()
        self.member()
        document = self.json(*self.network("--trials", "2", "--format", "json"))
        self.assertEqual((document["unverified_kernels"], document["failures"]), (0, {}))
        self.assertGreaterEqual(self.count(), measured)
        self.succeed("run", "net.twart")

    def test_Fault69_a_network_survives_a_killed_member_and_another_scheduler(self):
        import farm as bench
        member = self.member()
        process = self.started_and_measuring(*self.network("--trials", "12"))
        for child in bench.children_of(member.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, 9)
        self.cluster.kill_scheduler()
        self.cluster.start_scheduler()
        self.assert_ends(process, 0)
        self.succeed("run", "net.twart")

    def test_Fault69_a_killed_member_takes_its_workers_along_and_the_run_goes_on(self):
        import farm as bench
        member = self.member()
        process = self.start("tune", *program.SMALL, "--db", self.db, "--trials", "24", *program.AMPLE,
                             "--workers", self.address)
        while self.count() == 0:
            self.assertIsNone(process.poll())
            time.sleep(0.2)
        worker = next(child for child in bench.children_of(member.pid)
                      if any("station" in command_of(below) for below in bench.children_of(child)[:1]))
        below = bench.children_of(worker)
        self.assertGreaterEqual(len(below), 2)  # the station and its runner
        os.kill(worker, 9)
        while any(command_of(child) for child in below):
            time.sleep(0.05)
        _, err = process.communicate(timeout=program.PATIENCE_S)
        self.assertEqual(process.returncode, 0, err)
        self.assertGreaterEqual(self.count(), 24)

    def test_Fault69_a_lost_farm_ends_the_run_and_keeps_what_was_measured(self):
        self.member()
        process = self.started_and_measuring("tune", *program.SMALL, "--db", self.db, "--budget", "10m", "--effort",
                                             "full", *self.farm())
        self.cluster.kill_scheduler()
        err = self.assert_ends(process, 75)
        self.assertRegex(err[err.rfind("tilewright: ["):], program.ONE_ERROR)
        self.assertIn("cannot be reached", err)
        self.assertGreater(self.count(), 0)
        self.succeed("db", "verify", "--db", self.db)

    def count(self):
        done = self.run_program("db", "info", "--db", self.db, "--format", "json")
        return json.loads(done.out)["records"] if done.returncode == 0 else 0

    def test_Fault85_a_member_of_another_version_is_refused_at_joining(self):
        self.member()
        other = subprocess.run([sys.executable, "-P", "-m", "tilewright.farm", "member", self.address, "--resources",
                                "device,version:1.1", "--", "/bin/false"], env={**os.environ, **self.environment},
                               capture_output=True, text=True, timeout=program.PATIENCE_S)
        self.assertEqual(other.returncode, 7, other.stderr)
        self.assertIn("not joined: the farm's member", other.stderr)
        self.assertIn("and this one 1.1: install the same program on both", other.stderr)
        self.assertNotIn("Traceback", other.stderr)

    def test_the_pages_name_the_version_that_members_announce(self):
        process = self.start("worker", "--join", self.address)
        self.addCleanup(process.communicate)
        self.addCleanup(process.terminate)
        joined = next(line for line in process.stderr if " joined " in line)
        version = re.search(r"version:([0-9.]+)", joined)[1]
        protocol, kernels = version.split(".")
        page = " ".join((ROOT / "docs" / "farm.md").read_text().split())
        self.assertIn(f"`{version}` means version {protocol} of the protocol and version {kernels} of kernels", page)
        self.assertIn(f"`version:{version}`", (ROOT / "docs" / "farm.md").read_text())

    def test_Fault68_what_is_wrong_with_tls_names_a_file_or_a_flag(self):
        """Needs no valid certificate, because no connection is made."""
        none, cert = str(self.home / "none.pem"), str(self.home / "cert.pem")
        pathlib.Path(cert).write_text("no certificate")
        prefix = "DASK_DISTRIBUTED__COMM__"
        for address, environment, words in (
                ("tls://127.0.0.1:1", {}, [prefix + "TLS__CA_FILE", "is not set"]),
                ("tls://127.0.0.1:1", {"TLS__CA_FILE": none}, [none, prefix + "TLS__CA_FILE", "No such file"]),
                ("tls://127.0.0.1:1", {"TLS__CA_FILE": cert}, [cert, "cannot be used"]),
                ("dask://127.0.0.1:1", {"REQUIRE_ENCRYPTION": "True"}, ["--workers", "tls://HOST:PORT"])):
            with self.subTest(words=words):
                variables = {prefix + name: value for name, value in environment.items()}
                self.fail_with(2, "tune", *program.SMALL, "--db", self.db, "--workers", address, "--patience", "1s",
                               saying=words, environment=variables)

    def test_Fault01_what_is_no_address_is_named(self):
        for address in ("http://H:1", "dask://127.0.0.1", "dask://127.0.0.1:abc", "127.0.0.1", "dask://:8786", "h:70000",
                        "dask://h:1/a", "::1:8786", "[::1:8786"):
            with self.subTest(address=address):
                self.fail_with(2, "tune", *program.SMALL, "--db", self.db, "--workers", address,
                               saying=["--workers", f"'{address}' is no address of a scheduler", "dask://HOST:PORT"])
        joined = self.run_program("worker", "--join", "http://H:1")
        self.assertEqual((joined.returncode, "Traceback" in joined.err), (2, False), joined.err)
        self.assertIn("--join: 'http://H:1' is no address", joined.err)
        self.assertEqual([self.address_of(text) for text in ("h:1", "dask://h:1", "tls://h:1", "tcp://[::1]:8786")],
                         ["tcp://h:1", "tcp://h:1", "tls://h:1", "tcp://[::1]:8786"])

    def test_seconds_of_messages_are_rounded_and_addresses_are_not(self):
        from tilewright import farm
        self.assertEqual(farm._rounded("to tcp://192.168.1.5:8786 after 0.9999997 s"),
                         "to tcp://192.168.1.5:8786 after 1 s")

    @staticmethod
    def address_of(text):
        from tilewright import farm
        return farm.dask_address(text)

    def scheduler(self, *arguments):
        """Returns the exit code and the last line of a `./tw scheduler` that cannot start."""
        done = subprocess.run([sys.executable, "-P", "-m", "tilewright.farm", "scheduler", "--", *arguments],
                              env={**os.environ, **self.environment}, capture_output=True, text=True,
                              timeout=program.PATIENCE_S)
        self.assertNotIn("Traceback", done.stderr)
        return done.returncode, done.stderr.splitlines()[-1]

    def test_a_scheduler_that_cannot_start_says_why_in_a_line(self):
        none, cert = str(self.home / "none.pem"), str(self.home / "cert.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=farm",
                        "-keyout", self.home / "key.pem", "-out", cert], check=True, capture_output=True)
        tls = ("--protocol", "tls", "--host", "127.0.0.1", "--tls-ca-file", cert)
        for arguments, code, words in (
                (["--protocol", "tcs"], 2, ["--protocol tcs", "tcp, tls"]),
                ([*tls, "--tls-cert", none], 2, [f"'{none}' of --tls-cert", "give another file to --tls-cert"]),
                ([*tls, "--tls-cert", cert], 2, ["--tls-cert holds no private key", "by --tls-key"]),
                (["--protocol", "tls", "--tls-cert", cert], 2, ["by --tls-ca-file"]),
                (["--interface", "none9"], 2, ["the scheduler ends", "none9"]),
                (["--host", "192.0.2.1", "--port", "0", "--no-dashboard"], 7, ["the scheduler ends"])):
            with self.subTest(arguments=arguments):
                got, line = self.scheduler(*arguments)
                self.assertEqual(got, code, line)
                self.assertTrue(line.startswith("tilewright: [farm] "), line)
                cause = line.partition("; its arguments were")[0]
                for word in words:
                    self.assertIn(word, cause)

    def test_what_is_wrong_is_said_in_a_line(self):
        self.fail_with(75, "tune", *program.SMALL, "--db", self.db, *self.farm(), saying=["none of 0 members measures"])
        self.fail_with(75, "tune", *program.SMALL, "--db", self.db, "--workers", "dask://127.0.0.1:1", "--patience", "1s",
                       saying=["cannot be reached", " after 1 s;"])
        self.fail_with(7, "tune", *program.SMALL, "--db", self.db, *self.farm("--python", "/usr/bin/false"),
                       saying=["[farm]"])
        self.fail_with(2, "worker", saying=["--join"])
        self.fail_with(2, "worker", "--join", self.address, "--labels", "device", saying=["'device'"])
        self.fail_with(2, "tune", *program.SMALL, *self.farm("--effort", "none"), saying=["--workers"])


if __name__ == "__main__":
    program.main()
