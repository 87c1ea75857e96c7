# SPDX-License-Identifier: Apache-2.0
"""Standard streams that are full, closed, or pipes that nobody reads."""

import subprocess

import program


class Streams(program.ProgramTest):
    def shell(self, line):
        """What a shell gives for the line, in which "$tw" is the program."""
        return subprocess.run(["bash", "-c", "set -o pipefail; " + line], capture_output=True, text=True,
                              env={**self.environment, "tw": program.PROGRAM, "db": self.db},
                              cwd=self.home, stdin=subprocess.DEVNULL, timeout=program.PATIENCE_S)

    TUNE = '"$tw" tune --op dense --shape m=64,n=64,k=64 --trials 4 --budget 10m --db "$db"'

    def test_a_search_goes_on_without_standard_error(self):
        for lost in ("2>/dev/full", "2>&-", "2> >(exit)"):
            done = self.shell(f"{self.TUNE} {lost}")
            self.assertEqual((done.returncode, done.stderr), (0, ""), lost)
            self.assertRegex(done.stdout, r"(?m)^latency ")
        self.assertIn("all is well", self.succeed("db", "verify", self.db).out)  # nothing was written into it

    def test_exit_codes_without_standard_error(self):
        for lost in ("2>/dev/full", "2>&-"):
            self.assertEqual(self.shell(f'"$tw" nonsense {lost}').returncode, 2)

    def test_standard_output_that_is_lost_is_an_error(self):
        for lost in (">/dev/full", ">&-", "| true"):
            for verb in ("list", "--help"):
                done = self.shell(f'"$tw" {verb} {lost}')
                if lost == "| true" and done.returncode == 0:
                    continue  # written before the pipe was closed
                self.assertEqual(done.returncode, 7, lost)
                self.assertIn("standard output cannot be written", done.stderr)
        for lost in ("2>&- >&-", "<&- 2>&- >&-"):
            self.assertEqual(self.shell(f'"$tw" list {lost}').returncode, 7)

    def test_both_streams_into_a_pipe_that_closes(self):
        done = self.shell(f"{self.TUNE} 2>&1 | head -n 1")
        self.assertRegex(done.stdout, r"\Atuning [^\n]*\n\Z")
        self.assertEqual(done.returncode, 7)
        self.assertGreater(self.json("db", "info", self.db, "--format", "json")["records"], 0)

    def test_programs_that_are_started_handle_broken_pipes_as_usual(self):
        done = self.shell('"$tw" bench --help | head -n 1')
        self.assertNotRegex(done.stderr, r"internal")
        self.assertNotIn(done.returncode, (1, 134))


if __name__ == "__main__":
    program.main()
