#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks a tuned network on a GPU and compares its time with PyTorch's, for tools/gpu_session.

    network_peer.py TILEWRIGHT MODEL.onnx NETWORK.twart NAME

The result on random data must agree with the result of ONNX Runtime on the processor. NAME is torchvision's name of
the network. The peer is the fastest of four forms of the network in PyTorch: with and without the memory format
channels last, each with and without batch normalizations folded into the convolutions. All forms compute in f32 without
TF32 and run as a CUDA graph. In each of six rounds, the network is timed and then the peer. Prints JSON in the form of
`bench --output`: median times in us, and the median, the least and the largest of the six ratios (peer's time / network's
time). The true median of the ratio lies between the least and the largest with a probability of 97 %.
"""

import datetime
import functools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime
import torch
import torch_peers
import torchvision
from torch.fx.experimental import optimization

ROUNDS, REPLAYS, MOST_ERROR = 6, 30, 2e-3


def inputs_of(session):
    random = np.random.default_rng(1)
    return {item.name: random.standard_normal(item.shape).astype(np.float32) for item in session.get_inputs()}


def largest_error(program, model, network, folder):
    """Returns the largest difference from ONNX Runtime's result, relative to the largest element of that result."""
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    inputs = inputs_of(session)
    command = [program, "run", network]
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", array)
        command += ["--input", f"{name}={folder / f'{name}.npy'}"]
    (output,) = session.get_outputs()
    subprocess.run([*command, "--output", f"{output.name}={folder / 'result.npy'}"], check=True,
                   stdout=subprocess.DEVNULL)
    (expected,) = session.run([output.name], inputs)
    return float(np.abs(np.load(folder / "result.npy") - expected).max() / np.abs(expected).max())


def our_us(program, network):
    shown = subprocess.run([program, "run", network, "--format", "json"], check=True, capture_output=True, text=True)
    return json.loads(shown.stdout)["latency_ns"] / 1e3


def network_us(graph):
    return statistics.median(torch_peers.replay_us(graph) for _ in range(REPLAYS))


def forms_of(name):
    """Returns for each form of the network its CUDA graph, with the module and the image that the graph reads, which
    must outlive it. The key is the name of the form, such as "NHWC, folded"."""
    side = 299 if name == "inception_v3" else 224
    graphs = {}
    for layout, memory_format in (("NCHW", torch.contiguous_format), ("NHWC", torch.channels_last)):
        for folding, fold in (("", lambda network: network), (", folded", optimization.fuse)):
            network = fold(getattr(torchvision.models, name)(weights=None).eval()).cuda()
            network = network.to(memory_format=memory_format)
            image = torch.randn(1, 3, side, side, device="cuda").to(memory_format=memory_format)
            graph = torch_peers.graph_of(functools.partial(network, image), 1)
            graphs[layout + folding] = graph, network, image
    return graphs


def device_text():
    """Returns the text of the device, as `doctor` prints it."""
    gpu = torch.cuda.get_device_properties(0)
    return (f"{gpu.name}; {gpu.multi_processor_count} multiprocessors; {gpu.total_memory >> 20} MiB; "
            f"L2 {gpu.L2_cache_size >> 10} KiB")


def main():
    program, model, network, name = sys.argv[1:]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    with tempfile.TemporaryDirectory() as folder:
        error = largest_error(program, model, network, pathlib.Path(folder))
    if not error <= MOST_ERROR:
        sys.exit(f"network_peer: the result differs from ONNX Runtime's by {error:.1e} of its largest element")
    graphs = forms_of(name)
    forms_us = {form: network_us(graph) for form, (graph, *_) in graphs.items()}
    best = min(forms_us, key=forms_us.get)
    rounds = [(our_us(program, network), network_us(graphs[best][0])) for _ in range(ROUNDS)]
    ratios = sorted(peer / ours for ours, peer in rounds)
    print(json.dumps({
        "schema_version": 2, "suite": "gpu_network", "date": datetime.date.today().isoformat(),
        "machine": {"target": "cuda", "device": device_text()}, "options": {"rounds": ROUNDS, "cache": "hot"},
        "peer": {"name": "pytorch", "version": torch.__version__},
        "rows": [{"name": name, "workload": f"{name} f32", "rounds": ROUNDS, "error_ours": error, "peer": best,
                  "peer_forms_us": forms_us, "ours_us": statistics.median(ours for ours, _ in rounds),
                  "peer_us": statistics.median(peer for _, peer in rounds), "ratio": statistics.median(ratios),
                  "ratio_low": ratios[0], "ratio_high": ratios[-1]}]}, indent=1))


if __name__ == "__main__":
    main()
