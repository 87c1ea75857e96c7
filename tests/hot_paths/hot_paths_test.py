# SPDX-License-Identifier: Apache-2.0
"""Compares the instructions of the tuner's hot paths with instructions.json.

    hot_paths_test.py <hot_paths program> <instructions.json>

Counts do not depend on what else the machine does, so a difference of more than 5 % is no noise and
fails the test. They do depend on the compiler and the build type. The test is skipped (exit code
77) if these differ from those in the file, or if there is no valgrind. With TW_UPDATE_GOLDEN=1 the
test writes the file anew; the difference between the files shows which paths became faster or
slower.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOLERANCE = 0.05
SKIPPED = 77
PATHS = ["hot_schedule", "hot_lower", "hot_features", "hot_predict", "hot_append", "hot_look_up"]

# libc and libcrypto choose their code by the features of the processor. These settings make them
# take the plainest code, so that counts agree between machines.
PLAIN = {
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-AVX,-AVX512F,-SSE4_2,-SSSE3,-ERMS,-FSRM,-BMI2",
    "OPENSSL_ia32cap": "0:0",
}


def count(program, path):
    """Returns the number of instructions that `program` executes while the function `path` runs."""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
             f"--toggle-collect={path}", str(program), folder],
            capture_output=True, text=True, env={**os.environ, **PLAIN}, timeout=500)
    collected = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode != 0 or not collected:
        sys.exit(f"{program} under valgrind:\n{run.stdout}{run.stderr}")
    return int(collected[1])


def problem(path, was, now):
    """Returns one line that names the change, or None if the change is within the tolerance."""
    change = now / was - 1
    if abs(change) <= TOLERANCE:
        return None
    how = "slower" if change > 0 else "faster"
    return f"{path} is {how}: {now:,} instructions, {was:,} expected ({change:+.1%})"


def main():
    program, golden = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    if not shutil.which("valgrind"):
        print("[SKIP] there is no valgrind: install the [test] part of tools/packages.txt")
        return SKIPPED
    compiler = subprocess.run([program, "--compiler"], capture_output=True, text=True,
                              check=True).stdout.strip()
    update = os.environ.get("TW_UPDATE_GOLDEN")
    expected = json.loads(golden.read_text()) if golden.exists() else {}
    if not update and expected.get("compiler") != compiler:
        print(f"[SKIP] counts are of '{expected.get('compiler')}', this build is '{compiler}'")
        return SKIPPED
    counts = {path: count(program, path) for path in PATHS}
    for path, now in counts.items():
        print(f"{path}: {now:,}")
    if update:
        golden.write_text(json.dumps({"compiler": compiler, "instructions": counts}, indent=2) + "\n")
        return 0
    problems = [problem(path, expected["instructions"][path], now) for path, now in counts.items()]
    problems = [line for line in problems if line]
    for line in problems:
        print(line)
    if problems:
        print("Where it is meant: TW_UPDATE_GOLDEN=1 ctest -R hot_paths, and commit the file with "
              "the reason.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
