# SPDX-License-Identifier: Apache-2.0
"""Tests that tools/check_prose.py finds each fault that is planted in a comment or page, and
nothing where there is no fault."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))
import check_prose  # noqa: E402

WIDE = "word " * 21
LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"


class CheckProse(unittest.TestCase):
    def expect_source(self, text, *lines):
        self.assertEqual([line for line, _ in check_prose.faults_of_source(text)], list(lines))

    def expect_page(self, text, *lines):
        self.assertEqual([line for line, _ in check_prose.faults_of_page(text)], list(lines))

    def test_a_comment_that_begins_with_its_subject_passes(self):
        self.expect_source("// The number of threads.\nint threads;  ///< Threads of the pool.\n")

    def test_each_opening_fails(self):
        for word in sorted(check_prose.OPENINGS):
            self.expect_source(f"\n/// {word} the pool does.\nint pool();\n", 2)
            self.expect_source(f"int pool();  ///< {word} it does\n", 1)

    def test_only_the_beginning_of_a_comment_counts(self):
        self.expect_source("// The pool.\n// What it runs is the caller's.\n//\n// Which thread runs it is open.\n")
        self.expect_source("// Whatever it runs.\n")

    def test_a_comment_beside_code_is_one_of_its_own(self):
        self.expect_source("int a;  ///< The first.\nint b;  ///< Whether it is the last.\n", 2)
        self.expect_source("int a;  ///< The first,\n        ///< Which goes on.\nint b;\n")
        self.expect_source("int a;  ///< The first.\n/// Whether it is the last.\nint b;\n", 2)

    def test_text_in_code_is_no_comment(self):
        self.expect_source('url = "http://x"; text = "// What it is"; c = \'"\'; // The rest.\n')
        self.expect_source('text = R"(\n// What it is\n)";\n// Of it.\n', 4)

    def test_python(self):
        def expect(text, *lines):
            self.assertEqual(sorted(line for line, _ in check_prose.faults_of_python(text)), list(lines))

        expect('"""The page."""\n# The first.\n# What it is.\nx = "# What"  # The sum.\n')
        expect('"""What a page is."""\n\ndef f():\n    """Of the sum."""\n    return 1  # Whether it is\n', 1, 4, 5)
        expect('class C:\n    """\n    How it runs.\n    """\n', 2)
        expect("x = 1  # The first.\n# Which is next.\n", 2)
        expect("# The first.\nx = = 1\n", 2)
        expect("x = (\n", 2)

    def test_wide_lines_of_pages(self):
        self.expect_page(f"# Page\n\nshort\n{WIDE}\n", 4)
        self.expect_page(f"- {WIDE}\n  {WIDE}\n", 1, 2)
        self.expect_page("x" * 100 + "\n")

    def test_tables_code_and_long_words_may_be_wide(self):
        self.expect_page(f"| {WIDE} |\n# {WIDE}\n<!-- {WIDE} -->\n")
        self.expect_page(f"```\n{WIDE}\n```\n{WIDE}\n", 4)
        self.expect_page(f"text:\n\n    {WIDE}\n\n    {WIDE}\n\n{WIDE}\n", 7)
        self.expect_page("https://" + "x" * 120 + "\n")

    def test_a_source_begins_with_its_licence_alone_on_a_line(self):
        hashed = LICENCE.replace("//", "#")
        for text in (LICENCE, LICENCE + "// The sum.\n", hashed, "#!/usr/bin/env python3\n" + hashed,
                     "/* SPDX-License-Identifier: Apache-2.0 */\n", ""):
            self.assertEqual(list(check_prose.faults_of_licence(text)), [], text)
        for text in ("// The sum.\n", LICENCE.rstrip() + " The sum.\n", "\n" + LICENCE):
            self.assertEqual([line for line, _ in check_prose.faults_of_licence(text)], [1], text)

    def test_the_program_says_where_and_fails(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            for path, text in (("dsl/a.h", f"{LICENCE}// The sum.\n"), ("build/b.h", "// What.\n"), (".c/c.h", "// What.\n")):
                (root / path).parent.mkdir()
                (root / path).write_text(text)
            command = [sys.executable, TOOLS / "check_prose.py", root]
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            (root / "dsl/a.h").write_text(f"{LICENCE}// The sum.\nint a;\n// Of the terms.\n")
            (root / "page.md").write_text(WIDE)
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stdout.splitlines(),
                             ["dsl/a.h:4: the comment begins with 'Of', not with its subject: Of the terms.",
                              "page.md:1: 105 columns, at most 100"])
            done = subprocess.run([*command, "page.md"], capture_output=True, text=True)
            self.assertEqual(len(done.stdout.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
