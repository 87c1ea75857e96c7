// SPDX-License-Identifier: Apache-2.0
#pragma once
// The languages of kernels: one row each says how it spells what a kernel's statements need, and
// which of the functions of its prelude exist. The statements themselves are the same for all rows
// (codegen/gpu/printer.h). The host emulator has no row: it runs the text of CUDA, unchanged
// (codegen/gpu/host_emulator.h).

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
  std::string_view blocks;  ///< the number of blocks; empty where blocks are never persistent
  std::string_view scratch_parameter;
  std::string_view in_global;  ///< address space qualifier of pointers to global memory
  std::string_view aligned;    ///< qualifier of a private array that is accessed as vectors
  /// Largest size of static shared memory, in bytes; more than that is dynamic.
  int64_t most_static_bytes;

  // ---- functions of the prelude ----
  /// Copies use cp.async, in commit groups; else each is an ordinary load and store.
  bool has_asynchronous_copies;
  /// Thread 0 issues TMA copies; else it copies element by element.
  bool has_tma_copies;
  /// Tensor tiles are instructions of warps (mma.sync) and of warpgroups (wgmma, which is
  /// asynchronous); else they are loops.
  bool has_tensor_tiles;
  /// Threads of a warp exchange values of 32 bits by shuffles.
  bool has_shuffles;
  /// Definitions of the functions that a text calls.
  std::string (*functions_for)(std::string_view body);

  // ---- lines ----
  std::string (*head)(int64_t threads);  ///< everything before the name of a kernel
  std::string (*parameter)(std::string_view type, const std::string& name, bool is_output);
  std::string (*declare_shared)(const schedules::Buffer& buffer, const std::string& name,
                                int64_t alignment);
  /// The index in memory of an element of a swizzled buffer by its index in the dense one.
  std::string (*swizzled)(const schedules::Buffer& buffer, const std::string& index);
  /// Type of a register that holds a vector, with members x, y, z and w, which can be stored one by
  /// one. Null: vectors are accessed by functions only.
  std::string (*vector_type)(DType type, int64_t lanes);
  /// Vector accesses, of elements given by their first. `stored` stores a value for each lane: f32
  /// values are rounded where the type is a 16-bit float.
  std::string (*copied)(DType type, int64_t lanes, const std::string& to, const std::string& from);
  std::string (*zeroed)(DType type, int64_t lanes, const std::string& to);
  std::string (*stored)(DType type, const std::vector<std::string>& values, const std::string& to);
};

const DialectRow& row_of(GpuDialect dialect);

}  // namespace tw::codegen
