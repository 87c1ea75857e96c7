// SPDX-License-Identifier: Apache-2.0
#pragma once
// Vector loops that are vector loads and stores of a GPU, which need aligned addresses: dense
// copies and fills with zeros, where each address is proved to be a multiple of the lanes.
// Thread-safe.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "schedules/program.h"

namespace tw::codegen {

/// `vector v in 0..8: to[..., v] = from[..., v]` as two accesses of four lanes.
struct Vectors {
  int64_t lanes = 0;
  bool needs_loop = false;                ///< over the loop's variable, in steps of `lanes`
  std::vector<schedules::Expr> to, from;  ///< indices of the first lane; from: none for zeros
};

/// A buffer whose memory begins at a multiple of 16 bytes, and the dimensions that it has not in
/// memory.
struct VectorBuffer {
  const schedules::Buffer& buffer;
  std::vector<size_t> dropped;
};

/// The number of a lane, 0 and up, in indices that are given to first_of_lanes().
schedules::Expr lane_number();
/// The indices of lane 0 of so many, if their elements are neighbours from an address on that is a
/// multiple of all of them together; `indices` are a lane's, by its number.
std::optional<std::vector<schedules::Expr>> first_of_lanes(
    const VectorBuffer& buffer, const std::vector<schedules::Expr>& indices, int64_t lanes);

/// The widest that is proved, at most 16 bytes; nullopt where the loop is something else.
std::optional<Vectors> find_vectors(
    const schedules::Loop& loop,
    const std::function<VectorBuffer(const std::string& name)>& buffer);

/// `vector v in 0..8: to[v, i] = from[i, v]`: 8 or 16 bytes that are read at once from an aligned
/// address, and stored one by one. The indices of what is read; nullopt where the loop is something
/// else.
std::optional<std::vector<schedules::Expr>> find_scatter(
    const schedules::Loop& loop,
    const std::function<VectorBuffer(const std::string& name)>& buffer);

}  // namespace tw::codegen
