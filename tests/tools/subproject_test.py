# SPDX-License-Identifier: Apache-2.0
"""Tests that another project may have the checkout as a folder: it gets the libraries alone, and in the nightly run each
compiler of this machine compiles them."""

import os
import pathlib
import re
import subprocess
import unittest

import outside
import program


class Subproject(program.ProgramTest):
    def test_a_project_with_the_checkout_as_a_folder_gets_the_libraries_alone(self):
        checkout = pathlib.Path(__file__).parents[2]
        binary = outside.build_c_program_with(os.environ["TW_TEST_CMAKE"], checkout, self.home)
        done = subprocess.run([binary], capture_output=True, text=True, check=True)
        self.assertRegex(done.stdout, r"\A\d+\.\d+\.\d+\n\Z")
        build = binary.parent
        self.assertFalse((build / "CTestTestfile.cmake").exists())
        targets = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], check=True, capture_output=True,
                                 text=True).stdout
        self.assertIn("\ntilewright_library: phony\n", targets)
        self.assertIsNone(re.search(r"_test: phony|^tilewright: phony", targets, re.M))

    @unittest.skipUnless("TW_NIGHTLY" in os.environ, "[SKIP] the nightly run compiles the project by each compiler")
    def test_the_program_of_the_page_is_built_with_the_checkout_as_a_folder(self):
        checkout = pathlib.Path(__file__).parents[2]
        for compiler in outside.compilers():
            with self.subTest(compiler=compiler):
                binary = outside.build_the_page(
                    os.environ["TW_TEST_CMAKE"], self.home, "-GNinja", "-DCMAKE_BUILD_TYPE=Release", "-DTW_TOGETHER=8",
                    *compiler, find=f'add_subdirectory("{checkout}" tilewright EXCLUDE_FROM_ALL)')
                done = subprocess.run([binary], env=self.environment, cwd=self.home, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout), (0, "48\n"), done.stderr)


if __name__ == "__main__":
    program.main()
