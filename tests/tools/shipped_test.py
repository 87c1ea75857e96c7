# SPDX-License-Identifier: Apache-2.0
"""Tests layers, i.e. read-only databases below a person's own: the records that come with the
program, and those of a team."""

import contextlib
import json
import os
import pathlib
import sqlite3

import program
from trust_test import sealed, timed


class Layers(program.ProgramTest):
    def setUp(self):
        super().setUp()
        self.shipped = str(self.home / "shipped.db")
        self.here = ["--shipped", self.shipped]
        self.user = str(self.home / "user.db")

    def ship(self, change=None):
        """Tunes in one database, ships the best record of it, and returns this record."""
        self.tuned()
        lines = self.home / "shipped.jsonl"
        done = self.json("db", "ship", "--output", str(lines), "--keep", "1", self.db, "--format", "json")
        self.assertEqual(done["records"], 1)
        record = json.loads(lines.read_text())
        if change:
            record = change(record)
            lines.write_text(json.dumps(record) + "\n")
        self.succeed("db", "ship", "--output", self.shipped, str(lines))
        return record

    def look_up(self, *arguments, **options):
        document = self.json("tune", *program.SMALL, "--effort", "none", "--format", "json", *arguments, **options)
        return document["results"][0]

    def test_a_new_user_is_answered_without_a_search(self):
        record = self.ship()
        found = self.look_up("--db", self.user, *self.here)
        self.assertEqual((found["record"], found["layer"], found["ended"]), (record["hash"], "shipped", "from the database"))
        self.assertFalse(os.path.exists(self.user))
        self.assertTrue(os.path.exists(found["artifact"]))
        by_variable = self.look_up("--db", self.user, environment={"TILEWRIGHT_SHIPPED": self.shipped})
        self.assertEqual(by_variable["record"], record["hash"])
        self.fail_with(4, "tune", *program.SMALL, "--effort", "none", "--db", self.user, "--shipped", "none",
                       saying=["does not exist"])
        text = self.succeed("tune", *program.SMALL, "--effort", "none", "--db", self.user, *self.here).out
        self.assertRegex(text, r"(?m)^layer +shipped$")

    def test_every_verb_says_which_layer_answered(self):
        record = self.ship()
        where = ["--db", self.user, *self.here]
        for verb in ("show", "explain", "run"):
            with self.subTest(verb=verb):
                printed = self.succeed(verb, *program.SMALL, *where)
                self.assertRegex(printed.out, r"(?m)^layer +shipped$")
                self.assertIn("user.db does not exist, so it has no records", printed.err)
                self.assertEqual(self.json(verb, *program.SMALL, *where, "--format", "json")["layer"], "shipped")
        self.assertEqual(self.json("db", "explain", *program.SMALL, *where, "--format", "json")["answer"]["layer"], "shipped")
        dry = self.json("tune", *program.SMALL, *where, "--dry-run", "--format", "json")["results"][0]
        self.assertEqual((dry["best"]["layer"], dry["known_trials"]), ("shipped", 0))
        again = self.json("replay", record["hash"][:16], *where, "--format", "json")
        self.assertEqual(again["stored"]["record"], record["hash"])

    def test_own_records_come_first_and_the_layer_stays_as_it_is(self):
        record = self.ship()
        before = pathlib.Path(self.shipped).read_bytes()
        tuned = self.json("tune", *program.SMALL, "--db", self.user, *self.here, "--trials", "3", *program.AMPLE,
                          "--format", "json")["results"][0]
        self.assertEqual((tuned["layer"], tuned["known_trials"]), ("", 0))
        self.assertEqual(self.look_up("--db", self.user, *self.here)["layer"], "")
        self.assertEqual(pathlib.Path(self.shipped).read_bytes(), before)
        known = [json.loads(line) for line in self.succeed("db", "export", "-", "--db", self.user).out.splitlines()]
        self.assertNotIn(record["hash"], [line["hash"] for line in known])

    def test_a_teams_database_lies_between(self):
        shipped = self.ship()
        team = str(self.home / "team.db")
        lines = self.home / "team.jsonl"
        lines.write_text(json.dumps(timed(shipped, shipped["latency_ns"] * 1.5, "team")) + "\n")
        self.succeed("db", "import", str(lines), "--db", team)
        self.assertEqual(self.look_up("--db", self.user, "--team", team, *self.here)["layer"], "team")
        model = shipped["device"].split(";")[0]
        lines.write_text(json.dumps(sealed(shipped, device=model + "; 77 cores", session="farm")) + "\n")
        os.unlink(team)
        self.succeed("db", "import", str(lines), "--db", team)
        self.assertEqual(self.look_up("--db", self.user, "--team", team, *self.here)["layer"], "shipped")

    def test_another_machine_of_the_model_answers_as_same_class(self):
        record = self.ship(lambda r: sealed(r, device=r["device"].split(";")[0] + "; 77 cores"))
        found = self.look_up("--db", self.user, *self.here)
        self.assertEqual((found["record"], found["likeness"], found["layer"]), (record["hash"], "same class", "shipped"))

    def test_Fault15_a_damaged_layer_is_left_out_with_a_message(self):
        self.ship()
        with open(self.shipped, "r+b") as file:
            file.truncate(5000)
        done = self.succeed("tune", *program.SMALL, "--db", self.user, *self.here, "--trials", "1", *program.AMPLE)
        self.assertIn("the shipped layer is left out: [", done.err)
        self.assertIn("db recover", done.err)

    def test_Fault16_damaged_records_are_left_out_and_counted(self):
        self.tuned()
        whole = len(self.json("db", "query", "--db", self.db, "--limit", "0", "--format", "json")["records"])
        with contextlib.closing(sqlite3.connect(self.db)) as connection:
            connection.execute("UPDATE trials SET latency_ns = latency_ns + 1 WHERE seq = (SELECT max(seq) FROM trials)")
            connection.commit()
        arguments = ["db", "ship", "--output", str(self.home / "x.jsonl"), self.db]
        document = self.json(*arguments, "--format", "json")
        self.assertEqual((document["of"], document["damaged"]), (whole - 1, 1))
        said = self.succeed(*arguments).err
        self.assertRegex(said, r"record \d+ is damaged and left out")
        self.assertIn("1 record damaged and left out", said)
        merged = self.json("db", "merge", self.db, "--db", str(self.home / "merged.db"), "--format", "json")
        self.assertEqual((merged["inserted"], merged["damaged"]), (whole - 1, 1))
        done = self.succeed("db", "merge", self.db, "--db", str(self.home / "text.db"))
        self.assertIn(f"{whole - 1} new, 0 known already, 0 quarantined, 1 damaged", done.out)

    def test_Fault28_a_record_too_good_to_be_true_is_not_shipped(self):
        record = self.ship()
        lines = self.home / "lines.jsonl"
        lines.write_text(json.dumps(sealed(record, bytes=record["latency_ns"] * 30, peak_gb_per_s=10.0)) + "\n")
        output = self.home / "x.jsonl"
        self.fail_with(6, "db", "ship", "--output", str(output), str(lines), saying=["nothing is written"])
        self.assertFalse(output.exists())

    def test_what_db_ship_refuses(self):
        self.ship()
        self.fail_with(2, "db", "ship", "--output", self.shipped, self.db, saying=["there is a file of that name"])
        self.fail_with(2, "db", "ship", self.db, saying=["NAME.jsonl or NAME.db"])
        self.fail_with(4, "db", "ship", "--output", str(self.home / "x.jsonl"), str(self.home / "none.db"),
                       saying=["does not exist"])
        self.assertFalse((self.home / "x.jsonl").exists())


if __name__ == "__main__":
    program.main()
