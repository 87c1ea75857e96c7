#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Inference by torch.compile(backend="tilewright") against PyTorch's eager mode and inductor.

    python -m venv .venv-torch && .venv-torch/bin/pip install torch numpy
    PYTHONPATH=build/release/python .venv-torch/bin/python bench/models/torch_compile.py --threads 1

First checks operators and behaviour on small models: changed weights and new shapes take effect, and training and
operators that are not implemented are left to PyTorch and listed. Then runs ResNet-18 and MobileNetV2 with random
weights, checks that the largest difference to eager mode is at most 1e-4 of the largest element of eager mode's result,
times the three by turns, and prints a line for each, or JSON with --json. Needs torch, which the project does not
install by itself.
"""
import argparse
import json
import logging
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

from tilewright import torch_backend

TOLERANCE = 1e-4


class Block(nn.Module):
    """Two convolutions of 3 x 3 beside a shortcut (He et al., 2016)."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity() if inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet18():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    for inputs, outputs, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
        layers += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


class Bottleneck(nn.Module):
    """An inverted residual with a linear bottleneck (Sandler et al., 2018)."""

    def __init__(self, inputs, outputs, stride, expansion):
        super().__init__()
        inner = inputs * expansion
        expand = [] if expansion == 1 else [nn.Conv2d(inputs, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU6()]
        self.body = nn.Sequential(
            *expand, nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False), nn.BatchNorm2d(inner),
            nn.ReLU6(), nn.Conv2d(inner, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


def mobilenet_v2():
    layers, inputs = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()], 32
    for expansion, outputs, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                              (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(count):
            layers.append(Bottleneck(inputs, outputs, stride if i == 0 else 1, expansion))
            inputs = outputs
    layers += [nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, 1000))


MODELS = {"resnet18": resnet18, "mobilenet_v2": mobilenet_v2}


class Messages(logging.Handler):
    """Log handler that collects the messages of the backend."""

    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def made(name):
    """The model of this name. Its batch normalizations have the variances that training would give, so that activations
    are of order one."""
    torch.manual_seed(1)
    model = MODELS[name]()
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    with torch.no_grad():
        for _ in range(3):
            model.train()(torch.randn(4, 3, 224, 224))
    return model.eval()


def difference(actual, expected):
    return float((actual - expected).abs().max() / expected.abs().max())


def check(what, holds):
    if not holds:
        raise SystemExit(f"torch_compile: {what}")


def check_close(what, actual, expected):
    found = difference(actual, expected)
    check(f"{what}: the largest difference is {found:.1e} of the largest element", found <= TOLERANCE)
    return found


def compiled_by(backend, model, **options):
    torch._dynamo.reset()
    return torch.compile(model, backend=backend, dynamic=False, **options)


def _whole(y):
    """Integers from 1 on."""
    return (y * 3).to(torch.int32).abs() + 1


# Functions of a tensor of shape [2, 8, 9, 7]. Each entry becomes one graph.
FUNCTIONS = {
    "windows": lambda y: [F.avg_pool2d(y, 3, 2, 1), F.avg_pool2d(y, 3, 2, 1, count_include_pad=False),
                          F.adaptive_avg_pool2d(y, (3, 7)), F.max_pool2d(y, 3, 2, 1), F.pad(y, (1, 2, 0, 3), value=0.5)],
    "parts": lambda y: [y[:, 1:-1, ::2, 2:], y[:, -1], torch.cat(y.split([3, 5], 1)[::-1], 1), y.chunk(4, 1)[2] + 1],
    "shapes": lambda y: [y.transpose(1, -1).contiguous(), y.unsqueeze(-1).flatten(2), y[:, :1].expand(2, 8, 9, 7) * y],
    "reductions": lambda y: [y.mean((1, 2)), y.mean((2, 3), keepdim=True), y.sum(1, keepdim=True), y.amax((2, 3)),
                             y.softmax(1), F.layer_norm(y, (7,), y[0, 0, 0].abs(), y[0, 1, 0])],
    "arithmetic": lambda y: [1 - y, 2 / (y * y + 1), torch.add(y, y, alpha=2), y**2 + y.abs()**0.5, y.clamp(min=0.1),
                             y.clamp(max=0.1), torch.where(y > 0, y, y * 0.1), torch.maximum(y, -y), (y < 0.2).float(),
                             (y * 3).to(torch.int32) * 2],
    "activations": lambda y: [F.leaky_relu(y), F.gelu(y), F.gelu(y, approximate="tanh"), F.silu(y), F.hardswish(y),
                              F.hardsigmoid(y), F.relu6(y), y.tanh(), y.exp(), torch.rsqrt(y * y + 1)],
    "integers": lambda y: [torch.sqrt(_whole(y)), _whole(y) ** 0.5, torch.rsqrt(_whole(y)), _whole(y).reciprocal(),
                           _whole(y).clamp(max=2.5), _whole(y).clamp(max=2), _whole(y).neg(), (y > 0) == (y > 1),
                           (y > 0) * 2],
    "products": lambda y: [y.flatten(1) @ y.flatten(1).t(), y.flatten(2) @ y.flatten(2).transpose(1, 2),
                           F.scaled_dot_product_attention(y, y, y), F.conv_transpose2d(y, y[:, :, :3, :3].reshape(8, 2, 3, 3), stride=2)],
    "attention": lambda y: [F.scaled_dot_product_attention(y, y, y, is_causal=True),
                            F.scaled_dot_product_attention(y[:, :, :4], y, y, is_causal=True, scale=0.3),
                            F.scaled_dot_product_attention(y, y, y, torch.ones(9, 9, dtype=torch.bool).tril(1)),
                            F.scaled_dot_product_attention(y, y, y, y[..., :1] > 0),
                            F.scaled_dot_product_attention(y, y, y, torch.zeros(9, 9).masked_fill(
                                ~torch.ones(9, 9, dtype=torch.bool).triu(), -torch.inf))],
}


# Functions of the same tensor, each with the reason why PyTorch runs one of its operators.
REFUSED = {
    "arithmetic of truth values": lambda y: (y > 0) + (y > 1),
    "the order of truth values": lambda y: (y > 0) > (y > 1),
    "powers of integers": lambda y: _whole(y) ** 2,
    "an image without a batch": lambda y: F.max_pool2d(y[0], 2),
    "an axis of a tensor that has none": lambda y: y[0, 0, 0, 0].softmax(0),
}


def check_operators(messages):
    """Checks each of FUNCTIONS, applied to the result of a convolution in the same graph."""
    convolution, x = nn.Conv2d(4, 8, 3, padding=1), torch.randn(2, 4, 9, 7)
    for name, functions in FUNCTIONS.items():
        def model(x):
            return functions(convolution(x))
        with torch.no_grad():
            for number, results in enumerate(zip(compiled_by(torch_backend.backend, model)(x), model(x))):
                check_close(f"number {number} of {name}", *(result.double() for result in results))
    check(f"no operator is left to PyTorch: {messages.texts}", messages.texts == [])
    for reason, function in REFUSED.items():
        messages.texts.clear()

        def model(x):
            return function(convolution(x)) * 1.0
        with torch.no_grad():
            check_close(reason, compiled_by(torch_backend.backend, model)(x), model(x))
        check(f"the reason is {reason}: {messages.texts}", len(messages.texts) == 1 and reason in messages.texts[0])
    messages.texts.clear()


def check_behaviour(messages):
    """Checks behaviour that does not depend on the network, such as the use of changed weights."""
    model = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1))
    ours, x = compiled_by(torch_backend.backend, model), torch.randn(1, 4, 8, 8)
    with torch.no_grad():
        check_close("a small model", ours(x), model(x))
        check("nothing is left to PyTorch", messages.texts == [])
        model[0].weight.mul_(-1)
        check_close("a weight that was written to", ours(x), model(x))
        model[2].weight = nn.Parameter(torch.randn_like(model[2].weight))
        check_close("a weight that was replaced", ours(x), model(x))
        for _ in range(3):  # the memory of the previous array may be reused for the next one
            del model[2].weight
            model[2].weight = nn.Parameter(torch.randn(4, 8, 3, 3))
            check_close("a weight that is replaced often", ours(x), model(x))
        for _ in range(3):
            model[0].weight.mul_(1.5)
            check_close("a weight that changes often", ours(x), model(x))
        wide = torch.randn(2, 4, 8, 16)
        check_close("another shape", ours(wide), model(wide))
        strided = torch.randn(1, 8, 8, 4).permute(0, 3, 1, 2)
        check_close("another memory format", ours(strided), model(strided))
        negated = torch.randn(1, 4, 8, 8, dtype=torch.complex64).conj().imag
        check_close("a view of negated elements", ours(negated), model(negated))
        positive = compiled_by(torch_backend.backend, lambda x: model(x) > 0)
        check("booleans are results", torch.equal(positive(x), model(x) > 0))
        masked = compiled_by(torch_backend.backend, lambda x, mask: torch.where(mask, model(x), x))
        check_close("booleans are inputs", masked(x, x > 0), torch.where(x > 0, model(x), x))
    loss = ours(x).square().sum()
    loss.backward()
    check("gradients come from PyTorch", model[0].weight.grad is not None)
    check("and the backend says so", any("gradients" in text for text in messages.texts))

    def partly(x):
        y = model(torch.cumsum(model(x), 1)) + 1
        return torch.cumsum(y.permute(0, 2, 3, 1).view(1, 64, 4), 1)

    with torch.no_grad():
        ours = compiled_by(torch_backend.backend, partly)
        check_close("a model with an operator that is not implemented", ours(x), partly(x))
        check_close("the same in another memory format", ours(strided), partly(strided))
        windows = nn.Sequential(nn.Conv2d(4, 4, 1), nn.MaxPool2d(2, 3, 1, ceil_mode=True))
        small = torch.randn(1, 4, 2, 2)
        check_close("a window that would begin in the padding",
                    compiled_by(torch_backend.backend, windows)(small), windows(small))
    told = [text for text in messages.texts if "cumsum" in text]
    check(f"it is listed once: {messages.texts}", len(told) == 1)


