// SPDX-License-Identifier: Apache-2.0
// Lesson 1: say what to compute.
//
// An operator is declared as a tensor expression: axes, inputs, and a formula for one element of
// the result. The declaration says nothing about loops, tiles, vectors or threads; lesson 2 is
// about these. The declaration also has a text form, which is the operator's name in the database.

#include <fmt/format.h>

#include "dsl/compute.h"
#include "dsl/interpret.h"
#include "dsl/parse.h"
#include "dsl/workload.h"
#include "lessons/lesson.h"

using namespace tw;
using namespace tw::dsl;
using lessons::must;

// c[m, n] = sum over k of a[m, k] * b[k, n]. The axes have no extents here. build() gets the
// extents, so that one declaration serves many shapes.
Compute declare_product(int64_t rows, int64_t columns, int64_t depth) {
  const Axis m("m"), n("n"), k("k");
  const Tensor a = input("a", Float32, {m, k});
  const Tensor b = weight("b", Float32, {k, n});  // a weight is constant, so it may be packed once
  const Tensor c = compute("c", {m, n}, sum(k, a(m, k) * b(k, n)));
  return must(build(c, {{m, rows}, {n, columns}, {k, depth}}));
}

// A 3 x 3 convolution with a border of zeros. Padding is a select around the read of the image. A
// select evaluates only the operand that it chooses, so nothing outside of the image is read. This
// holds for every schedule. It costs little, because no multiplication by a padded zero is left;
// lesson 2 shows this.
Compute declare_convolution(int64_t channels, int64_t outputs, int64_t size) {
  const Axis k("k", outputs), y("y", size), x("x", size);
  const Axis c("c", channels), r("r", 3), s("s", 3);
  const Tensor in = input("in", Float32, {c, Axis("h", size), Axis("w", size)}, "CHW");
  const Tensor w = weight("w", Float32, {k, c, r, s}, "OIHW");
  const Expr row = Expr(y) + r - 1, column = Expr(x) + s - 1;
  const Expr inside = row >= 0 && row < size && column >= 0 && column < size;
  const Expr padded = select(inside, in(c, row, column), 0.0f);
  const Tensor out = compute("out", {k, y, x}, sum({c, r, s}, padded * w(k, c, r, s)), "CHW");
  return must(build(out));
}

void print_array(const std::string& name, const Array& array) {
  const int64_t columns = array.shape.back();
  fmt::print("{} =\n", name);
  for (int64_t i = 0; i < array.size(); ++i)
    fmt::print("{:5}{}", array.get_float(i), (i + 1) % columns ? " " : "\n");
}

// Returns an array with the elements 1, 2, 3, ... in row-major order, so that results can be
// checked by hand.
Array counting(std::vector<int64_t> shape) {
  Array array = must(Array::make(Float32, std::move(shape)));
  for (int64_t i = 0; i < array.size(); ++i) array.set_float(i, static_cast<double>(i + 1));
  return array;
}

int main() {
  fmt::print("-- a matrix product --\n");
  const Compute product = declare_product(2, 3, 4);
  fmt::print("{}", to_text(product));

  // The printed text parses back to the same compute.
  const Compute again = must(parse_compute(to_text(product)));
  fmt::print("parses back to the same compute: {}\n", to_line(again) == to_line(product));
  fmt::print("{} floating-point operations\n", count_flops(product));

  // The interpreter defines the meaning of a compute; it is simple and slow. Every kernel is
  // checked against it.
  const Arrays inputs = {{"a", counting({2, 4})}, {"b", counting({4, 3})}};
  print_array("a", inputs.at("a"));
  print_array("b", inputs.at("b"));
  print_array("c", must(interpret(product, inputs)).at("c"));

  fmt::print("\n-- a padded convolution --\n");
  const Compute convolution = declare_convolution(1, 1, 4);
  fmt::print("{}", to_text(convolution));
  // With a weight of ones, each output is the sum of a 3 x 3 neighbourhood. At the border of the
  // image fewer neighbours are inside of it.
  Array ones = must(Array::make(Float32, {1, 1, 3, 3}));
  for (int64_t i = 0; i < ones.size(); ++i) ones.set_float(i, 1);
  const Arrays image = {{"in", counting({1, 4, 4})}, {"w", ones}};
  print_array("in", image.at("in"));
  print_array("out", must(interpret(convolution, image)).at("out"));

  fmt::print("\n-- a workload: what is tuned and stored --\n");
  // A workload is a compute with the accuracy that its kernels must have. The database stores
  // results under the workload's key. Frequent operators have names, and their shapes a short form
  // for the command line.
  fmt::print("{}\n", must(workload(product)).key());
  const Attributes shape = must(parse_shape("n1c64h56w56k64r3s3p1", "conv2d"));
  fmt::print("{}\n", must(make_workload("conv2d", shape)).key());

  fmt::print("\n-- a mistake, and what is said about it --\n");
  const auto wrong = parse_compute("input a: f32[4, 4]\nb: f32[i=4] = sum(k=4) a[i]");
  fmt::print("{}\n", wrong ? "no error" : wrong.error().message);
}
