#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the time and the memory of planning and building networks of many operators, without measuring kernels.

    ./tw bench --large [--nodes 180,1800,18000] [--threads 1] [--output networks_by_size.json]

Each network is generated as an ONNX file with about the given number of nodes, and `tilewright tune --effort none`
turns it into a file that the runtime loads, in a process of its own and with an empty cache. The network is then called
once, and its outputs are compared with a reference in double. Figures are reported only of networks whose outputs are
right.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.append(str(FOLDER.parent))

import documents  # noqa: E402
import network  # noqa: E402
import networks  # noqa: E402
from network_contenders import Tilewright  # noqa: E402
from reference import evaluate, random_inputs  # noqa: E402

MOST_ERROR = 1e-3  # relative to the largest output; rounding errors add up in deep networks
# Channels and image sizes of the stages, which repeat. They are small, so that the file of 20,000 nodes has some
# hundred megabytes; protobuf takes at most 2 GB.
WIDTHS, SIZES = (16, 24, 32, 40, 48, 56, 64, 80), (28, 14, 7)
LENGTH, FEATURES, HEADS = 64, 64, 4  # of the sequence that attention reads
RESIDUAL = 0.05  # scale of branches that are added, of which there are hundreds


def residual(net, x):
    """A basic block of ResNet."""
    y = net.conv_bn(x, x.channels, 3)
    return net.relu(net.add(x, net.conv_bn(y, x.channels, 3, activation=None, size=RESIDUAL)))


def inverted(net, x):
    """An inverted residual of MobileNetV2."""
    y = net.conv_bn(x, 3 * x.channels, 1, activation="relu6")
    y = net.conv_bn(y, y.channels, 3, groups=y.channels, activation="relu6")
    return net.add(x, net.conv_bn(y, x.channels, 1, activation=None, size=RESIDUAL))


def gated(net, x):
    """Squeeze and excitation, as in EfficientNet."""
    factors = net.relu(net.conv(net.global_average(x), 8, 1))
    return net.scale_channels(x, net.sigmoid(net.conv(factors, x.channels, 1)))


def branches(net, x):
    """A block of Inception with a concatenation, and a sum that keeps the outputs small."""
    a = net.conv_bn(x, 8, 1)
    b = net.conv_bn(net.conv_bn(x, 8, 1), 16, 3)
    c = net.conv_bn(net.average_pool(x, 3, 1, 1), 8, 1)
    y = net.conv_bn(net.concat([a, b, c]), x.channels, 1, activation=None, size=RESIDUAL)
    return net.add(x, y)


def attention(net, x, mask):
    """A layer of a transformer. All layers read the same mask."""
    y = net.layer_norm(x)
    query, key, value = (net.linear(y, FEATURES) for _ in range(3))
    mixed = net.attention(query, key, value, HEADS, lambda scores: net.node("Add", [scores, mask], scores.shape))
    x = net.add(x, net.linear(mixed, FEATURES))
    y = net.gelu(net.linear(net.layer_norm(x), 2 * FEATURES))
    return net.add(x, net.linear(y, FEATURES))


