#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs models that people ship, unmodified: `./tw bench --zoo --output zoo.json`.

Each model of zoo.toml is fetched, planned without tuning, run, compared with ONNX Runtime and OpenVINO, and
timed with them by turns. A model that is refused has a row with the message. bench/README.md explains the
figures.
"""
import argparse
import contextlib
import fnmatch
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import onnx
from google.protobuf.message import DecodeError

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.append(str(FOLDER.parent))

import tables  # noqa: E402
from networks import (  # noqa: E402
    Failure, check_installed, check_output, document_head, findings_of, row_lines, shortened)
from network_contenders import PEERS  # noqa: E402
from reference import cache_directory  # noqa: E402
from zoo_compare import MARK  # noqa: E402
from zoo_fetch import FetchError, fetch, last_line, sha256  # noqa: E402
from zoo_table import TableError, dimensions, parsed  # noqa: E402

ROOT = FOLDER.parents[1]
USAGE, WRONG_OUTPUTS = 2, 6  # exit codes


# ---- processes --------------------------------------------------------------------------------


STOPPING = {signal.SIGINT, signal.SIGTERM}


def stopped(process):
    """Ends a process and all processes that it has started. Returns the process's output until then."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.communicate()


def finished(command, limit_s):
    """Runs a command and returns (exit code, stdout, stderr, seconds). The exit code is None if the command
    took longer than the limit; then the command and all processes that it has started are ended."""
    begun = time.monotonic()
    process = None
    # A signal between the start of the process and the `try` would leave it behind.
    held = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   errors="replace", start_new_session=True,
                                   preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, held))
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        out, err = process.communicate(timeout=limit_s)
        code = process.returncode
    except subprocess.TimeoutExpired:
        code, (out, err) = None, stopped(process)
    except BaseException:
        if process:
            stopped(process)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
    return code, out, err, time.monotonic() - begun


def refusal_of(code, stderr, limit_s):
    """Returns (stage, message) for a run of `tune --model` that wrote no artifact. The message is the first
    line of the error. If that line begins a list, the message also has the list's first item. The stage is
    "plan" if the program had reported that it plans the model, else "import"."""
    stage = "plan" if "tilewright: planning " in stderr else "import"
    if code is None:
        return stage, f"took longer than {limit_s:.0f} s"
    if code < 0:
        return stage, f"ended by signal {-code}"
    _, mark, error = stderr.rpartition("tilewright: [")
    if not mark:
        return stage, last_line(stderr)
    lines = (mark + error).removeprefix("tilewright: ").splitlines()
    # A line with a colon at its end begins a list, and has only the number of its items.
    return stage, " ".join(line.strip() for line in lines[:2 if lines[0].endswith(":") else 1])


def doing_of(stderr):
    """Returns the latest step that a comparison reported."""
    marked = [line.removeprefix(MARK) for line in stderr.splitlines() if line.startswith(MARK)]
    return marked[-1] if marked else last_line(stderr)


def death_of(code, limit_s):
    """Returns the reason why a process gave no result. `code` is its exit code, negative for a signal, or None
    if it took longer than `limit_s` seconds."""
    return (f"took longer than {limit_s:.0f} s" if code is None else
            f"ended by signal {-code}" if code < 0 else f"exit code {code}")


# ---- one model --------------------------------------------------------------------------------


def planned(entry, path, flags, artifact, threads, budget_s, options):
    """Plans a model and returns fields of a row: the seconds until the artifact was written and the predicted
    time of its plan, or the stage that failed. `flags` are the values of --dim. The program that plans begins
    without a database and without a cache."""
    folder = artifact.parent
    effort = ["--budget", f"{budget_s:g}s"] if budget_s else ["--effort", "none"]
    command = [options.build / "tools" / "tilewright", "tune", "--model", path, *effort, "--output", artifact,
               "--threads", str(threads), "--db", folder / "zoo.db", "--cache", folder / "cache",
               "--format", "json"]
    for dimension in flags:
        command += ["--dim", dimension]
    for constant in entry.constants.items():
        command += ["--constant", "{}={}".format(*constant)]
    code, out, stderr, seconds = finished(list(map(str, command)), options.limit + budget_s)
    if code == 0 and artifact.exists():
        predicted_us = json.loads(out)["predicted_ns"] / 1e3
        return {"stage": "planned", "planning_s": seconds, "predicted_us": predicted_us}
    stage, message = refusal_of(code, stderr, options.limit + budget_s)
    return {"stage": stage, "error": message.replace(str(path), path.name)}


