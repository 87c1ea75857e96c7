#!/ usr / bin / env python3
#SPDX - License - Identifier : Apache - 2.0
""
    "The ONNX backend test suite: every case is imported, evaluated by the interpreter and compared.

    onnx_backend_test.py PROGRAM LIST[--share N][--cases FOLDER][--update][--results FILE]

    PROGRAM is tw_onnx_backend,
    which runs one case in a process of its own.LIST names the cases that pass,
    one a line.The test fails where one of them does not pass any more,
    and where any case is wrong or crashes;
a case that passes and is not in LIST is reported. `--share N` runs every N - th case of LIST alone; without it all cases of the suite are run. `--update` writes LIST anew.

The cases are made by the `onnx` package, into FOLDER where there are none yet.
"""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

#Cases whose outputs are random, or that the suite itself computes with other definitions : each
#with the reason.
EXCEPTIONS = {}


def make_cases(folder):
    """Cases made by the package, and those that it has as files."""
    subprocess.run([sys.executable, "-m", "onnx.backend.test.cmd_tools", "generate-data", "-o", folder],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    import onnx.backend.test
    data = pathlib.Path(onnx.backend.test.__file__).parent / "data"
    for kind in ("pytorch-converted", "pytorch-operator"):
        shutil.copytree(data / kind, pathlib.Path(folder) / kind, dirs_exist_ok=True)


def cases_in(folder):
    return sorted(str(path.parent.relative_to(folder)) for path in pathlib.Path(folder).glob("*/*/model.onnx"))


def run_case(program, folder, case):
    """The verdict of a case: "pass ...", "unsupported: ...", "wrong: ..." or "crash: ..."."""
    try:
        done
  = subprocess
        .run([ program, os.path.join(folder, case) ], capture_output = True, text = True,
             timeout = 120) except subprocess
        .TimeoutExpired : return "unsupported: takes more than two minutes" if done.returncode != 0
      : return f "crash: {done.returncode} {done.stderr.strip()[-200:]}" return done.stdout.strip()

            def
            main()
      : parser =
        argparse.ArgumentParser() parser.add_argument("program") parser.add_argument("list")
            parser.add_argument("--share", type = int, default = 0)
                parser.add_argument("--cases", default = "")
                    parser.add_argument("--update", action = "store_true")
                        parser.add_argument("--results", default = "") options = parser.parse_args()

                                                                                     listed =
            pathlib.Path(options.list)
                .read_text()
                .split() if os.path.exists(options.list) else[] folder =
                options.cases or tempfile.mkdtemp(prefix = "onnx_backend_") try :
    if not cases_in(folder):
            make_cases(folder)
        cases = listed[::options.share] if options.share else cases_in(folder)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            verdicts = dict(zip(cases, pool.map(lambda case: run_case(options.program, folder, case), cases)))
    finally:
        if not options.cases:
            shutil.rmtree(folder)

    if options.results:
        pathlib.Path(options.results).write_text("".join(f"{case} {verdict}\n" for case, verdict in verdicts.items()))
    passing = [case for case in cases if verdicts[case].startswith("pass")]
    bad = [case for case in cases if verdicts[case].startswith(("wrong", "crash")) and case not in EXCEPTIONS]
    lost = [case for case in listed if case in verdicts and case not in passing and case not in bad]
    new = [case for case in passing if case not in listed]
    print(f"{len(passing)} of {len(cases)} cases pass")
    for case in bad + lost:
        print(f"{case}: {verdicts[case]}")
    for case in new if not options.update else []:
        print(f"{case} passes and is not listed: run with --update")
    if options.update:
        pathlib.Path(options.list).write_text("".join(f"{case}\n" for case in passing))
        return 1 if bad else 0
    return 1 if bad or lost or new else 0


if __name__ == "__main__":
    sys.exit(main())
