#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every #include of our sources against tools/layers.txt, and the sizes of files and folders.

Usage: tools/check_layers.py [root]. Prints a line for each violation and exits with 1 if there is any.

A line of the table is `folder[, folder ...] : folders that it may include`. `-` means none, and `any` means all.
The text after two spaces is a description. A folder may always include itself. A path belongs to the longest
folder of the table that contains it: `tuner/search/search.h` belongs to `tuner/search`, not to `tuner`.

A source, also in Python, has at most 900 lines. A folder has at most 45 files, not counting its subfolders and
files of data (DATA).
"""

import collections
import pathlib
import re
import sys

SOURCES = {".h", ".hpp", ".cpp", ".cc", ".c", ".cu", ".def", ".inc"}
NOT_OURS = {"build"}  # folders that are not checked, like those whose name begins with a dot
MOST_LINES, MOST_FILES = 900, 45
DATA = {".json", ".jsonl", ".txt", ".onnx", ".svg", ".png"}  # data of tests and benchmarks; these files are not counted
RAW_STRING = re.compile(r'R"([^\s()\\]{0,16})\(.*?\)\1"', re.DOTALL)
BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]', re.MULTILINE)


FULL_PATH = "our headers are included by their full path from the root"


def read_table(text):
    """Returns for each folder the set of folders that it may include; None if it may include all."""
    table = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        folders, colon, rest = line.partition(" : ")
        if not colon:
            raise ValueError(f"[layers] expected 'folder : folders', got '{line}'")
        allowed = re.split(r"\s{2,}", rest.strip())[0].split()
        for folder in folders.replace(",", " ").split():
            if folder in table:
                raise ValueError(f"[layers] '{folder}' stands in the table twice")
            table[folder] = None if allowed == ["any"] else set(allowed) - {"-"}
    for folder, allowed in table.items():
        for other in (allowed or set()) - table.keys():
            raise ValueError(f"[layers] '{folder}' may include '{other}', which is not in the table")
    return table


def folder_of(path, table):
    """Returns the longest folder of the table that contains the path. If none does, returns the path's first folder."""
    parts = path.split("/")
    for count in range(len(parts) - 1, 0, -1):
        folder = "/".join(parts[:count])
        if folder in table:
            return folder
    return parts[0]


def find_cycle(edges):
    """Returns the folders of one cycle in `edges`, or [] if there is none. `edges` gives for each folder the set of
    folders that it includes. The first folder of a cycle is also its last: ['a', 'b', 'a']."""
    finished = set()

    def visit(folder, path):
        if folder in path:
            return path[path.index(folder):] + [folder]
        if folder in finished:
            return []
        for other in sorted(edges.get(folder, ())):
            cycle = visit(other, path + [folder])
            if cycle:
                return cycle
        finished.add(folder)
        return []

    for folder in sorted(edges):
        cycle = visit(folder, [])
        if cycle:
            return cycle
    return []


def sources(root):
    """Returns the paths, relative to root, of the sources in the folders below root."""
    for path in sorted(root.glob("*/**/*")):
        relative = path.relative_to(root)
        hidden = any(part.startswith(".") for part in relative.parts)
        if path.suffix in SOURCES and relative.parts[0] not in NOT_OURS and not hidden:
            yield relative


def includes(text):
    """Returns (line number, quote, included path) of each #include outside of comments and raw strings."""
    def blank(match):
        return "\n" * match.group().count("\n")

    code = BLOCK_COMMENT.sub(blank, RAW_STRING.sub(blank, text))
    for match in INCLUDE.finditer(code):
        yield code.count("\n", 0, match.start()) + 1, match.group(1), match.group(2)


def check_include(table, folder, quote, target):
    """Returns the fault of an #include of the path `target` in a source of `folder`, or None. `quote` is '"' or "<"."""
    if {".", ".."} & set(target.split("/")):
        return f'"{target}": {FULL_PATH}'
    other = folder_of(target, table)
    if other not in table:
        if quote == "<":
            return None  # a library
        if "/" not in target:
            return f'"{target}": {FULL_PATH}'
        return f'"{target}": \'{other}\' is not in tools/layers.txt'
    allowed = table[folder]
    if other == folder or allowed is None or other in allowed:
        return None
    may = " ".join(sorted(allowed)) or "nothing"
    return f'"{target}": {folder} may include: {may}'


def check(root):
    """Returns all forbidden includes and cycles below root, as lines to print."""
    table = read_table((root / "tools" / "layers.txt").read_text())
    problems = []
    cycle = find_cycle({folder: allowed or set() for folder, allowed in table.items()})
    if cycle:
        problems.append("tools/layers.txt: cycle " + " -> ".join(cycle))
    used = {}
    for path in sources(root):
        folder = folder_of(path.as_posix(), table)
        if folder not in table:
            problems.append(f"{path}: the folder '{folder}' is not in tools/layers.txt")
            continue
        for line, quote, target in includes((root / path).read_text(errors="replace")):
            problem = check_include(table, folder, quote, target)
            if problem:
                problems.append(f"{path}:{line}: {problem}")
            other = folder_of(target, table)
            if other in table and other != folder:
                used.setdefault(folder, set()).add(other)
    cycle = find_cycle(used)
    if cycle:
        problems.append("includes: cycle " + " -> ".join(cycle))
    return problems


def check_sizes(root):
    """Returns all sources that are too long and all folders with too many files, as lines to print."""
    problems, files = [], collections.Counter()
    for path in sorted(root.glob("*/**/*")):
        relative = path.relative_to(root)
        hidden = any(part.startswith((".", "__")) for part in relative.parts)
        if not path.is_file() or hidden or relative.parts[0] in NOT_OURS or path.suffix in DATA:
            continue
        files[relative.parent] += 1
        if path.suffix in SOURCES | {".py"}:
            lines = len(path.read_text(errors="replace").splitlines())
            if lines > MOST_LINES:
                problems.append(f"{relative}: {lines} lines, at most {MOST_LINES}")
    problems += [f"{folder}: {count} files, at most {MOST_FILES}" for folder, count in sorted(files.items())
                 if count > MOST_FILES]
    return problems


def main(arguments):
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parent.parent)
    problems = check(root.resolve()) + check_sizes(root.resolve())
    print("\n".join(problems) if problems else "every include follows tools/layers.txt; no file or folder is too large")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
