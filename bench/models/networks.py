#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares whole networks with other runtimes: `./tw bench --model resnet50 --artifact net.twart`.

Outputs are compared with a reference in double before anything is timed; then the runtimes take turns
in this one process, on the same cores. bench/README.md explains the figures.
"""
import argparse
import functools
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.append(str(FOLDER.parent))

import first_class  # noqa: E402
import make_models  # noqa: E402
from counts import multiply_adds  # noqa: E402
from documents import (  # noqa: E402
    ENVIRONMENT, USAGE, WRONG_OUTPUTS, Failure, check_output, document_head, findings_of, row_lines, shortened)
from network_contenders import PEERS, Tilewright  # noqa: E402
from network_rounds import fastest, interleave, median_call, median_of, ratios  # noqa: E402
from reference import cache_directory, expected_outputs, random_inputs  # noqa: E402
from runtime_library import RuntimeFailure  # noqa: E402


# ---- the network ------------------------------------------------------------------------------


class Network:
    """A model with static shapes, its file, inputs, and the outputs that are expected for these
    inputs."""

    def __init__(self, name, model, path, inputs, expected):
        self.name, self.model, self.path = name, model, str(path)
        self.inputs, self.expected = inputs, expected

    @functools.cached_property
    def flops(self):
        return 2 * multiply_adds(self.model)

    def blank_outputs(self):
        """Arrays that have the shapes and types of the outputs."""
        types = {output.name: onnx.helper.tensor_dtype_to_np_dtype(
            output.type.tensor_type.elem_type) for output in self.model.graph.output}
        return {name: np.zeros(array.shape, types[name]) for name, array in self.expected.items()}

    def error_of(self, outputs):
        """Returns the largest difference of an output from its expected values, relative to the largest
        of these, for the worst output. Infinite if an output has a value that is not finite."""
        errors = [largest(outputs[name].astype(np.float64) - expected) / (largest(expected) or 1)
                  for name, expected in self.expected.items()]
        return float(max(errors)) if np.isfinite(errors).all() else float("inf")


def largest(array):
    """Magnitude of the largest element; 0 for an array without elements."""
    return np.abs(array.astype(np.float64)).max(initial=0)


def set_dimensions(model, dimensions):
    """Sets the values of symbolic dimensions of inputs; shapes of inner tensors are inferred again."""
    missing = set()
    for value in [*model.graph.input, *model.graph.output]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in dimensions:
                dim.dim_value = dimensions[dim.dim_param]
            elif dim.HasField("dim_param"):
                missing.add(dim.dim_param)
    if missing:
        raise Failure(f"[bench] --model: dimensions without a value: {', '.join(sorted(missing))}: "
                      "expected --dim NAME=NUMBER for each", code=USAGE)
    del model.graph.value_info[:]


def network_of(options, folder):
    """Makes the file of a standing network, or uses the given file. If dimensions are given, a copy of
    the file with these dimensions is made."""
    path, is_standing = pathlib.Path(options.model), options.model in make_models.NETWORKS
    if is_standing:
        model = make_models.network(options.model, options.batch).model()
    elif path.exists():
        model = onnx.load(path)
        set_dimensions(model, dict(options.dim))
    else:
        raise Failure(f"[bench] --model {path}: neither a file nor one of "
                      f"{', '.join(make_models.NETWORKS)}", code=USAGE)
    if is_standing or options.dim:
        path = folder / f"{path.stem}.onnx"
        onnx.save(model, path)
    inputs = random_inputs(model, options.seed)
    expected = expected_outputs(model, inputs, options.seed, cache_directory())
    return Network(path.stem, model, path, inputs, expected)


# ---- the machine ------------------------------------------------------------------------------


def pinned(threads):
    """Binds the process, and so the threads that it starts, to its first cores."""
    cores = sorted(os.sched_getaffinity(0))
    if threads > len(cores):
        raise Failure(f"[bench] --threads {threads}: {len(cores)} cores are usable", code=USAGE)
    os.sched_setaffinity(0, cores[:threads])


def peak_of(findings, threads):
    """Returns the GFLOP/s of f32 multiply-adds on `threads` threads; None if doctor has no figure for
    this number of threads."""
    measured = re.match(r"([0-9.]+) GFLOP/s on one thread [^,]*(?:, ([0-9.]+) on (\d+))?",
                        findings.get("peak", ""))
    if not measured:
        return None
    if threads == 1:
        return float(measured[1])
    return float(measured[2]) if measured[2] and int(measured[3]) == threads else None


def round_trip_of(findings):
    """Returns the time in ns in which a cache line moves from one core to another and back; None if
    there is only one core."""
    measured = re.match(r"([0-9.]+) ns for a cache line", findings.get("round trip", ""))
    return float(measured[1]) if measured else None


# ---- rows -------------------------------------------------------------------------------------


def made(kind, *arguments):
    """Makes a contender and runs it once. Loading and the first call are timed."""
    begun = time.perf_counter()
    contender = kind(*arguments)
    loaded = time.perf_counter()
    contender.run()
    contender.open_ms = 1e3 * (loaded - begun)
    contender.first_call_ms = 1e3 * (time.perf_counter() - loaded)
    return contender


def contenders_of(network, options):
    """Returns the contenders: ours first, if there is an artifact, then the peers."""
    outputs = network.blank_outputs()
    contenders = []
    if options.artifact:
        library = options.build / "runtime" / "libtilewright_runtime.so"
        contenders.append(made(Tilewright, options.artifact, network.inputs, outputs,
                               options.threads, library))
    for name in options.peer:
        contenders.append(made(PEERS[name], network.path, network.inputs, outputs, options.threads))
    return contenders


def figures_of(contender, error, times):
    """Returns the figures of one contender, without a comparison. `times` are the times of its calls in
    seconds."""
    median = median_call(times)
    return {"name": contender.name, "version": contender.version, "error": error,
            "open_ms": contender.open_ms, "first_call_ms": contender.first_call_ms,
            "fastest_us": 1e6 * fastest(times), "median_us": 1e6 * median.value,
            "median_low_us": 1e6 * median.low, "median_high_us": 1e6 * median.high}


def times_of(who, figures):
    """The fields of one side of a row."""
    return {f"{who}_us": figures["median_us"], f"{who}_low_us": figures["median_low_us"],
            f"{who}_high_us": figures["median_high_us"], f"{who}_least_us": figures["fastest_us"]}


def versus(ours, peer, times):
    """Returns the fields of a row that compare medians of ours and a peer. `times` has the times of
    both."""
    ratio = median_of(ratios(*times))
    return {**times_of("ours", ours), **times_of("peer", peer),
            "ratio": ratio.value, "ratio_low": ratio.low, "ratio_high": ratio.high,
            "rounds": len(times[0]), "peer": f"{peer['name']} {peer['version']}",
            "error_ours": ours["error"], "error_peer": peer["error"]}


def row_of(network, threads, ours, peer, times, peak):
    """Returns the row of ours against a peer, with the speeds of both. `times` has the times of
    both."""
    gflops = network.flops / ours["median_us"] / 1e3
    return {"name": network.name, "threads": threads, **versus(ours, peer, times),
            "flops": network.flops, "gflops": gflops,
            "peer_gflops": network.flops / peer["median_us"] / 1e3, "peak_gflops": peak,
            "peak_share": gflops / peak if peak else None}


def compare(network, contenders, options, peak):
    """Compares the contenders. Returns a row of ours against each peer, and the figures of all
    contenders. A contender with wrong outputs is not timed, and its row has the error."""
    errors = [network.error_of(contender.outputs()) for contender in contenders]
    wrong = [{"name": network.name, "threads": options.threads,
              "error": f"{c.name}: outputs differ by {e:.1e} of the largest, more than "
                       f"{options.tolerance:.0e}"}
             for c, e in zip(contenders, errors) if not e <= options.tolerance]
    right = [(c, e) for c, e in zip(contenders, errors) if e <= options.tolerance]
    if wrong and not right:
        return wrong, []
    times = interleave([contender for contender, _ in right], options.rounds)
    figures = [figures_of(*who, taken) for who, taken in zip(right, times)]
    rows = []
    if figures and figures[0]["name"] == Tilewright.name:
        for peer, taken in zip(figures[1:], times[1:]):
            rows.append(row_of(network, options.threads, figures[0], peer, (times[0], taken), peak))
    return rows + wrong, figures


# ---- the report -------------------------------------------------------------------------------


def document_of(network, options, findings, rows, figures, classes):
    return {**document_head("networks", findings),
            "options": {"rounds": options.rounds, "threads": options.threads, "batch": options.batch,
                        "seed": options.seed, "tolerance": options.tolerance},
            "network": {"name": network.name, "flops": network.flops},
            **({"first_class": classes} if classes else {}),
            "contenders": figures, "rows": rows}


def round_trip_line(times):
    """Returns a line of text about the round-trip times before and after the comparison; empty if they
    were not measured."""
    if not times or None in times:
        return []
    return [f"a cache line goes from one core to another and back in {times[0]:.0f} ns before, "
            f"{times[1]:.0f} ns after"]


def table_of(document):
    network, threads = document["network"], document["options"]["threads"]
    lines = [f"{network['name']}, {network['flops'] / 1e9:.2f} GFLOP, threads: {threads}",
             *round_trip_line(document["machine"].get("round_trip_ns")),
             f"{'':24}{'fastest ms':>11}{'median ms':>11}{'interval':>19}{'load ms':>9}{'error':>9}"]
    for f in document["contenders"]:
        interval = f"{f['median_low_us'] / 1e3:.3f}-{f['median_high_us'] / 1e3:.3f}"
        lines.append(f"{f['name'] + ' ' + f['version']:24}{f['fastest_us'] / 1e3:11.3f}"
                     f"{f['median_us'] / 1e3:11.3f}{interval:>19}{f['open_ms']:9.1f}"
                     f"{f['error']:9.0e}")
    for row in document["rows"]:
        if "error" in row:
            lines.append(f"not timed: {row['error']}")
            continue
        share = f", {100 * row['peak_share']:.0f} % of the peak" if row["peak_share"] else ""
        lines.append(f"against {row['peer']}: ratio {row['ratio']:.3f} "
                     f"({row['ratio_low']:.3f}-{row['ratio_high']:.3f}), "
                     f"{row['gflops']:.1f} GFLOP/s{share}")
    classes = document.get("first_class")
    if classes:
        lines.append(f"the first class of {classes['images']} images, of which double is clear about "
                     f"{classes['clear']}, is that of double: " + ", ".join(
                         f"{name} {count}" for name, count in classes["equal"].items()))
    return "\n".join(lines) + "\n"


# ---- the command line -------------------------------------------------------------------------


def peers_of(text):
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in PEERS:
            raise argparse.ArgumentTypeError(f"'{name}': expected some of {', '.join(PEERS)}")
    return names


def dimension_of(text):
    name, _, value = text.partition("=")
    if not name or not value.isdigit() or int(value) < 1:
        raise argparse.ArgumentTypeError(f"'{text}': expected NAME=NUMBER")
    return name, int(value)


def parsed(arguments):
    parser = argparse.ArgumentParser(prog="tw bench", description=__doc__.splitlines()[0],
                                     allow_abbrev=False)
    parser.add_argument("--model", required=True, help="a standing network or an ONNX file")
    parser.add_argument("--artifact", help="ours: what `tune --model` made of it")
    parser.add_argument("--peer", type=peers_of, default=list(PEERS),
                        help=f"some of {','.join(PEERS)}; default: all")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--batch", type=int, default=1, help="images of a standing network")
    parser.add_argument("--dim", type=dimension_of, action="append", default=[], metavar="NAME=NUMBER",
                        help="the value of a symbolic dimension of the file")
    parser.add_argument("--seed", type=int, default=1, help="of the inputs")
    parser.add_argument("--tolerance", type=float, default=1e-4,
                        help="largest error of an output over its largest value")
    parser.add_argument("--images", type=int, default=0,
                        help="compare the class that comes first for so many random images, too")
    parser.add_argument("--output", help="write the results as JSON there too")
    parser.add_argument("--format", choices=["table", "json"], default="table")
    parser.add_argument("--build", type=pathlib.Path, default=FOLDER.parents[1] / "build" / "release",
                        help="the build tree whose runtime and program are used")
    options = parser.parse_args(arguments)
    for name in ("threads", "rounds", "batch"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} {getattr(options, name)}: expected 1 or more")
    if options.images < 0:
        parser.error(f"--images {options.images}: expected 0 or more")
    return options


def classes_of(network, contenders, options, folder):
    """Returns the result of first_class.agreement(); None if no images were requested."""
    if options.images == 0:
        return None
    double = first_class.double_contender(network, options, folder)
    return first_class.agreement(network, contenders, double, options.images, options.seed)


def check_installed(peers):
    missing = [name for name in peers if importlib.util.find_spec(name) is None]
    if missing:
        raise Failure(f"[bench] --peer {','.join(missing)}: not installed; "
                      "install tools/requirements/bench.txt")


def run(options):
    check_output(options.output)
    check_installed(options.peer)
    findings = findings_of(options.build)
    pinned(options.threads)
    round_trips = [round_trip_of(findings_of(options.build))] if options.threads > 1 else []
    with tempfile.TemporaryDirectory() as folder:
        network = network_of(options, pathlib.Path(folder))
        if options.images and len(network.expected) != 1:
            raise Failure(f"[bench] --images: {network.name} has {len(network.expected)} outputs: "
                          "expected one, of classes", code=USAGE)
        contenders = contenders_of(network, options)
        rows, figures = compare(network, contenders, options, peak_of(findings, options.threads))
        classes = classes_of(network, contenders, options, pathlib.Path(folder))
    document = shortened(document_of(network, options, findings, rows, figures, classes))
    if options.threads > 1:
        # Virtual processors may have moved to cores that lie closer together, or farther apart.
        document["machine"]["round_trip_ns"] = [*round_trips, round_trip_of(findings_of(options.build))]
    print(row_lines(document) if options.format == "json" else table_of(document), end="", flush=True)
    if options.output:
        pathlib.Path(options.output).write_text(row_lines(document))
    return WRONG_OUTPUTS if any("error" in row for row in rows) else 0


def main(arguments):
    options = parsed(arguments)
    try:
        return run(options)
    except Failure as failure:
        print(f"tw bench: {failure}", file=sys.stderr)
        return failure.code
    except RuntimeFailure as failure:
        print(f"tw bench: {failure}", file=sys.stderr)
        return failure.status
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
