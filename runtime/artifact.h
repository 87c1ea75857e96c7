// SPDX-License-Identifier: Apache-2.0
#pragma once
// An artifact is one compiled kernel: machine code together with all that a caller must know to run
// it. The file of an artifact is
//
//     "TWARTF01" | u32 header length, little endian | JSON header | code | PTX
//
// where the header holds the KernelInfo, the hash and the size of the code, the version of the
// kernel ABI, and the header's own hash. The code is an ELF shared object for a CPU
// (runtime/kernel.h runs it), and a cubin for CUDA or text for OpenCL
// (runtime/devices/device_kernel.h runs these). Only a cubin may be followed by PTX.
//
// Before the loader runs any code, it checks the ABI version, the size of the code, and the hashes
// of header and code. It checks the bytes in memory that it then runs. So a change of the file
// between check and run has no effect.
//
// The kernel ABI, kRuntimeAbi: a kernel is a list of phases. Each phase is an exported function
//
//     extern "C" int32_t f(void* const* buffers, void* scratch, int32_t task);
//
// called once for each task in [0, tasks), in any order and in parallel. All tasks of a phase end
// before the next phase begins. `buffers` has a pointer for each argument, inputs first, then a
// pointer for each buffer of the preparation. Each pointer is the address of an array in storage
// layout (ArgumentInfo::layout), aligned to the size of an element. `scratch` is working memory of
// scratch_bytes that all tasks share. It is aligned to 64 bytes and uninitialised; it is null if
// scratch_bytes is 0. A phase function returns 0 on success and any other number on failure. The
// code imports only memcpy, memmove, memset and memcmp, from the C library.
//
// A kernel may have a preparation. It consists of further phases, with functions of the same
// signature, which compute buffers from constant inputs. These phases run before the first call,
// and again when a constant input changes. Kernels without a preparation are written as version 2
// of the ABI, kernels with one as version 3; both versions are read.
//
// Plain values and free functions; thread-safe.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "base/target.h"
#include "runtime/devices/tensor_map.h"

