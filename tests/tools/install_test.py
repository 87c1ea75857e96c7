# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` makes works where it lies: the program, its alias, the library for programs."""

import os
import pathlib
import shutil
import subprocess

import program

C_PROGRAM = """
#include <stdio.h>
#include <tilewright/tilewright.h>
int main(void) { return printf("%s\\n", tw_version()) < 0; }
"""


class Installed(program.ProgramTest):
    def setUp(self):
        super().setUp()
        self.prefix = self.home / "prefix"
        subprocess.run([os.environ["TW_TEST_CMAKE"], "--install", os.environ["TW_TEST_BUILD"], "--prefix",
                        self.prefix], check=True, capture_output=True)

    def test_tune_is_the_program_with_the_verb_implied(self):
        environment = {**self.environment, "PATH": f"{self.prefix / 'bin'}:{os.environ['PATH']}"}
        done = subprocess.run(["tune", *program.SMALL, "--trials", "1", "--budget", "30s", "--db", self.db],
                              env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("replay       tilewright replay --db", done.stdout)

    def test_the_library_links_a_c_program(self):
        folder = next(path.parent for path in self.prefix.rglob("libtilewright_runtime.so"))
        source = self.home / "version.c"
        source.write_text(C_PROGRAM)
        binary = self.home / "version"
        subprocess.run([shutil.which("gcc") or "cc", source, "-I", self.prefix / "include", "-L", folder,
                        "-ltilewright_runtime", f"-Wl,-rpath,{folder}", "-o", binary], check=True)
        done = subprocess.run([binary], capture_output=True, text=True, check=True)
        self.assertRegex(done.stdout, r"\A\d+\.\d+\.\d+\n\Z")


if __name__ == "__main__":
    program.main()
