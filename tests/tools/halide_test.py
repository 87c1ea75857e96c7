# SPDX-License-Identifier: Apache-2.0
"""Tests cmake/halide.cmake: the Halide that a build chooses, and the message that gives the
reason."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

CMAKE, ROOT = os.environ["TW_TEST_CMAKE"], pathlib.Path(__file__).resolve().parents[2]
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(outside LANGUAGES NONE)
set(CMAKE_SYSTEM_PREFIX_PATH "${SYSTEM}")
include("%s/cmake/halide.cmake")
file(WRITE "${CMAKE_BINARY_DIR}/found" "${TW_HALIDE_LIBRARY}|${TW_HALIDE_LIBRARY_DIR}|${TW_HALIDE_FROM_PYPI}")
if(TARGET HalideLibrary::Halide)
  get_target_property(include HalideLibrary::Halide INTERFACE_INCLUDE_DIRECTORIES)
  if(NOT EXISTS "${include}/Halide.h")
    message(FATAL_ERROR "${include}")
  endif()
endif()
"""


class Halide(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "CMakeLists.txt").write_text(PROJECT % ROOT)
        self.pypi = self.installed("pypi", "21.0.0")

    def installed(self, name, version, library="lib64/libHalide.so"):
        """Makes an installation that looks like Halide, and returns its prefix."""
        prefix = self.folder / name
        (prefix / "include").mkdir(parents=True)
        lines = [f"#define HALIDE_VERSION_{part} {number}\n"
                 for part, number in zip(("MAJOR", "MINOR", "PATCH"), version.split("."))]
        (prefix / "include" / "Halide.h").write_text("".join(lines))
        (prefix / library).parent.mkdir(parents=True)
        (prefix / library).write_text("")
        return prefix

    def configured(self, *arguments, **environment):
        """Returns the path of the library, True if it is PyPI's, and the message."""
        around = {"PATH": os.environ["PATH"], **environment}
        done = subprocess.run([CMAKE, "-S", self.folder, "-B", self.folder / "build", "--fresh", *arguments], env=around,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        library, folder, from_pypi = (self.folder / "build" / "found").read_text().split("|")
        if library:
            self.assertEqual(pathlib.Path(library).parent, pathlib.Path(folder))
        message, = re.findall("^-- (.*Halide 21.*)$", done.stdout, re.M)
        return library, from_pypi == "ON", message

    def wheel(self):
        return f"-DHalideWheel_ROOT={self.pypi}"

    def test_the_package_of_pypi(self):
        library, from_pypi, message = self.configured(self.wheel())
        self.assertEqual((library, from_pypi), (f"{self.pypi}/lib64/libHalide.so", True))
        self.assertEqual(message, f"Halide 21.0.0: {library} (HalideWheel_ROOT)")

    def test_an_installation_that_is_named_comes_first(self):
        mine = self.installed("mine", "21.2.1", "lib/libHalide.so")
        expected = f"{mine}/lib/libHalide.so"
        package = mine / "lib" / "cmake" / "Halide"
        for given, environment in (([f"-DHalide_DIR={package}"], {}), ([f"-DHalide_ROOT={mine}"], {}),
                                   ([f"-DCMAKE_PREFIX_PATH=/elsewhere;{mine}"], {}), ([], {"Halide_DIR": str(package)}),
                                   ([], {"Halide_ROOT": str(mine)}), ([], {"CMAKE_PREFIX_PATH": f"/elsewhere:{mine}"})):
            with self.subTest(given=given, environment=environment):
                library, from_pypi, message = self.configured(self.wheel(), *given, **environment)
                self.assertEqual((library, from_pypi), (expected, False))
                origin = re.search(r"(Halide_DIR|Halide_ROOT|CMAKE_PREFIX_PATH)", str((given, environment))).group()
                self.assertEqual(message, f"Halide 21.2.1: {expected} ({origin})")

    def test_an_installation_of_another_version_is_refused_with_the_reason(self):
        old = self.installed("old", "14.0.0")
        library, _, message = self.configured(self.wheel(), f"-DHalide_ROOT={old}")
        self.assertEqual(library, f"{self.pypi}/lib64/libHalide.so")
        self.assertTrue(message.endswith(f"; not {old} (Halide_ROOT), whose version is 14.0.0, expected 21"), message)

    def test_what_is_named_and_lacks_a_part(self):
        static = self.installed("static", "21.0.0", "lib/libHalide.a")
        message = self.configured(self.wheel(), f"-DHalide_ROOT={static}")[2]
        self.assertTrue(message.endswith("which has no lib/libHalide.so"), message)
        message = self.configured(self.wheel(), f"-DHalide_DIR={self.folder}/none/lib/cmake/Halide")[2]
        self.assertTrue(message.endswith("which has no include/Halide.h"), message)
        message = self.configured(self.wheel(), "-DCMAKE_PREFIX_PATH=/elsewhere")[2]
        self.assertNotIn("elsewhere", message)  # that path was given for other libraries

    def test_a_wheel_is_built_with_the_package_of_pypi(self):
        mine = self.installed("mine", "21.2.1")
        library, from_pypi, message = self.configured(self.wheel(), f"-DHalide_ROOT={mine}", "-DSKBUILD=ON")
        self.assertEqual((library, from_pypi), (f"{self.pypi}/lib64/libHalide.so", True))
        self.assertIn("as a wheel requires the package of PyPI", message)

    def test_the_system_comes_last_and_may_have_none(self):
        system = self.installed("system", "21.0.0", "lib/libHalide.so")
        library, from_pypi, _ = self.configured(f"-DSYSTEM={system}")
        self.assertEqual((library, from_pypi), (f"{system}/lib/libHalide.so", False))
        self.assertEqual(self.configured()[::2], ("", "No Halide 21, so the compiler for processors is not built"))


if __name__ == "__main__":
    unittest.main()
