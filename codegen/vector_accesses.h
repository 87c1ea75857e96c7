// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds vector loops that can be vector loads and stores of a GPU: dense copies, fills with zeros,
// and stores of computed values. The addresses must be proved to be aligned: the index of the first
// element is a multiple of the number of lanes. Thread-safe.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "schedules/program/program.h"

namespace tw::codegen {

/// A dense copy or fill as vector accesses. Example: `vector v in 0..8: to[..., v] = from[..., v]`
/// is two accesses of four lanes.
struct VectorAccess {
  int64_t lanes = 0;
  bool needs_loop = false;  ///< true: loop over the variable in steps of `lanes`
  /// Indices of the first lane; `from` is empty for fills with zeros.
  std::vector<schedules::Expr> to, from;
};

/// A buffer that begins at a multiple of 16 bytes, and the numbers of its dimensions that do not
/// exist in memory.
struct VectorBuffer {
  const schedules::Buffer& buffer;
  std::vector<size_t> dropped;
};

/// The variable that stands for the number of a lane, counted from 0, in the indices that
/// first_lane_indices() takes.
schedules::Expr lane_number();
/// Returns the indices of lane 0 if the elements of all `lanes` lanes are contiguous and aligned to
/// their total size; else nullopt. `indices` are the indices of one lane, as expressions of
/// lane_number().
std::optional<std::vector<schedules::Expr>> first_lane_indices(
    const VectorBuffer& buffer, const std::vector<schedules::Expr>& indices, int64_t lanes);

/// Finds the widest vector accesses, of at most 16 bytes, that are proved to be dense and aligned.
/// nullopt if there are none, or if the loop is no dense copy or fill with zeros.
std::optional<VectorAccess> find_vector_access(
    const schedules::Loop& loop,
    const std::function<VectorBuffer(const std::string& name)>& buffer);

/// A vector store of values that are computed one by one, such as `vector v in 0..4: to[..., v] =
/// f(from[..., v], ...)`. The assignment may be under a condition.
struct VectorStore {
  int64_t lanes = 0;
  bool needs_loop = false;          ///< true: loop over the variable in steps of `lanes`
  std::vector<schedules::Expr> to;  ///< indices of the first lane
  /// The assignment of each lane, without its condition.
  std::vector<schedules::Assign> assigns;
  /// The conditions of the lanes: empty if the assignment has no condition, one condition if it is
  /// the same for all lanes, else one for each lane.
  std::vector<schedules::Expr> conditions;
  /// A vector load: a read of contiguous elements, aligned to their total size, that every lane
  /// makes.
  struct Load {
    std::string buffer;
    std::vector<schedules::Expr> from;  ///< indices of the first lane
    /// The read of each lane, as it occurs in the lane's assignment.
    std::vector<schedules::Expr> reads;
  };
  std::vector<Load> loads;
};

/// Finds the widest vector stores, of at most 16 bytes, that are proved to be dense and aligned.
/// nullopt if no width is proved, if the loop is a copy, or if it stores neither 16-bit floats nor
/// values of 32 bits.
std::optional<VectorStore> find_vector_store(
    const schedules::Loop& loop,
    const std::function<VectorBuffer(const std::string& name)>& buffer);

/// Recognises `vector v in 0..8: to[v, i] = from[i, v]`, which reads 8 or 16 bytes at once from an
/// aligned address and stores the elements one by one. Returns the indices of the first element
/// that it reads; nullopt for other loops.
std::optional<std::vector<schedules::Expr>> find_scatter(
    const schedules::Loop& loop,
    const std::function<VectorBuffer(const std::string& name)>& buffer);

}  // namespace tw::codegen
