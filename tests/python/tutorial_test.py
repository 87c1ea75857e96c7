#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that the Python code of docs/tutorial.md runs and prints what its comments say."""
import contextlib
import io
import pathlib
import re
import unittest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"


class Tutorial(unittest.TestCase):
    def test_its_blocks_run(self):
        blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        self.assertGreaterEqual(len(blocks), 1)
        names, printed = {}, io.StringIO()
        with contextlib.redirect_stdout(printed):
            for block in blocks:
                exec(compile(block, str(PAGE), "exec"), names)
        text = printed.getvalue()
        self.assertIn("unroll m.1 in 0..6", text)
        self.assertIn("+ unroll out m.1\n", text)
        for line in re.findall(r"print\(small\) +# (.*)", "".join(blocks)):
            self.assertIn(line, text)
        self.assertIn("unroll m.1 in 0..4", text)


if __name__ == "__main__":
    unittest.main()