namespace tw::runtime {

inline constexpr int kRuntimeAbi = 3;

/// Version of the code generator's output. Lookups find only records and artifacts of this version.
/// It is increased whenever the meaning of old artifacts or records changes.
inline constexpr int64_t current_codegen_abi = 5;

struct PhaseInfo {
  std::string symbol;
  int64_t tasks = 1;
  int threads = 0;  ///< threads of one task on a GPU; 0 on a CPU, where one call computes a task
  /// Bytes of dynamic shared memory of a GPU launch, in addition to the shared memory that the code
  /// declares.
  int64_t shared_bytes = 0;
  /// Tensor maps, for CUDA GPUs only. Their parameters follow the pointers to buffers and scratch
  /// in the parameters of the function.
  std::vector<TensorMap> maps = {};
  /// True if a block of a GPU may run several tasks: the task with the number `blockIdx.x` and
  /// every gridDim.x-th task after it. Example: with 4 blocks, block 1 runs the tasks 1, 5, 9 and
  /// so on.
  bool persistent = false;
  friend bool operator==(const PhaseInfo&, const PhaseInfo&) = default;
};

struct ArgumentInfo {
  std::string name;
  DType dtype = Float32;
  bool is_output = false;
  std::vector<int64_t> shape;  ///< logical; empty for a scalar
  std::string layout;  ///< layout of the storage as text; empty: the row-major logical array
  int64_t storage_elements = 0;  ///< elements in storage layout, padding included
  /// Name of the code that converts the layout, a key of KernelInfo::packs. Empty if the layout
  /// needs no conversion. Also empty if the artifact has no code for the conversion; then
  /// Kernel::call() fails, but Kernel::run() works.
  std::string pack = {};
  /// True for an input that only the preparation reads. The phases of a call do not read it, so
  /// calls may pass null for it.
  bool only_prepares = false;
  friend bool operator==(const ArgumentInfo&, const ArgumentInfo&) = default;
};

/// The preparation: buffers that a kernel computes from constant inputs, and the code that computes
/// them.
struct PreparationInfo {
  std::vector<int> inputs;  ///< the constant inputs, as indices of KernelInfo::arguments
  /// The results; in a call their pointers follow those of the arguments.
  std::vector<ArgumentInfo> buffers;
  std::vector<PhaseInfo> phases;  ///< they take pointers to `inputs`, then to `buffers`
  int64_t scratch_bytes = 0;
  friend bool operator==(const PreparationInfo&, const PreparationInfo&) = default;
};

struct KernelInfo {
  std::string workload;   ///< key of the workload as text
  std::string schedule;   ///< tw1 text
  std::string target;     ///< canonical text of a Target
  std::string toolchain;  ///< compiler and its version, for messages and records
  int64_t codegen_abi = 0;
  std::vector<ArgumentInfo> arguments;  ///< inputs, then outputs
  std::vector<PhaseInfo> phases;
  int64_t scratch_bytes = 0;
  /// Code that converts layouts, by name. Each value is the list of phases of a kernel without
  /// scratch memory that takes two buffers: {logical, storage} for an input and {storage, logical}
  /// for an output.
  std::map<std::string, std::vector<PhaseInfo>> packs;
  std::optional<PreparationInfo> preparation = std::nullopt;
  int spills = 0;     ///< register spills that the compiler left in the object
  int64_t flops = 0;  ///< floating-point operations of one call
  friend bool operator==(const KernelInfo&, const KernelInfo&) = default;
};

struct Artifact {
  KernelInfo info;
  std::string object;    ///< an ELF shared object; for GPUs a cubin, or OpenCL C
  std::string ptx = {};  ///< PTX that accompanies a cubin; drivers compile it for newer GPUs
  friend bool operator==(const Artifact&, const Artifact&) = default;
};

/// The owners whose artifact files are trusted. The file contains code. So whoever can write the
/// file, or rename another file over it, can run code as this process.
enum class Trust {
  Own,        ///< files of the effective user
  OwnOrRoot,  ///< also files of root: artifacts that were installed with the system
};

/// Returns the file name, "<16 hex digits>.twart", of the kernel with this workload, schedule,
/// target and ABI. The compiler writes the artifact to a cache directory under this name, and a
/// Session looks for this name there.
std::string artifact_name(std::string_view workload, std::string_view schedule,
                          std::string_view target, int64_t codegen_abi);

/// Checks that a kernel with this description can satisfy the kernel ABI. For example, inputs come
/// first, sizes fit 64 bits, symbols are identifiers, the packs that arguments name exist, and the
/// target parses. Fails with Invalid; the message names the field.
Status check_info(const KernelInfo& info);

/// Checks that kernels for `target` (canonical text) run on `machine`. If they do not, fails with
/// Invalid; the message names the missing features.
Status check_target(std::string_view target, const Target& machine);

/// Returns descriptions of all buffers of a call: of the arguments, then of the preparation's
/// results.
std::vector<ArgumentInfo> call_buffers(const KernelInfo& info);

/// Size in bytes of an argument's array. storage_bytes() is the size in storage layout, padding
/// included; logical_bytes() is the size of the row-major array of the argument's shape. Requires:
/// check_info() holds.
int64_t storage_bytes(const ArgumentInfo& argument);
int64_t logical_bytes(const ArgumentInfo& argument);

/// Limit in bytes on the scratch memory of a kernel and on the arena of a network. It is more than
/// any machine can address, yet small enough that sums of several such sizes fit 64 bits.
inline constexpr int64_t most_memory_bytes = int64_t{1} << 56;

/// Limit in bytes on the file of an artifact: 12 bytes of prefix, 4 MiB of header and 256 MiB of
/// code.
inline constexpr int64_t most_artifact_bytes = 12 + (int64_t{4} << 20) + (int64_t{256} << 20);

/// Returns the bytes of the artifact's file; equal artifacts have equal bytes. Fails with the error
/// of check_info(), and with Invalid if the file would be too large.
Result<std::string> artifact_bytes(const Artifact& artifact);

/// Parses the bytes of an artifact's file. Fails with Invalid if the bytes are truncated, were
/// changed or have another ABI version. Unlike read_artifact(), it does not check that the machine
/// can run the code. Requires: bytes whose origin the caller trusts.
Result<Artifact> parse_artifact(std::string_view bytes);

/// Writes the artifact to `path` by replace_file(). Only the owner may write the file. The file is
/// replaced atomically, so a reader sees either the old file or the new one, even after a crash.
Status write_artifact(const std::string& path, const Artifact& artifact);

/// Reads and checks an artifact, without loading its code. The file is opened once, and no symbolic
/// link in the last component of the path is followed. The bytes that are returned are those that
/// were checked. Fails with NotCompiled if there is no such file. Fails with Invalid if the file or
/// its directory belongs to another user or is writable by others. Also fails with Invalid if the
/// file is truncated, was changed, has another ABI version, or is for a machine with features that
/// `machine` lacks.
Result<Artifact> read_artifact(const std::string& path, Trust trust = Trust::Own,
                               const Target& machine = host_target());

/// Does the same as read_artifact(), but accepts every target. The device that loads the artifact
/// decides whether it can run the code.
Result<Artifact> read_artifact_of_any_target(const std::string& path, Trust trust = Trust::Own);

}  // namespace tw::runtime
