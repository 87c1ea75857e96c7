# SPDX-License-Identifier: Apache-2.0
"""Lesson 3: let the tuner find the schedule, keep it in a database, and run the kernel. It is lesson_3_tune.cpp in
Python, with the same output.

The lesson prints only what is equal on all machines: no times, and not the schedule that won.
"""
import pathlib
import shutil

import numpy as np

import tilewright as tw


def declare():
    """max(a b, 0) on a small shape: the lesson stays short, and the interpreter can check all of it."""
    m, n, k = tw.Axis("m", 48), tw.Axis("n", 64), tw.Axis("k", 40)
    a, b = tw.input("a", "f32", [m, k]), tw.weight("b", "f32", [k, n])
    c = tw.compute("c", [m, n], tw.sum(k, a[m, k] * b[k, n]))
    return tw.workload(tw.compute("out", [m, n], tw.max(c[m, n], 0.0)))


def main():
    workload = declare()
    print(f"workload: {workload.key}")

    # Tune. Each candidate is compiled, verified against a reference and only then timed. Each is stored as an
    # immutable record, even if it failed, and later runs learn from all records. Candidates are built and run in
    # processes of their own, so that a candidate that crashes does no harm. The lesson begins with an empty
    # database, so that it prints the same text each time.
    folder = pathlib.Path("lesson_3.files")
    shutil.rmtree(folder, ignore_errors=True)
    cache = folder / "cache"
    cache.mkdir(parents=True)
    store = tw.Store(str(folder / "lesson.db"))
    tuned = tw.tune(workload, db=store, budget=60, trials=16, progress=False)
    print(f"ended: {tuned.ended}")
    print(f"records: {len(store)}")
    print(f"the best is correct: {str(tuned.best.status == 'ok').lower()}, "
          f"its schedule begins with '{tuned.schedule[:3]}'")

    # Ask again, with effort="none": nothing is measured. The best schedule comes from the database and is only
    # compiled.
    known = tw.tune(workload, db=store, effort="none", progress=False)
    print(f"again: {known.ended}, records: {len(store)}")

    # A session finds kernels by workload and has no compiler. If its cache directory has the compiled kernel, the
    # session loads it; otherwise the error says what to do.
    session = tw.Session(store.path, cache)
    try:
        session.kernel(workload.key)
    except tw.NotCompiledError:
        print("before it is in the cache: not compiled")
    known.save_in(cache)
    kernel = session.kernel(workload.key)

    # Compare with the definition. The kernel runs on ordinary arrays; it packs those that it needs in
    # another layout.
    random = np.random.default_rng(7)
    a = random.standard_normal((48, 40), np.float32)
    b = random.standard_normal((40, 64), np.float32)
    expected = tw.interpret(workload.compute, {"a": a, "b": b})["out"]
    print(f"agrees with the interpreter: {str(np.allclose(kernel(a, b), expected, rtol=1e-4, atol=1e-4)).lower()}")


if __name__ == "__main__":
    main()
