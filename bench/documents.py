# SPDX-License-Identifier: Apache-2.0
"""Makes the first fields and the text of the JSON documents that the benchmarks in Python write."""
import datetime
import json
import os
import pathlib
import re
import subprocess

SCHEMA_VERSION = 2  # version of the documents, as in bench/report.h
USAGE, WRONG_OUTPUTS, ENVIRONMENT = 2, 6, 7  # exit codes


class Failure(Exception):
    """An error that is shown to the user in one line and ends the program with an exit code."""

    def __init__(self, message, code=ENVIRONMENT):
        super().__init__(message)
        self.code = code


def check_output(path):
    """Raises Failure if no file can be written at the path. Called before long work, so that its results are not
    lost. Does nothing if `path` is None, i.e. if no file was asked for."""
    if path is None:
        return
    path = pathlib.Path(path)
    if path.is_dir():
        raise Failure(f"[bench] --output {path}: it is a directory: name a file in it", code=USAGE)
    if not path.parent.is_dir():
        raise Failure(f"[bench] --output {path}: there is no directory {path.parent}: make it")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise Failure(f"[bench] --output {path}: it cannot be written: name another file")


def findings_of(build):
    """Returns the texts of the findings of `tilewright doctor`, by name. Raises Failure if the program is not
    built."""
    program = build / "tools" / "tilewright"
    if not program.exists():
        raise Failure(f"[bench] --build {build}: there is no {program.relative_to(build)}: expected a "
                      "build tree")
    # Its exit code says whether the machine can tune, which does not matter here.
    done = subprocess.run([program, "doctor", "--format", "json"], stdout=subprocess.PIPE, text=True)
    findings = json.loads(done.stdout)["findings"]
    return {finding["name"]: finding["text"] for finding in findings}


def processor():
    with open("/proc/cpuinfo") as file:
        names = re.findall(r"^model name\s*: (.*)$", file.read(), re.MULTILINE)
    return names[0] if names else "unknown"


def document_head(suite, findings):
    """Returns the first fields of every JSON document: its version, suite and date, the program and the
    machine."""
    return {"schema_version": SCHEMA_VERSION, "suite": suite,
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
            "program_version": findings.get("program", "").rpartition("version ")[2],
            "machine": {"cpu": processor(), "target": findings.get("target"),
                        "device": findings.get("machine"), "cores": os.cpu_count()}}


def shortened(value):
    """Returns a copy of the value with all numbers rounded to five significant digits."""
    if isinstance(value, dict):
        return {key: shortened(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shortened(item) for item in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def row_lines(document):
    """Returns the text of a JSON document with one line for each row, as row_lines() of bench/summary.h does."""
    lines = []
    for key, value in document.items():
        text = json.dumps(value, ensure_ascii=False)
        if isinstance(value, list) and value:
            text = "[\n    " + ",\n    ".join(
                json.dumps(item, ensure_ascii=False) for item in value) + "\n  ]"
        lines.append(f"  {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
