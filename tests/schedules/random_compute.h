// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random computes over small odd shapes, with the structures that schedules must cope with. On
// integer inputs the results are exact in any order of evaluation, unless `tolerance` is above 0.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "dsl/parse.h"
#include "dsl/workload.h"

namespace tw::schedules {

struct RandomCompute {
  dsl::Compute compute;
  double tolerance = 0;
};

class ComputeMaker {
 public:
  explicit ComputeMaker(Random& random) : random_(random) {}

  RandomCompute make() {
    switch (random_.below(13)) {
      case 0:
        return parsed(elementwise());
      case 1:
        return parsed(stencil());
      case 2:
        return parsed(two_stencils());
      case 3:
        return parsed(reduction());
      case 4:
        return parsed(masked_reduction());
      case 5:
        return parsed(diamond());
      case 6:
        return parsed(resampling());
      case 7:
        return parsed(partial_product());
      case 8:
        return parsed(scan());
      case 9:
        return parsed(lookup());
      case 10:
      case 11:
        return conv();
      default:
        return named_operator();
    }
  }

 private:
  using Names = std::vector<std::string>;

  static RandomCompute parsed(const std::string& text) {
    auto compute = dsl::parse_compute(text);
    TW_CHECK(compute, "the generator writes valid computes");
    return {std::move(*compute)};
  }

  int64_t extent() {
    if (random_.chance(0.01)) return 0;
    return random_.pick(std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13});
  }
  int64_t small() { return 1 + random_.below(5); }
  std::string any(const Names& names) { return random_.pick(names); }

  struct Shape {
    Names names;
    std::vector<int64_t> extents;

    std::string type(const std::string& dtype) const {
      std::vector<std::string> parts;
      for (const int64_t e : extents) parts.push_back(std::to_string(e));
      return fmt::format("{}[{}]", dtype, join(parts, ", "));
    }
    std::string axes(const std::string& dtype) const {
      return fmt::format("{}[{}]", dtype, bindings());
    }
    std::string bindings() const {
      std::vector<std::string> parts;
      for (size_t i = 0; i < names.size(); ++i)
        parts.push_back(fmt::format("{}={}", names[i], extents[i]));
      return join(parts, ", ");
    }
    std::string at() const { return join(names, ", "); }
  };
  Shape shape(size_t least, size_t most) {
    const Names all = {"i", "j", "k", "l"};
    Shape s;
    const size_t rank =
        least + static_cast<size_t>(random_.below(static_cast<int64_t>(most - least + 1)));
    for (size_t d = 0; d < rank; ++d) {
      s.names.push_back(all[d]);
      s.extents.push_back(rank > 2 ? std::min<int64_t>(extent(), 7) : extent());
    }
    return s;
  }

  std::string elementwise() {
    const Shape s = shape(1, 3);
    const std::string t = any({"f32", "f32", "i32", "i8", "u8", "f16", "bf16"});
    const std::string last = s.names.back();
    const bool has_floats = t.find('f') != std::string::npos;
    std::string text =
        fmt::format("input a: {}\nweight b: {}[{}]\n", s.type(t), t, s.extents.back());
    std::string previous = fmt::format("a[{}]", s.at());
    const int64_t count = 1 + random_.below(3);
    for (int64_t n = 0; n < count; ++n) {
      const std::string body = any(
          {fmt::format("{} + b[{}]", previous, last), fmt::format("max({}, 0)", previous),
           fmt::format("{} * 2 - a[{}]", previous, s.at()),
           fmt::format("min({}, b[{}])", previous, last),
           fmt::format("select({} < 2, {}, a[{}])", last, previous, s.at()),
           fmt::format("select({} < 3, {}, 1)", last, previous), fmt::format("abs({})", previous),
           has_floats ? fmt::format("round({} * 0.5{})", previous, t == "f32" ? "" : t)
                      : fmt::format("{} {} b[{}]", previous, any({"/", "%"}), last)});
      text += fmt::format("t{}: {} = {}\n", n, s.axes(t), body);
      previous = fmt::format("t{}[{}]", n, s.at());
    }
    if (random_.chance(0.5)) {
      const std::string wide = any({"f32", "i32", "f16", "bf16"});
      text += fmt::format("wide: {} = {}({})\n", s.axes(wide), wide, previous);
    }
    return text;
  }

