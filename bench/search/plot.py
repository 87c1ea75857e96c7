#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the curves of `tilewright-bench --search --trace --output FILE.json`.

usage: plot.py FILE.json PLOT.svg

Left: speed relative to the best known kernel by the number of trials; right: by the seconds of the search. A
line is the geometric mean over workloads and begins where all of them have a kernel; the band contains the
middle half of the workloads. The dashed line is oneDNN. A plot is for one number of threads, the first in the
file.
"""
import json
import math
import sys

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "tilewright"  # the same file for the same figures

import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

COLORS = {"evolution": "#1b6ca8", "taught": "#0a9396", "analytic": "#94d2bd",
          "blind": "#ee9b00", "random": "#7a7a7a", "adams2019": "#9b2226", "tvm": "#6a4c93"}
SECONDS, TRIALS, US = range(3)


def rows_of(document):
    rows = [row for row in document["search"]["rows"] if "error" not in row]
    if not rows:
        sys.exit("plot.py: no row was timed")
    return [row for row in rows if row["threads"] == rows[0]["threads"]]


def traces_of(rows, strategy):
    """Returns a pair (row, trace) for each workload on which the strategy found a kernel."""
    return [(row, trace) for row in rows for trace in row["traces"]
            if trace["strategy"] == strategy and trace.get("points")]


def share_at(row, trace, axis, x):
    """Returns the speed of the best kernel after `x` trials or seconds, as a fraction of the best known
    speed; nan before the first kernel."""
    best = None
    for point in trace["points"]:
        if point[axis] <= x:
            best = point[US]
    return row["best_us"] / best if best else math.nan


def draw(axes, rows, strategy, axis, grid):
    traces = traces_of(rows, strategy)
    shares = np.array([[share_at(row, trace, axis, x) for x in grid] for row, trace in traces])
    if not len(shares):
        return
    x = grid[~np.isnan(shares).any(axis=0)]
    shares = 100 * shares[:, ~np.isnan(shares).any(axis=0)]
    color = COLORS.get(strategy)
    axes.step(x, np.exp(np.log(shares).mean(axis=0)), where="post", color=color, label=strategy)
    axes.fill_between(x, np.percentile(shares, 25, axis=0), np.percentile(shares, 75, axis=0),
                      step="post", color=color, alpha=0.15, linewidth=0)


def main(source, target):
    with open(source) as file:
        rows = rows_of(json.load(file))
    if not any("traces" in row for row in rows):
        sys.exit(f"plot.py: {source} is a summary: write it with --trace")
    strategies = list(dict.fromkeys(t["strategy"] for row in rows for t in row["traces"]))
    points = [point for row in rows for trace in row["traces"] for point in trace.get("points", [])]
    most = {axis: max(point[axis] for point in points) for axis in (SECONDS, TRIALS)}
    figure, panels = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    grids = {TRIALS: np.unique(np.round(np.geomspace(1, 1.5 * max(most[TRIALS], 2), 200))),
             SECONDS: np.geomspace(0.1, 1.05 * max(most[SECONDS], 0.2), 400)}
    peers = [row for row in rows if row["onednn_us"]]
    onednn = math.exp(np.mean([math.log(row["best_us"] / row["onednn_us"]) for row in peers] or [0]))
    for axes, axis, label in zip(panels, (TRIALS, SECONDS), ("trials", "seconds")):
        for strategy in strategies:
            draw(axes, rows, strategy, axis, grids[axis])
        if peers:
            axes.axhline(100 * onednn, color="black", linestyle="--", linewidth=1, label="oneDNN")
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
        axes.set_xlabel(label)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("% of the best known speed")
    panels[0].legend()
    figure.suptitle(f"workloads: {len(rows)}, threads: {rows[0]['threads']}")
    # Without the date, the same figures give the same bytes.
    figure.savefig(target, metadata={"Date": None} if target.endswith(".svg") else None)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
