# SPDX-License-Identifier: Apache-2.0
"""Tests standard streams that are full or closed, or pipes that nobody reads."""

import subprocess

import program


class Streams(program.ProgramTest):
    def shell(self, line):
        """Runs a line of bash and returns its CompletedProcess. "$tw" is the program, "$db" its database."""
        return subprocess.run(["bash", "-c", "set -o pipefail; " + line], capture_output=True, text=True,
                              env={**self.environment, "tw": program.PROGRAM, "db": self.db},
                              cwd=self.home, stdin=subprocess.DEVNULL, timeout=program.PATIENCE_S)

    TUNE = '"$tw" tune --op dense --shape m=64,n=64,k=64 --trials 4 --budget 10m --db "$db"'

    def test_a_search_goes_on_without_standard_error(self):
        for lost in ("2>/dev/full", "2>&-", "2> >(exit)"):
            done = self.shell(f"{self.TUNE} {lost}")
            self.assertEqual((done.returncode, done.stderr), (0, ""), lost)
            self.assertRegex(done.stdout, r"(?m)^latency ")
        self.assertIn("all is well", self.succeed("db", "verify", self.db).out)  # no output went to the database

    def test_exit_codes_without_standard_error(self):
        for lost in ("2>/dev/full", "2>&-"):
            self.assertEqual(self.shell(f'"$tw" nonsense {lost}').returncode, 2)

    def test_standard_output_that_is_lost_is_an_error(self):
        self.tune()
        for lost in (">/dev/full", ">&-"):
            for verb in ("list", "--help", 'db export - --db "$db"', 'db query --db "$db"'):
                done = self.shell(f'"$tw" {verb} {lost}')
                self.assertEqual(done.returncode, 7, lost)
                self.assertIn("standard output cannot be written", done.stderr)
        for lost in ("2>&- >&-", "<&- 2>&- >&-"):
            self.assertEqual(self.shell(f'"$tw" list {lost}').returncode, 7)

    def test_a_reader_that_goes_away_ends_the_output_quietly(self):
        self.tune()
        export = 'db export - --db "$db"'
        for verb in ("list operators", "--help", "list --format json", 'db query --db "$db"', export,
                     f"{export} --as csv", f"{export} --as t4"):
            # `true` has ended before the program writes.
            done = self.shell(f'(sleep 0.3; "$tw" {verb}; echo "code $?" >&2) | true')
            self.assertEqual(done.stderr, "code 0\n", verb)

    def test_both_streams_into_a_pipe_that_closes(self):
        done = self.shell(f"{self.TUNE} 2>&1 | head -n 1")
        self.assertRegex(done.stdout, r"\Atuning [^\n]*\n\Z")
        self.assertEqual(done.returncode, 0)
        self.assertGreater(self.json("db", "info", self.db, "--format", "json")["records"], 0)

    def test_programs_that_are_started_handle_broken_pipes_as_usual(self):
        done = self.shell('"$tw" bench --help | head -n 1')
        self.assertNotRegex(done.stderr, r"internal")
        self.assertNotIn(done.returncode, (1, 134))


if __name__ == "__main__":
    program.main()