  /// Returns a read of `tensor` at `axis` + `offset` in its last dimension, which has `extent`
  /// elements. The index is clamped to the dimension, or `fill` replaces elements outside of it.
  std::string tap(const std::string& tensor, const std::string& axis, int64_t offset,
                  int64_t extent, const std::string& before, const std::string& fill) {
    const std::string at = fmt::format("{} + {}", axis, offset);
    if (random_.chance(0.5))
      return fmt::format("{}[{}min(max({}, 0), {})]", tensor, before, at, extent - 1);
    return fmt::format("select(0 <= {0} && {0} < {1}, {2}[{3}{0}], {4})", at, extent, tensor,
                       before, fill);
  }

  std::string taps(const std::string& tensor, const Shape& s) {
    std::string before;
    for (size_t d = 0; d + 1 < s.names.size(); ++d) before += s.names[d] + ", ";
    std::vector<std::string> terms;
    const int64_t count = 1 + random_.below(3);
    const std::string fill = any({"0", "1"});
    for (int64_t n = 0; n < count; ++n)
      terms.push_back(
          tap(tensor, s.names.back(), random_.below(7) - 3, s.extents.back(), before, fill));
    return join(terms, any({" + ", " - "}));
  }

  Shape stencil_shape() {
    Shape s = shape(1, 2);
    for (int64_t& e : s.extents) e = std::max<int64_t>(e, 1);
    return s;
  }

  std::string stencil() {
    const Shape s = stencil_shape();
    const std::string t = any({"f32", "i32", "i8", "bf16"});
    return fmt::format("input a: {}\nout: {} = {}\n", s.type(t), s.axes(t), taps("a", s));
  }

  std::string two_stencils() {
    const Shape s = stencil_shape();
    const std::string t = any({"f32", "i32"});
    std::string text =
        fmt::format("input a: {}\nfirst: {} = {}\n", s.type(t), s.axes(t), taps("a", s));
    if (random_.chance(0.5) && s.extents.back() > 3) {
      Shape valid = s;
      valid.extents.back() -= 2;
      std::string at;
      for (size_t d = 0; d + 1 < s.names.size(); ++d) at += s.names[d] + ", ";
      const std::string last = s.names.back();
      return text +
             fmt::format("out: {0} = first[{1}{2}] + first[{1}{2} + 1] * 2 - first[{1}{2} + 2]\n",
                         valid.axes(t), at, last);
    }
    return text + fmt::format("out: {} = {}\n", s.axes(t), taps("first", s));
  }

  std::string reduction() {
    const Shape all = shape(2, 4);
    Shape kept, reduced;
    for (size_t d = 0; d < all.names.size(); ++d) {
      Shape& side = random_.chance(0.5) ? kept : reduced;
      side.names.push_back(all.names[d]);
      side.extents.push_back(std::min<int64_t>(all.extents[d], 7));
    }
    if (reduced.names.empty()) std::swap(kept, reduced);
    Shape full = all;
    for (int64_t& e : full.extents) e = std::min<int64_t>(e, 7);
    const std::string op = any({"sum", "sum", "max", "min", "prod"});
    const std::string t = op == "prod" ? "i32" : any({"f32", "f32", "i32", "i8", "u8", "f16"});
    const std::string wide = t == "f32" ? "f32" : t == "f16" ? "f32" : "i32";
    std::string text = fmt::format("input a: {}\n", full.type(t));
    std::string source = "a";
    if (random_.chance(0.4)) {
      text += fmt::format("pre: {} = max(a[{}], 0) * 2\n", full.axes(t), full.at());
      source = "pre";
    }
    std::string term = fmt::format("{}({}[{}])", wide, source, full.at());
    if (random_.chance(0.3)) term += fmt::format(" * {}(a[{}])", wide, full.at());
    text += fmt::format("r: {} = {}({}) {}\n", kept.axes(wide), op, reduced.bindings(), term);
    if (random_.chance(0.5))
      text += fmt::format("out: {} = max(r[{}], {}) * 2\n", kept.axes(wide), kept.at(),
                          any({"0", "1"}));
    return text;
  }

