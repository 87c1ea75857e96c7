# SPDX-License-Identifier: Apache-2.0
"""Lesson 2: say how to compute it. It is lesson_2_schedule.cpp in Python, with the same output.

A schedule is plain data: a compute and a list of steps. It is lowered to a Program, the explicit loops and
buffers that all later stages read. This lesson schedules a matrix product, step by step, until it has the loops
of a fast kernel. Then a convolution shows how its padding is scheduled.
"""
import tilewright as tw


def show(title, schedule):
    print(f"-- {title} --\n{schedule.program()}")


def schedule_product():
    product = tw.parse_compute("input a: f32[48, 32]\n"
                               "weight b: f32[32, 64]\n"
                               "c: f32[m=48, n=64] = sum(k=32) a[m, k] * b[k, n]")

    # A schedule without steps has the loops of the declaration. A reduction sets the element to its initial value,
    # and then accumulates.
    s = tw.Schedule(product)
    show("no steps", s)

    # split makes two loops of one: m.0 counts tiles, m.1 runs inside a tile.
    s = s.split("c", "m", 4).split("c", "n", 16)
    show("split m by 4 and n by 16", s)

    # reorder moves the loops inside a tile to the inside of the loop over k: for each k, all 4 x 16 elements of the
    # tile are updated.
    s = s.reorder("c", ["m.0", "n.0", "k", "m.1", "n.1"])
    show("reorder: the tile inside", s)

    # cache_write keeps the tile in a buffer of its own while k runs. The buffer is small enough for registers, so
    # each element is written to memory once, and not once for each k.
    s = s.cache_write("c", "n.0")
    show("cache_write at n.0", s)

    # n.1 becomes one vector operation, m.1 four copies of it: 4 independent accumulators.
    s = s.vectorize("c", "n.1").unroll("c", "m.1")
    show("vectorize n.1, unroll m.1", s)

    # The iterations of m.0 become tasks, which run at the same time and in any order. The thread pool distributes them.
    s = s.parallel("c", "m.0")
    show("parallel m.0", s)

    # While k runs, the 16 columns of a tile are read from rows of b that lie 64 floats apart. With set_layout, b
    # is stored in the order in which it is read. In a layout, A and B name the dimensions of b. BA16b has blocks
    # of 16 columns outermost, then rows, then the columns of a block. Since b is a weight, it is packed once,
    # ahead of all calls.
    s = s.set_layout("b", "BA16b")
    show("set_layout b BA16b", s)
    return product, s


def show_padding():
    convolution = tw.parse_compute("input in: f32[8, 14] @CX\n"
                                   "weight w: f32[16, 8, 3] @OIS\n"
                                   "out: f32[k=16, x=14] @CX = sum(c=8, s=3) "
                                   "select(0 <= x + s - 1 && x + s - 1 < 14, in[c, x + s - 1], 0.0) * w[k, c, s]")
    plain = tw.Schedule(convolution)
    # Taps outside of the image cost neither a select nor a multiplication by zero: where x is at a border, the
    # loop over s starts later or ends earlier.
    show("a padded row convolution: the loop over taps is trimmed", plain)

    # If the taps are unrolled, there is no loop over them to trim. So the columns at the borders are peeled: each
    # has its own copy of the code with fewer taps. The channels are vectorized.
    tiled = (plain.set_layout("w", "ISO16o").set_layout("out", "CX16c").reorder("out", ["x", "c", "s", "k"])
             .cache_write("out", "x").vectorize("out", "k").unroll("out", "s"))
    show("the same, vectorized over channels: borders are peeled", tiled)


def show_mistakes(compute, good):
    # A step that is not legal raises an exception that says why.
    try:
        good.split("c", "m", 2)
    except tw.InvalidError as error:
        print(error)
    # k is a reduction: its iterations add to the same element and cannot be lanes of one vector.
    try:
        tw.Schedule(compute).vectorize("c", "k")
    except tw.InvalidError as error:
        print(error)


def main():
    compute, product = schedule_product()

    # The text is what the database stores. It parses back to the same schedule.
    print(f"-- the schedule as text --\n{product}")
    replayed = tw.parse_schedule(compute, str(product))
    print(f"replays to the same program: {str(replayed.program()) == str(product.program())}".lower() + "\n")

    # The C printer translates a Program statement by statement, as the machine code generator does.
    print(f"-- as C --\n{tw.emit_c(product.program(), 'product')}")

    show_padding()

    print("-- mistakes --")
    show_mistakes(compute, product)


if __name__ == "__main__":
    main()
