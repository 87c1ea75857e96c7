// SPDX-License-Identifier: Apache-2.0
#pragma once
// Loop programs written by hand, each with one thing that a code generator can get wrong.

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

/// c = a b, m tiled by 6 and n by 2 * 16, k blocked by `block`: later blocks add to c.
Program blocked_gemm(int64_t m, int64_t n, int64_t k, int64_t block);
/// out[i] = 2 in[i] for i < n, in tiles of 16 with an If: around the vector loop where each tile is
/// full, inside it in the last.
Program guarded_tail(int64_t n);
/// Running sums along the rows of in[n, step], row i by lane i % 16, under a condition for the
/// last vector: lanes are `step` elements apart.
Program partial_sums(int64_t n, int64_t step, DType type);
/// A 3x3 convolution whose padding is a select around the read, vectorized over the row.
Program padded_row_conv(int64_t height, int64_t width, DType type);
/// mean over rows into scratch, then in - mean: two phases.
Program subtract_mean(int64_t rows, int64_t columns);
/// out[i] = table[index[i]] for 0 <= index[i] < size, else -1.
Program gather(int64_t count, int64_t size, DType index_type);
/// A maximum over windows that starts from minus infinity.
Program max_pool(int64_t width);
/// The transposed rows of a large Local buffer.
Program large_local(int64_t n);
/// 3x3, 16-channel blocks, padded input, `vectors` of 16 output channels times `pixels`
/// accumulators: 2 * channels * outputs * 9 * height * width operations.
Program direct_conv(int64_t channels, int64_t outputs, int64_t height, int64_t width,
                    int64_t vectors, int64_t pixels);

}  // namespace tw::codegen
