// SPDX-License-Identifier: Apache-2.0
// Lesson 2: say how to compute it.
//
// A schedule is plain data: a compute and a list of steps. It is lowered to a Program, which has
// explicit loops and buffers. The cost model and the code generators read the Program. This lesson
// schedules a matrix product, step by step, until it has the loops of a fast kernel. Then a
// convolution shows how its padding is scheduled.

#include <fmt/format.h>

#include "codegen/c_emitter.h"
#include "dsl/parse.h"
#include "lessons/lesson.h"
#include "schedules/schedule.h"

using namespace tw;
using namespace tw::schedules;
using lessons::must;

void show(std::string_view title, const Schedule& schedule) {
  fmt::print("-- {} --\n{}\n", title, to_string(must(schedule.program())));
}

Schedule schedule_product() {
  const dsl::Compute product =
      must(dsl::parse_compute("input a: f32[48, 32]\n"
                              "weight b: f32[32, 64]\n"
                              "c: f32[m=48, n=64] = sum(k=32) a[m, k] * b[k, n]"));

  // A schedule without steps has the loops of the declaration. A reduction sets the element to its
  // initial value, and then accumulates.
  Schedule s(product);
  show("no steps", s);

  // split divides a loop into two. The loop m becomes m.0, which counts tiles, and m.1, which runs
  // inside a tile.
  s = s.split("c", "m", 4).split("c", "n", 16);
  show("split m by 4 and n by 16", s);

  // reorder moves the loops inside a tile to the inside of the loop over k: for each k, all 4 x 16
  // elements of the tile are updated.
  s = s.reorder("c", {"m.0", "n.0", "k", "m.1", "n.1"});
  show("reorder: the tile inside", s);

  // cache_write keeps the tile in a buffer of its own while the loop over k runs. The buffer is
  // small enough for registers, so each element of c is written to memory once, and not once for
  // each k.
  s = s.cache_write("c", "n.0");
  show("cache_write at n.0", s);

  // The loop n.1 becomes one vector operation, and the loop m.1 four copies of it, which have 4
  // independent accumulators.
  s = s.vectorize("c", "n.1").unroll("c", "m.1");
  show("vectorize n.1, unroll m.1", s);

  // The iterations of m.0 become tasks, which run at the same time and in any order. The thread
  // pool distributes them.
  s = s.parallel("c", "m.0");
  show("parallel m.0", s);

  // While the loop over k runs, the 16 columns of a tile are read from rows of b that are 64 floats
  // apart. With set_layout, b is stored in the order in which it is read. In a layout, A and B name
  // the dimensions of b. BA16b has blocks of 16 columns outermost, then rows, then the columns of a
  // block. Since b is a weight, it is packed once, before all calls.
  s = s.set_layout("b", "BA16b");
  show("set_layout b BA16b", s);
  return s;
}

void show_padding() {
  const dsl::Compute convolution = must(dsl::parse_compute(
      "input in: f32[8, 14] @CX\n"
      "weight w: f32[16, 8, 3] @OIS\n"
      "out: f32[k=16, x=14] @CX = sum(c=8, s=3) "
      "select(0 <= x + s - 1 && x + s - 1 < 14, in[c, x + s - 1], 0.0) * w[k, c, s]"));
  const Schedule plain(convolution);
  // A tap is one element of the filter. Taps outside of the image cost neither a select nor a
  // multiplication by zero: if x is at a border, the loop over s starts later or ends earlier.
  show("a padded row convolution: the loop over taps is trimmed", plain);

  // If the taps are unrolled, there is no loop over them to trim. So the columns at the borders are
  // peeled: each has its own copy of the code with fewer taps. The channels are vectorized.
  const Schedule tiled = plain.set_layout("w", "ISO16o")
                             .set_layout("out", "CX16c")
                             .reorder("out", {"x", "c", "s", "k"})
                             .cache_write("out", "x")
                             .vectorize("out", "k")
                             .unroll("out", "s");
  show("the same, vectorized over channels: borders are peeled", tiled);
}

void show_mistakes(const Schedule& good) {
  // A step that is not legal leaves an error in the schedule. Later steps are ignored, and
  // program() returns the error.
  const Schedule twice = good.split("c", "m", 2).parallel("c", "n.0");
  fmt::print("{}\n", twice.error()->message);
  // k is a reduction axis. Its iterations add to the same element, so they cannot be lanes of one
  // vector.
  const Schedule lanes = Schedule(good.compute()).vectorize("c", "k");
  const auto program = lanes.program();
  fmt::print("{}\n", program ? "no error" : program.error().message);
}

int main() {
  const Schedule product = schedule_product();

  // The text is what the database stores. It parses back to the same schedule.
  fmt::print("-- the schedule as text --\n{}\n", product.to_string());
  const Schedule replayed = must(parse_schedule(product.compute(), product.to_string()));
  fmt::print("replays to the same program: {}\n\n",
             to_string(must(replayed.program())) == to_string(must(product.program())));

  // The C printer translates a Program statement by statement, as the machine code generator does.
  fmt::print("-- as C --\n{}\n", must(codegen::emit_c(must(product.program()), "product")));

  show_padding();

  fmt::print("-- mistakes --\n");
  show_mistakes(product);
}
