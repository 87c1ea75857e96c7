// SPDX-License-Identifier: Apache-2.0
// Tensor tiles as instructions of warps and of warpgroups, by the functions of CUDA's prelude.

#include <fmt/format.h>

#include "codegen/gpu/printer.h"

namespace tw::codegen {

using schedules::FactorLayout;
using schedules::Loop;
using schedules::Stmt;
using schedules::TensorNest;
using schedules::TensorTile;

namespace {

/// Returns the name of the function that executes a tile's instruction: "tw_wgmma_m64n128k16_bf16"
/// for the tile "wgmma_m64k16_bf16" with 128 columns. A suffix says which factors are MN-major:
/// "_ta", "_tb" or "_tab".
std::string warpgroup_function(const TensorNest& nest, const FactorLayout& a,
                               const FactorLayout& b) {
  std::string name = fmt::format("tw_{}", nest.tile->name);
  name.insert(name.find('k'), fmt::format("n{}", schedules::columns_of(nest)));
  if (a.is_mn_major || b.is_mn_major) name += "_t";
  if (a.is_mn_major) name += "a";
  if (b.is_mn_major) name += "b";
  return name;
}

}  // namespace

// ---- tiles of warps -------------------------------------------------------------------------

/// Calls the instruction with this lane's elements of the tile:
///   const float2 tw_a0 = *(const float2*)&a[...], tw_a1 = ..., tw_b = ...;
///   tw_mma_m16n8k8_tf32(acc[0], acc[1], acc[2], acc[3], tw_a0.x, tw_a1.x, tw_a0.y, ...);
void KernelPrinter::print_tile(const TensorNest& nest, int indent) {
  const TensorTile& tile = *nest.tile;
  if (tile.is_of_warpgroup) return print_warpgroup_tile(nest, indent);
  const Expr i = lane_number();
  line(indent, "{");
  declare_factors("tw_a0", tile, *nest.by_row, row_indices(nest, Expr(0), i), indent + 1);
  declare_factors("tw_a1", tile, *nest.by_row, row_indices(nest, Expr(1), i), indent + 1);
  declare_factors("tw_b", tile, *nest.by_column, column_indices(nest, i), indent + 1);
  std::string sums;
  for (int64_t part = 0; part < schedules::tile_part; ++part)
    for (int64_t column = 0; column < schedules::tile_part; ++column) {
      const std::vector<Expr> at = dsl::substitute(
          nest.sum->indices,
          {{nest.part->variable, Expr(part)}, {nest.column->variable, Expr(column)}});
      sums += element(buffer(nest.sum->buffer), at) + ", ";
    }
  line(indent + 1, fmt::format("tw_{}({}tw_a0.x, tw_a1.x, tw_a0.y, tw_a1.y, tw_b.x, tw_b.y);",
                               tile.name, sums));
  line(indent, "}");
}

/// Declares this lane's elements of a factor, which take two 32-bit registers. `indices` are the
/// indices of one element, as expressions of lane_number().
void KernelPrinter::declare_factors(std::string_view name, const TensorTile& tile,
                                    const dsl::Read& factor, const std::vector<Expr>& indices,
                                    int indent) {
  const int64_t count = schedules::lane_elements(tile);
  const std::string type = tile.operand == Float32 ? "float2" : "uint2";
  std::string value;
  if (const auto first = first_lane_indices(vector_buffer(factor.tensor), indices, count)) {
    value = fmt::format("*(const {}*)&{}", type, element(buffer(factor.tensor), *first));
  } else {
    std::vector<std::string> halves;
    for (int64_t half = 0; half < count; half += count / 2)
      halves.push_back(packed_factors(tile, factor, indices, half, half + count / 2));
    value = fmt::format("{{{}}}", fmt::join(halves, ", "));
  }
  line(indent, fmt::format("const {} {} = {};", type, name, value));
}

/// Returns an expression of one register that holds these elements, the first in the lowest bits.
std::string KernelPrinter::packed_factors(const TensorTile& tile, const dsl::Read& factor,
                                          const std::vector<Expr>& indices, int64_t begin,
                                          int64_t end) {
  std::string text;
  for (int64_t i = begin; i < end; ++i) {
    const std::vector<Expr> at =
        dsl::substitute(indices, {{lane_number().as<dsl::Var>()->name, Expr(i)}});
    const std::string one = element(buffer(factor.tensor), at);
    const int bits = size_bytes(tile.operand) * 8;
    if (bits == 32) return one;
    text += fmt::format("{}(unsigned)({}){}", i == begin ? "" : " | ",
                        bits == 16 ? "unsigned short" : "unsigned char", one);
    if (i > begin) text += fmt::format(" << {}", (i - begin) * bits);
  }
  return text;
}

// ---- tiles of warpgroups --------------------------------------------------------------------

/// Prints a fence, a sequence of warpgroup instructions and their commit. Returns the names of the
/// accumulators, for which print_awaited() waits:
///   tw_wgmma_fence(acc); ... tw_wgmma_m64n128k16_bf16(acc, ...); ... tw_wgmma_commit();
std::set<std::string> KernelPrinter::issue_tiles(const Loop& loop, int indent) {
  std::set<std::string> sums;
  schedules::for_each(Block{{loop}}, [&](const Stmt& stmt) {
    if (is_warpgroup_tile(stmt))
      sums.insert(schedules::tensor_nest(*stmt.as<Loop>(), *nest_)->sum->buffer);
  });
  for (const std::string& each : sums)
    line(indent, fmt::format("tw_wgmma_fence({});", buffer_identifier(each)));
  print_issued(loop, indent);
  line(indent, "tw_wgmma_commit();");
  return sums;
}

void KernelPrinter::print_issued(const Loop& loop, int indent) {
  if (loop.tile) return print_warpgroup_tile(*schedules::tensor_nest(loop, *nest_), indent);
  line(indent, pragma_of(loop));
  line(indent, for_head(loop) + " {");
  for (const Stmt& inner : *loop.body) print_issued(*inner.as<Loop>(), indent + 1);
  line(indent, "}");
}

void KernelPrinter::print_awaited(const std::set<std::string>& sums, int indent) {
  for (const std::string& each : sums)
    line(indent, fmt::format("tw_wgmma_wait({});", buffer_identifier(each)));
}

/// Prints a call of the instruction. Its operands are the address of the thread's first accumulator
/// and the descriptors of the factors:
///   tw_wgmma_m64n128k16_bf16(&acc[0], tw_descriptor<128>(&a[...]), tw_descriptor<128>(&b[...]));
void KernelPrinter::print_warpgroup_tile(const TensorNest& nest, int indent) {
  const Buffer& by_row = buffer(nest.by_row->tensor);
  const Buffer& by_column = buffer(nest.by_column->tensor);
  const FactorLayout a = layout_of_rows(nest, by_row), b = layout_of_columns(nest, by_column);
  const std::string sums = element(buffer(nest.sum->buffer), first_of_sums(nest));
  line(indent, fmt::format("{}(&{}, {}, {});", warpgroup_function(nest, a, b), sums,
                           descriptor(by_row, a, first_of_rows(nest)),
                           descriptor(by_column, b, first_of_columns(nest))));
}

/// Returns the descriptor of a factor. It holds the unswizzled address: the hardware applies the
/// swizzle.
std::string KernelPrinter::descriptor(const Buffer& b, const FactorLayout& layout,
                                      const std::vector<Expr>& first) {
  Buffer dense = b;
  dense.swizzle = 0;
  const std::string function =
      layout.is_mn_major ? fmt::format("tw_descriptor_mn<{}, {}>", b.swizzle, layout.group_bytes)
                         : fmt::format("tw_descriptor<{}>", b.swizzle);
  return fmt::format("{}(&{})", function, element(dense, first));
}

}  // namespace tw::codegen
