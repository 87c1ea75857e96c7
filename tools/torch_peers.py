#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times PyTorch's softmax, layer norm and attention on a GPU, for tools/gpu_session.

    torch_peers.py NAME OP SHAPE DTYPE [NAME OP SHAPE DTYPE]...
    torch_peers.py softmax_bf16 softmax rows=8192,cols=4096 bf16

Prints {"softmax_bf16": microseconds, ...}, the time of one call for each NAME. 20 calls are recorded in a CUDA graph; the
time is the median over 7 replays of the graph, divided by 20. Without PyTorch, prints {}.
"""

import json
import statistics
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print("{}")
    print("torch_peers: PyTorch is missing: softmax, layer norm and attention have no peer", file=sys.stderr)
    sys.exit(0)

CALLS, REPLAYS, WARM_UPS = 20, 7, 5
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def call_of(op, sizes, dtype):
    """Returns a function that calls PyTorch's implementation of an operator, and the expected shape of its result."""
    def random(*shape):
        return torch.randn(*shape, device="cuda", dtype=dtype)

    if op == "attention":
        query, key, value = (random(1, sizes["b"], sizes[rows], sizes["d"]) for rows in ("m", "n", "n"))
        return lambda: F.scaled_dot_product_attention(query, key, value), query.shape
    rows = random(sizes["rows"], sizes["cols"])
    if op == "softmax":
        return lambda: torch.softmax(rows, 1), rows.shape
    scale, shift = random(sizes["cols"]), random(sizes["cols"])
    return lambda: F.layer_norm(rows, (sizes["cols"],), scale, shift), rows.shape


def graph_of(call, calls):
    """Returns a CUDA graph of `calls` calls. The tensors that the calls read must outlive the graph."""
    stream = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            call()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(calls):
                call()
    return graph


def replay_us(graph):
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    before.record()
    graph.replay()
    after.record()
    after.synchronize()
    return before.elapsed_time(after) * 1e3


def call_us(call):
    graph = graph_of(call, CALLS)
    replay_us(graph)  # the first replay also uploads the graph
    return statistics.median(replay_us(graph) for _ in range(REPLAYS)) / CALLS


def main():
    if not torch.cuda.is_available():
        sys.exit("torch_peers: PyTorch finds no GPU")
    torch.backends.cuda.matmul.allow_tf32 = False
    times_us = {}
    for name, op, shape, dtype in zip(*[iter(sys.argv[1:])] * 4):
        sizes = {key: int(value) for key, value in (pair.split("=") for pair in shape.split(","))}
        call, expected = call_of(op, sizes, DTYPES[dtype])
        if call().shape != expected:
            sys.exit(f"torch_peers: {name}: shape {tuple(call().shape)}, expected {tuple(expected)}")
        times_us[name] = call_us(call)
    print(json.dumps(times_us))


if __name__ == "__main__":
    main()
