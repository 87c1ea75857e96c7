// SPDX-License-Identifier: Apache-2.0
#pragma once
// Loop programs written by hand. Each has one property that a code generator can get wrong.

#include <string>
#include <vector>

#include "schedules/program/program.h"

namespace tw::codegen {

using dsl::Expr;
using dsl::var;
using schedules::Argument;
using schedules::Assign;
using schedules::Block;
using schedules::Buffer;
using schedules::Combine;
using schedules::If;
using schedules::LoopKind;
using schedules::Program;
using schedules::Scope;
using schedules::Stmt;
using schedules::TaskAxis;

// ---- building -------------------------------------------------------------------------------

Argument argument(const std::string& name, DType type, std::vector<int64_t> extents,
                  bool is_output);
Stmt loop(const std::string& variable, Expr begin, Expr end, LoopKind kind, Block body);
Stmt serial(const std::string& variable, int64_t extent, Block body);
Stmt unrolled(const std::string& variable, int64_t extent, Block body);
Stmt vector(const std::string& variable, int64_t extent, Block body);
Stmt when(Expr condition, Block body);
Stmt allocate(const std::string& name, DType type, std::vector<int64_t> extents, Scope scope,
              Block body);
Stmt assign(const std::string& buffer, std::vector<Expr> indices, Expr value,
            Combine combine = Combine::None);
Expr f32(const std::string& buffer, std::vector<Expr> indices);
Program single_phase(std::vector<Argument> arguments, std::vector<TaskAxis> axes, Block body);

// ---- kernels --------------------------------------------------------------------------------

/// Returns the product c = a b. m is tiled by 6, n by 2 * 16, and k by `block`; blocks of k after
/// the first add to c.
Program blocked_gemm(int64_t m, int64_t n, int64_t k, int64_t block);
/// Returns out[i] = 2 in[i] for i < n, in tiles of 16. An If is around the vector loop of a full
/// tile, and inside the vector loop of the last tile.
Program guarded_tail(int64_t n);
/// Returns running sums along the rows of in[n, step]. Lane i % 16 computes row i, so that lanes
/// are `step` elements apart. The last vector has lanes without a row, under a condition.
Program partial_sums(int64_t n, int64_t step, DType type);
/// Returns a 3x3 convolution, vectorized along the row. A select around the read does the padding.
Program padded_row_conv(int64_t height, int64_t width, DType type);
/// Returns two phases: the mean of each row goes to scratch memory, then out = in - mean.
Program subtract_mean(int64_t rows, int64_t columns);
/// Returns out[i] = table[index[i]] for 0 <= index[i] < size, else -1.
Program gather(int64_t count, int64_t size, DType index_type);
/// Returns a maximum over windows that begins with minus infinity, which is also the padding.
Program max_pool(int64_t width);
/// Transposes matrices of n x n through a large Local buffer.
Program large_local(int64_t n);
/// Returns a 3x3 convolution in blocks of 16 channels, of an input that is padded already. A tile
/// has `pixels` times `vectors` accumulators of 16 output channels. The convolution has 2 *
/// channels * outputs * 9 * height * width operations.
Program direct_conv(int64_t channels, int64_t outputs, int64_t height, int64_t width,
                    int64_t vectors, int64_t pixels);

}  // namespace tw::codegen
