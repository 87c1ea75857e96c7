// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random graphs of small images. They have convolutions, pooling, all kinds of elementwise
// operators, operators that move elements, operators on constants, and tensors that are read
// several times.

#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "dsl/compute.h"
#include "tests/graph/graphs.h"

namespace tw::graph {

class RandomGraph {
 public:
  explicit RandomGraph(uint64_t seed) : random_(seed) {}

  Graph make(int operators) {
    for (int i = 0; i < 2; ++i) {
      graph_.inputs.push_back({fmt::format("x{}", i), {Float32, image}});
      tensors_.push_back(graph_.inputs.back());
    }
    for (int i = 0; i < operators; ++i) add_operator();
    std::vector<Port> results(tensors_.begin() + 2, tensors_.end());
    random_.shuffle(results);
    for (size_t i = 0; i < results.size() && i < 3; ++i) graph_.outputs.push_back(results[i].name);
    return std::move(graph_);
  }

 private:
  using Expr = dsl::Expr;
  using Shape = std::vector<int64_t>;
  inline static const Shape image = {1, 4, 5, 5};

  static std::vector<dsl::Axis> axes_of(const Shape& shape, const std::string& stem) {
    std::vector<dsl::Axis> axes;
    for (const int64_t extent : shape)
      axes.emplace_back(fmt::format("{}{}", stem, axes.size()), extent);
    return axes;
  }

  static dsl::Tensor tensor(const std::string& name, const Shape& shape) {
    return dsl::input(name, Float32, axes_of(shape, "e"));
  }

  /// Returns a random tensor, mostly one of the last three, so that chains of operators arise.
  Port pick() {
    if (random_.chance(0.7)) {
      const auto last = static_cast<int64_t>(tensors_.size());
      return tensors_[static_cast<size_t>(last - 1 - random_.below(std::min<int64_t>(last, 3)))];
    }
    return random_.pick(tensors_);
  }
  Port pick_of(const Shape& shape) {
    std::vector<Port> found;
    for (const Port& port : tensors_)
      if (port.type.shape == shape) found.push_back(port);
    return random_.pick(found);
  }

  std::string constant(const Shape& shape) {
    const std::string name = fmt::format("w{}", graph_.constants.size());
    dsl::Array array = normal_array(shape, static_cast<uint64_t>(random_.below(1000)));
    for (int64_t i = 0; i < array.size(); ++i) array.set_float(i, 0.4 * array.get_float(i));
    graph_.constants[name] = make_constant(std::move(array));
    return name;
  }

  void finish(Operator op) {
    const dsl::Compute& compute = op.workload.compute;
    tensors_.push_back({op.name(), {Float32, compute.shape_of(compute.outputs.front())}});
    graph_.operators.push_back(std::move(op));
  }
  /// Adds an operator that computes `result`. `tensors` are the tensors for its inputs a, b, ...
  void finish(const dsl::Tensor& result, const std::vector<std::string>& tensors) {
    const dsl::Compute compute = dsl::build(result).value();
    std::vector<std::string> inputs;
    for (const dsl::Input& input : compute.inputs)
      inputs.push_back(tensors[static_cast<size_t>(input.name[0] - 'a')]);
    finish(make_operator(compute, inputs, {next_name()}, graph_.constants).value());
  }
  std::string next_name() const { return fmt::format("t{}", graph_.operators.size()); }

  void add_operator() {
    switch (random_.below(12)) {
      case 0:
      case 1:
        return add_convolution();
      case 2:
        return add_pooling();
      case 3:
        return add_scale();
      case 4:
        return add_sum();
      case 5:
        return add_reshape();
      case 6:
        return add_transpose();
      case 7:
        return add_padding();
      case 8:
        return add_of_constants();
      case 9:
        return repeat();
      default:
        return add_unary();
    }
  }

  void add_convolution() {
    const Port in = pick_of(image);
    const int64_t kernel = random_.chance(0.5) ? 3 : 1;
    const bool bias = random_.chance(0.3);
    std::vector<std::string> inputs = {in.name, constant({4, 4, kernel, kernel})};
    if (bias) inputs.push_back(constant({4}));
    finish(named(fmt::format("conv2d n=1 c=4 h=5 w=5 k=4 r={0} s={0} pad={1} bias={2} f32 fast",
                             kernel, kernel / 2, int{bias}),
                 inputs, next_name()));
  }

  void add_pooling() {
    finish(named("max_pool2d n=1 c=4 h=5 w=5 kernel=3 pad=1 f32 fast", {pick_of(image).name},
                 next_name()));
  }

