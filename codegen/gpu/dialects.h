// SPDX-License-Identifier: Apache-2.0
#pragma once
// The languages of GPU kernels, one row each. A row says how the language spells what the
// statements of a kernel need, and which functions its prelude has. The statements themselves are
// the same in all languages (codegen/gpu/printer.h). The host emulator has no row, because it runs
// the unchanged text of CUDA (codegen/gpu/host_emulator.h).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/c_printer.h"
#include "codegen/gpu/emitter.h"
#include "schedules/program/program.h"

namespace tw::codegen {

struct DialectRow {
  const CSpelling& spelling;

  // ---- words ----
  std::string_view block_number, thread_number, barrier;
  /// Number of blocks of the grid; empty if the language has no persistent blocks.
  std::string_view blocks;
  std::string_view scratch_parameter;
  std::string_view in_global;  ///< address space qualifier of pointers to global memory
  std::string_view aligned;    ///< qualifier of a private array that is accessed as vectors
  /// Limit in bytes on static shared memory. Shared memory above the limit is dynamic.
  int64_t most_static_bytes;

  // ---- functions of the prelude ----
  /// True if copies use cp.async, in commit groups. Else each copy is an ordinary load and store.
  bool has_asynchronous_copies;
  /// True if thread 0 issues TMA copies. Else thread 0 copies element by element.
  bool has_tma_copies;
  /// True if tensor tiles are instructions of warps (mma.sync) and of warpgroups (wgmma, which is
  /// asynchronous). Else they are loops.
  bool has_tensor_tiles;
  /// True if the threads of a warp exchange values of 32 bits by shuffles.
  bool has_shuffles;
  /// Returns the definitions of the functions that a text calls.
  std::string (*functions_for)(std::string_view body);

  // ---- lines ----
  std::string (*head)(int64_t threads);  ///< the text before the name of a kernel
  std::string (*parameter)(std::string_view type, const std::string& name, bool is_output);
  std::string (*declare_shared)(const schedules::Buffer& buffer, const std::string& name,
                                int64_t alignment);
  /// Converts an element's index in the dense buffer to its index in a swizzled buffer.
  std::string (*swizzled)(const schedules::Buffer& buffer, const std::string& index);
  /// Returns the type of a register that holds a vector, with the members x, y, z and w, which can
  /// be stored one by one. Null if the language accesses vectors only by functions.
  std::string (*vector_type)(DType type, int64_t lanes);
  /// Print vector accesses. `to` and `from` are the texts of the first elements. `stored` stores
  /// one value for each lane, and rounds f32 values if the type is a 16-bit float.
  std::string (*copied)(DType type, int64_t lanes, const std::string& to, const std::string& from);
  std::string (*zeroed)(DType type, int64_t lanes, const std::string& to);
  std::string (*stored)(DType type, const std::vector<std::string>& values, const std::string& to);
};

const DialectRow& row_of(GpuDialect dialect);

}  // namespace tw::codegen