def stage(net, x, number):
    """A convolution to a new width and size, followed by blocks of this width and size."""
    width = WIDTHS[number // len(SIZES) % len(WIDTHS)]
    size = SIZES[number % len(SIZES)]
    if size > x.shape[-1]:  # the stages begin again
        factor = size // x.shape[-1]
        x = net.node("Resize", [x, net.constant([]), net.constant([1, 1, factor, factor])],
                     (*x.shape[:2], size, size), mode="nearest")
    x = net.conv_bn(x, width, 1, stride=x.shape[-1] // size)
    for block in (residual, inverted, gated, branches):
        x = block(net, x)
    return x


def build(net, nodes):
    """Adds stages on images, and for each stage a layer of a transformer on tokens, until the network has at least
    `nodes` nodes."""
    image, sequence = net.input("image", [1, 3, 56, 56]), net.input("sequence", [1, LENGTH, FEATURES])
    mask = net.input("mask", [1, 1, LENGTH, LENGTH])
    x, y, number = net.conv_bn(image, WIDTHS[0], 3, stride=2), sequence, 0
    while len(net.nodes_so_far) < nodes - 5:
        x, y = stage(net, x, number), attention(net, y, mask)
        number += 1
    net.output("classes", net.head(x, 10))
    net.output("states", net.layer_norm(y))


class Sized(network.Network):
    """A network with random weights, scaled after He. Unlike in Network, no node is run when it is added, so
    normalisations assume inputs with mean 0 and variance 1."""

    @property
    def nodes_so_far(self):
        return self._nodes

    def _array(self, name, shape, array, trained=True):
        if name.endswith(".weight"):
            fan_in = math.prod(shape[1:]) if len(shape) == 4 else shape[0]
            array = self._normal_array(name, shape, math.sqrt(2 / fan_in))
        elif name.endswith(".mean"):
            array = np.zeros(shape)
        elif name.endswith(".variance"):
            array = np.ones(shape)
        elif array is None:
            array = self._normal_array(name, shape, 0.1)
        self.arrays[name] = array.astype(np.float32)
        return network.Tensor(name, tuple(shape), self.arrays[name])

    def _normal_array(self, name, shape, deviation):
        return deviation * self._random(name).standard_normal(shape)


def model_of(nodes):
    net = Sized(f"nodes_{nodes}", arrays={})
    build(net, nodes)
    return net.model()


# ---- measuring --------------------------------------------------------------------------------


class Failed(Exception):
    """A network whose figures are not reported, with the reason."""


def tuned(program, path, options):
    """Runs `tilewright tune --effort none` on a network. Returns its report, with the time and the memory of the
    process."""
    folder = path.parent
    command = [program, "tune", "--model", path, "--effort", "none", "--threads", str(options.threads), "--output",
               path.with_suffix(".twart"), "--cache", folder / "cache", "--db", folder / "none.db", "--shipped", "none",
               "--format", "json"]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise Failed(f"{path.stem}: tune ended with exit code {process.returncode}")
    return {**json.loads(text), "seconds": time.perf_counter() - began,
            "processor_s": usage.ru_utime + usage.ru_stime, "peak_mb": usage.ru_maxrss / 1024}


def error_of(model, path, options):
    """Returns the largest difference of the outputs of one call from a reference in double, divided by the largest
    output."""
    inputs = random_inputs(model, options.seed)
    net = networks.Network(path.stem, model, path, inputs, evaluate(model, inputs))
    library = options.build / "runtime" / "libtilewright_runtime.so"
    contender = Tilewright(path.with_suffix(".twart"), inputs, net.blank_outputs(), options.threads, library)
    contender.run()
    return net.error_of(contender.outputs())


def row_of(nodes, folder, options):
    model, path = model_of(nodes), folder / f"nodes_{nodes}" / "net.onnx"
    path.parent.mkdir()
    onnx.save(model, path)
    load = os.getloadavg()[0]
    found = tuned(options.build / "tools" / "tilewright", path, options)
    error = error_of(model, path, options)
    if not error <= MOST_ERROR:
        raise Failed(f"{nodes} nodes: outputs differ by {error:.1e} of the largest, more than {MOST_ERROR:.0e}")
    passes_s = sum(applied["seconds"] for applied in found["passes"])
    slowest = max(found["passes"], key=lambda applied: applied["seconds"])
    return {"nodes": len(model.graph.node), "onnx_mb": path.stat().st_size / 1e6, "load_before": load,
            "error": error,
            **{name: found[name] for name in ("operators", "distinct_operators", "schemes", "transforms",
                                              "unverified_kernels", "is_optimal", "predicted_ns", "lower_bound_ns",
                                              "importing_s", "predicting_s", "planning_s", "building_s", "seconds",
                                              "processor_s", "peak_mb")},
            "passes_s": passes_s, "slowest_pass": slowest["name"], "slowest_pass_s": slowest["seconds"],
            "output_mb": path.with_suffix(".twart").stat().st_size / 1e6}


def table_of(rows):
    lines = [f"{'nodes':>6}{'operators':>10}{'distinct':>9}{'import s':>9}{'predict s':>10}{'plan s':>8}{'build s':>8}"
             f"{'all s':>8}{'peak MB':>8}{'error':>9}"]
    for r in rows:
        lines.append(f"{r['nodes']:6}{r['operators']:10}{r['distinct_operators']:9}{r['importing_s']:9.2f}"
                     f"{r['predicting_s']:10.2f}{r['planning_s']:8.3f}{r['building_s']:8.2f}{r['seconds']:8.2f}"
                     f"{r['peak_mb']:8.0f}{r['error']:9.1e}")
    return "\n".join(lines)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true", help="what ./tw bench goes by")
    parser.add_argument("--nodes", type=lambda text: [int(word) for word in text.split(",")],
                        default=[180, 1_800, 18_000], help="about so many nodes of ONNX: 180,1800,18000")
    parser.add_argument("--threads", type=int, default=1, help="of the kernels")
    parser.add_argument("--seed", type=int, default=1, help="of the inputs")
    parser.add_argument("--build", type=pathlib.Path, default=FOLDER.parents[1] / "build" / "release")
    parser.add_argument("--output", type=pathlib.Path, help="write the figures there as JSON")
    options = parser.parse_args(arguments)
    try:
        documents.check_output(options.output)
        findings = documents.findings_of(options.build)
        with tempfile.TemporaryDirectory() as folder:
            rows = [row_of(nodes, pathlib.Path(folder), options) for nodes in options.nodes]
    except (Failed, documents.Failure) as failure:
        print(f"large_networks.py: {failure}", file=sys.stderr)
        return documents.WRONG_OUTPUTS if isinstance(failure, Failed) else failure.code
    document = documents.document_head("networks_by_size", findings) | {
        "options": {"threads": options.threads, "seed": options.seed, "tolerance": MOST_ERROR}, "rows": rows}
    print(table_of(rows), flush=True)
    if options.output:
        options.output.write_text(documents.row_lines(documents.shortened(document)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
