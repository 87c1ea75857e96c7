# SPDX-License-Identifier: Apache-2.0
"""Tests databases on a PostgreSQL server that the tests start. TW_TEST_POSTGRES is the folder of
the server's programs."""

import json
import os
import shutil
import signal
import subprocess
import tempfile

import onnx_files as onnx
import program


class Server:
    """Runs a PostgreSQL server for these tests, reached by a Unix socket. PostgreSQL refuses to run
    as root, so root runs it as nobody."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="tw-postgres-", dir="/tmp")
        self.run_as = ["setpriv", "--pdeathsig", "QUIT"]
        if os.geteuid() == 0:
            shutil.chown(self.folder, "nobody")
            self.run_as += ["--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]
        subprocess.run([*self.run_as, self.tool("initdb"), "-D", self.folder + "/data", "-U", "owner", "--auth=trust",
                        "--no-sync", "--encoding=UTF8", "--locale=C"], cwd="/", check=True, stdout=subprocess.DEVNULL)
        self.start()

    @staticmethod
    def tool(name):
        return os.path.join(os.environ["TW_TEST_POSTGRES"], name)

    def start(self):
        self.process = subprocess.Popen(
            [*self.run_as, self.tool("postgres"), "-D", self.folder + "/data", "-k", self.folder, "-c", "listen_addresses=",
             "-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "log_min_messages=log", "-c", "log_checkpoints=off"],
            cwd="/", stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if "ready to accept connections" in line:
                return
        raise RuntimeError("postgres did not start")

    def stop(self):
        self.process.send_signal(signal.SIGQUIT)
        self.process.communicate()

    def close(self):
        self.stop()
        shutil.rmtree(self.folder)

    def address(self, database):
        return f"postgresql://owner@/{database}?host={self.folder}"

    def make_database(self, name):
        subprocess.run([self.tool("createdb"), "-h", self.folder, "-U", "owner", name], cwd="/", check=True)
        return self.address(name)


class Postgres(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.close)
        cls.made = 0

    def setUp(self):
        super().setUp()
        Postgres.made += 1
        self.db = self.server.make_database(f"test{self.made}")

    def count(self, database=None):
        done = self.run_program("db", "info", "--db", database or self.db, "--format", "json")
        return json.loads(done.out)["records"] if done.returncode == 0 else 0

    def spooled(self):
        folder = self.home / ".local/share/tilewright"
        return [path for path in folder.glob("*.spool.jsonl") if path.stat().st_size > 0]

    def test_every_verb_takes_the_address(self):
        self.fail_with(4, "db", "info", "--db", self.db, saying=["holds no tuning database"])
        result = self.tune()["results"][0]
        self.assertEqual(self.count(), sum(result["trials"].values()))
        out = self.succeed("tune", *program.SMALL, "--db", self.db, "--effort", "none").out
        self.assertIn(f"replay --db '{self.db}'", out)
        for verb in ("replay", "show", "explain"):
            self.succeed(verb, "--db", self.db, result["record"])
        self.succeed("run", *program.SMALL, "--db", self.db)
        self.assertIn("PostgreSQL", self.succeed("db", "info", self.db).out)
        self.assertIn("dense", self.succeed("db", "query", self.db, "--op", "dense").out)
        self.assertIn("all is well", self.succeed("db", "verify", self.db).out)
        self.succeed("db", "quarantine", self.db)
        self.succeed("db", "upgrade", self.db)

    def test_a_plan_makes_the_tables_for_its_demand(self):
        (self.home / "net.onnx").write_bytes(onnx.model(
            [onnx.node("MatMul", ["x", "w"], ["y"])], [onnx.tensor("w", [8, 8], [1.0] * 64)],
            [onnx.port("x", [4, 8])], [onnx.port("y", [4, 8])]))
        self.fail_with(4, "tune", "--model", "net.onnx", "--dry-run", "--db", self.db,
                       saying=["holds no tuning database"])
        self.succeed("tune", "--model", "net.onnx", "--effort", "none", "--db", self.db)
        self.assertEqual(self.count(), 0)
        self.assertIn("net", self.succeed("db", "demand", "--db", self.db).out)

    def test_facts_travel_between_files_and_servers(self):
        self.tune()
        count = self.count()
        file, lines = str(self.home / "file.db"), str(self.home / "lines.jsonl")
        self.succeed("db", "export", "--db", self.db, file)
        self.succeed("db", "export", "--db", self.db, lines)
        self.assertEqual(self.count(file), count)
        other = self.server.make_database(f"other{self.made}")
        self.succeed("db", "import", "--db", other, lines)
        self.assertEqual(self.count(other), count)
        third = self.server.make_database(f"third{self.made}")
        self.succeed("db", "merge", "--db", third, file)
        self.assertEqual(self.count(third), count)
        self.succeed("db", "merge", "--db", str(self.home / "merged.db"), third)
        self.assertEqual(self.count(str(self.home / "merged.db")), count)

    def test_a_server_that_is_not_there_is_one_error(self):
        nowhere = "postgresql://owner@/schedules?host=/nowhere"
        self.fail_with(4, "tune", *program.SMALL, "--db", nowhere, saying=["cannot be reached", "--db"])
        self.fail_with(4, "db", "info", nowhere, saying=["cannot be reached"])

    def test_passwords_are_refused_and_not_shown(self):
        for address in ("postgresql://owner:secret@host/db", "postgresql://owner@host/db?password=secret"):
            for verb in (["tune", *program.SMALL, "--db"], ["db", "info"], ["db", "merge"], ["show", *program.SMALL, "--db"]):
                done = self.fail_with(2, *verb, address, saying=["password", ".pgpass"])
                self.assertNotIn("secret", done.err)
            done = self.run_program("tune", *program.SMALL, "--db", address, "--dry-run", "--format", "json")
            self.assertNotIn("secret", done.out + done.err)

    def test_a_run_whose_server_goes_away_continues_and_the_next_one_synchronises(self):
        process = self.start("tune", *program.SMALL, "--db", self.db, *program.AMPLE)
        self.addCleanup(process.kill)
        while self.count() == 0:
            self.assertIsNone(process.poll())
        known = self.count()
        self.server.stop()
        try:
            while not self.spooled():
                self.assertIsNone(process.poll(), "the run ended with its server")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=program.PATIENCE_S)
        finally:
            self.server.start()
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("cannot be reached any more", err)
        self.assertIn("tw1\n", out)  # the best schedule that it measured
        waiting = len(self.spooled()[0].read_text().splitlines())
        more = self.tune("--resume")["results"][0]
        self.assertEqual(self.spooled(), [])
        self.assertGreaterEqual(self.count(), known + waiting + sum(more["trials"].values()))
        self.assertIn("all is well", self.succeed("db", "verify", self.db).out)


if __name__ == "__main__":
    program.main()
