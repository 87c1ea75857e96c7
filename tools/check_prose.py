#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the form of comments and of pages, as docs/hacking.md asks for it.

Usage: tools/check_prose.py [root] [path ...]. Prints a line for each fault and exits with 1 if there is any.

A comment or docstring has to begin with its subject, so it must not begin with a word of OPENINGS. A source has to
begin with a line that has its licence and nothing else. A line of a page may have at most 100 columns, except in
tables and code, and lines that are one long word.
"""

import ast
import io
import pathlib
import re
import sys
import tokenize

OPENINGS = {"What", "Whether", "How", "Of", "Which", "Where", "Whose", "Why"}
LICENCE = re.compile(r"(#!.*\n)?(//|#|/\*) SPDX-License-Identifier: Apache-2\.0( \*/)?\n")
COLUMNS = 100
NOT_OURS = {"build"}  # folders that are not checked, like files and folders whose name begins with a dot
RAW_STRING = re.compile(r'R"([^\s()\\]{0,16})\(.*?\)\1"', re.DOTALL)
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'')
COMMENT = re.compile(r"^(?P<code>.*?)//[/!]?<? ?(?P<text>.*)$")


def comments(text):
    """Yields (line number, text) of each comment that starts with `//`. Successive lines of comment that begin in the
    same column are one comment."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())

    lines = STRING.sub(blank, RAW_STRING.sub(blank, text)).split("\n")
    begun, parts, column = 0, [], -1
    for number, line in enumerate([*lines, ""], 1):
        match = COMMENT.match(line)
        starts = match is not None and (bool(match["code"].strip()) or len(match["code"]) != column)
        if parts and (match is None or starts):
            yield begun, " ".join(parts)
            parts, column = [], -1
        if match is None:
            continue
        if not parts:
            begun, column = number, len(match["code"])
        parts.append(match["text"].strip())


def python_comments(text):
    """Yields (line number, first line) of each comment and docstring. Successive lines of `#` that begin in the same
    column are one comment."""
    before = (0, 0)  # line and column of the latest line of comment
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, column = token.start
        if before != (line - 1, column):
            yield line, token.string.lstrip("# ")
        before = (line, column)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node)
            if docstring:
                yield node.body[0].lineno, docstring.splitlines()[0]


def faults_of_comments(found):
    """Yields (line number, fault) of each comment that does not begin with its subject. `found` has the pairs of
    comments()."""
    for line, comment in found:
        word = re.match(r"\w*", comment).group()
        if word in OPENINGS:
            yield line, f"the comment begins with '{word}', not with its subject: {comment[:60]}"


def faults_of_licence(text):
    """Yields (1, fault) if a source does not begin with a licence line."""
    if text and not LICENCE.match(text):
        yield 1, "no line that has 'SPDX-License-Identifier: Apache-2.0' and nothing else"


def faults_of_source(text):
    return faults_of_comments(comments(text))


def faults_of_python(text):
    """Returns (line number, fault) of each comment of a Python source that does not begin with its subject. If the text
    is not valid Python, returns only that fault."""
    try:
        return list(faults_of_comments(python_comments(text)))
    except SyntaxError as error:
        return [(error.lineno or 1, f"not valid Python: {error.msg}")]
    except tokenize.TokenError as error:
        message, (line, _) = error.args
        return [(line, f"not valid Python: {message}")]


def faults_of_page(text):
    """Yields (line number, fault) of each line of prose that is too wide."""
    fenced = indented = False
    before = ""
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            blank = not line.strip()
            indented = (line.startswith("    ") and (indented or not before.strip())) or (indented and blank)
            prose = not indented and not line.lstrip().startswith(("|", "<", "#", "!["))
            if prose and len(line) > COLUMNS and " " in line[:COLUMNS].strip():
                yield number, f"{len(line)} columns, at most {COLUMNS}"
        before = line


RULES = {".h": faults_of_source, ".cpp": faults_of_source, ".def": faults_of_source, ".py": faults_of_python,
         ".md": faults_of_page}


def faults_of(path):
    """Returns (line number, fault) of each fault of a file; [] for kinds of files without rules."""
    rules = RULES.get(path.suffix)
    if not rules:
        return []
    text = path.read_text(errors="replace")
    return [*(faults_of_licence(text) if path.suffix != ".md" else ()), *rules(text)]


def files(root):
    """Yields the files in root and in all folders below it, except NOT_OURS."""
    for entry in sorted(root.iterdir()):
        if entry.name in NOT_OURS or entry.name.startswith("."):
            continue
        for path in sorted(entry.rglob("*")) if entry.is_dir() else [entry]:
            if path.is_file():
                yield path


def main(arguments):
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parent.parent).resolve()
    chosen = [root / argument for argument in arguments[1:]] or files(root)
    problems = [f"{path.relative_to(root)}:{line}: {fault}" for path in chosen for line, fault in faults_of(path)]
    print("\n".join(problems) if problems else
          "every source names its licence; every comment begins with its subject; no line of a page is too wide")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
