// SPDX-License-Identifier: Apache-2.0
#include "tests/codegen/kernels.h"

#include "base/integer.h"

namespace tw::codegen {

using schedules::Allocate;
using schedules::block;
using schedules::Loop;
using schedules::Phase;

Argument argument(const std::string& name, DType type, std::vector<int64_t> extents,
                  bool is_output) {
  const int rank = static_cast<int>(extents.size());
  return {{name, type, extents, Scope::Argument},
          extents,
          dsl::Layout::row_major(rank),
          dsl::default_letters(rank),
          is_output,
          false};
}

Stmt loop(const std::string& variable, Expr begin, Expr end, LoopKind kind, Block body) {
  return {Loop{variable, std::move(begin), std::move(end), kind, block(std::move(body))}};
}
Stmt serial(const std::string& variable, int64_t extent, Block body) {
  return loop(variable, 0, extent, LoopKind::Serial, std::move(body));
}
Stmt unrolled(const std::string& variable, int64_t extent, Block body) {
  return loop(variable, 0, extent, LoopKind::Unrolled, std::move(body));
}
Stmt vector(const std::string& variable, int64_t extent, Block body) {
  return loop(variable, 0, extent, LoopKind::Vector, std::move(body));
}
Stmt when(Expr condition, Block body) { return {If{std::move(condition), block(std::move(body))}}; }
Stmt allocate(const std::string& name, DType type, std::vector<int64_t> extents, Scope scope,
              Block body) {
  return {Allocate{{name, type, std::move(extents), scope}, block(std::move(body))}};
}
Stmt assign(const std::string& buffer, std::vector<Expr> indices, Expr value, Combine combine) {
  return {Assign{buffer, std::move(indices), std::move(value), combine}};
}
Expr f32(const std::string& buffer, std::vector<Expr> indices) {
  return dsl::read(buffer, std::move(indices), Float32);
}
Program single_phase(std::vector<Argument> arguments, std::vector<TaskAxis> axes, Block body) {
  return {std::move(arguments), {}, {Phase{"out", std::move(axes), block(std::move(body))}}};
}

Program blocked_gemm(int64_t m, int64_t n, int64_t k, int64_t block_size) {
  const Expr mo = var("m.0"), mi = var("m.1"), no = var("n.0"), r = var("r"), v = var("v");
  const Expr ko = var("k.0"), ki = var("k.1");
  const Expr row = mo * 6 + mi, column = no * 32 + r * 16 + v;
  const auto tile = [&](Stmt inner) {
    return unrolled("m.1", 6, {unrolled("r", 2, {vector("v", 16, {std::move(inner)})})});
  };
  const Expr product =
      f32("a", {row, ko * block_size + ki}) * f32("b", {ko * block_size + ki, column});
  const Block body = {
      when(dsl::eq(ko, 0), {tile(assign("acc", {mi, r, v}, dsl::constant(Float32, 0)))}),
      when(ko >= Expr(1), {tile(assign("acc", {mi, r, v}, f32("c", {row, column})))}),
      loop("k.1", 0, dsl::min(Expr(block_size), Expr(k) - ko * block_size), LoopKind::Serial,
           {tile(assign("acc", {mi, r, v}, product, Combine::Sum))}),
      tile(assign("c", {row, column}, f32("acc", {mi, r, v})))};
  return single_phase({argument("a", Float32, {m, k}, false), argument("b", Float32, {k, n}, false),
                       argument("c", Float32, {m, n}, true)},
                      {{"m.0", m / 6}, {"n.0", n / 32}},
                      {serial("k.0", ceil_div(k, block_size),
                              {allocate("acc", Float32, {6, 2, 16}, Scope::Register, body)})});
}

Program guarded_tail(int64_t n) {
  const Expr o = var("o"), v = var("v"), i = o * 16 + v;
  const Stmt store = assign("out", {i}, f32("in", {i}) * dsl::constant(Float32, 2));
  return single_phase(
      {argument("in", Float32, {n}, false), argument("out", Float32, {n}, true)},
      {{"o", ceil_div(n, 16)}},
      {when(o * 16 + Expr(16) <= Expr(n), {vector("v", 16, {store})}),
       when(Expr(n) < o * 16 + Expr(16), {vector("v", 16, {when(i < Expr(n), {store})})})});
}

Program partial_sums(int64_t n, int64_t step, DType type) {
  const Expr i = var("o") * 16 + var("v"), exists = i < Expr(n);
  const auto sum = [&](Expr value, Combine combine) {
    return assign("sum", {var("v")}, std::move(value), combine);
  };
  const auto guarded = [&](Stmt stmt) {
    return vector("v", 16, {when(exists, {std::move(stmt)})});
  };
  return single_phase(
      {argument("in", type, {n, step}, false), argument("out", type, {n, step}, true)},
      {{"o", ceil_div(n, 16)}},
      {allocate(
          "sum", type, {16}, Scope::Register,
          {vector("v", 16, {sum(dsl::constant(type, 0), Combine::None)}),
           serial("k", step,
                  {guarded(sum(dsl::read("in", {i, var("k")}, type), Combine::Sum)),
                   guarded(assign("out", {i, var("k")}, dsl::read("sum", {var("v")}, type)))})})});
}

Program padded_row_conv(int64_t height, int64_t width, DType type) {
  const Expr y = var("y"), x = var("x"), ky = var("ky"), kx = var("kx");
  const Expr iy = y + ky - 1, ix = x + kx - 1;
  const Expr inside = iy >= Expr(0) && iy < Expr(height) && ix >= Expr(0) && ix < Expr(width);
  const Expr term = dsl::select(inside, dsl::read("in", {iy, ix}, type), dsl::constant(type, 0)) *
                    dsl::read("w", {ky, kx}, type);
  return single_phase(
      {argument("in", type, {height, width}, false), argument("w", type, {3, 3}, false),
       argument("out", type, {height, width}, true)},
      {{"y", height}},
      {vector("x", width, {assign("out", {y, x}, dsl::constant(type, 0))}),
       serial("ky", 3,
              {unrolled("kx", 3,
                        {vector("x", width, {assign("out", {y, x}, term, Combine::Sum)})})})});
}

Program subtract_mean(int64_t rows, int64_t columns) {
  const Expr r = var("r"), c = var("c");
  Program program;
  program.arguments = {argument("in", Float32, {rows, columns}, false),
                       argument("out", Float32, {rows, columns}, true)};
  program.scratch = {{"count", Int32, {rows}, Scope::Scratch},
                     {"mean", Float32, {rows}, Scope::Scratch}};
  program.phases = {
      {"mean",
       {{"r", rows}},
       block({assign("count", {r}, dsl::constant_int(Int32, 0)),
              assign("mean", {r}, dsl::constant(Float32, 0)),
              serial("c", columns,
                     {assign("mean", {r}, f32("in", {r, c}), Combine::Sum),
                      assign("count", {r}, dsl::constant_int(Int32, 1), Combine::Sum)}),
              assign("mean", {r},
                     f32("mean", {r}) / dsl::cast(Float32, dsl::read("count", {r}, Int32)))})},
      {"out",
       {{"c", columns}},
       block({serial("r", rows, {assign("out", {r, c}, f32("in", {r, c}) - f32("mean", {r}))})})}};
  return program;
}

Program gather(int64_t count, int64_t size, DType index_type) {
  const Expr i = var("i");
  const Expr at = dsl::cast(Int64, dsl::read("index", {i}, index_type));
  const Expr value =
      dsl::select(at >= Expr(0) && at < Expr(size), f32("table", {at}), dsl::constant(Float32, -1));
  return single_phase(
      {argument("index", index_type, {count}, false), argument("table", Float32, {size}, false),
       argument("out", Float32, {count}, true)},
      {}, {vector("i", count, {assign("out", {i}, value)})});
}

Program max_pool(int64_t width) {
  const Expr x = var("x"), k = var("k"), at = x * 2 + k - 1;
  const Expr term = dsl::select(at >= Expr(0) && at < Expr(width), f32("in", {at}),
                                dsl::identity(Combine::Max, Float32));
  const int64_t outputs = ceil_div(width, 2);
  return single_phase(
      {argument("in", Float32, {width}, false), argument("out", Float32, {outputs}, true)}, {},
      {vector("x", outputs, {assign("out", {x}, dsl::identity(Combine::Max, Float32))}),
       serial("k", 3, {vector("x", outputs, {assign("out", {x}, term, Combine::Max)})})});
}

Program large_local(int64_t n) {
  const Expr t = var("t"), i = var("i"), j = var("j");
  return single_phase(
      {argument("in", Float32, {2, n, n}, false), argument("out", Float32, {2, n, n}, true)},
      {{"t", 2}},
      {allocate(
          "copy", Float32, {n, n}, Scope::Local,
          {serial("i", n, {vector("j", n, {assign("copy", {j, i}, f32("in", {t, i, j}))})}),
           serial("i", n, {vector("j", n, {assign("out", {t, i, j}, f32("copy", {i, j}))})})})});
}

Program direct_conv(int64_t channels, int64_t outputs, int64_t height, int64_t width,
                    int64_t vectors, int64_t pixels) {
  const Expr oc = var("oc"), y = var("y"), xo = var("xo"), x = var("x"), r = var("r"), v = var("v");
  const Expr cc = var("cc"), ky = var("ky"), kx = var("kx"), ci = var("ci");
  const auto tile = [&](Stmt inner) {
    return unrolled("x", pixels, {unrolled("r", vectors, {vector("v", 16, {std::move(inner)})})});
  };
  const Expr term =
      f32("in", {cc, y + ky, xo * pixels + x + kx, ci}) * f32("w", {oc, cc, ky, kx, ci, r, v});
  const Stmt reduction = serial(
      "cc", channels / 16,
      {serial("ky", 3,
              {serial("kx", 3,
                      {serial("ci", 16, {tile(assign("acc", {x, r, v}, term, Combine::Sum))})})})});
  return single_phase(
      {argument("in", Float32, {channels / 16, height + 2, width + 2, 16}, false),
       argument("w", Float32, {outputs / (16 * vectors), channels / 16, 3, 3, 16, vectors, 16},
                false),
       argument("out", Float32, {outputs / 16, height, width, 16}, true)},
      {{"oc", outputs / (16 * vectors)}, {"y", height}},
      {serial("xo", width / pixels,
              {allocate("acc", Float32, {pixels, vectors, 16}, Scope::Register,
                        {tile(assign("acc", {x, r, v}, dsl::constant(Float32, 0))), reduction,
                         tile(assign("out", {oc * vectors + r, y, xo * pixels + x, v},
                                     f32("acc", {x, r, v})))})})});
}

}  // namespace tw::codegen
