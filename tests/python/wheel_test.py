#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the wheel that `./tw wheel` makes. It is installed without a compiler, and serves Python,
the commands, and programs in C and C++, even if the checkout is absent. Needs a package index. A
build takes minutes, so the test runs in the nightly run, or if TW_TEST_WHEEL names a wheel that is
built already."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "tools"))
import outside  # noqa: E402

# Prints which of these libraries the process has opened, tunes for so long that the cost model
# learns, and prints them again.
SCRIPT = """
import numpy as np
import tilewright as tw

def opened():
    paths = {line.split()[-1] for line in open("/proc/self/maps")}
    return sorted(path for path in paths if "libHalide" in path or "libxgboost" in path)

print(opened())
tuned = tw.tune(tw.make_workload("dense", m=64, n=64, k=64), db="tuning.db", trials=64)
a, w = np.ones((64, 64), np.float32), np.ones((64, 64), np.float32)
print(np.array_equal(tuned.kernel()(a, w), a @ w))
print(*opened())
"""


def built_wheel():
    """Returns the path of the wheel that TW_TEST_WHEEL names. Without this variable, builds the
    wheel."""
    given = os.environ.get("TW_TEST_WHEEL", "")
    if given:
        return pathlib.Path(given)
    if "TW_NIGHTLY" not in os.environ:
        raise unittest.SkipTest("[SKIP] the nightly run builds the wheel")
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "TW_PRESET")}
    done = subprocess.run([ROOT / "tw", "wheel"], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return pathlib.Path(done.stdout.strip())


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.wheel = built_wheel()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        venv = cls.folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        cls.bin = venv / "bin"
        cls.environment = {"HOME": folder.name, "PATH": f"{cls.bin}:/usr/bin:/bin", "LANG": "C.UTF-8"}
        # PATH has only the programs of the virtual environment, so no compiler is found.
        index = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
        done = subprocess.run([cls.bin / "python", "-m", "pip", "install", "--only-binary", ":all:", cls.wheel],
                              env={**index, "HOME": os.environ.get("HOME", ""), "PATH": str(cls.bin)},
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        cls.prefix = pathlib.Path(cls.run_installed("python", "-c", "from tilewright import paths; print(paths.prefix())"
                                                    ).stdout.strip())

    @classmethod
    def run_installed(cls, program, *arguments):
        """Runs a program and returns the finished process. If possible, the process has a mount
        namespace without the checkout."""
        command = [cls.bin / program, *arguments]
        hidden = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs none "{ROOT}" && exec "$@"', "sh"]
        if subprocess.run([*hidden, "true"], capture_output=True).returncode == 0:
            command = [*hidden, *command]
        done = subprocess.run(command, env=cls.environment, cwd=cls.folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        return done

    def test_is_for_debian_12_and_newer(self):
        self.assertRegex(self.wheel.name, r"-manylinux_2_(2[0-9]|3[0-5])_x86_64\.whl$")

    def test_has_each_library_once(self):
        names = zipfile.ZipFile(self.wheel).namelist()
        for library in ("libtilewright.so", "libtilewright_runtime.so", "libtw_halide.so", "libxgboost"):
            self.assertEqual(sum(f"/{library}" in name for name in names), 1, library)
        self.assertFalse([name for name in names if "libHalide" in name or name.endswith(".in")])
        self.assertIn("tilewright/py.typed", names)
        self.assertIn("tilewright/_tilewright.pyi", names)

    def test_each_library_of_others_has_a_notice_and_is_listed(self):
        wheel = zipfile.ZipFile(self.wheel)
        names = wheel.namelist()
        ours = ("libtilewright.so", "libtilewright_runtime.so", "libtw_halide.so", "_tilewright.")
        libraries = {name for name in names if re.search(r"\.so(\.|$)", name)
                     and not name.rsplit("/", 1)[-1].startswith(ours)}
        self.assertGreater(len(libraries), 8)
        info, = {name.split("/")[0] for name in names if ".dist-info/" in name}
        listed = json.loads(wheel.read(f"{info}/sboms/tilewright.cdx.json"))["components"]
        places = [place["location"] for one in listed for place in one.get("evidence", {}).get("occurrences", [])]
        self.assertEqual(sorted(places), sorted(libraries))
        metadata = wheel.read(f"{info}/METADATA").decode()
        for one in listed:
            self.assertTrue(one["version"] and one["purl"].startswith("pkg:") and one["licenses"][0]["expression"], one)
            notice = one["properties"][0]["value"]
            self.assertGreater(len(wheel.read(f"{info}/licenses/{notice}")), 500, one["name"])
            self.assertIn(f"License-File: {notice}\n", metadata)
        # The list of auditwheel names the packages that it copied from.
        copied = json.loads(wheel.read(f"{info}/sboms/auditwheel.cdx.json"))["components"]
        self.assertLessEqual({one["name"] for one in copied} - {"tilewright"}, {one["name"] for one in listed})

    def test_python_tunes_and_calls(self):
        before, is_right, after = self.run_installed("python", "-c", SCRIPT).stdout.splitlines()
        self.assertEqual((before, is_right), ("[]", "True"))
        self.assertEqual(after, str(self.prefix / "lib" / "libxgboost.so.0"))

    def test_commands(self):
        self.assertIn("tilewright 0.", self.run_installed("tilewright", "--version").stdout)
        done = self.run_installed("tune", "--op", "dense", "--shape", "m=8,n=8,k=8", "--trials", "2", "--budget", "10m")
        self.assertIn("replay       tilewright replay", done.stdout)

    def test_nvrtc_of_the_same_environment_compiles(self):
        library = next(ROOT.glob(".venv/lib/python3*/site-packages/nvidia/cu13/lib/libnvrtc.so.13"), None)
        if library is None:
            self.skipTest("[SKIP] .venv has no NVRTC, because a CUDA toolkit is installed")
        place = next((self.bin.parent / "lib").glob("python3*/site-packages")) / "nvidia" / "cu13"
        shutil.copytree(library.parent, place / "lib")
        self.run_installed("tune", "--op", "dense", "--shape", "m=64,n=64,k=64", "--target", "cuda:sm_80",
                           "--compile-only", "--output", "gpu.twart")
        self.assertGreater((self.folder / "gpu.twart").stat().st_size, 1000)

    def test_c_and_cxx_programs_are_built_and_run(self):
        version = outside.build_c_program(self.prefix, self.folder)
        self.assertRegex(subprocess.run([version], capture_output=True, text=True, check=True).stdout, r"^\d+\.\d+\.\d+$")
        binary = outside.build_cxx_program(shutil.which("cmake"), self.prefix, self.folder)
        shutil.copy(binary, self.bin / "outside")
        for compiler in outside.compilers():
            mine = outside.build_the_page(shutil.which("cmake"), self.folder, f"-DCMAKE_PREFIX_PATH={self.prefix}", *compiler)
            shutil.copy(mine, self.bin / "mine")
            self.assertEqual(self.run_installed("mine").stdout, "48\n", compiler)
        same, plugin = self.run_installed("outside").stdout.splitlines()
        self.assertEqual((same, pathlib.Path(plugin)), ("the same", self.prefix / "lib" / "tilewright"))


if __name__ == "__main__":
    unittest.main()
