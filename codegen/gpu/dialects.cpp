// SPDX-License-Identifier: Apache-2.0
#include "codegen/gpu/dialects.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/result.h"
#include "codegen/gpu/prelude.h"
#include "schedules/program/threads.h"

namespace tw::codegen {
namespace {

using schedules::Buffer;

constexpr CSpelling cuda_spelling = {.int8 = "signed char",
                                     .uint8 = "unsigned char",
                                     .int16 = "short",
                                     .uint16 = "unsigned short",
                                     .int32 = "int",
                                     .uint32 = "unsigned",
                                     .int64 = "long long",
                                     .uint64 = "unsigned long long",
                                     .int32_min = "(-2147483647 - 1)",
                                     .int64_min = "(-9223372036854775807 - 1)",
                                     .before_int64 = "",
                                     .after_int64 = "LL",
                                     .nan = "TW_NAN",
                                     .infinity = "TW_INFINITY",
                                     .float_suffix = "f",
                                     .has_narrow_functions = true,
                                     .is_reserved = is_reserved_on_gpu};
constexpr CSpelling opencl_spelling = {.int8 = "char",
                                       .uint8 = "uchar",
                                       .int16 = "short",
                                       .uint16 = "ushort",
                                       .int32 = "int",
                                       .uint32 = "uint",
                                       .int64 = "long",
                                       .uint64 = "ulong",
                                       .int32_min = "(-2147483647 - 1)",
                                       .int64_min = "(-9223372036854775807 - 1)",
                                       .before_int64 = "",
                                       .after_int64 = "L",
                                       .nan = "NAN",
                                       .infinity = "INFINITY",
                                       .float_suffix = "",
                                       .has_narrow_functions = true,
                                       .is_reserved = is_reserved_on_gpu};

int64_t elements_of(const Buffer& buffer) { return std::max<int64_t>(1, buffer.elements()); }

// ---- CUDA C++ -------------------------------------------------------------------------------

/// The second launch bound is the number of blocks that have to fit on a multiprocessor. It is
/// always written, also if it is 1: without it the compiler may choose to spill registers so that
/// more blocks fit.
std::string cuda_head(int64_t threads, int64_t resident_blocks) {
  return fmt::format("extern \"C\" __global__ void __launch_bounds__({}, {})\n", threads,
                     resident_blocks);
}

std::string cuda_parameter(std::string_view type, const std::string& name, bool is_output) {
  return is_output ? fmt::format("{}* {}", type, name)
                   : fmt::format("const {}* __restrict__ {}", type, name);
}

std::string cuda_shared(const Buffer& buffer, const std::string& name, int64_t alignment) {
  return fmt::format("__shared__ __align__({}) {} {}[{}];", alignment,
                     storage_type(buffer.type, cuda_spelling), name, elements_of(buffer));
}

/// A swizzle moves each chunk of 16 bytes as a whole, so a vector inside of a chunk stays
/// contiguous.
std::string cuda_swizzled(const Buffer& buffer, const std::string& index) {
  return fmt::format("tw_swizzled<{}, {}>({})", buffer.swizzle, size_bytes(buffer.type), index);
}

std::string cuda_vector(DType type, int64_t lanes) {
  if (size_bytes(type) == 4)
    return fmt::format("{}{}", type == Float32 ? "float" : is_signed(type) ? "int" : "uint", lanes);
  const int64_t bytes = lanes * size_bytes(type);
  if (bytes == 2) return "unsigned short";
  return bytes == 4 ? "unsigned" : fmt::format("uint{}", bytes / 4);
}

std::string cuda_copied(DType type, int64_t lanes, const std::string& to, const std::string& from) {
  return fmt::format("*({0}*)&{1} = *(const {0}*)&{2};", cuda_vector(type, lanes), to, from);
}

std::string cuda_zeroed(DType type, int64_t lanes, const std::string& to) {
  return fmt::format("*({0}*)&{1} = {{}};", cuda_vector(type, lanes), to);
}

std::string cuda_stored(DType type, const std::vector<std::string>& values, const std::string& to) {
  std::vector<std::string> words = values;
  if (size_bytes(type) == 2) {
    words.clear();
    for (size_t i = 0; i < values.size(); i += 2)
      words.push_back(fmt::format("tw_pack_{}({}, {})", to_string(type), values[i], values[i + 1]));
  }
  const std::string vector = cuda_vector(type, static_cast<int64_t>(values.size()));
  if (words.size() == 1) return fmt::format("*({}*)&{} = {};", vector, to, words[0]);
  return fmt::format("*({}*)&{} = {{{}}};", vector, to, fmt::join(words, ", "));
}

// ---- OpenCL C -------------------------------------------------------------------------------

std::string opencl_head(int64_t threads, int64_t /*resident_blocks*/) {
  return fmt::format("__kernel __attribute__((reqd_work_group_size({}, 1, 1)))\nvoid ", threads);
}

std::string opencl_parameter(std::string_view type, const std::string& name, bool is_output) {
  return fmt::format("__global {}{}* {}{}", is_output ? "" : "const ", type,
                     is_output ? "" : "restrict ", name);
}

std::string opencl_shared(const Buffer& buffer, const std::string& name, int64_t /*alignment*/) {
  return fmt::format("__local {} {}[{}];", storage_type(buffer.type, opencl_spelling), name,
                     elements_of(buffer));
}

/// Returns the dense index. A swizzle is for instructions that read whole matrices from shared
/// memory. OpenCL kernels have no such instructions, so the buffer stays dense.
std::string opencl_swizzled(const Buffer&, const std::string& index) { return index; }

// vload4 and vstore4 need no alignment.
std::string opencl_copied(DType, int64_t lanes, const std::string& to, const std::string& from) {
  return fmt::format("vstore{0}(vload{0}(0, &{2}), 0, &{1});", lanes, to, from);
}

std::string opencl_zeroed(DType type, int64_t lanes, const std::string& to) {
  return fmt::format("vstore{0}(({1}{0})(0), 0, &{2});", lanes, storage_type(type, opencl_spelling),
                     to);
}

std::string opencl_stored(DType type, const std::vector<std::string>& values,
                          const std::string& to) {
  std::vector<std::string> rounded;
  for (const std::string& value : values)
    rounded.push_back(size_bytes(type) == 2 ? fmt::format("tw_to_{}({})", to_string(type), value)
                                            : value);
  return fmt::format("vstore{0}(({1}{0})({2}), 0, &{3});", rounded.size(),
                     storage_type(type, opencl_spelling), fmt::join(rounded, ", "), to);
}

constexpr DialectRow cuda = {.spelling = cuda_spelling,
                             .block_number = "blockIdx.x",
                             .thread_number = "threadIdx.x",
                             .barrier = "__syncthreads();",
                             .blocks = "gridDim.x",
                             .scratch_parameter = "unsigned char* scratch",
                             .in_global = "",
                             .aligned = "__align__(16) ",
                             .most_static_bytes = schedules::most_static_shared_bytes,
                             .has_asynchronous_copies = true,
                             .has_tma_copies = true,
                             .has_tensor_tiles = true,
                             .has_shuffles = true,
                             .functions_for = cuda_functions_for,
                             .head = cuda_head,
                             .parameter = cuda_parameter,
                             .declare_shared = cuda_shared,
                             .swizzled = cuda_swizzled,
                             .vector_type = cuda_vector,
                             .copied = cuda_copied,
                             .zeroed = cuda_zeroed,
                             .stored = cuda_stored};
constexpr DialectRow opencl = {.spelling = opencl_spelling,
                               .block_number = "get_group_id(0)",
                               .thread_number = "get_local_id(0)",
                               .barrier = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
                               .blocks = "",
                               .scratch_parameter = "__global uchar* scratch",
                               .in_global = "__global ",
                               .aligned = "",
                               .most_static_bytes = std::numeric_limits<int64_t>::max(),
                               .has_asynchronous_copies = false,
                               .has_tma_copies = false,
                               .has_tensor_tiles = false,
                               .has_shuffles = false,
                               .functions_for = opencl_functions_for,
                               .head = opencl_head,
                               .parameter = opencl_parameter,
                               .declare_shared = opencl_shared,
                               .swizzled = opencl_swizzled,
                               .vector_type = nullptr,
                               .copied = opencl_copied,
                               .zeroed = opencl_zeroed,
                               .stored = opencl_stored};

}  // namespace

const DialectRow& row_of(GpuDialect dialect) {
  switch (dialect) {
    case GpuDialect::Cuda:
      return cuda;
    case GpuDialect::OpenCl:
      return opencl;
  }
  TW_CHECK(false, "a dialect has a row");
}

}  // namespace tw::codegen
