# SPDX-License-Identifier: Apache-2.0
"""Tests that tools/check_layers.py finds each fault that is planted in a small source tree, and
nothing in trees without faults."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))
import check_layers  # noqa: E402

TABLE = """\
base   : -          what all others use
dsl    : base       expressions
tuner  : dsl base
tests, tools : any
"""


class CheckLayers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.plant("tools/layers.txt", TABLE)

    def plant(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def problems(self):
        return check_layers.check(self.root)

    def expect_one(self, *parts):
        problems = self.problems()
        self.assertEqual(len(problems), 1, problems)
        for part in parts:
            self.assertIn(part, problems[0])

    def test_allowed_includes_pass(self):
        self.plant("base/text.h", "#include <string>\n#include <nlohmann/json.hpp>\n")
        self.plant("dsl/expr.h", '#include "base/text.h"\n#include "dsl/axis.h"\n')
        self.plant("tests/dsl/expr_test.cpp", '#include "dsl/expr.h"\n#include "tools/main.h"\n')
        self.assertEqual(self.problems(), [])

    def test_include_of_a_higher_layer_fails(self):
        self.plant("dsl/deep/expr.cpp", '#include "base/text.h"\n\n  #  include "tuner/tune.h"\n')
        self.expect_one("dsl/deep/expr.cpp:3", "tuner/tune.h", "dsl may include: base")

    def test_a_folder_below_another_is_a_layer_of_its_own(self):
        self.plant("tools/layers.txt", TABLE + "tuner/search : base\n")
        self.plant("tuner/search/deep/search.cpp", '#include "tuner/search/search.h"\n#include "base/text.h"\n')
        self.assertEqual(self.problems(), [])
        self.plant("tuner/tune.cpp", '#include "tuner/search/search.h"\n')
        self.expect_one("tuner/tune.cpp:1", "tuner may include: base dsl")
        self.plant("tuner/tune.cpp", "")
        self.plant("tuner/search/search.cpp", '#include "tuner/tune.h"\n')
        self.expect_one("tuner/search/search.cpp:1", "tuner/search may include: base")

    def test_angle_brackets_do_not_hide_an_include(self):
        self.plant("base/text.h", "#include <dsl/expr.h>\n")
        self.expect_one("base/text.h:1", "base may include: nothing")

    def test_a_strict_layer_may_not_include_the_tests(self):
        self.plant("tuner/tune.cpp", '#include "tests/fixture.h"\n')
        self.expect_one("tests/fixture.h")

    def test_include_not_by_full_path_fails(self):
        self.plant("dsl/expr.h", '#include "axis.h"\n')
        self.expect_one("full path")
        for path in ("../base/text.h", "dsl/../base/text.h"):
            self.plant("dsl/expr.h", f'#include "{path}"\n')
            self.expect_one("full path")

    def test_folder_outside_the_table_fails(self):
        self.plant("extras/x.cpp", "int x;\n")
        self.expect_one("extras", "not in tools/layers.txt")
        self.plant("extras/x.cpp", "")
        self.plant("tuner/tune.cpp", '#include "extras/x.h"\n')
        self.assertEqual(len(self.problems()), 2)

    def test_cycle_in_the_table_fails(self):
        self.plant("tools/layers.txt", TABLE.replace("base   : -", "base   : tuner"))
        self.expect_one("tools/layers.txt: cycle base -> tuner -> base")

    def test_cycle_among_folders_that_may_include_any_fails(self):
        self.plant("tools/a.h", '#include "tests/b.h"\n')
        self.plant("tests/b.h", '#include "tools/a.h"\n')
        self.expect_one("includes: cycle tests -> tools -> tests")

    def test_unknown_folder_in_the_table_is_an_error(self):
        self.plant("tools/layers.txt", "base : nowhere\n")
        with self.assertRaisesRegex(ValueError, "nowhere"):
            self.problems()

    def test_comments_raw_strings_and_build_trees_are_not_includes(self):
        self.plant("base/a.cpp", '/*\n#include "tuner/a.h"\n*/\n// #include "tuner/a.h"\n'
                                 'auto s = R"x(\n#include "tuner/a.h"\n)x";\n')
        self.plant("build/release/x.cpp", '#include "tuner/a.h"\n')
        self.assertEqual(self.problems(), [])

    def test_long_files_and_full_folders_fail(self):
        self.plant("base/long.cpp", "int a;\n" * 900)
        for number in range(45):
            self.plant(f"dsl/{number}.h", "")
        self.assertEqual(check_layers.check_sizes(self.root), [])
        self.plant("base/long.cpp", "int a;\n" * 901)
        self.plant("dsl/README.md", "")
        self.plant("dsl/golden/a.txt", "a\n" * 1000)
        self.assertEqual(check_layers.check_sizes(self.root),
                         ["base/long.cpp: 901 lines, at most 900", "dsl: 46 files, at most 45"])

    def test_program_exits_with_1_and_names_the_line(self):
        self.plant("dsl/expr.h", '#include "tuner/tune.h"\n')
        done = subprocess.run([sys.executable, TOOLS / "check_layers.py", self.root],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("dsl/expr.h:1", done.stdout)


if __name__ == "__main__":
    unittest.main()
