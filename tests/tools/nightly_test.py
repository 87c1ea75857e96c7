# SPDX-License-Identifier: Apache-2.0
"""Tests of the script `tw`: what `./tw test --nightly` runs, its exit code after a failure, and what
`./tw bench`, `./tw python`, `./tw report`, `./tw notebook` and `./tw wheel` build and run. The script is in a
checkout without sources, and cmake, ninja and ctest are fakes."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = ("codegen_test", "runtime_test", "runtime_c_api_test", "tuner_search_test", "dsl_test",
           "bench_test")
PROGRAMS = {
    "cmake": 'mkdir -p "$2/build/$4"',  # called as cmake -S ROOT --preset NAME
    "dpkg-query": "true",
    "ninja": 'case "$*" in *"-t targets all") printf "%s: phony\\n" $TARGETS ;; *) echo "ninja $*" >>"$LOG" ;; esac',
    "ctest": 'echo "ctest ${TW_NIGHTLY-unset} $*" >>"$LOG"; case "$*" in *"$FAILS"*) exit 8 ;; esac',
}


class Checkout(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        shutil.copy(ROOT / "tw", self.root)
        (self.root / "tools" / "requirements").mkdir(parents=True)
        (self.root / "tools" / "packages.txt").write_text("")
        programs, venv = self.root / "bin", self.root / ".venv" / "bin"
        programs.mkdir()
        venv.mkdir(parents=True)
        (venv / "python").symlink_to(sys.executable)
        for name in ("base", "bench", "cuda", "farm", "notebook", "report", "test"):
            (self.root / "tools" / "requirements" / f"{name}.txt").write_text("")
            subprocess.run(f"sha256sum </dev/null >'{venv.parent}/.{name}.sha256'", shell=True, check=True)
        for name, body in PROGRAMS.items():
            (programs / name).write_text(f"#!/bin/sh\n{body}\n")
            (programs / name).chmod(0o755)

    def run_tw(self, *arguments, fails="nothing", targets=TARGETS, **variables):
        """Returns the exit code, and the lines that the fakes logged."""
        log = self.root / "log"
        log.write_text("")
        environment = {**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}", "LOG": str(log),
                       "FAILS": fails, "TARGETS": " ".join(targets)}
        for name in ("TW_NIGHTLY", "TW_PRESET", "TW_WHEEL_PYTHON"):
            environment.pop(name, None)
        environment |= variables
        done = subprocess.run([self.root / "tw", *arguments], env=environment, capture_output=True, text=True, timeout=60)
        self.stdout, self.stderr = done.stdout, done.stderr
        return done.returncode, log.read_text().splitlines()


class Networks(Checkout):
    def setUp(self):
        super().setUp()
        (self.root / "bench" / "models").mkdir(parents=True)
        (self.root / "bench" / "models" / "networks.py").write_text(
            "import os, sys\nopen(os.environ['LOG'], 'a').write('networks ' + ' '.join(sys.argv[1:]) + '\\n')\n")

    def test_a_network_is_compared_by_the_script(self):
        for arguments in (["--model", "unet", "--threads", "2"], ["--threads", "2", "--model=unet"]):
            code, ran = self.run_tw("bench", *arguments)
            self.assertEqual(code, 0, self.stderr)
            build = self.root / "build" / "release"
            self.assertEqual(ran, [f"ninja -C {build} tilewright tw_shipped tilewright_runtime",
                                   f"networks --build {build} {' '.join(arguments)}"])

    def test_models_that_people_ship_are_run_by_a_script_with_an_environment_of_its_own(self):
        (self.root / "bench" / "models" / "zoo.py").write_text(
            "import os, sys\nopen(os.environ['LOG'], 'a').write('zoo ' + ' '.join(sys.argv[1:]) + '\\n')\n")
        build = self.root / "build" / "release"
        # These arguments export nothing, so nothing needs .venv-zoo, whose requirements this
        # checkout lacks.
        for arguments in (["--zoo", "--source", "wheels", "--only", "a"], ["--source=wheels", "--zoo"],
                          ["--zoo", "--list"]):
            code, ran = self.run_tw("bench", *arguments)
            self.assertEqual(code, 0, self.stderr)
            self.assertEqual(ran, [f"ninja -C {build} tilewright tw_shipped tilewright_runtime",
                                   f"zoo --build {build} {' '.join(arguments)}"])
        python = self.root / ".venv-zoo" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text('#!/bin/sh\necho "pip $*" >>"$LOG"\n')
        python.chmod(0o755)
        (self.root / "tools" / "requirements" / "zoo.txt").write_text("torch==2\n")
        for runs in (3, 2):  # packages are installed by the first run only
            code, ran = self.run_tw("bench", "--zoo")
            self.assertEqual((code, len(ran)), (0, runs), self.stderr)
            self.assertEqual(ran[-1], f"zoo --build {build} --zoo")

    def test_kernels_are_compared_by_the_program(self):
        _, ran = self.run_tw("bench", "--suite", "gemm")
        self.assertEqual(ran, [f"ninja -C {self.root / 'build' / 'release'} tilewright_bench"])


class Python(Checkout):
    def test_runs_a_script_with_the_package(self):
        script = self.root / "script.py"
        script.write_text("import os, sys\n"
                          "open(os.environ['LOG'], 'a').write(os.environ['PYTHONPATH'] + ' ' + sys.argv[1] + '\\n')\n")
        code, ran = self.run_tw("python", str(script), "word")
        self.assertEqual(code, 0, self.stderr)
        build = self.root / "build" / "release"
        self.assertEqual(ran[0], f"ninja -C {build} tilewright tw_shipped tw_python")
        self.assertEqual(ran[1].split(":")[0].split()[0], str(build / "python"))
        self.assertTrue(ran[1].endswith(" word"))

    def test_a_report_is_made_by_the_package(self):
        package = self.root / "build" / "release" / "python" / "tilewright"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "report.py").write_text(
            "import os, sys\nopen(os.environ['LOG'], 'a').write('report ' + ' '.join(sys.argv[1:]) + '\\n')\n")
        code, ran = self.run_tw("report", "--db", "x.db", "--output", "x.html")
        self.assertEqual(code, 0, self.stderr)
        self.assertEqual(ran, [f"ninja -C {self.root / 'build' / 'release'} tilewright tw_shipped tw_python",
                               "report --db x.db --output x.html"])


    def test_tune_with_a_report_has_the_package(self):
        build = self.root / "build" / "release"
        (build / "tools").mkdir(parents=True)
        program = build / "tools" / "tilewright"
        program.write_text('#!/bin/sh\necho "$* with ${TILEWRIGHT_PYTHON-none} ${PYTHONPATH-none}" >>"$LOG"\n')
        program.chmod(0o755)
        for arguments, targets, python in (
                (["tune", "--op", "dense"], "tilewright tw_shipped", None),
                (["show", "--report"], "tilewright tw_shipped", None),
                (["tune", "--report", "page.html"], "tilewright tw_shipped tw_python", self.root / ".venv" / "bin" / "python"),
                (["tune", "--report=page.html"], "tilewright tw_shipped tw_python", self.root / ".venv" / "bin" / "python")):
            code, ran = self.run_tw(*arguments)
            self.assertEqual(code, 0, self.stderr)
            self.assertEqual(ran[0], f"ninja -C {build} {targets}")
            self.assertTrue(ran[1].startswith(f"{' '.join(arguments)} with {python or 'none'} "), ran[1])
            if python:
                self.assertIn(f" {build / 'python'}", ran[1])


class Notebooks(Checkout):
    def setUp(self):
        super().setUp()
        folder = self.root / "docs" / "notebooks"
        folder.mkdir(parents=True)
        for name in ("1_first", "2_second"):
            (folder / f"{name}.ipynb").write_text(name)
        lab = self.root / "build" / "release" / "python"
        lab.mkdir(parents=True)
        (lab / "jupyterlab.py").write_text(
            "import os, sys\nopen(os.environ['LOG'], 'a').write(' '.join(['lab', os.getcwd(), os.environ['PATH'].split(':')[0],"
            " *sys.argv[1:]]) + '\\n')\n")
        self.copies = self.root / "build" / "notebooks"

    def opened(self, *arguments):
        code, ran = self.run_tw("notebook", *arguments)
        self.assertEqual(code, 0, self.stderr)
        build = self.root / "build" / "release"
        self.assertEqual(ran[0], f"ninja -C {build} tilewright tw_shipped tw_python")
        words = ran[1].split()
        self.assertEqual(words[:3], ["lab", str(self.copies), str(build / "tools")])
        return words[3:]

    def test_copies_are_opened(self):
        self.assertIn("--no-browser", self.opened("--no-browser"))
        self.assertEqual((self.copies / "1_first.ipynb").read_text(), "1_first")
        self.assertEqual(self.opened("second")[-1], "2_second.ipynb")
        self.assertEqual(self.opened("1", "--port", "8899")[-3:], ["--port", "8899", "1_first.ipynb"])

    def test_a_copy_that_somebody_changed_stays(self):
        self.opened()
        (self.copies / "1_first.ipynb").write_text("changed")
        self.opened()
        self.assertEqual((self.copies / "1_first.ipynb").read_text(), "changed")

    def test_a_name_of_none_or_of_several_is_an_error(self):
        for name in ("third", "s"):
            code, ran = self.run_tw("notebook", name)
            self.assertEqual((code, ran), (7, []))
            self.assertIn("1_first.ipynb 2_second.ipynb", self.stderr)


class Requirements(unittest.TestCase):
    def test_packages_of_one_environment_have_one_version(self):
        versions = {}
        for path in (ROOT / "tools" / "requirements").glob("*.txt"):
            if path.stem not in ("tvm", "wheel", "zoo"):  # these have their own environments
                for name, version in re.findall(r"^([\w-]+)==(\S+)$", path.read_text(), re.MULTILINE):
                    versions.setdefault(name.lower().replace("_", "-"), set()).add(version)
        self.assertIn("jupyterlab", versions)
        self.assertEqual({name: found for name, found in versions.items() if len(found) > 1}, {})


class Farms(Checkout):
    def test_dask_and_the_package_are_for_those_who_ask_for_a_farm(self):
        build = self.root / "build" / "release"
        (build / "tools").mkdir(parents=True)
        (build / "tools" / "tilewright").write_text('#!/bin/sh\necho "$TILEWRIGHT_PYTHON tilewright $*" >>"$LOG"\n')
        (build / "tools" / "tilewright").chmod(0o755)
        python = self.root / ".venv" / "bin" / "python"
        for line in ("worker --join a:1", "tune --op dense --workers dask://a:1"):
            code, ran = self.run_tw(*line.split())
            self.assertEqual(code, 0, self.stderr)
            self.assertEqual(ran, [f"ninja -C {build} tilewright tw_shipped tw_python", f"{python} tilewright {line}"])
        (self.root / ".venv" / ".farm.sha256").unlink()  # as if no farm had been used
        self.assertEqual(self.run_tw("tune", "--op", "dense")[1], 
                             [f"ninja -C {build} tilewright tw_shipped", " tilewright tune --op dense"])


class Drawings(Checkout):
    def test_graphviz_is_installed_for_a_drawing(self):
        program = self.root / "build" / "release" / "tools" / "tilewright"
        program.parent.mkdir(parents=True)
        for path, body in ((program, "true"), (self.root / "bin" / "apt-get", 'echo "apt-get $*" >>"$LOG"'),
                           (self.root / "bin" / "sudo", '[ "$1" = -n ] || exec "$@"')):
            path.write_text(f"#!/bin/sh\n{body}\n")
            path.chmod(0o755)
        shutil.copy(ROOT / "tools" / "packages.txt", self.root / "tools")
        packages = (self.root / "tools" / "packages.txt").read_text()
        draw = packages[packages.index("\n[draw]"):packages.index("\n[format]")]
        (self.root / "tools" / "packages.txt").write_text(draw)  # leaves out the packages of all commands
        self.assertEqual([line for line in self.run_tw("explain", "net.twart")[1] if "apt-get" in line], [])
        code, ran = self.run_tw("explain", "net.twart", "--svg")
        self.assertEqual(code, 0, self.stderr)
        self.assertRegex([line for line in ran if "apt-get install" in line][0], " graphviz$")


class OtherSystems(Checkout):
    def test_a_failure_without_dpkg_names_what_was_not_looked_for(self):
        (self.root / "tools" / "packages.txt").write_text("[run]\ncmake\nlibfmt-dev\n[format]\nclang-format\n")
        (self.root / "bin" / "dpkg-query").unlink()
        for name in ("bash", "cat", "cut", "dirname", "env", "find", "flock", "grep", "ls", "mkdir", "mv", "nproc", "ps",
                     "readlink", "rm", "sed", "sha256sum", "sleep", "tail", "touch", "tr"):
            if not (self.root / "bin" / name).exists():
                (self.root / "bin" / name).symlink_to(shutil.which(name))
        (self.root / "bin" / "cmake").write_text("#!/bin/sh\necho 'no fmt' >&2; exit 1\n")
        (self.root / "bin" / "cmake").chmod(0o755)
        done = subprocess.run([self.root / "tw", "version"], env={**os.environ, "PATH": str(self.root / "bin")},
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertRegex(done.stderr, "no dpkg .* on Debian 12 they are: cmake libfmt-dev\n")


class Wheel(Checkout):
    def programs_in(self, venv):
        """Makes the environment for wheels, with programs that write to the log."""
        programs = self.root / venv / "bin"
        programs.mkdir(parents=True)
        (self.root / "tools" / "requirements" / "wheel.txt").write_text("")
        shutil.copy(self.root / ".venv" / ".base.sha256", programs.parent / ".wheel.sha256")
        python = """case $1 in
  -m) mkdir -p build/wheel/made; touch build/wheel/made/tilewright-linux.whl ;;
  *) cp "$2" "$3" ;;