  /// Returns a sum of one or two factors. A factor may lack some of the axes or read no tensor.
  std::string partial_product() {
    std::map<std::string, int64_t> extents;
    for (const char* axis : {"i", "j", "k", "l"})
      extents[axis] = std::clamp<int64_t>(extent(), 1, 7);
    const auto [t, wide] = random_.pick(std::vector<std::pair<std::string, std::string>>{
        {"f32", "f32"}, {"i32", "i32"}, {"i8", "i32"}});
    std::string text;
    const auto factor = [&](const std::string& name, const std::string& own) {
      if (random_.chance(0.2))
        return fmt::format("select({0} + k < {1}, {2}(1), {2}(0))", own, small() + 2, wide);
      Shape s{{own}, {extents[own]}};
      for (const char* axis : {"k", "l"})
        if (random_.chance(0.6)) {
          s.names.push_back(axis);
          s.extents.push_back(extents[axis]);
        }
      text += fmt::format("input {}: {}\n", name, s.type(t));
      return fmt::format("{}({}[{}])", wide, name, s.at());
    };
    std::string term = factor("a", "i");
    if (random_.chance(0.8)) term += " * " + factor("b", "j");
    const Shape kept{{"i", "j"}, {extents["i"], extents["j"]}};
    const Shape reduced{{"k", "l"}, {extents["k"], extents["l"]}};
    return text + fmt::format("r: {} = sum({}) {}\n", kept.axes(wide), reduced.bindings(), term);
  }

  /// Returns a reduction with a condition on its index j, and mostly on i too, such as a triangle,
  /// a window or a stride.
  std::string masked_reduction() {
    const int64_t n = std::max<int64_t>(extent(), 1), k = std::max<int64_t>(extent(), 1);
    const std::string op = any({"sum", "sum", "max", "min"});
    const std::string t = any({"f32", "i32"});
    const std::string neutral = op == "sum"  ? "0"
                                : t == "i32" ? (op == "max" ? "-2147483648" : "2147483647")
                                             : (op == "max" ? "-inf" : "inf");
    const int64_t a = small(), b = small() - 2;
    const std::string condition = any(
        {"j <= i", "i < j", fmt::format("i + j < {}", n), fmt::format("{} * j < i + {}", a, b + 3),
         fmt::format("0 <= {0} * i - j + {1} && {0} * i - j + {1} < {2}", a, b, k),
         fmt::format("i / {} <= j", a), fmt::format("j % {} == 0", a), fmt::format("j != {}", b)});
    std::string text = fmt::format("input a: {}[{}, {}]\nweight w: {}[{}]\n", t, n, k, t, k);
    std::string term = fmt::format("select({}, a[i, j], {})", condition, neutral);
    if (op == "sum" && random_.chance(0.5)) term += " * w[j]";
    text += fmt::format("r: {}[i={}] = {}(j={}) {}\n", t, n, op, k, term);
    if (random_.chance(0.5)) text += fmt::format("out: {}[i={}] = r[i] + a[i, 0]\n", t, n);
    return text;
  }

