#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collects figures of kernels for a GPU that need no GPU: the times that the cost model predicts, and compile times.

    bench/gpu_expected.py [--build build/release] [--only REGEX] [--output bench/results/MACHINE/gpu_expected.json]

For each standing workload, `tilewright show` and `tilewright explain` choose a schedule without any records. A row has
the predicted time of this schedule, the resource that limits it, the occupancy of each of its launches, and the bytes
of spilled registers. Then NVRTC compiles the CUDA text of all schedules, in two passes. The exit code is 1 if faults_of()
finds a fault, such as a kernel that spills registers; `bench/tables.py` refuses such a file, too.

Needs NVRTC, but no GPU and no driver. Takes about 20 minutes on two cores.
"""
import argparse
import ctypes
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

import documents

FOLDER = pathlib.Path(__file__).resolve().parent
TARGET = "cuda:sm_90a"
PASSES = 2  # times that all texts are compiled

CHANNELS_LAST = ("--layout", "in=NHWC", "--layout", "out=NHWC")
# Columns of a row of bench/workloads after its name, by the number of its columns, and the operator.
COLUMNS = {5: ("b m n k".split(), "dense"),
           12: ("n c h w k r s stride pad dilation groups".split(), "conv2d")}

# The root mean square norm is no operator of the program.
RMS_NORM = {
    "f32": """input in: f32[8192, 4096]
weight scale: f32[4096]
square: f32[i=8192] = sum(j=4096) in[i, j] * in[i, j]
out: f32[i=8192, j=4096] = in[i, j] / sqrt(square[i] / 4096.0 + 1e-5) * scale[j]
""",
    "bf16": """input in: bf16[8192, 4096]
