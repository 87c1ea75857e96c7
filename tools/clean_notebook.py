#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Brings notebooks into the form that docs/notebooks has: without outputs, execution counts and metadata of
editors, so that versions differ only in edits that a person made.

    tools/clean_notebook.py build/notebooks/1_first_kernel.ipynb     # then copy it to docs/notebooks
"""
import json
import pathlib
import sys

METADATA = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"}}


def _cleaned_cell(number, cell):
    kept = {"cell_type": cell["cell_type"], "id": f"cell-{number}",
            "metadata": {name: value for name, value in cell["metadata"].items() if name == "tilewright"},
            "source": "".join(cell["source"]).splitlines(keepends=True)}
    if cell["cell_type"] == "code":
        kept |= {"execution_count": None, "outputs": []}
    return kept


def cleaned(text):
    """The text of a notebook's file in that form, as Jupyter itself would lay it out."""
    cells = [_cleaned_cell(number, cell) for number, cell in enumerate(json.loads(text)["cells"], 1)]
    book = {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main():
    for path in map(pathlib.Path, sys.argv[1:]):
        path.write_text(cleaned(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