esac"""
        auditwheel = "mkdir build/wheel/repaired; touch build/wheel/repaired/tilewright-manylinux.whl"
        for name, body in {"python": python, "auditwheel": auditwheel}.items():
            (programs / name).write_text(f'#!/bin/sh\necho "{name} $*" >>"$LOG"\ncd {self.root}; {body}\n')
            (programs / name).chmod(0o755)

    def test_is_built_for_the_python_that_is_named(self):
        self.programs_in(".venv-wheel-python3.12")
        self.assertEqual(self.run_tw("wheel", TW_WHEEL_PYTHON="/opt/bin/python3.12")[0], 0, self.stderr)

    def test_is_built_and_gets_its_libraries(self):
        self.programs_in(".venv-wheel")
        code, ran = self.run_tw("wheel")
        self.assertEqual(code, 0, self.stderr)
        self.assertEqual([line.split()[:4] for line in ran],
                         [["python", "-m", "pip", "wheel"], ["auditwheel", "repair", "--exclude", "libHalide.so*"],
                          ["python", f"{self.root}/tools/wheel_notices.py",
                           f"{self.root}/build/wheel/repaired/tilewright-manylinux.whl", f"{self.root}/build/wheel"]])
        self.assertTrue(ran[1].endswith("build/wheel/made/tilewright-linux.whl"))
        self.assertEqual(self.stdout, f"{self.root}/build/wheel/tilewright-manylinux.whl\n")


class Scheduler(Checkout):
    def test_Fault01_an_empty_text_is_refused_before_anything_is_installed_or_built(self):
        for stamp in (self.root / ".venv").glob(".*.sha256"):  # as before the first installation
            stamp.unlink()
        for arguments, flag in ((["scheduler", "--host="], "--host"), (["scheduler", "--port", "1", "--host", ""], "--host"),
                                (["scheduler", "--interface="], "--interface"),
                                (["scheduler", "--dashboard-address", ""], "--dashboard-address"),
                                (["worker", "--join="], "--join"), (["tune", "--op", "relu", "--workers", ""], "--workers"),
                                (["bench", "--workers="], "--workers")):
            self.assertEqual(self.run_tw(*arguments), (2, []), arguments)
            self.assertEqual(self.stderr, f"tw: {flag}: an empty text; give one, or leave the flag out\n")
        self.assertEqual(list((self.root / "build").iterdir()), [])

    def test_listens_for_this_machine_alone_unless_told(self):
        package = self.root / "build" / "release" / "python" / "tilewright"
        package.mkdir(parents=True)
        (package / "farm.py").write_text(
            "import os, sys\nopen(os.environ['LOG'], 'a').write(' '.join(sys.argv[3:]) + '\\n')\n"
            "assert sys.argv[1:3] == ['scheduler', '--']\n")
        (package / "__init__.py").write_text("")
        code, ran = self.run_tw("scheduler", "--port", "8786")
        self.assertEqual((code, ran[-1]), (0, "--host 127.0.0.1 --dashboard-address 127.0.0.1:0 --port 8786"))
        self.assertIn("can run programs", self.stderr)
        self.assertIn("127.0.0.1", self.stderr)
        for own in ("--host=10.0.0.1", "--host 10.0.0.1", "--interface eth0"):
            self.assertEqual(self.run_tw("scheduler", *own.split())[1][-1], own)
            self.assertIn("can run programs", self.stderr)


class AtOnce(Checkout):
    """Tests two commands in one checkout at the same time. One of them builds: its fake ninja waits
    on a pipe."""

    def setUp(self):
        super().setUp()
        self.pipe = self.root / "pipe"
        os.mkfifo(self.pipe)
        self.program = self.root / "build" / "release" / "tools" / "tilewright"
        self.program.parent.mkdir(parents=True)
        self.program.write_text('#!/bin/sh\necho "tilewright $*" >>"$LOG"\n')
        self.program.chmod(0o755)
        (self.root / "db").mkdir()
        self.source = self.root / "db" / "store.cpp"
        self.source.write_text("")

    def builds_for_long(self, *arguments):
        """Starts a ./tw, and returns when its ninja runs. This ninja does not end before the test
        does."""
        folder = self.root / ".slow"  # hidden, so not taken for source
        folder.mkdir()
        (folder / "ninja").write_text(f"#!/bin/sh\necho begun >'{self.pipe}'; read end <'{self.pipe}'\n")
        (folder / "ninja").chmod(0o755)
        venv = self.root / ".venv-wheel"
        (venv / "bin").mkdir(parents=True)
        shutil.copy(self.root / ".venv" / ".base.sha256", venv / ".wheel.sha256")
        (venv / "bin" / "python").symlink_to(folder / "ninja")
        environment = {**os.environ, "PATH": f"{folder}:{self.root / 'bin'}:{os.environ['PATH']}"}
        self.slow = subprocess.Popen([self.root / "tw", *arguments], env=environment, text=True,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.assertEqual(self.pipe.read_text(), "begun\n")
        self.addCleanup(self.let_it_end)

    def let_it_end(self):
        if self.slow.returncode is None:
            self.pipe.write_text("end\n")
            self.slow.communicate()

    def test_Fault95_tune_runs_beside_a_wheel(self):
        self.assertEqual(self.run_tw("tune")[0], 0)
        (self.root / "tools" / "requirements" / "wheel.txt").write_text("")
        self.builds_for_long("wheel")
        code, ran = self.run_tw("tune", "--op", "dense")
        self.assertEqual((code, len(ran), ran[-1]), (0, 2, "tilewright tune --op dense"))  # it built and then ran
        self.assertNotIn("waiting", self.stderr)

    def test_Fault95_what_is_built_runs_while_another_builds_there(self):
        self.assertEqual(self.run_tw("tune")[0], 0)
        self.builds_for_long("test")
        code, ran = self.run_tw("tune", "--op", "dense")
        self.assertEqual((code, ran), (0, ["tilewright tune --op dense"]))
        self.assertNotIn("waiting", self.stderr)

    def test_Fault95_what_is_not_built_waits(self):
        self.assertEqual(self.run_tw("tune")[0], 0)
        self.builds_for_long("test")
        later = self.program.stat().st_mtime + 3600
        os.utime(self.source, (later, later))
        log = self.root / "log"
        waiting = subprocess.Popen([self.root / "tw", "tune"], stderr=subprocess.PIPE, text=True, env={
            **os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}", "LOG": str(log)})
        self.assertIn("waiting for another ./tw in this checkout (release)", waiting.stderr.readline())
        self.let_it_end()
        self.assertEqual(waiting.wait(), 0, waiting.stderr.read())
        waiting.stderr.close()
        self.assertEqual(log.read_text().splitlines()[-1], "tilewright tune")


class Nightly(Checkout):
    def run_nightly(self, **options):
        return self.run_tw("test", "--nightly", **options)

    def test_runs_long_forms_and_then_sanitizers(self):
        code, ran = self.run_nightly()
        self.assertEqual(code, 0, self.stderr)
        tests = [line for line in ran if line.startswith("ctest")]
        self.assertEqual([line.split()[1] for line in tests], ["1", "unset", "unset", "1"])
        self.assertEqual([line.split("build/")[1].split()[0] for line in tests], ["release", "asan", "tsan", "fuzz"])
        self.assertIn(f"ninja -C {self.root / 'build' / 'fuzz'} tw_fuzz", ran)
        self.assertEqual(ran[-1], f"ninja -C {self.root / 'build' / 'dev'} all")
        built = {preset: set(line.split()[3:]) for preset in ("asan", "tsan")
                 for line in ran if line.startswith("ninja") and f"build/{preset} " in line}
        self.assertEqual(built, {
            "asan": {"codegen_test", "runtime_test", "runtime_c_api_test", "tuner_search_test", "dsl_test"},
            "tsan": {"runtime_test", "runtime_c_api_test", "tuner_search_test"}})

    def test_a_failure_anywhere_is_told_and_the_rest_runs(self):
        for preset in ("release", "asan", "tsan", "fuzz"):
            code, ran = self.run_nightly(fails=f"build/{preset} ")
            self.assertEqual(code, 8, preset)
            self.assertEqual(sum(line.startswith("ctest") for line in ran), 4, preset)

    def test_tests_that_are_not_found_are_a_failure(self):
        code, ran = self.run_nightly(targets=("bench_test",))
        self.assertEqual(code, 7)
        self.assertEqual(sum(line.startswith("ctest") for line in ran), 1)


if __name__ == "__main__":
    unittest.main()
