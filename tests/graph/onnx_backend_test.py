#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the ONNX backend test suite: imports every case, evaluates it and compares the outputs.

  onnx_backend_test.py PROGRAM LIST FOLDER [--share N] [--update] [--results FILE]

PROGRAM is tw_onnx_backend, which runs one case in a process of its own. LIST names the cases that
pass, one per line. The test fails if a case of LIST does not pass, if another case passes, or if
any case is wrong or crashes.

By default, all cases of the suite are run. With `--share N`, only every N-th case of LIST is run,
unless TW_NIGHTLY is set. `--update` writes LIST again. `--results` writes the verdict of each case.

If FOLDER does not exist, the `onnx` package makes the cases there.
"""

import argparse
import concurrent.futures
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

def write_case(folder, case):
    """Writes a case as model.onnx and files of tensors. False if a port is no tensor."""
    import onnx
    ports = [*case.model.graph.input, *case.model.graph.output]
    if not all(port.type.HasField("tensor_type") for port in ports):
        return False
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    for index, (inputs, outputs) in enumerate(case.data_sets):
        data = folder / f"test_data_set_{index}"
        data.mkdir()
        for stem, arrays in (("input", inputs), ("output", outputs)):
            for position, array in enumerate(arrays):
                tensor = array if isinstance(array, onnx.TensorProto) else onnx.numpy_helper.from_array(array)
                (data / f"{stem}_{position}.pb").write_bytes(tensor.SerializeToString())
    return True


def make_cases(folder):
    """Writes the cases that the package makes, and copies the cases that it has as files."""
    import numpy
    import onnx.backend.test
    import onnx.backend.test.case.node
    numpy.random.seed(0)
    numpy.seterr(all="ignore")
    made = pathlib.Path(tempfile.mkdtemp(dir=folder.parent))
    with contextlib.redirect_stdout(None), warnings.catch_warnings(action="ignore"):
        cases = onnx.backend.test.case.node.collect_testcases(None)
    left_out = sum(not write_case(made / "node" / case.name, case) for case in cases)
    data = pathlib.Path(onnx.backend.test.__file__).parent / "data"
    for kind in ("pytorch-converted", "pytorch-operator", "simple"):
        shutil.copytree(data / kind, made / kind)
    made.rename(folder)
    print(f"made the cases; left out {left_out} with sequences, maps or optional values")


def cases_in(folder):
    return sorted(str(path.parent.relative_to(folder)) for path in pathlib.Path(folder).glob("*/*/model.onnx"))


def run_case(program, folder, case):
    """Returns the verdict: "pass...", "unsupported: ...", "wrong: ..." or "crash: ..."."""
    try:
        done = subprocess.run([program, os.path.join(folder, case)], capture_output=True, text=True,
                              timeout=120)
    except subprocess.TimeoutExpired:
        return "crash: takes more than two minutes"
    if done.returncode != 0:
        return f"crash: {done.returncode} {done.stderr.strip()[-200:]}"
    return done.stdout.strip()


def report(verdicts, listed, updates):
    """Prints cases that differ from LIST. Returns the passing cases and True if the test fails."""
    passing = [case for case in verdicts if verdicts[case].startswith("pass")]
    bad = [case for case in verdicts if verdicts[case].startswith(("wrong", "crash"))]
    lost = [case for case in listed if case in verdicts and case not in passing and case not in bad]
    new = [case for case in passing if case not in listed]
    print(f"{len(passing)} of {len(verdicts)} cases pass")
    for case in bad + lost:
        print(f"{case}: {verdicts[case]}")
    if updates:
        return passing, bool(bad)
    for case in new:
        print(f"{case} passes and is not listed: run with --update")
    return passing, bool(bad or lost or new)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("list", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--share", type=int, default=0)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--results", type=pathlib.Path)
    options = parser.parse_args()

    if not options.folder.exists():
        make_cases(options.folder)
    listed = options.list.read_text().split() if options.list.exists() else []
    is_short = options.share and "TW_NIGHTLY" not in os.environ
    cases = listed[::options.share] if is_short else cases_in(options.folder)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda case: run_case(options.program, options.folder, case), cases)
        verdicts = dict(zip(cases, results))
    if options.results:
        options.results.write_text("".join(f"{case} {verdicts[case]}\n" for case in cases))
    passing, fails = report(verdicts, listed, options.update)
    if options.update:
        options.list.write_text("".join(f"{case}\n" for case in passing))
    return 1 if fails else 0


if __name__ == "__main__":
    sys.exit(main())
