#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Removes outputs, execution counts and editors' metadata from notebooks, so that versions of a notebook differ only
in edits that a person made. docs/notebooks has notebooks in this form.

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
    """Returns the text of a cleaned notebook, in the layout in which Jupyter itself writes it."""
    cells = [_cleaned_cell(number, cell) for number, cell in enumerate(json.loads(text)["cells"], 1)]
    book = {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main():
    for path in map(pathlib.Path, sys.argv[1:]):
        path.write_text(cleaned(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
