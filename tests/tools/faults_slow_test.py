# SPDX-License-Identifier: Apache-2.0
"""Tests faults that show only after several runs."""

import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess

import program


class SlowFaults(program.ProgramTest):
    def test_Fault20_two_tuners_at_once_share_a_database(self):
        runs = [self.start("tune", *program.SMALL, "--db", self.db, "--trials", "12", *program.AMPLE,
                           "--seed", seed, "--format", "json") for seed in ("1", "2")]
        documents = []
        for process in runs:
            out, err = process.communicate(timeout=program.PATIENCE_S)
            self.assertEqual(process.returncode, 0, err)
            documents.append(json.loads(out))
        records = [json.loads(line) for line in
                   self.succeed("db", "export", "-", "--db", self.db).out.splitlines()]
        sessions = [record["session"] for record in records]
        for document in documents:
            result = document["results"][0]
            self.assertEqual(sessions.count(document["session"]), sum(result["trials"].values()))
        self.assertEqual(len(sessions), sum(sessions.count(d["session"]) for d in documents))
        self.assertEqual({record["workload"] for record in records}, {"dense m=64 n=64 k=64 f32 fast"})
        self.assertIn("all is well", self.succeed("db", "verify", "--db", self.db).out)
        self.assertEqual(self.tune("--resume")["results"][0]["known_trials"],
                         len({record["schedule"] for record in records}))

    def test_Fault41_every_candidate_fails(self):
        tune = ["tune", *program.SMALL, "--db", self.db, "--budget", "300s"]
        done = self.fail_with(7, *tune, environment=self.with_linker('echo "$@" >&2; exit 1'))
        reference = re.search(r"--require-defined=(\w+)", done.err).group(1)
        environment = self.with_linker(f"""case "$*" in
            *{reference}*) link "$@" ;;
            *=tw_[0-7]*) echo "red: $$ not defined" ;;
            *=tw_[89ab]*) echo "green: $$ not defined" ;;
            *=tw_[cd]*) echo "blue: $$ not defined" ;;
            *) echo "grey: $$ not defined" ;;
            esac >&2; exit 1""")
        done = self.fail_with(6, *tune, environment=environment,
                              saying=["none of", "red", "green", "the default schedule still runs"])
        reasons = re.findall(r"(\d+) x compile_error: ", done.err)
        self.assertEqual(len(reasons), 3, done.err)
        self.assertEqual(sorted(reasons, key=int, reverse=True), reasons)
        summary = self.json("db", "info", "--db", self.db, "--format", "json")
        self.assertEqual(list(summary["by_status"]), ["compile_error"])
        self.assertLess(summary["records"], 200)  # the search ended
        # Without a known kernel, `tune --effort none` fails, and `run` uses the default schedule.
        self.fail_with(6, "tune", *program.SMALL, "--db", self.db, "--effort", "none")
        self.assertGreater(self.json("run", *program.SMALL, "--db", self.db, "--format", "json")
                           ["checked_elements"], 0)

    def test_Fault52_54_55_a_cached_kernel_that_cannot_be_trusted_is_built_again(self):
        path = pathlib.Path(self.tune()["results"][0]["artifact"])
        whole = path.read_bytes()
        length = int.from_bytes(whole[8:12], "little")

        def with_header(**changes):
            header = json.loads(whole[12:12 + length])
            del header["header_hash"]
            header["info"].update(changes.pop("info", {}))
            header.update(changes)
            dump = functools.partial(json.dumps, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            header["header_hash"] = hashlib.sha256(dump(header).encode()).hexdigest()
            text = dump(header).encode()
            return whole[:8] + len(text).to_bytes(4, "little") + text + whole[12 + length:]

        self.assertEqual(with_header(), whole)  # otherwise the cases below would prove nothing
        foreign = "x86-64-linux" if json.loads(whole[12:12 + length])["info"]["target"].startswith("arm") \
            else "arm-64-linux"
        flipped = bytearray(whole)
        flipped[-100] ^= 1
        for bad in (b"", whole[:-1], bytes(flipped), with_header(runtime_abi=99),
                    with_header(info={"target": foreign})):
            path.write_bytes(bad)
            self.succeed("run", *program.SMALL, "--db", self.db)
            self.assertEqual(path.read_bytes(), whole)
        elsewhere = self.home / "elsewhere"
        path.rename(elsewhere)
        path.symlink_to(elsewhere)
        self.succeed("run", *program.SMALL, "--db", self.db)
        self.assertFalse(path.is_symlink())
        path.chmod(0o666)
        self.succeed("run", *program.SMALL, "--db", self.db)
        self.assertEqual(path.stat().st_mode & 0o022, 0)

    def test_Fault70_decimal_comma(self):
        subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", self.home / "comma"],
                       capture_output=True)
        comma = {"LOCPATH": str(self.home), "LC_ALL": "comma", "LANG": "comma"}
        for environment in (comma, {"LC_ALL": "no_such_locale", "LANG": "no_such_locale"}):
            result = self.tune("--effort", "full", environment=environment)["results"][0]
            self.assertGreater(result["latency_ns"], 0)
            shown = self.succeed("db", "query", "--db", self.db, environment=environment).out
            self.assertEqual(shown, self.succeed("db", "query", "--db", self.db).out)

    def test_Fault70_paths(self):
        each = ["with space", "quote'\"", "line\nbreak", "-leading", "$(touch x)", "bytes\udcff"]
        together = ["".join(each[:3]), "".join(each[3:])]
        for name in each if program.NIGHTLY else together:
            folder = self.home / name
            folder.mkdir()
            db = os.path.join(folder, "t.db")
            self.short(environment={"TILEWRIGHT_DB": db})
            self.assertIn("all is well", self.succeed("db", "verify", "--db", db).out)
            self.json("tune", *program.SMALL, "--db", db, "--effort", "none", "--format", "json",
                      "--output", os.path.join(folder, "kernel.twart"))
            self.assertTrue(os.path.exists(os.path.join(folder, "kernel.twart")))
        self.assertFalse((self.home / "x").exists())

    def test_Fault94_a_disk_that_becomes_full_costs_no_result(self):
        done = self.mounted("size=128k", "tune", *program.SMALL, "--db", str(self.home / "mount/t.db"),
                            "--trials", "200", "--format", "json")
        self.assertEqual(done.returncode, 4, done.stderr)
        best = json.loads(done.stdout)["results"][0]
        self.assertGreater(best["latency_ns"], 0)
        self.assertEqual((best["stored"], best["ended"]), (False, "trials cannot be stored"))
        self.assertTrue(pathlib.Path(best["artifact"]).exists())
        last = done.stderr[done.stderr.rfind("tilewright: ["):]
        self.assertRegex(last, program.ONE_ERROR)
        self.assertIn("disk is full", last)
        self.assertIn("what was committed is safe", last)
        self.assertIn("t.db.spool.jsonl", last)


if __name__ == "__main__":
    program.main()
