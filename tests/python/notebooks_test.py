#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the notebooks of docs/notebooks: they run from the first cell to the last, their cells show
the words that their metadata names, and they are stored without outputs."""
import html
import json
import os
import pathlib
import re
import sys
import tempfile
import unittest

from tilewright import paths

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
CELL_TIMEOUT_S = 300  # longer than any cell takes that is not stuck

sys.path.insert(0, str(ROOT / "tools"))
from clean_notebook import cleaned  # noqa: E402

try:
    import nbclient
    import nbformat
except ImportError:
    nbclient = None


def text_of(cell):
    """Returns the text that a reader sees below a cell. Joins the pieces of a stream, which may end
    within a word."""
    parts = ["".join(output.get("text", "") for output in cell["outputs"])]
    for output in cell["outputs"]:
        data = output.get("data", {})
        page = re.sub("<[^>]*>", "", data.get("text/html", ""))
        parts += [data.get("text/plain", ""), html.unescape(page)]
    return "\n".join(parts)


class Stored(unittest.TestCase):
    def test_there_are_four(self):
        self.assertEqual([path.stem for path in NOTEBOOKS],
                         ["1_first_kernel", "2_schedule_by_hand", "3_network", "4_team_database"])

    def test_are_clean(self):
        for path in NOTEBOOKS:
            text = path.read_text(encoding="utf-8")
            self.assertEqual(cleaned(text), text, f"{path.name}: run tools/clean_notebook.py on it")

    def test_cleaning_removes_what_a_run_leaves(self):
        text = NOTEBOOKS[0].read_text(encoding="utf-8")
        book = json.loads(text)
        book["metadata"]["language_info"]["version"] = "3.11.2"
        for number, cell in enumerate(book["cells"]):
            cell["id"] = f"an id of the editor {number}"
            cell["metadata"]["collapsed"] = True
            if cell["cell_type"] == "code":
                cell.update(execution_count=number, outputs=[{"output_type": "stream", "name": "stdout", "text": "1"}])
        self.assertEqual(cleaned(json.dumps(book)), text)

    def test_each_cell_of_code_follows_a_question(self):
        for path in NOTEBOOKS:
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
            self.assertTrue(cells[0]["source"][0].startswith("# "), path.name)
            for before, cell in zip(cells, cells[1:]):
                if cell["cell_type"] == "code" and before["cell_type"] == "markdown":
                    self.assertRegex(before["source"][0], r"^## .*\?\n?$", path.name)


class Runs(unittest.TestCase):
    def setUp(self):
        if nbclient is None:
            self.skipTest("[SKIP] nbclient and ipykernel are not installed")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def environment(self):
        """Returns the environment variables of `./tw notebook`, with a home of the test's own."""
        programs = str(pathlib.Path(paths.program()).parent)
        return {**os.environ, "HOME": str(self.folder), "PATH": f"{programs}:{os.environ['PATH']}",
                **{name: str(self.folder / name) for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "XDG_CACHE_HOME",
                                                              "XDG_DATA_HOME")}}

    def run_notebook(self, name):
        path = next(path for path in NOTEBOOKS if path.stem == name)
        book = nbformat.read(path, as_version=4)
        nbformat.validate(book)
        if "TW_NIGHTLY" not in os.environ:  # by day searches end after a few trials
            for cell in book.cells:
                cell.source = re.sub(r"(tw\.tune\(.*)\bbudget=\d+\b", r"\1trials=4, budget=600", cell.source)
        client = nbclient.NotebookClient(book, timeout=CELL_TIMEOUT_S,
                                         resources={"metadata": {"path": str(self.folder)}})
        client.execute(env=self.environment())
        for cell in book.cells:
            for shown in cell.metadata.get("tilewright", {}).get("shows", []):
                self.assertIn(shown, text_of(cell), f"{name}, below the cell {cell.source[:80]!r}")

    def test_first_kernel(self):
        self.run_notebook("1_first_kernel")

    def test_schedule_by_hand(self):
        self.run_notebook("2_schedule_by_hand")

    def test_network(self):
        self.run_notebook("3_network")

    def test_team_database(self):
        self.run_notebook("4_team_database")


if __name__ == "__main__":
    unittest.main()
