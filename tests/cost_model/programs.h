// SPDX-License-Identifier: Apache-2.0
#pragma once
// Loop programs written by hand. Tests derive the numbers that they expect from them in comments.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/target.h"
#include "dsl/layout.h"
#include "schedules/program/program.h"

namespace tw::cost_model::testing {

using dsl::Expr;
using dsl::read;
using dsl::var;
using schedules::Allocate;
using schedules::Argument;
using schedules::Assign;
using schedules::block;
using schedules::Block;
using schedules::Buffer;
using schedules::If;
using schedules::Loop;
using schedules::LoopKind;
using schedules::Phase;
using schedules::Program;
using schedules::Scope;
using schedules::Stmt;

inline Target avx512() {
  Target target;
  target.machine = generic_x86_64({.bytes = 64, .registers = 32, .embedded_broadcast = true});
  target.machine.caches[1].bytes = 1 << 20;
  target.machine.caches[2].bytes = 32 << 20;
  return target;
}

inline Target avx2() {
  Target target = avx512();
  target.machine.core.vector_bytes = 32;
  target.machine.core.vector_registers = 16;
  target.machine.core.embedded_broadcast = false;
  return target;
}

inline Argument argument(const std::string& name, std::vector<int64_t> extents,
                         bool is_output = false) {
  Argument a;
  a.buffer = {name, Float32, extents, Scope::Argument};
  a.shape = extents;
  a.layout = dsl::Layout::row_major(static_cast<int>(extents.size()));
  a.is_output = is_output;
  return a;
}

/// A loop over [0, extent). nest() puts a body into such loops, the outermost of which is the
/// first.
struct Around {
  std::string variable;
  int64_t extent;
  LoopKind kind = LoopKind::Serial;
};
inline Block nest(const std::vector<Around>& loops, Block body) {
  for (size_t i = loops.size(); i > 0; --i)
    body = {Stmt{Loop{loops[i - 1].variable, 0, loops[i - 1].extent, loops[i - 1].kind,
                      block(std::move(body))}}};
  return body;
}
inline Block together(Block a, const Block& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
inline Stmt assign(const std::string& buffer, std::vector<Expr> indices, Expr value,
                   schedules::Combine combine = schedules::Combine::None) {
  return Stmt{Assign{buffer, std::move(indices), std::move(value), combine}};
}

/// A 3x3 convolution of 64 channels on 56x56 pixels. The sums of a tile of `pixels` x `vectors` *
/// 16 channels are kept in registers. The innermost loop has `depth` unrolled input channels or, if
/// `window`, the three unrolled columns of the window. `statements` equal statements add to each
/// sum.
struct ConvTile {
  int64_t pixels = 14;
  int64_t vectors = 2;
  int64_t depth = 1;
  bool vectors_outside = false;  // the loop over vectors is outside of the one over pixels
  bool window = false;           // the columns of the window are unrolled
  int statements = 1;
};

inline Program conv(const ConvTile& tile) {
  const auto [pixels, vectors, depth, vectors_outside, window, statements] = tile;
  const int64_t blocks = 4 / vectors;
  Program program;
  program.arguments = {argument("in", {4, 58, 58, 16}),
                       argument("w", {blocks, 4, 3, 3, 16, vectors, 16}),
                       argument("out", {4, 56, 56, 16}, true)};
  program.arguments[1].constant = true;

  const Expr x = var("x"), xo = var("xo"), r = var("r"), v = var("v"), y = var("y"), k = var("k");
  const Expr channel = window ? var("ci") : var("ci") * Expr(depth) + var("cu");
  const Expr pixel = xo * Expr(pixels) + x;
  const std::vector<Around> rows = {{"x", pixels, LoopKind::Unrolled}};
  const std::vector<Around> columns = {{"r", vectors, LoopKind::Unrolled}};
  std::vector<Around> lanes =
      vectors_outside ? std::vector{columns[0], rows[0]} : std::vector{rows[0], columns[0]};
  lanes.push_back({"v", 16, LoopKind::Vector});
  std::vector<Around> steps = {
      {"cc", 4}, {"ky", 3}, {"kx", 3}, {"ci", 16 / depth}, {"cu", depth, LoopKind::Unrolled}};
  if (window) steps = {{"cc", 4}, {"ky", 3}, {"ci", 16}, {"kx", 3, LoopKind::Unrolled}};
  steps.insert(steps.end(), lanes.begin(), lanes.end());

  const Expr product = read("in", {var("cc"), y + var("ky"), pixel + var("kx"), channel}, Float32) *
                       read("w", {k, var("cc"), var("ky"), var("kx"), channel, r, v}, Float32);
  const Block clear = nest(lanes, {assign("acc", {x, r, v}, dsl::constant(Float32, 0))});
  const Block sum = nest(steps, Block(static_cast<size_t>(statements),
                                      assign("acc", {x, r, v}, product, schedules::Combine::Sum)));
  const Block store =
      nest(lanes,
           {assign("out", {k * Expr(vectors) + r, y, pixel, v}, read("acc", {x, r, v}, Float32))});
  const Stmt tiled{Allocate{{"acc", Float32, {pixels, vectors, 16}, Scope::Register},
                            block(together(together(clear, sum), store))}};
  program.phases = {
      {"conv", {{"k", blocks}, {"y", 56}}, block(nest({{"xo", 56 / pixels}}, {tiled}))}};
  return program;
}

/// Returns c[64, 64] = a[64, 128] b[128, 64] as one statement without tiles. The innermost loop is
/// over k, or, if `columns` is Vector, over vectors of columns.
inline Program naive_gemm(LoopKind columns = LoopKind::Serial) {
  Program program;
  program.arguments = {argument("a", {64, 128}), argument("b", {128, 64}),
                       argument("c", {64, 64}, true)};
  const Expr i = var("i"), j = var("j"), k = var("k");
  const Expr product = read("a", {i, k}, Float32) * read("b", {k, j}, Float32);
  Block body = {assign("c", {i, j}, product, schedules::Combine::Sum)};
  if (columns == LoopKind::Vector) {
    body = nest(
        {{"k", 128}, {"jo", 4}, {"ji", 16, LoopKind::Vector}},
        {assign("c", {i, var("jo") * 16 + var("ji")},
                read("a", {i, k}, Float32) * read("b", {k, var("jo") * 16 + var("ji")}, Float32),
                schedules::Combine::Sum)});
  } else {
    body = nest({{"j", 64}, {"k", 128}}, body);
  }
  program.phases = {{"gemm", {{"i", 64}}, block(body)}};
  return program;
}

}  // namespace tw::cost_model::testing