  /// Returns a gather or a scatter. The input p selects the rows that are read or written. An
  /// element of p may name no row, and several may name the same row.
  std::string lookup() {
    const int64_t rows = 1 + random_.below(6), named = extent(), columns = extent();
    const std::string t = any({"f32", "i32", "f16"}), wide = t == "i32" ? "i32" : "f32";
    const std::string index = any({"p[i]", "p[i]", "select(p[i] < 0, p[i] + 2, p[i])"});
    std::string text = fmt::format("input p: i64[{}]\n", named);
    const auto term = [&](const std::string& condition, const std::string& element) {
      return fmt::format("select({}, {}({}), 0)", condition, wide, element);
    };
    if (random_.chance(0.3)) {  // along the contiguous axis
      text += fmt::format("input a: {}[{}, {}]\n", t, columns, rows);
      text += fmt::format("r: {}[j={}, i={}] = sum(v={}) {}\n", wide, columns, named, rows,
                          term(index + " == v", "a[j, v]"));
    } else if (random_.chance(0.5)) {
      text += fmt::format("input a: {}[{}, {}]\n", t, rows, columns);
      text += fmt::format("r: {}[i={}, j={}] = sum(v={}) {}\n", wide, named, columns, rows,
                          term(index + " == v", "a[v, j]"));
    } else {
      text += fmt::format("input a: {}[{}, {}]\n", t, named, columns);
      const std::string condition = any({"p[k] == i", "p[k] == i && k < 3"});
      text += fmt::format("r: {}[i={}, j={}] = sum(k={}) {}\n", wide, rows, columns, named,
                          term(condition, "a[k, j]"));
    }
    if (random_.chance(0.4)) {
      const auto at = text.find("r: ");
      const std::string axes =
          text.substr(text.find('[', at), text.find(']', at) + 1 - text.find('[', at));
      const std::string indices = axes.find("[j") == 0 ? "[j, i]" : "[i, j]";
      text += fmt::format("out: {}{} = {}(r{} * 2)\n", t, axes, t, indices);
    }
    return text;
  }

  /// Returns a scan along any axis. Its terms may be guarded, and elementwise stages may come
  /// before and after it.
  std::string scan() {
    const Shape s = shape(1, 3);
    const std::string t = any({"f32", "i32", "i8"});
    const auto d = static_cast<size_t>(random_.below(static_cast<int64_t>(s.names.size())));
    Shape terms = s;
    terms.names[d] = "p";
    std::string text = fmt::format("input a: {}\n", s.type(t)), source = "a";
    if (random_.chance(0.4)) {
      text += fmt::format("pre: {} = max(a[{}], 0) + 1\n", s.axes(t), s.at());
      source = "pre";
    }
    std::string term = fmt::format("{}[{}]", source, terms.at());
    if (random_.chance(0.3)) term = fmt::format("select(p < {}, {}, 0)", small(), term);
    text += fmt::format("r: {} = {}(p {} {}) {}\n", s.axes(t), any({"sum", "sum", "max", "min"}),
                        any({"<=", "<"}), s.names[d], term);
    if (random_.chance(0.5))
      text += fmt::format("out: {} = min(r[{}], 3) * 2\n", s.axes(t), s.at());
    return text;
  }

  std::string diamond() {
    const Shape s = shape(1, 3);
    const std::string t = any({"f32", "i32"}), at = s.at();
    std::string text = fmt::format("input a: {}\n", s.type(t));
    text += fmt::format("t: {} = a[{}] * 2\n", s.axes(t), at);
    text += fmt::format("u: {} = max(t[{}], 1)\n", s.axes(t), at);
    text += fmt::format("out: {} = u[{}] + t[{}]\n", s.axes(t), at, at);
    if (random_.chance(0.5)) text += "output u, out\n";
    return text;
  }

  std::string resampling() {
    const int64_t n = 3 + random_.below(9), f = 2 + random_.below(3);
    const std::string t = any({"f32", "i8"});
    const std::string body = any({fmt::format("t[(i + 1) / {}]", f), fmt::format("t[i % {}]", n),
                                  fmt::format("t[i * {}]", f), fmt::format("t[{} - i]", n - 1)});
    const int64_t size = body.find('*') != std::string::npos   ? (n - 1) / f + 1
                         : body.find('-') != std::string::npos ? n
                                                               : 2 * n - 1;
    return fmt::format("input a: {0}[{1}]\nt: {0}[i={1}] = a[i] + 1\nout: {0}[i={2}] = {3}\n", t, n,
                       size, body);
  }