weight scale: f32[4096]
square: f32[i=8192] = sum(j=4096) f32(in[i, j]) * f32(in[i, j])
out: bf16[i=8192, j=4096] = bf16(f32(in[i, j]) / sqrt(square[i] / 4096.0 + 1e-5) * scale[j])
"""}


@dataclass(frozen=True)
class Item:
    """A workload: its group, which is a table of the page, and the flags and the standard input by which the program
    gets it."""
    group: str
    name: str
    flags: tuple
    text: str = ""


# ---- workloads ----------------------------------------------------------------------------------


def operator(op, shape, dtype=None):
    return "--op", op, "--shape", shape, *(("--dtype", dtype) if dtype else ())


def of_suite(table, group, dtype=None, batch=1, others=()):
    """Yields the workloads of a file of bench/workloads. `batch` replaces the number of images."""
    for line in (FOLDER / "workloads" / f"{table}.tsv").read_text().splitlines():
        name, *columns = line.split("\t")
        if line.startswith("#"):
            continue
        if len(columns) == 2:
            flags = operator(*columns, dtype)
        else:
            names, op = COLUMNS[5 if len(columns) == 4 else 12]
            sizes = dict(zip(names, columns))
            if op == "dense" and sizes["b"] != "1":
                op = "batch_matmul"
            elif op == "dense":
                del sizes["b"]
            else:
                sizes["n"] = str(batch)
            flags = operator(op, " ".join(f"{key}={value}" for key, value in sizes.items()), dtype)
        yield Item(group, name, (*flags, *others))


def of_large_arrays():
    """Yields operators other than products, on arrays that fill a GPU."""
    for dtype in ("f32", "bf16"):
        group = f"large arrays, {dtype}"
        for name, op, shape in (("softmax_8192_4096", "softmax", "rows=8192 cols=4096"),
                                ("layernorm_8192_4096", "layer_norm", "rows=8192 cols=4096"),
                                ("add_relu_32_256_56", "add_relu", "n=32 c=256 h=56 w=56"),
                                ("gelu_8192_3072", "gelu", "rows=8192 cols=3072")):
            yield Item(group, name, operator(op, shape, dtype))
        yield Item(group, "rmsnorm_8192_4096", ("--expr", "-"), RMS_NORM[dtype])


def standing():
    """Returns all workloads, in the order of the page. The first groups are the suites that tools/gpu_session tunes on
    a GPU."""
    items = []
    for dtype in ("bf16", "f32"):
        items += [*of_suite("gemm", f"`gemm`, {dtype}", dtype), *of_suite("gemm_large", f"`gemm_large`, {dtype}", dtype)]
    for dtype, others in (("bf16", CHANNELS_LAST), ("f32", ())):
        for batch in (1, 32):
            layouts = ", in=NHWC out=NHWC" if others else ""
            images = "1 image" if batch == 1 else f"{batch} images"
            items += of_suite("resnet50_conv", f"`resnet50_conv`, {dtype}, {images}{layouts}", dtype, batch, others)
    for dtype in ("f32", "bf16"):
        items += of_suite("attention", f"`attention`, {dtype}", dtype)
    items += of_large_arrays()
    for table, group in (("other", "`other`, f32"), ("few_bits", "`few_bits`"),
                         ("resnet50_qlinear", "`resnet50_qlinear`, 1 image"),
                         *((table, f"`{table}`, f32, 1 image") for table in ("vgg16_conv", "inception_conv", "odd_conv"))):
        items += of_suite(table, group)
    return items


# ---- schedules ----------------------------------------------------------------------------------


class Program:
    """The program without its databases, so that only the cost model chooses."""

    def __init__(self, build, folder):
        self.path = build / "tools" / "tilewright"
        self.flags = ("--target", TARGET, "--db", str(folder / "none.db"), "--shipped", "none", "--format", "json")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("TILEWRIGHT_")}

    def answer(self, verb, item, *flags):
        """Returns the JSON that a verb prints about a workload."""
        done = subprocess.run([self.path, verb, *item.flags, *flags, *self.flags], input=item.text,
                              capture_output=True, text=True, env=self.environment)
        if done.returncode != 0:
            raise documents.Failure(f"[gpu_expected] {verb} {' '.join(item.flags)}: exit code {done.returncode}: "
                                    f"{done.stderr.strip()}")
        return json.loads(done.stdout)


def children_seconds():
    """Returns the processor time of all processes that this one has started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def row_of(item, program):
    """Returns the row of a workload, without compile times, and the CUDA text of its schedule."""
    begin, used = time.monotonic(), children_seconds()
    shown = program.answer("show", item, "--cuda")
    choice_s, choice_cpu_s = time.monotonic() - begin, children_seconds() - used
    explained = program.answer("explain", item)
    gpu = explained["gpu"]
    phases = gpu["phases"]
    row = {"name": item.name, "group": item.group, "workload": shown["workload"], "layouts": shown["layouts"],
           "schedule_from": shown["schedule_from"], "choice_s": choice_s, "choice_cpu_s": choice_cpu_s,
           "expected_us": explained["analytic_ns"] / 1e3, "limited_by": explained["limited_by"],
           "launches": len(phases), "spilled_bytes": int(sum(phase["spilled_bytes"] for phase in phases)),
           "registers_estimated": any(phase["registers_estimated"] for phase in phases)}
    for field in ("occupancy", "blocks", "threads", "shared_bytes", "registers"):
        row[field] = [phase[field] if field == "occupancy" else int(phase[field]) for phase in phases]
    row["occupancy_limited_by"] = [phase["limited_by"] for phase in phases]
    if gpu["advice"]:
        row["advice"] = gpu["advice"]
    return row, shown["cuda"]


# ---- compiling ----------------------------------------------------------------------------------


class Nvrtc:
    """The library that the program uses, called with the options that the program passes (codegen/gpu/nvrtc.cpp)."""

    OPTIONS = (f"--gpu-architecture={TARGET.partition(':')[2]}", "-default-device", "--std=c++17", "--ptxas-options=-v")

    def __init__(self, finding):
        found = re.match(r"CUDA (\S+), (\S+), compiles for", finding)
        if not found:
            raise documents.Failure(f"[gpu_expected] NVRTC is missing: {finding}")
        self.version, path = found.groups()
        # NVRTC asks the loader for this library by its bare name.
        for builtins in sorted(pathlib.Path(path).parent.glob("libnvrtc-builtins.so.*")):
            ctypes.CDLL(str(builtins))
        self.library = ctypes.CDLL(path)

    def compile(self, text):
        """Compiles the text. Returns the seconds that it took, the processor time, and the bytes of registers that its
        kernels spill."""
        program = ctypes.c_void_p()
        self.library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None)
        options = (ctypes.c_char_p * len(self.OPTIONS))(*(option.encode() for option in self.OPTIONS))
        begin, used = time.monotonic(), time.process_time()
        code = self.library.nvrtcCompileProgram(program, len(options), options)
        seconds, cpu_s = time.monotonic() - begin, time.process_time() - used
        size = ctypes.c_size_t()
        self.library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        self.library.nvrtcGetProgramLog(program, log)
        self.library.nvrtcDestroyProgram(ctypes.byref(program))
        if code != 0:
            raise documents.Failure(f"[gpu_expected] NVRTC fails with code {code}:\n{log.value.decode()}\n{text}")
        return seconds, cpu_s, sum(map(int, re.findall(r"(\d+) bytes spill stores", log.value.decode())))