def check_transformers(messages):
    """Checks the fast paths of nn.TransformerEncoderLayer and nn.MultiheadAttention in inference."""
    messages.texts.clear()
    x, causal = torch.randn(2, 10, 32), nn.Transformer.generate_square_subsequent_mask(10)
    padding = torch.arange(10) >= torch.tensor([[10], [7]])
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    with torch.no_grad():
        for name, options in (("an encoder layer", {}), ("the same, causal", {"src_mask": causal, "is_causal": True}),
                              ("the same, padded", {"src_key_padding_mask": padding})):
            check_close(name, compiled_by(torch_backend.backend, layer)(x, **options), layer(x, **options))
        before = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True, activation="gelu").eval()
        check_close("one that normalizes first", compiled_by(torch_backend.backend, before)(x), before(x))
        several = nn.MultiheadAttention(32, 4, batch_first=True).eval()
        for actual, expected in zip(compiled_by(torch_backend.backend, several)(x, x, x), several(x, x, x)):
            check_close("attention and its weights", actual, expected)
    check(f"no part of a transformer is left to PyTorch: {messages.texts}", messages.texts == [])


def check_nan(messages):
    """Checks that a NaN of an input reaches the same elements of the result as in eager mode."""
    messages.texts.clear()
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)).eval()
    ours, x = compiled_by(torch_backend.backend, model), torch.randn(1, 3, 8, 8)
    with torch.no_grad():
        check_close("without a NaN", ours(x), model(x))
        x[0, 1, 2, 3] = torch.nan
        expected = model(x)
        check("a NaN reaches the result in eager mode", bool(expected.isnan().any()))
        check("and here", torch.equal(ours(x).isnan(), expected.isnan()))
        check_close("its other elements", ours(x).nan_to_num(), expected.nan_to_num())
        model[0].bias[0] = torch.nan
        check("a NaN of a constant reaches the result", torch.equal(ours(x).isnan(), model(x).isnan()))
    check(f"the backend says so: {messages.texts}", messages.texts == ["tilewright: left to PyTorch: a piece whose "
                                                                       "constants have a NaN"])