  void add_unary() {
    const Port in = pick();
    const std::vector<dsl::Axis> axes = axes_of(in.type.shape, "i");
    const Expr x = tensor("a", in.type.shape).read_at({axes.begin(), axes.end()});
    const Expr one = dsl::constant(Float32, 1);
    const std::vector<Expr> choices = {
        max(x, dsl::constant(Float32, 0)),     tanh(x), x, x / (one + exp(-x)),
        x * dsl::constant(Float32, 0.5) + one, abs(x)};
    finish(dsl::compute("y", axes, random_.pick(choices)), {in.name});
  }

  /// Adds an operator that scales or shifts an image by channel, or does both.
  void add_scale() {
    const Port in = pick_of(image);
    const std::vector<dsl::Axis> axes = axes_of(image, "i");
    const Expr x = tensor("a", image).read_at({axes.begin(), axes.end()});
    const Expr b = tensor("b", {4})(axes[1]), c = tensor("c", {4, 1, 1})(axes[1], 0, 0);
    const std::vector<Expr> choices = {x * b + c, (x - b) * c, b - x * c, x + b + c};
    finish(dsl::compute("y", axes, random_.pick(choices)),
           {in.name, constant({4}), constant({4, 1, 1})});
  }

  void add_sum() {
    const Port a = pick(), b = pick_of(a.type.shape);
    const std::vector<dsl::Axis> axes = axes_of(a.type.shape, "i");
    const std::vector<Expr> at(axes.begin(), axes.end());
    const Expr x = tensor("a", a.type.shape).read_at(at), y = tensor("b", a.type.shape).read_at(at);
    const Expr half = dsl::constant(Float32, 0.5);
    const std::vector<Expr> choices = {x + y, (x - y) * half, max(x, y)};
    finish(dsl::compute("y", axes, random_.pick(choices)), {a.name, b.name});
  }

  void add_reshape() {
    const std::vector<Shape> shapes = {image, {4, 25}, {1, 100}, {20, 5}};
    const Port in = pick();
    const auto compute = reshape(Float32, in.type.shape, random_.pick(shapes));
    if (!compute) return add_unary();  // an image with borders
    finish(make_operator(*compute, {in.name}, {next_name()}, graph_.constants).value());
  }

  void add_transpose() {
    const Port in = pick_of(image);
    const std::vector<dsl::Axis> i = axes_of(image, "i");
    const bool is_swap = random_.chance(0.7);  // else only dimensions of one element move
    const std::vector<dsl::Axis> axes =
        is_swap ? std::vector{i[0], i[1], i[3], i[2]} : std::vector{i[1], i[0], i[2], i[3]};
    const dsl::Tensor moved =
        dsl::compute("y", axes, tensor("a", image).read_at({i.begin(), i.end()}));
    finish(moved, {in.name});
  }

  /// Adds zeros around an image, and a convolution that makes the result as small as the image was.
  void add_padding() {
    const Port in = pick_of(image);
    const std::vector<dsl::Axis> i = axes_of({1, 4, 7, 7}, "i");
    const Expr y = Expr(i[2]) - 1, x = Expr(i[3]) - 1;
    const Expr inside = Expr(0) <= y && y < Expr(5) && Expr(0) <= x && x < Expr(5);
    finish(dsl::compute("y", i,
                        dsl::select(inside, tensor("a", image)(i[0], i[1], y, x),
                                    dsl::constant(Float32, 0))),
           {in.name});
    finish(named("conv2d n=1 c=4 h=7 w=7 k=4 r=3 s=3 f32 fast",
                 {tensors_.back().name, constant({4, 4, 3, 3})}, next_name()));
  }

  void add_of_constants() {
    const std::vector<dsl::Axis> axes = axes_of(image, "i");
    const std::vector<Expr> at(axes.begin(), axes.end());
    const dsl::Tensor a = tensor("a", image), b = tensor("b", {4});
    const std::string value = constant(image), factor = constant({4});
    finish(dsl::compute("y", axes, a.read_at(at) * b(axes[1])), {value, factor});
  }

  void repeat() {
    if (graph_.operators.empty()) return;
    Operator copy = random_.pick(graph_.operators);
    copy.outputs = {next_name()};
    finish(std::move(copy));
  }

  Random random_;
  Graph graph_;
  std::vector<Port> tensors_;  ///< all tensors except constants
};

}  // namespace tw::graph