def busy_seconds():
    """Returns the seconds that the processors of the machine have worked for all processes together."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, interrupts, soft = map(int, file.readline().split()[1:8])
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")


def compile_all(nvrtc, texts, rows):
    """Compiles all texts and appends the times to `compile_ms` and `compile_cpu_ms` of the rows. Returns a summary of
    the pass, in which a text of several kernels counts once. For `kernel_median_ms`, the time of a text is divided
    among its kernels. `others_busy` is the mean number of processors that worked for other processes meanwhile."""
    begin, busy, own = time.monotonic(), busy_seconds(), time.process_time()
    for row, text in zip(rows, texts):
        seconds, cpu_s, spilled = nvrtc.compile(text)
        row.setdefault("compile_ms", []).append(1e3 * seconds)
        row.setdefault("compile_cpu_ms", []).append(1e3 * cpu_s)
        row["spilled_bytes"] = max(row["spilled_bytes"], spilled)
    wall = time.monotonic() - begin
    times = sorted(row["compile_ms"][-1] for row in rows)
    kernels = [row["compile_ms"][-1] / row["launches"] for row in rows for _ in range(row["launches"])]
    return {"texts": len(times), "median_ms": statistics.median(times),
            "cpu_median_ms": statistics.median(row["compile_cpu_ms"][-1] for row in rows),
            "p90_ms": times[int(0.9 * (len(times) - 1))], "most_ms": times[-1],
            "kernels": len(kernels), "kernel_median_ms": statistics.median(kernels), "wall_s": wall,
            "others_busy": max(0.0, (busy_seconds() - busy - (time.process_time() - own)) / wall)}


# ---- the program --------------------------------------------------------------------------------


def faults_of(rows):
    """Returns a text for each reason why the rows may not be published."""
    faults = []
    for row in rows:
        name = f"{row['name']} ({row['group']})"
        if row["registers_estimated"]:
            faults.append(f"{name} has no registers from the compiler")
        elif row["spilled_bytes"]:
            faults.append(f"{name} spills {row['spilled_bytes']} bytes of registers: expected 0")
    return faults


def run(options):
    documents.check_output(options.output)
    findings = documents.findings_of(options.build)
    nvrtc = Nvrtc(findings.get("nvrtc", ""))
    items = [item for item in standing() if re.search(options.only, f"{item.group} {item.name}")]
    rows, texts = [], []
    with tempfile.TemporaryDirectory() as folder:
        program = Program(options.build, pathlib.Path(folder))
        for item in items:
            row, text = row_of(item, program)
            print(f"{row['name']:<20} {row['expected_us']:9.1f} µs  {row['limited_by']:<20} chosen in "
                  f"{row['choice_s']:.1f} s, {row['spilled_bytes']} B spilled  {item.group}", flush=True)
            rows.append(row)
            texts.append(text)
    if not rows:
        raise documents.Failure(f"[gpu_expected] --only {options.only}: no workload", code=documents.USAGE)
    nvrtc.compile(texts[0])  # the first compilation of a process is slower
    passes = [compile_all(nvrtc, texts, rows) for _ in range(PASSES)]
    for summary in passes:
        print(json.dumps(documents.shortened(summary)))
    document = documents.document_head("gpu_expected", findings) | {
        "target": TARGET, "nvrtc": {"version": nvrtc.version, "passes": passes}, "rows": rows}
    if options.output:
        options.output.write_text(documents.row_lines(documents.shortened(document)))
    faults = faults_of(rows)
    for fault in faults:
        print(f"gpu_expected.py: {fault}", file=sys.stderr)
    return 1 if faults else 0


def main(arguments):
    parser = argparse.ArgumentParser(prog="gpu_expected.py", description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--build", type=pathlib.Path, default=FOLDER.parent / "build" / "release",
                        help="build tree that has tools/tilewright")
    parser.add_argument("--only", default="", help="only workloads whose group and name match this regular expression")
    parser.add_argument("--output", type=pathlib.Path, help="file for the figures, as JSON")
    try:
        return run(parser.parse_args(arguments))
    except documents.Failure as failure:
        print(f"gpu_expected.py: {failure}", file=sys.stderr)
        return failure.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
