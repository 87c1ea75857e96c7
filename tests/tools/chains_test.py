# SPDX-License-Identifier: Apache-2.0
"""Fault77: tests files of many stages, each of which reads the stage before it several times."""

import signal

import program


def mandelbrot(iterations):
    """Returns z = z^2 + c, repeated `iterations` times from z = c. c is so small that the sequence
    converges."""
    axes = "f32[y=32, x=64]"
    lines = ["input a: f32[32, 64]", "input b: f32[32, 64]",
             f"cr: {axes} = a[y, x] * 0.05", f"ci: {axes} = b[y, x] * 0.05"]
    re, im = "cr", "ci"
    for i in range(1, iterations + 1):
        lines.append(f"re{i}: {axes} = {re}[y, x] * {re}[y, x] - {im}[y, x] * {im}[y, x] + cr[y, x]")
        lines.append(f"im{i}: {axes} = 2.0 * {re}[y, x] * {im}[y, x] + ci[y, x]")
        re, im = f"re{i}", f"im{i}"
    lines.append(f"out: {axes} = {re}[y, x] + {im}[y, x]")
    return "\n".join(lines) + "\n"


def chain(stages, term, extent=4096):
    """Returns stages that are each a function of the stage before. In `term`, {0} stands for that
    stage."""
    lines, before = [f"input x: f32[{extent}]"], "x"
    for i in range(stages):
        lines.append(f"s{i}: f32[i={extent}] = " + term.format(f"{before}[i]"))
        before = f"s{i}"
    return "\n".join(lines) + "\n"


class Chains(program.ProgramTest):
    def written(self, text):
        path = self.home / "chain.tw"
        path.write_text(text)
        return str(path)

    def test_Fault77_expensive_stages_are_computed_once(self):
        for stages in (5, 40):
            file = self.written(chain(stages, "tanh({0}) + {0} * 0.9"))
            text = self.succeed("show", "--expr", file, "--db", self.db, "--c").out
            self.assertEqual(text.count("tanhf("), stages)
        self.succeed("tune", "--expr", file, "--db", self.db, "--trials", "2", *program.AMPLE)
        self.succeed("run", "--expr", file, "--db", self.db)

    def test_Fault77_thousands_of_stages_are_planned(self):
        self.succeed("tune", "--expr", self.written(chain(5000, "{0} + 1.0")), "--db", self.db,
                     "--dry-run")

    def test_values_that_leave_their_type_are_no_error(self):
        for text in ("input a: f32[4096]\nout: f32[i=4096] = a[i] * 1e38 * 10.0\n",
                     chain(8, "exp({0}) * {0}")):
            file = self.written(text)
            self.succeed("tune", "--expr", file, "--db", self.db, "--trials", "2", *program.AMPLE)
            self.succeed("run", "--expr", file, "--db", self.db)

    def file_of(self, iterations):
        path = self.home / f"mandelbrot{iterations}.tw"
        path.write_text(mandelbrot(iterations))
        return str(path)

    def test_Fault77_sixteen_iterations_are_planned(self):
        for iterations in (16, 64):
            dry = self.json("tune", "--expr", self.file_of(iterations), "--db", self.db, "--dry-run",
                            "--format", "json")
            schedule = dry["results"][0]["default_schedule"]
            self.assertLess(schedule.count("inline"), 2 * iterations)
        self.assertIn("phase 0", self.succeed("show", "--expr", self.file_of(16), "--program",
                                              "--db", self.db).out)

    def test_Fault77_sixteen_iterations_are_tuned(self):
        document = self.json("tune", "--expr", self.file_of(16), "--db", self.db, "--trials", "2",
                             *program.AMPLE, "--format", "json")
        self.assertEqual(document["failed"], [])
        result = document["results"][0]
        self.assertGreater(result["trials"].get("ok", 0), 0)
        self.assertGreater(result["latency_ns"], 0)

    def test_Fault77_a_short_budget_gives_a_kernel_or_says_that_it_was_short(self):
        process = self.run_program("tune", "--expr", self.file_of(16), "--db", self.db,
                                   "--budget", "1s", "--format", "json")
        if process.returncode != 0:
            self.assertEqual(process.returncode, 6, process.err)
            self.assertIn("no candidate was built within the budget of 1 s; give more time (--budget)",
                          process.err)

    def test_Fault77_signals_are_heard_while_a_run_gets_ready(self):
        forms = (program.AMPLE, ["--compile-only"])
        for i, number in enumerate((signal.SIGINT, signal.SIGTERM)):
            for form in forms if program.NIGHTLY else forms[i:i + 1]:
                process = self.start("tune", "--expr", self.file_of(64), "--db", self.db, *form)
                self.addCleanup(process.kill)
                if form == program.AMPLE:
                    self.assertIn("tuning expr", process.stderr.readline())
                else:
                    self.wait_for_handler(process)
                process.send_signal(number)
                _, err = process.communicate(timeout=program.PATIENCE_S)
                self.assertEqual(process.returncode, 130, err)

    def wait_for_handler(self, process):
        """Waits until the process catches SIGTERM."""
        caught = 0
        while process.poll() is None and not caught & (1 << (signal.SIGTERM - 1)):
            with open(f"/proc/{process.pid}/status") as status:
                caught = int(next(line for line in status if line.startswith("SigCgt")).split()[1], 16)


if __name__ == "__main__":
    program.main()
