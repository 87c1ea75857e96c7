# SPDX-License-Identifier: Apache-2.0
"""Tests that an installation by `cmake --install` works at its prefix: the program, its alias `tune`, the
libraries, the headers, their pkg-config and CMake packages, the manual and the completions."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import outside
import program


class Installed(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.prefix = pathlib.Path(folder.name)
        subprocess.run([os.environ["TW_TEST_CMAKE"], "--install", os.environ["TW_TEST_BUILD"], "--prefix",
                        cls.prefix], check=True, capture_output=True)

    def test_tune_is_the_program_with_the_verb_implied(self):
        environment = {**self.environment, "PATH": f"{self.prefix / 'bin'}:{os.environ['PATH']}"}
        done = subprocess.run(["tune", *program.SMALL, "--trials", "1", *program.AMPLE, "--db", self.db],
                              env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("replay       tilewright replay --db", done.stdout)

    def found(self, name):
        """Returns the path of the only file of that name below the prefix."""
        (path,) = self.prefix.rglob(name)
        return path

    def test_the_records_that_come_with_it_are_found(self):
        environment = {"TILEWRIGHT_SHIPPED": "", "PATH": f"{self.prefix / 'bin'}:{os.environ['PATH']}"}
        done = subprocess.run(["tilewright", "doctor", "--db", self.db], env={**self.environment, **environment},
                              capture_output=True, text=True)
        self.assertRegex(done.stdout, r"(?m)^ok +shipped records +.*/share/tilewright/shipped\.db, \d+ records of")

    def test_pkg_config_links_a_c_program(self):
        binary = outside.build_c_program(self.prefix, self.home)
        done = subprocess.run([binary], capture_output=True, text=True, check=True)
        self.assertRegex(done.stdout, r"\A\d+\.\d+\.\d+\n\Z")

    def test_pkg_config_names_folders_that_are_absolute(self):
        build = self.home / "build"
        done = subprocess.run([os.environ["TW_TEST_CMAKE"], "-S", pathlib.Path(__file__).parents[2], "-B", build,
                               "-DTW_BUILD_TESTS=OFF", "-DCMAKE_INSTALL_PREFIX=/opt/tw",
                               "-DCMAKE_INSTALL_LIBDIR=/opt/libraries"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", build / "tilewright.pc"], check=True,
                               capture_output=True, text=True).stdout.split()
        self.assertEqual(flags, ["-I/opt/tw/include", "-L/opt/libraries", "-ltilewright_runtime"])

    def test_find_package_serves_a_program_that_tunes(self):
        binary = outside.build_cxx_program(os.environ["TW_TEST_CMAKE"], self.prefix, self.home)
        done = subprocess.run([binary], env=self.environment, cwd=self.home, capture_output=True, text=True)
        plugin = self.found("libtw_halide.so").parent
        self.assertEqual(plugin.parent, self.found("libtilewright.so").parent)
        self.assertEqual((done.returncode, done.stdout), (0, f"the same\n{plugin}\n"), done.stderr)

    def test_the_program_of_the_page_is_built_by_each_compiler_and_runs(self):
        for compiler in outside.compilers():
            with self.subTest(compiler=compiler):
                binary = outside.build_the_page(os.environ["TW_TEST_CMAKE"], self.home,
                                                f"-DCMAKE_PREFIX_PATH={self.prefix}", *compiler)
                done = subprocess.run([binary], env=self.environment, cwd=self.home, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout), (0, "48\n"), done.stderr)

    def test_the_runtime_is_found_without_what_the_rest_needs(self):
        binary = outside.build_c_program_by_cmake(os.environ["TW_TEST_CMAKE"], self.prefix, self.home)
        done = subprocess.run([binary], capture_output=True, text=True, check=True)
        self.assertRegex(done.stdout, r"\A\d+\.\d+\.\d+\n\Z")

    def test_libraries_of_another_minor_version_have_another_name(self):
        for library in ("libtilewright.so", "libtilewright_runtime.so"):
            version = re.fullmatch(r".*\.so\.(\d+\.\d+)\.\d+", str(self.found(library).resolve()))
            told = subprocess.run(["readelf", "-d", self.found(library)], check=True, capture_output=True, text=True)
            self.assertIn(f"Library soname: [{library}.{version.group(1)}]", told.stdout)

    def test_installed_headers_include_no_other(self):
        include = self.prefix / "include" / "tilewright"
        headers = sorted(str(path.relative_to(include)) for path in include.rglob("*/*.h"))
        self.assertNotIn("db/engine/statement.h", headers)
        for module in ("base", "dsl", "schedules", "db", "runtime", "codegen", "cost_model", "tuner"):
            self.assertTrue(any(header.startswith(module + "/") for header in headers), module)
        source = self.home / "headers.cpp"
        source.write_text("".join(f'#include "{header}"\n' for header in headers))
        # Headers must give no warnings, even if a program enables more warnings than the project
        # does.
        done = subprocess.run([shutil.which("g++") or "c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wshadow",
                               "-Wconversion", "-Wsign-conversion", "-Wpedantic", "-Werror", "-I", include, source],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_reference_names_headers_that_are_installed(self):
        """In each row of docs/api.md, each name is in at least one of the headers that the row
        names."""
        page = (pathlib.Path(__file__).parents[2] / "docs" / "api.md").read_text()
        rows = [row for row in re.findall(r"^\| (?:.*?) \| (`.*?) \| (`.*?) \|$", page, re.M) if ".h`" in row[0]]
        self.assertGreater(len(rows), 12)
        for headers, names in rows:
            texts = [(self.prefix / "include" / "tilewright" / header).read_text()
                     for header in re.findall(r"`(.*?\.h)`", headers)]
            for name in re.findall(r"`(.*?)`", names):
                word = name.removesuffix("()").split("::")[-1].split("<")[0]
                self.assertTrue(any(re.search(rf"\b{word}\b", text) for text in texts), (headers, name))

    def test_the_reference_names_each_public_header(self):
        root = pathlib.Path(__file__).parents[2]
        listed = re.search(r"set\(tw_public_headers(.*?)\)", (root / "cmake" / "public_headers.cmake").read_text(), re.S)
        page = (root / "docs" / "api.md").read_text()
        rows = [row for row in re.findall(r"^\| .*? \| (`.*?) \| `.*? \|$", page, re.M) if ".h`" in row]
        named = {header for row in rows for header in re.findall(r"`(\w+/.*?\.h)`", row)}
        self.assertEqual(named, set(listed.group(1).split()))
        included = re.findall(r'#include "(.*)"', self.found("tilewright.hpp").read_text())
        self.assertEqual(set(included), named)

    def test_manual_and_completions_know_the_verbs(self):
        for name in ("tilewright.1", "_tilewright", "tilewright.fish"):
            text = self.found(name).read_text().replace("\\-", "-")
            for word in ("tune", "doctor", "budget", "recover"):
                self.assertIn(word, text, name)
        bash = self.prefix / "share" / "bash-completion" / "completions"
        self.assertEqual((bash / "tune").read_text(), (bash / "tilewright").read_text())
        subprocess.run(["bash", "-n", bash / "tilewright"], check=True)
        manual = self.found("tilewright.1")
        self.assertEqual(manual.with_name("tune.1").read_bytes(), manual.read_bytes())
        if shutil.which("groff"):
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", manual], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    program.main()