def timed(calls, rounds):
    """Median seconds of each call, made by turns."""
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            before = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - before)
    return {name: statistics.median(values) for name, values in times.items()}


def run(name, options):
    model, x = made(name), torch.randn(options.batch, 3, 224, 224)
    tuning = {"effort": options.effort, "budget": options.budget, "db": options.db, "threads": options.threads}
    with torch.no_grad():
        expected = model(x)
        before = time.perf_counter()
        ours = compiled_by(torch_backend.backend, model, options=tuning)
        found = check_close(name, ours(x), expected)
        row = {"model": name, "threads": options.threads, "batch": options.batch, "difference": found,
               "compiling_s": time.perf_counter() - before}
        calls = {"tilewright": lambda: ours(x), "eager": lambda: model(x)}
        if options.inductor:
            inductor = torch.compile(made(name), dynamic=False)
            inductor(x)
            calls["inductor"] = lambda: inductor(x)
        row["seconds"] = timed(calls, options.rounds)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, action="append")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--effort", default="none", help="as Network.tune() has it")
    parser.add_argument("--budget", type=float, default=60)
    parser.add_argument("--db", help="the database; by default that of the program")
    parser.add_argument("--inductor", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--checks", action="store_true", help="check what does not depend on a network, and time nothing")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    messages = Messages()
    logging.getLogger("tilewright.torch").addHandler(messages)
    check_operators(messages)
    check_behaviour(messages)
    check_transformers(messages)
    check_nan(messages)
    if options.checks:
        return
    rows = [run(name, options) for name in options.model or MODELS]
    if options.json:
        json.dump(rows, sys.stdout, indent=2)
        return
    for row in rows:
        times = ", ".join(f"{name} {1e3 * seconds:.2f} ms" for name, seconds in row["seconds"].items())
        print(f"{row['model']}: {times}; largest difference {row['difference']:.1e}, compiled in {row['compiling_s']:.1f} s")


if __name__ == "__main__":
    main()
