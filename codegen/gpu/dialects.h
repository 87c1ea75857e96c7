// SPDX-License-Identifier: Apache-2.0
#pragma once
// The table of the languages of GPU kernels, one row for each language. A row has the words of the
// language, the functions that emitted kernels may call, and functions that print lines that differ
// between languages. All other text of a kernel's statements is the same in all languages
// (codegen/gpu/printer.h). The host emulator needs no row, because it runs unchanged CUDA text
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
  /// The expression for the number of blocks of the grid. Empty if kernels of the language have no
  /// persistent blocks.
  std::string_view blocks;
  std::string_view scratch_parameter;
  std::string_view in_global;  ///< address space qualifier of pointers to global memory
  std::string_view aligned;    ///< qualifier of a private array that is accessed as vectors
  /// Most bytes of static shared memory of a kernel. A kernel that needs more uses dynamic shared
  /// memory.
  int64_t most_static_bytes;

  // ---- functions of the prelude ----
  /// True if copies that the program allows to be asynchronous use cp.async, in commit groups. Else
  /// each copy is an ordinary load and store.
  bool has_asynchronous_copies;
  /// True if thread 0 issues a TMA copy as one instruction of the copy engine. Else thread 0 copies
  /// the elements one by one.
  bool has_tma_copies;
  /// True if tensor tiles become instructions of warps (mma.sync) and of warpgroups (wgmma, which
  /// is asynchronous). Else they become loops.
  bool has_tensor_tiles;
  /// True if the threads of a warp can exchange 32-bit values by shuffles.
  bool has_shuffles;
  /// Returns the definitions of the functions of the prelude that the text `body` calls.
  std::string (*functions_for)(std::string_view body);

  // ---- lines ----
  /// Returns the text before the name of a kernel. `resident_blocks` is Phase::resident_blocks.
  std::string (*head)(int64_t threads, int64_t resident_blocks);
  std::string (*parameter)(std::string_view type, const std::string& name, bool is_output);
  std::string (*declare_shared)(const schedules::Buffer& buffer, const std::string& name,
                                int64_t alignment);
  /// Converts the text of an element's index in dense memory to the text of its index in a swizzled
  /// buffer.
  std::string (*swizzled)(const schedules::Buffer& buffer, const std::string& index);
  /// Returns the type of a register that holds a vector of `lanes` elements, such as "float4". Its
  /// 32-bit parts are the members x, y, z and w, which can be assigned one by one. Null if the
  /// language has only functions that load and store vectors.
  std::string (*vector_type)(DType type, int64_t lanes);
  /// These functions print a vector access. `to` and `from` are the texts of the elements of the
  /// first lane. `copied` copies a vector, `zeroed` stores zeros, and `stored` stores `values`, one
  /// for each lane. If the type is a 16-bit float, `stored` rounds the values from f32.
  std::string (*copied)(DType type, int64_t lanes, const std::string& to, const std::string& from);
  std::string (*zeroed)(DType type, int64_t lanes, const std::string& to);
  std::string (*stored)(DType type, const std::vector<std::string>& values, const std::string& to);
};

const DialectRow& row_of(GpuDialect dialect);

}  // namespace tw::codegen
