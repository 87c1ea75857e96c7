// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds vector loops that a GPU can execute as vector loads and stores: dense copies, fills with
// zeros, and stores of computed values. A vector access must be aligned, so the index of its first
// element must be proved to be a multiple of the number of lanes. Thread-safe.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "schedules/program/program.h"

namespace tw::codegen {

/// The form of a vector loop that becomes one or more vector accesses of `lanes` lanes each. The
/// loop copies contiguous elements or fills them with zeros. Example: `vector v in 0..8: to[..., v]
/// = from[..., v]` on f32 becomes two accesses of four lanes.
struct VectorAccess {
  int64_t lanes = 0;
  bool needs_loop = false;  ///< true: loop over the variable in steps of `lanes`
  /// Indices of the element of the first lane: `to` in the buffer that the loop stores to, `from`
  /// in the buffer that it reads. `from` is empty if zeros are stored.
  std::vector<schedules::Expr> to, from;
};

/// A buffer that begins at a multiple of 16 bytes. `dropped` lists the dimensions that have no
/// elements in memory, because each thread has a buffer of its own (schedules/program/threads.h).
struct VectorBuffer {
  const schedules::Buffer& buffer;
  std::vector<size_t> dropped;
};

/// Returns the variable that stands for the index of a lane, from 0 on. Indices that are passed to
/// first_lane_indices() are expressions of this variable.
schedules::Expr lane_number();
/// Returns the indices of lane 0 if `lanes` lanes can be one vector access, else nullopt. `indices`
/// are the indices of the element of one lane, as expressions of lane_number(). The elements of all
/// lanes must be contiguous, and the first must be aligned to the total size of the lanes. Example
/// for 4 lanes:
///   [y, x.0 * 4 + lane]  ->  [y, x.0 * 4]
std::optional<std::vector<schedules::Expr>> first_lane_indices(
    const VectorBuffer& buffer, const std::vector<schedules::Expr>& indices, int64_t lanes);

/// Finds the widest vector accesses, of at most 16 bytes, that are proved to be dense and aligned.
/// `buffer` returns the buffer with this name. The result is nullopt if the loop is neither a copy
/// nor a fill with zeros, or if no width is proved.
std::optional<VectorAccess> find_vector_access(
    const schedules::Loop& loop,
    const std::function<VectorBuffer(const std::string& name)>& buffer);

/// The form of a vector loop that becomes vector stores of values that are computed one by one.
/// Example: `vector v in 0..4: to[..., v] = f(from[..., v], ...)`. The assignment may be under a
/// condition.
struct VectorStore {
  int64_t lanes = 0;
  bool needs_loop = false;          ///< true: loop over the variable in steps of `lanes`
  std::vector<schedules::Expr> to;  ///< indices of the first lane
  /// For each lane, its assignment without the condition.
  std::vector<schedules::Assign> assigns;
  /// The conditions of the lanes: none if the assignment has no condition, one if all lanes have
  /// the same condition, else one for each lane.
  std::vector<schedules::Expr> conditions;
  /// A read that can be done for all lanes by one vector load. No select, And or Or decides whether
  /// a lane makes the read, and the elements of the lanes are contiguous and aligned to their total
  /// size.
  struct Load {
    std::string buffer;
    std::vector<schedules::Expr> from;  ///< indices of the first lane
    /// For each lane, the read as it occurs in the lane's assignment.
    std::vector<schedules::Expr> reads;
  };
  std::vector<Load> loads;
};

/// Finds the widest vector stores, of at most 16 bytes, that are proved to be dense and aligned.
/// `buffer` returns the buffer with this name. The elements that are stored must be 16-bit floats,
/// f32 or i32. The result is nullopt for other types, for a plain copy, or if no width is proved.
std::optional<VectorStore> find_vector_store(
    const schedules::Loop& loop,
    const std::function<VectorBuffer(const std::string& name)>& buffer);

/// Finds a loop that reads contiguous elements and stores each at another place, for example
/// `vector v in 0..8: to[v, i] = from[i, v]`. Together the elements have 8 or 16 bytes and are
/// aligned, so one vector load reads them all. Returns the indices of the first element that is
/// read; nullopt for any other loop.
std::optional<std::vector<schedules::Expr>> find_scatter(
    const schedules::Loop& loop,
    const std::function<VectorBuffer(const std::string& name)>& buffer);

}  // namespace tw::codegen