  RandomCompute conv() {
    for (;;) {
      const int64_t groups = random_.chance(0.7) ? 1 : 1 + random_.below(3);
      const bool depthwise = groups > 1 && random_.chance(0.5);
      dsl::Attributes a = {{"n", 1 + random_.below(2)},
                           {"c", depthwise ? groups : groups * small()},
                           {"h", 1 + random_.below(7)},
                           {"w", 1 + random_.below(7)},
                           {"k", depthwise ? groups : groups * small()},
                           {"r", 1 + random_.below(3)},
                           {"s", 1 + random_.below(3)},
                           {"stride", 1 + random_.below(2)},
                           {"pad", random_.below(3)},
                           {"dilation", random_.chance(0.8) ? 1 : 2},
                           {"groups", groups},
                           {"bias", random_.below(2)},
                           {"relu", random_.below(2)},
                           {"residual", random_.chance(0.2)}};
      if (random_.chance(0.3)) a["pad_right"] = random_.below(3);
      if (random_.chance(0.03)) a["n"] = 0;
      const DType type =
          random_.pick(std::vector<DType>{Float32, Float32, Float16, BFloat16, Int8, UInt8});
      if (auto w = dsl::make_workload("conv2d", a, type)) return {std::move(w->compute)};
    }
  }

  RandomCompute named_operator() {
    const std::string op =
        any({"dense", "dense", "batch_matmul", "max_pool2d", "transpose", "reduce_sum", "argmax",
             "add_relu", "global_avg_pool", "softmax", "layer_norm"});
    const bool inexact = op == "softmax" || op == "layer_norm";
    const DType type = random_.pick(inexact || op == "global_avg_pool"
                                        ? std::vector<DType>{Float32}
                                        : std::vector<DType>{Float32, Int8, BFloat16});
    for (;;) {
      dsl::Attributes a;
      for (const dsl::Attribute& attribute : (*dsl::find_operator(op))->attributes) {
        const std::string name(attribute.name);
        if (attribute.is_flag)
          a[name] = random_.below(2);
        else if (attribute.name == "kernel")
          a[name] = 1 + random_.below(3);
        else if (attribute.name == "stride")
          a[name] = 1 + random_.below(2);
        else if (attribute.name == "pad")
          a[name] = random_.below(2);
        else if (attribute.always)
          a[name] = std::max<int64_t>(extent(), 1);
      }
      if (a.size() > 3)
        for (auto& [name, value] : a) value = std::min<int64_t>(value, 6);
      if (auto w = dsl::make_workload(op, a, type))
        return {std::move(w->compute), inexact ? 1e-5 : 0};
    }
  }

  Random& random_;
};

inline RandomCompute random_compute(Random& random) { return ComputeMaker(random).make(); }

/// Returns the expression with f64 in place of f32.
inline dsl::Expr in_doubles(const dsl::Expr& expr) {
  const auto wider = [](DType type) { return type == Float32 ? Float64 : type; };
  return dsl::visit(
      expr,
      [&](const dsl::Const& c) {
        return c.type == Float32 ? dsl::constant(Float64, c.float_value) : expr;
      },
      [&](const dsl::Var&) { return expr; },
      [&](const dsl::Read& r) {
        std::vector<dsl::Expr> indices;
        for (const dsl::Expr& index : r.indices) indices.push_back(in_doubles(index));
        return dsl::read(r.tensor, indices, wider(r.type));
      },
      [&](const dsl::Unary& u) { return dsl::unary(u.op, in_doubles(u.a)); },
      [&](const dsl::Binary& b) { return dsl::binary(b.op, in_doubles(b.a), in_doubles(b.b)); },
      [&](const dsl::Select& s) {
        return dsl::select(in_doubles(s.condition), in_doubles(s.a), in_doubles(s.b));
      },
      [&](const dsl::Cast& c) { return dsl::cast(wider(c.type), in_doubles(c.a)); });
}

inline dsl::Compute in_doubles(dsl::Compute compute) {
  for (dsl::Input& input : compute.inputs)
    if (input.type == Float32) input.type = Float64;
  for (dsl::Stage& stage : compute.stages) {
    stage.body = in_doubles(stage.body);
    stage.type = stage.body.type();
  }
  return compute;
}

}  // namespace tw::schedules
