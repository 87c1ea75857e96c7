#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TVM's MetaSchedule tunes one convolution: the process behind the strategy `tvm` of --search.

usage: tvm.py '{"op": "conv2d", "attributes": {"n": 1, ...}, "threads": 1, "seconds": 60,
                       "seed": 1}'

Standard output is a JSON line after each round, {"elapsed_s", "trials", "best_ns"} (best_ns null
before the first valid candidate), and a last one, {"final_ns", "error", "version"}: the best kernel
timed alone, once more, and its largest error against scipy over the largest output. What TVM prints
goes to standard error. The clock starts when TVM is loaded; a round that is under way when the
seconds are over is finished. Exit code 2: the workload is not supported.

Builders use every core, kernels `threads` of them. A round is 16 candidates rather than TVM's usual
64, so that its model learns four times as often and the curve has points.
"""
import json
import os
import sys
import tempfile
import time

ROUND = 16


def padding_of(a):
    return [a["pad_top"], a["pad_left"], a["pad_bottom"], a["pad_right"]]


def strides_of(a):
    return [a["stride_h"], a["stride_w"]], [a["dilation_h"], a["dilation_w"]]


def reference(image, weights, a):
    """Returns the result in double, computed by correlations of whole planes. It does not depend on
    TVM."""
    import numpy as np
    from scipy.signal import correlate

    (sh, sw), (dh, dw) = strides_of(a)
    top, left, bottom, right = padding_of(a)
    padded = np.pad(image.astype("float64"), ((0, 0), (0, 0), (top, bottom), (left, right)))
    k, c, r, s = weights.shape
    spread = np.zeros((k, c, (r - 1) * dh + 1, (s - 1) * dw + 1))
    spread[:, :, ::dh, ::dw] = weights
    planes = [[correlate(padded[i], spread[f], mode="valid")[0, ::sh, ::sw] for f in range(k)]
              for i in range(image.shape[0])]
    return np.array(planes)


def tune(workload, report):
    """Tunes the workload and returns the best kernel, compiled, and its arrays."""
    import numpy as np
    import tvm
    from tvm import te, topi
    from tvm.s_tir import meta_schedule as ms
    from tvm.ir.utils import derived_object

    a, threads = workload["attributes"], workload["threads"]
    image = te.placeholder((a["n"], a["c"], a["h"], a["w"]), name="image")
    weights = te.placeholder((a["k"], a["c"], a["r"], a["s"]), name="weights")
    strides, dilation = strides_of(a)
    out = topi.nn.conv2d(image, weights, strides, padding_of(a), dilation)
    function = te.create_prim_func([image, weights, out])
    target = tvm.target.Target({"kind": "llvm", "num-cores": threads,
                                "mcpu": tvm.target.codegen.llvm_get_system_cpu()})
    started = time.monotonic()

    seen = {"trials": 0, "best_ns": None}
    failures, over = [], []

    @derived_object
    class Report(ms.measure_callback.PyMeasureCallback):
        def apply(self, scheduler, task, candidates, built, measured):
            for result in measured:
                seen["trials"] += 1
                if result.error_msg:
                    failures.append(str(result.error_msg))
                elif result.run_secs:
                    ns = min(float(s) for s in result.run_secs) * 1e9
                    seen["best_ns"] = min(ns, seen["best_ns"] or ns)
            elapsed = time.monotonic() - started
            report({"elapsed_s": elapsed, **seen})
            if elapsed >= workload["seconds"]:
                over.append(True)
                raise RuntimeError("the seconds are over")

    database = ms.database.MemoryDatabase()
    # A worker's first build includes loading TVM, which takes more than the usual 30 s on a busy machine.
    builder = ms.builder.LocalBuilder(timeout_sec=120)
    runner = ms.runner.LocalRunner(
        evaluator_config=ms.runner.EvaluatorConfig(number=1, repeat=3, min_repeat_ms=10))
    with tempfile.TemporaryDirectory() as directory:
        try:
            ms.tune_tir(
                function, target, directory, max_trials_global=1_000_000,
                num_trials_per_iter=ROUND, builder=builder, runner=runner, database=database,
                seed=workload["seed"], num_tuning_cores=os.cpu_count(),
                measure_callbacks=ms.measure_callback.MeasureCallback.create("default")
                + [Report()])
        except RuntimeError:  # there is no other way to stop it
            if not over:
                raise
        schedule = ms.tir_integration.compile_tir(database, function, target)
    if schedule is None:
        reason = failures[0].strip().splitlines()[-1] if failures else "there are none"
        raise RuntimeError(f"none of {seen['trials']} candidates is valid: {reason}")
    kernel = tvm.compile(schedule.mod, target=target)

    source = np.random.default_rng(workload["seed"])
    arrays = [source.standard_normal([int(d) for d in t.shape]).astype("float32")
              for t in (image, weights)]
    device = tvm.cpu()
    arguments = [tvm.runtime.tensor(x, device) for x in arrays]
    result = tvm.runtime.empty([int(d) for d in out.shape], "float32", device)
    kernel(*arguments, result)
    expected = reference(*arrays, a)
    error = float(np.abs(result.numpy() - expected).max() / np.abs(expected).max())
    timing = kernel.jit().time_evaluator("main", device, number=1, repeat=20, min_repeat_ms=5)(
        *arguments, result)
    report({"final_ns": min(timing.results) * 1e9, "error": error, "version": tvm.__version__})


def main():
    workload = json.loads(sys.argv[1])
    if workload["op"] != "conv2d" or workload["attributes"]["groups"] != 1:
        print("[tvm] not supported by this peer: expected a conv2d with one group",
              file=sys.stderr)
        return 2
    os.environ["TVM_NUM_THREADS"] = str(workload["threads"])
    # TVM and its workers print to descriptor 1, so our own lines go to another descriptor.
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    tune(workload, lambda line: print(json.dumps(line), file=lines, flush=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