def compared(entry, path, artifact, threads, options):
    """Runs zoo_compare.py and returns fields of a row. If a peer crashes the process, the comparison is run
    again without this peer."""
    request = {"model": str(path), "shapes": entry.shapes, "values": entry.values,
               "constants": entry.constants, "artifact": str(artifact),
               "library": str(options.build / "runtime" / "libtilewright_runtime.so"), "threads": threads,
               "rounds": options.rounds, "seed": options.seed,
               "tolerance": entry.tolerance or options.tolerance, "without": {}}
    while True:
        code, out, stderr, _ = finished([sys.executable, FOLDER / "zoo_compare.py", json.dumps(request)],
                                        options.limit)
        if code == 0:
            return json.loads(out)
        reason, doing = death_of(code, options.limit), doing_of(stderr)
        if doing not in PEERS or doing in request["without"]:
            return {"stage": "run", "error": f"comparing: {reason}: {doing}"}
        request["without"][doing] = reason


def row_of(entry, path, flags, threads, budget_s, options):
    row = {"name": entry.name, "origin": entry.origin, "threads": threads, "budget_s": budget_s}
    with tempfile.TemporaryDirectory() as folder:
        artifact = pathlib.Path(folder) / "model.twart"
        row.update(planned(entry, path, flags, artifact, threads, budget_s, options))
        if row["stage"] == "planned":
            row.update(compared(entry, path, artifact, threads, options))
    return row


def rows_of(entry, entries, options):
    """Returns the rows of a model: for each number of threads, one untuned and one tuned. There are no rows
    after one whose model was refused. Raises FetchError if the model cannot be fetched."""
    path = fetch(entry, entries, options.cache, options.exporter, options.limit)
    try:
        flags = dimensions(onnx.load(path, load_external_data=False), entry.shapes)
    except (TableError, DecodeError) as failure:
        raise FetchError(str(failure)) from None
    for threads in options.threads:
        for budget_s in [0, options.budget] if options.budget else [0]:
            row = row_of(entry, path, flags, threads, budget_s, options)
            yield row
            if row["stage"] in tables.REFUSED:
                return


# ---- the document -----------------------------------------------------------------------------


def document_of(findings, options):
    return {**document_head("zoo", findings),
            "program_sha256": sha256(options.build / "tools" / "tilewright"),
            "options": {"rounds": options.rounds, "threads": options.threads, "budget_s": options.budget,
                        "limit_s": options.limit, "seed": options.seed, "tolerance": options.tolerance},
            "rows": []}


def resumed(document, path):
    """Returns the rows of an earlier run of the same program with the same options."""
    try:
        earlier = json.loads(path.read_text())
    except FileNotFoundError:
        return []
    except ValueError:
        raise Failure(f"[zoo] --resume: {path} is no JSON", code=USAGE) from None
    for key in ("suite", "program_sha256", "machine", "options"):
        if earlier.get(key) != document[key]:
            raise Failure(f"[zoo] --resume: {path} was taken with another {key}: expected "
                          f"{json.dumps(document[key])}; without --resume it is replaced", code=USAGE)
    return earlier["rows"]


def write(document, path):
    unfinished = path.with_suffix(f".{os.getpid()}")
    unfinished.write_text(row_lines(shortened(document)))
    unfinished.replace(path)


def line_of(row):
    """The line of text that is printed for a row."""
    tuning = f"{row['budget_s']:g} s" if row["budget_s"] else "untuned"
    head = f"{row['name']:36} {row['threads']:2}  {tuning:8}"
    if "error" in row:
        return f"{head}{row['stage']}: {row['error']}"
    text = f"{head}planned in {row['planning_s']:.1f} s, error {row['error_ours']:.0e}"
    if "ratio" in row:
        text += (f", {row['ours_us'] / 1e3:.3f} ms, {row['peer'].split()[0]} {row['peer_us'] / 1e3:.3f} ms, "
                 f"ratio {row['ratio']:.3f} ({row['ratio_low']:.3f}-{row['ratio_high']:.3f})")
    return text + (f", disturbed: {row['disturbed']}" if row.get("disturbed") else "")


# ---- the command line -------------------------------------------------------------------------


def seconds_of(text):
    number = text.removesuffix("s")
    if not number.replace(".", "", 1).isdigit() or float(number) <= 0:
        raise argparse.ArgumentTypeError(f"'{text}': expected seconds, such as 40s")
    return float(number)


def threads_of(text):
    numbers = text.split(",")
    if not all(number.isdigit() and 1 <= int(number) <= os.cpu_count() for number in numbers):
        raise argparse.ArgumentTypeError(f"'{text}': expected numbers from 1 to {os.cpu_count()}, such as 1,2")
    return [int(number) for number in numbers]


