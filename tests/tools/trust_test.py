# SPDX-License-Identifier: Apache-2.0
"""Tests the trust in records, and the verbs that maintain a database of a team."""

import contextlib
import csv
import hashlib
import io
import json
import shutil
import sqlite3
import subprocess

import program


def text_of(value):
    """Returns a field as the canonical text of a record has it (docs/database_format.md)."""
    if isinstance(value, list):
        return " ".join(text_of(item) for item in value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value)


def sealed(original, **changes):
    """Returns the record with these changes and the hash that belongs to them, like a line of an
    export."""
    record = {**original, **changes}
    text = f"tilewright-record {record['record']}\n"
    for name, value in record.items():
        if name not in ("record", "hash"):
            value = text_of(value)
            text += f"{name}:{len(value.encode())}:{value}\n"
    return {**record, "hash": hashlib.sha256(text.encode()).hexdigest()}


def timed(original, latency_ns, session, **changes):
    """Returns the record as if another session had measured it."""
    return sealed(original, latency_ns=latency_ns, latency_low_ns=latency_ns * 0.99, latency_high_ns=latency_ns * 1.01,
                  samples_ns=[latency_ns], session=session, host="host of " + session, **changes)


class Trust(program.ProgramTest):
    def exported(self, *arguments):
        return [json.loads(line) for line in self.succeed("db", "export", "-", "--db", self.db, *arguments)
                .out.splitlines() if '"record"' in line]

    def best(self):
        self.tuned()
        best = self.json("tune", *program.SMALL, "--db", self.db, "--dry-run", "--format", "json")
        best = best["results"][0]["best"]
        return next(record for record in self.exported() if record["hash"] == best["record"])

    def store(self, *records):
        lines = self.home / "lines.jsonl"
        lines.write_text("".join(json.dumps(record) + "\n" for record in records))
        done = self.json("db", "import", str(lines), "--db", self.db, "--format", "json")
        self.assertEqual(done["quarantined"], 0)

    def explain(self, *arguments):
        return self.json("db", "explain", *program.SMALL, "--db", self.db, "--format", "json", *arguments)

    def test_sealing_here_is_that_of_the_program(self):
        self.tuned()
        for record in self.exported():
            self.assertEqual(sealed(record), record)

    def test_an_answer_and_what_it_rests_on(self):
        best = self.best()
        known = self.explain()
        self.assertEqual(known["answer"]["record"], best["hash"])
        self.assertEqual(known["answer"]["likeness"], "exact")
        self.assertEqual(known["answer"]["samples"], len(best["samples_ns"]))
        self.assertEqual(known["agreement"]["sessions"], 1)
        text = self.succeed("db", "explain", *program.SMALL, "--db", self.db).out
        self.assertRegex(text, r"(?m)^machine +this one$")
        self.assertIn("no other session has confirmed it", text)
        latency = best["latency_ns"]
        self.store(timed(best, latency * 1.02, "a"), timed(best, latency * 0.98, "b"))
        known = self.explain()
        self.assertEqual(known["agreement"]["sessions"], 3)
        self.assertEqual(known["agreement"]["hosts"], 3)
        of_hash = self.json("db", "explain", best["hash"][:12], "--db", self.db, "--format", "json")
        self.assertEqual(of_hash["answer"], known["answer"])
        of_key = self.json("db", "explain", best["workload"], "--db", self.db, "--format", "json")
        self.assertEqual(of_key["answer"], known["answer"])
        self.fail_with(6, "db", "explain", "--op", "softmax", "--db", self.db,
                       saying=["no record of", "none is there: tune it"])
        self.fail_with(6, "db", "explain", *program.SMALL, "--threads", "2", "--db", self.db,
                       saying=["no record of", "2 threads is believed", "there are some for", "1 thread"])

    def test_explain_says_why_a_faster_record_is_not_the_answer(self):
        best = self.best()
        other = next(record for record in self.exported()
                     if record["status"] == "ok" and record["schedule"] != best["schedule"])
        latency = best["latency_ns"]
        self.store(*[timed(other, share * latency, f"session {share}") for share in (0.97, 1.02, 1.03)])
        [doubted] = [one for one in self.explain()["not_used"] if one["session"] == "session 0.97"]
        self.assertIn("the median of its schedule is", doubted["why"])
        known = self.json("explain", *program.SMALL, "--db", self.db, "--format", "json")["best_other"]
        self.assertEqual((known["record"]["record"], known["why_not_best"]), (doubted["record"], doubted["why"]))
        text = self.succeed("explain", *program.SMALL, "--db", self.db).out
        self.assertIn(f"% faster, record {doubted['record'][:16]}\n  ({doubted['why']})\n", text)

    def test_Fault29_a_wide_lead_waits_for_a_second_trial(self):
        best = self.best()
        latency = best["latency_ns"]
        other = best["schedule"] + "\n"  # same steps, but a different text
        claim = timed(best, latency / 3, "c", schedule=other)
        self.store(timed(best, latency, "a"), timed(best, latency, "b"), claim)
        known = self.explain()
        self.assertEqual([(r["record"], r["doubt"]) for r in known["not_used"] if r["session"] == "c"],
                         [(claim["hash"], "to be confirmed")])
        listed = self.json("db", "quarantine", "--db", self.db, "--format", "json")
        self.assertEqual((listed["quarantined"], listed["doubted"]), (0, 1))
        whole = self.json("db", "quarantine", "--entry", claim["hash"][:8], "--db", self.db, "--format", "json")
        self.assertEqual(json.loads(whole["line"]), claim)
        self.assertIn("it has to be confirmed", self.succeed("db", "quarantine", "--db", self.db).out)
        # Measured again, the claim turns out slower, and is not in doubt any more.
        again = self.json("db", "verify", "--top", "1", "--no-sandbox", "--db", self.db, "--format", "json")
        self.assertFalse(again["sandbox"])
        self.assertEqual([(r["stored"]["record"], r["verdict"]) for r in again["retimed"]],
                         [(claim["hash"], "slower")])
        self.assertEqual(self.json("db", "quarantine", "--db", self.db, "--format", "json")["doubted"], 0)
        self.assertNotEqual(self.explain()["answer"]["record"], claim["hash"])

    def test_Fault87_one_voice_does_not_ban(self):
        best = self.best()

        def crash(session):
            return sealed(best, status="crash", reason="SIGSEGV", latency_ns=0, latency_low_ns=0, latency_high_ns=0,
                          samples_ns=[], session=session, host="host of " + session)

        self.store(crash("a"))
        known = self.explain()
        self.assertEqual(known["answer"]["record"], best["hash"])
        self.assertEqual([(r["session"], r["doubt"]) for r in known["against"]], [("a", "contradicted")])
        text = self.succeed("db", "explain", *program.SMALL, "--db", self.db).out
        self.assertRegex(text, r"(?m)^against it +record [0-9a-f]{16}, crash: SIGSEGV, of session a; one session alone")
        self.assertTrue(self.json("db", "verify", "--db", self.db, "--format", "json")["ok"])
        self.assertEqual(self.tune("--effort", "none")["results"][0]["record"], best["hash"])
        again = self.json("db", "verify", "--top", "1", "--db", self.db, "--format", "json")["retimed"]
        self.assertEqual([r["stored"]["record"] for r in again], [best["hash"]])
        self.store(crash("b"))
        banned = [r for r in self.exported() if r["schedule"] == best["schedule"] and r["status"] == "ok"]
        self.assertNotIn(self.explain()["answer"]["record"], [r["hash"] for r in banned])

    def test_one_record_is_dropped_from_the_quarantine(self):
        best = self.best()
        claim = timed(best, best["latency_ns"] / 2, "c", bytes=best["latency_ns"] * 30, peak_gb_per_s=10.0)
        self.store(claim)
        listed = self.json("db", "quarantine", "--db", self.db, "--format", "json")["lines"]
        self.assertEqual([(e["hash"], e["kind"]) for e in listed], [(claim["hash"], "beyond bandwidth")])
        before = len(self.exported())
        self.fail_with(2, "db", "quarantine", "--entry", "0000", "--db", self.db, saying=["0 of the 1 hashes"])
        self.succeed("db", "quarantine", "--entry", claim["hash"], "--drop", "--db", self.db)
        self.assertEqual(len(self.exported()), before - 1)

    def test_the_best_kernels_are_measured_again(self):
        best = self.best()
        again = self.json("db", "verify", "--top", "5", "--db", self.db, "--format", "json")["retimed"]
        self.assertEqual([r["stored"]["record"] for r in again], [best["hash"]])
        self.assertIn(again[0]["verdict"], ("agrees", "slower", "faster"))
        # If the schedule was slower the second time, another one may be the answer. Both records of
        # the schedule are stored.
        sessions = {r["session"] for r in self.exported() if r["schedule"] == best["schedule"]}
        self.assertEqual(len(sessions), 2)
        self.assertTrue(self.json("db", "verify", "--db", self.db, "--format", "json")["ok"])

    def test_prune_says_first_what_it_would_delete(self):
        best = self.best()
        slow = [timed(best, best["latency_ns"] * 5, "s", schedule=best["schedule"] + "\n" * (i + 1))
                for i in range(3)]
        self.store(*slow)
        before = len(self.exported())
        what = ["db", "prune", "--keep", "0", "--db", self.db]
        dry = self.json(*what, "--format", "json")
        self.assertGreaterEqual(dry["by_reason"]["clearly slower"], 3)
        self.assertEqual(len(self.exported()), before)
        self.assertIn("--delete deletes them", self.succeed(*what).out)
        done = self.json(*what, "--delete", "--format", "json")
        self.assertEqual(len(self.exported()), before - done["pruned"])
        self.assertEqual(self.explain()["answer"]["record"], best["hash"])
        self.fail_with(2, *what, "--slower-than", "0.5", saying=["at least 1"])

    def test_prune_keeps_the_answer_of_what_nobody_touched_for_long(self):
        best = self.best()
        young = self.json("db", "prune", "--older-than", "1", "--db", self.db, "--format", "json")
        self.assertEqual((young["pruned"], young["demands"]), (0, 0))
        old = [timed(best, 1000 * (i + 1), "s", schedule=best["schedule"] + "\n" * (i + 1), created_ms=1,
                     workload="dense m=99 n=32 k=24 f32 fast") for i in range(3)]
        self.store(*old)
        what = ["db", "prune", "--older-than", "1", "--db", self.db]
        self.assertIn("of an old group: 2\n--delete deletes them", self.succeed(*what).out)
        done = self.json(*what, "--delete", "--format", "json")
        self.assertEqual(done["by_reason"], {"of an old group": 2})
        self.assertIn(old[0]["hash"], [record["hash"] for record in self.exported()])

    def nonsense(self):
        """Imports three copies of the first good record, with a senseless target, layouts and
        device respectively. Returns the good record and the copies."""
        self.tuned()
        (good,) = [record for record in self.exported() if record["status"] == "ok"][:1]
        bad = [timed(good, 1000.5 + i, "nonsense", **change) for i, change in enumerate(
            ({"target": "\x1b[31mno target"}, {"layouts": "a=\x1b[31m"}, {"device": "\x1b[31mno device"}))]
        lines = self.home / "nonsense.jsonl"
        lines.write_text("".join(json.dumps(record) + "\n" for record in bad))
        self.succeed("db", "import", str(lines), "--db", self.db)
        return good, bad

    def test_Fault90_nonsense_stops_no_merge_and_is_shown_escaped(self):
        good, bad = self.nonsense()
        fresh = str(self.home / "fresh.db")
        merged = self.json("db", "merge", self.db, "--db", fresh, "--format", "json")
        self.assertEqual(merged["quarantined"], 0)
        table = self.succeed("db", "query", "--db", fresh, "--limit", "0").out
        for record in [good, *bad]:
            self.assertIn(record["hash"][:16], table)
        self.assertNotIn("\x1b", table)
        self.succeed("tune", *program.SMALL, "--db", fresh, "--effort", "none")
        for verb in (["explain", bad[1]["hash"][:16]], ["run", bad[0]["hash"][:16]], ["db", "verify", "--top", "1"]):
            done = self.run_program(*verb, "--db", fresh)
            self.assertNotIn("\x1b", done.out + done.err)

    def test_query_streams(self):
        self.nonsense()
        counted = self.json("db", "query", "--db", self.db, "--limit", "0", "--format", "json")
        again = self.succeed("db", "query", "--db", self.db, "--limit", "0", "--format", "json").out
        self.assertEqual(again, json.dumps(counted, indent=2, ensure_ascii=False) + "\n")
        none = self.succeed("db", "query", "--db", self.db, "--session", "none", "--format", "json").out
        self.assertEqual(json.loads(none)["records"], [])
        self.assertTrue(none.endswith('"records": []\n}\n'), none)
        for form in ("table", "csv", "json"):
            line = f"'{program.PROGRAM}' db query --db '{self.db}' --limit 0 --format {form} | head -c 1; echo ${{PIPESTATUS[0]}}"
            done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=self.environment)
            self.assertEqual((done.stdout[1:].strip(), done.stderr), ("0", ""), form)

    def test_a_merge_of_damaged_records_alone_fails(self):
        self.tuned()
        damaged = str(self.home / "damaged.db")
        shutil.copy(self.db, damaged)
        with contextlib.closing(sqlite3.connect(damaged)) as database:
            database.execute("UPDATE trials SET latency_ns = latency_ns + 1")
            database.execute("UPDATE calibrations SET hash = zeroblob(32)")
            database.commit()
        done = self.run_program("db", "merge", damaged, "--db", str(self.home / "fresh.db"))
        self.assertEqual(done.returncode, 4, done.err)
        self.assertIn("do not agree with their hashes", done.err)

    def test_query_by_target_and_device(self):
        best = self.best()
        self.store(sealed(best, device="Another CPU; 64 cores"))

        def count(*filters):
            return len(self.json("db", "query", "--db", self.db, "--limit", "0", "--format", "json", *filters)["records"])

        everything = count()
        self.assertEqual(count("--device", "Another"), 1)
        self.assertEqual(count("--device", "this"), everything - 1)
        self.assertEqual(count("--target", "host"), everything)
        self.assertEqual(count("--target", "arm-64-linux"), 0)
        self.assertEqual(count("--threads", "7"), 0)

    def test_names_of_strangers_give_a_terminal_no_orders(self):
        best = self.best()
        name = "name\033]0;owned\007\033[2J\u009b8mof a stranger"
        self.store(timed(best, best["latency_ns"] * 0.9, name, device=best["device"]),
                   timed(best, best["latency_ns"] * 0.9, "other", device=name))
        with open(self.home / "nonsense.jsonl", "w", encoding="utf-8") as lines:
            lines.write(json.dumps(best) + "\n" + name + "\n")
        self.succeed("db", "import", str(self.home / "nonsense.jsonl"), "--db", self.db)
        quoting = 0
        for verb in (["query", "--session", name], ["query"], ["info"], ["verify"], ["quarantine"],
                     ["explain", *program.SMALL]):
            done = self.run_program("db", *verb, "--db", self.db)
            for text in done.out, done.err:
                self.assertNotRegex(text, "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f]", verb)
            quoting += "\\x1b]0;owned\\x07\\x1b[2J\\u009b8mof a stranger" in done.out
        self.assertGreaterEqual(quoting, 3)
        given = json.loads(self.succeed("db", "query", "--session", name, "--db", self.db, "--format", "json").out)
        self.assertEqual(given["records"][0]["session"], name)
        rows = csv.DictReader(io.StringIO(self.succeed("db", "query", "--session", name, "--db", self.db,
                                                       "--format", "csv").out, newline=""))
        self.assertEqual([row["session"] for row in rows], [name])

    def test_exports_for_others(self):
        best = self.best()
        for name in ("all.csv", "all.json", "all.jsonl"):
            self.succeed("db", "export", str(self.home / name), "--db", self.db)
        rows = list(csv.DictReader(io.StringIO((self.home / "all.csv").read_text())))
        self.assertIn(best["hash"], {row["hash"] for row in rows})
        document = json.loads((self.home / "all.json").read_text())
        self.assertEqual(document["schema_version"], "1.0.0")
        self.assertEqual(len(document["results"]), len(rows))
        printed = self.succeed("db", "export", "-", "--as", "t4", "--db", self.db).out
        self.assertEqual(json.loads(printed), document)
        self.fail_with(2, "db", "export", "all.csv", "--as", "t4", "--db", self.db, saying=["--as gives the format of `-` only"])
        self.fail_with(2, "db", "import", "all.csv", "--as", "t4", "--db", self.db, saying=["--as gives the format of `-` only"])
        fresh = str(self.home / "fresh.db")
        done = self.json("db", "import", str(self.home / "all.csv"), "--db", fresh, "--format", "json")
        self.assertEqual(done["inserted"], len(rows))
        self.succeed("db", "export", str(self.home / "again.jsonl"), "--db", fresh)
        again = (self.home / "again.jsonl").read_text().splitlines()
        for name, form in ("all.csv", ["--as", "csv"]), ("all.jsonl", []):
            with open(self.home / name, encoding="utf-8") as rows_or_lines:
                done = self.json("db", "import", "-", *form, "--db", str(self.home / f"{name}.db"), "--format", "json",
                                 stdin=rows_or_lines)
            self.assertEqual(done["inserted"], len(rows))
        lines = (self.home / "all.jsonl").read_text().splitlines()
        self.assertEqual(again, [line for line in lines if '"record"' in line])


if __name__ == "__main__":
    program.main()
