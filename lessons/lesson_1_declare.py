# SPDX-License-Identifier: Apache-2.0
"""Lesson 1: say what to compute. It is lesson_1_declare.cpp in Python, with the same output.

An operator is a tensor expression: axes, inputs, and a formula for one element of the result. It says
nothing about loops, tiles, vectors or threads; lesson 2 is about these. A declaration also has a text
form, by which the database names it.
"""
import numpy as np

import tilewright as tw


def declare_product(rows, columns, depth):
    """c[m, n] = sum over k of a[m, k] * b[k, n]. Extents may be left open until the compute is built, so
    that one declaration serves many shapes."""
    m, n, k = tw.Axis("m"), tw.Axis("n"), tw.Axis("k")
    a = tw.input("a", "f32", [m, k])
    b = tw.weight("b", "f32", [k, n])  # a weight is known ahead: it may be packed once
    c = tw.compute("c", [m, n], tw.sum(k, a[m, k] * b[k, n]))
    return tw.workload(c, {"m": rows, "n": columns, "k": depth}).compute


def declare_convolution(channels, outputs, size):
    """A 3 x 3 convolution with a border of zeros. Padding is a select around the read of the image. A
    select evaluates only the operand that it chooses, so nothing outside of the image is read. This
    holds for every schedule, and it costs little: lesson 2 shows that no multiplication by a padded zero
    is left."""
    k, y, x = tw.Axis("k", outputs), tw.Axis("y", size), tw.Axis("x", size)
    c, r, s = tw.Axis("c", channels), tw.Axis("r", 3), tw.Axis("s", 3)
    image = tw.input("in", "f32", [c, tw.Axis("h", size), tw.Axis("w", size)], "CHW")
    w = tw.weight("w", "f32", [k, c, r, s], "OIHW")
    row, column = y + r - 1, x + s - 1
    inside = (row >= 0) & (row < size) & (column >= 0) & (column < size)
    padded = tw.select(inside, image[c, row, column], 0.0)
    out = tw.compute("out", [k, y, x], tw.sum([c, r, s], padded * w[k, c, r, s]), "CHW")
    return tw.workload(out).compute


def print_array(name, array):
    print(f"{name} =")
    for row in array.reshape(-1, array.shape[-1]):
        print(" ".join(f"{value:5g}" for value in row))


def counting(*shape):
    """1, 2, 3, ... in row-major order, so that results can be checked by hand."""
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


def main():
    print("-- a matrix product --")
    product = declare_product(2, 3, 4)
    print(product, end="")

    # The printed text parses back to the same value.
    print(f"parses back to the same compute: {tw.parse_compute(str(product)) == product}".lower())
    print(f"{tw.count_flops(product):.0f} floating-point operations")

    # The interpreter defines the meaning of a compute; it is simple and slow. Every kernel is checked
    # against it.
    inputs = {"a": counting(2, 4), "b": counting(4, 3)}
    print_array("a", inputs["a"])
    print_array("b", inputs["b"])
    print_array("c", tw.interpret(product, inputs)["c"])

    print("\n-- a padded convolution --")
    convolution = declare_convolution(1, 1, 4)
    print(convolution, end="")
    # With a weight of ones, each output is the sum of a 3 x 3 neighbourhood. At the border of the image
    # fewer neighbours are inside of it.
    image = {"in": counting(1, 4, 4), "w": np.ones((1, 1, 3, 3), np.float32)}
    print_array("in", image["in"])
    print_array("out", tw.interpret(convolution, image)["out"])

    print("\n-- a workload: what is tuned and stored --")
    # A workload is a compute with the accuracy that its kernels must have. The database stores results
    # under the workload's key. Frequent operators have names, and their shapes a short form for the
    # command line.
    print(tw.workload(product).key)
    print(tw.make_workload("conv2d", **tw.parse_shape("n1c64h56w56k64r3s3p1", "conv2d")).key)

    print("\n-- a mistake, and what is said about it --")
    try:
        tw.parse_compute("input a: f32[4, 4]\nb: f32[i=4] = sum(k=4) a[i]")
    except tw.InvalidError as error:
        print(error)


if __name__ == "__main__":
    main()