def parse_options(arguments):
    parser = argparse.ArgumentParser(prog="tw bench --zoo", description=__doc__.splitlines()[0],
                                     allow_abbrev=False)
    parser.add_argument("--zoo", action="store_true", help="what ./tw bench goes by")
    parser.add_argument("--only", default="*", help="names or patterns, separated by commas: 'timm/*,dnsmos'")
    parser.add_argument("--source", choices=["wheels", "exports", "quantized"],
                        help="only models of wheels, only exports, or only those quantized of others")
    parser.add_argument("--threads", type=threads_of, default=[1], help="such as 1,2; default: 1")
    parser.add_argument("--budget", type=seconds_of, default=0, help="each model is tuned too, for so long")
    parser.add_argument("--rounds", type=int, default=10, help="0 compares outputs and times nothing")
    parser.add_argument("--limit", type=seconds_of, default=300, help="for each step of a model")
    parser.add_argument("--seed", type=int, default=1, help="of the inputs")
    parser.add_argument("--tolerance", type=float, default=1e-3,
                        help="largest error of an output over its largest value")
    parser.add_argument("--output", type=pathlib.Path, help="write the rows as JSON there, after each model")
    parser.add_argument("--resume", action="store_true", help="keep the rows that --output has")
    parser.add_argument("--list", action="store_true", help="print the names of the models, and end")
    parser.add_argument("--table", type=pathlib.Path, default=FOLDER / "zoo.toml", help="the table of models")
    parser.add_argument("--cache", type=pathlib.Path, default=cache_directory().parent / "zoo",
                        help="where models are kept")
    parser.add_argument("--exporter", type=pathlib.Path, default=ROOT / ".venv-zoo" / "bin" / "python",
                        help="a Python that has tools/requirements/zoo.txt")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release",
                        help="the build tree whose runtime and program are used")
    options = parser.parse_args(arguments)
    if options.rounds < 0:
        parser.error(f"--rounds {options.rounds}: expected 0 or more")
    if options.resume and not options.output:
        parser.error("--resume: expected --output FILE with the rows of the earlier run")
    return options


def chosen(entries, options):
    """Returns the entries that --source and --only select, in the table's order."""
    patterns = [pattern.strip() for pattern in options.only.split(",") if pattern.strip()]
    for pattern in patterns:
        if not fnmatch.filter([entry.name for entry in entries], pattern):
            raise Failure(f"[zoo] --only {pattern}: no model has such a name; --list prints all", code=USAGE)
    selected = [entry for entry in entries
                if any(fnmatch.fnmatchcase(entry.name, pattern) for pattern in patterns)
                and options.source in (None, entry.kind)]
    if not selected:
        source = f" --source {options.source}" if options.source else ""
        raise Failure(f"[zoo] --only {options.only}{source}: no model is left; --list prints all", code=USAGE)
    return selected


def run(options):
    entries = parsed(options.table.read_text())
    selected = chosen(entries, options)
    if options.list:
        width = max(len(entry.name) for entry in selected)
        print(*(f"{entry.name:{width}}  {entry.origin}" for entry in selected), sep="\n")
        return 0
    check_output(options.output)
    check_installed(list(PEERS))
    document = document_of(findings_of(options.build), options)
    document["rows"] = resumed(document, options.output) if options.resume else []
    done = {row["name"] for row in document["rows"]}
    missing = []
    for entry in selected:
        if entry.name in done:
            continue
        rows = []
        try:
            for row in rows_of(entry, entries, options):
                print(line_of(row), flush=True)
                rows.append(row)
        except FetchError as failure:
            print(f"tw bench: [zoo] {entry.name}: {failure}", file=sys.stderr)
            missing.append(entry.name)
        document["rows"] += rows
        if options.output:
            write(document, options.output)
    print(tables.zoo_summary(document))
    if missing:
        raise Failure(f"[zoo] {len(missing)} models could not be had: {', '.join(missing)}; the same line with "
                      "--resume tries them again")
    return WRONG_OUTPUTS if any(row["stage"] in tables.FAILED for row in document["rows"]) else 0


def main(arguments):
    try:
        return run(parse_options(arguments))
    except Failure as failure:
        print(f"tw bench: {failure}", file=sys.stderr)
        return failure.code
    except (TableError, OSError) as failure:
        print(f"tw bench: {failure}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        return 130


def stop_on_sigterm():
    """Makes SIGTERM raise an exception in the run, so that none of its processes stays behind."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


if __name__ == "__main__":
    stop_on_sigterm()
    sys.exit(main(sys.argv[1:]))
