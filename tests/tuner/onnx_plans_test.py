#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ONNX backend test suite as networks: cases that pass by the interpreter are planned, built and run.

  onnx_plans_test.py PROGRAM PASSING EXCEPTIONS FOLDER [--share N] [--update] [--results FILE]

PROGRAM is tw_onnx_plans. PASSING names the cases that pass by the interpreter, one a line (the list
of onnx_backend_test.py). EXCEPTIONS names the cases that cannot be planned or run, each with its
verdict. The test fails if a case that is no exception does not pass, or if an exception passes or
has another kind of verdict. `--share N` runs every N-th case of PASSING only, unless TW_NIGHTLY is
set. `--update` writes EXCEPTIONS anew. `--results` writes the verdict of each case to FILE.
"""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "graph"))
import onnx_backend_test  # noqa: E402

BATCH = 24
TIMEOUT_S = 600


def run_batch(program, folder, cases):
    """Returns the verdict of each case. One process runs all cases. If it dies, the first case
    without a verdict has crashed, and a new process runs the cases after it."""
    verdicts = {}
    left = list(cases)
    while left:
        try:
            done = subprocess.run([program, folder, *left], capture_output=True, text=True, timeout=TIMEOUT_S)
            said, why = done.stdout, f"{done.returncode} {done.stderr.strip()[-200:]}"
        except subprocess.TimeoutExpired as late:
            said, why = (late.stdout or b"").decode(), f"takes more than {TIMEOUT_S} s"
        for line in said.splitlines():
            case, _, verdict = line.partition(" ")
            verdicts[case] = verdict
        left = [case for case in left if case not in verdicts]
        if left:
            verdicts[left.pop(0)] = f"crash: {why}"
    return verdicts


def kind(verdict):
    return verdict.partition(":")[0]


def read_exceptions(path):
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split(" ", 1) for line in lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("passing", type=pathlib.Path)
    parser.add_argument("exceptions", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--share", type=int, default=0)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--results", type=pathlib.Path)
    options = parser.parse_args()

    if not options.folder.exists():
        onnx_backend_test.make_cases(options.folder)
    cases = options.passing.read_text().split()
    if options.share and "TW_NIGHTLY" not in os.environ:
        cases = cases[::options.share]
    batches = [cases[i:i + BATCH] for i in range(0, len(cases), BATCH)]
    verdicts = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(lambda batch: run_batch(options.program, options.folder, batch), batches):
            verdicts.update(found)
    if options.results:
        options.results.write_text("".join(f"{case} {verdicts[case]}\n" for case in cases))
    exceptions = read_exceptions(options.exceptions)
    bad = {case: verdict for case, verdict in verdicts.items() if verdict != "pass"}
    print(f"{len(verdicts) - len(bad)} of {len(verdicts)} cases pass")
    fails = False
    for case, verdict in verdicts.items():
        expected = exceptions.get(case, "pass")
        if kind(verdict) != kind(expected):
            fails = True
            print(f"{case}: {verdict}\n  expected: {expected}")
    if options.update:
        kept = {case: verdict for case, verdict in exceptions.items() if case not in verdicts}
        options.exceptions.write_text("".join(f"{case} {verdict}\n" for case, verdict in sorted({**kept, **bad}.items())))
        return 0
    return int(fails)


if __name__ == "__main__":
    sys.exit(main())
