// SPDX-License-Identifier: Apache-2.0
#pragma once
// An artifact is one compiled kernel: machine code together with all that a caller must know to run
// it. In a file it is
//
//     "TWARTF01" | u32 header length, little endian | JSON header | code | PTX
//
// The code is an ELF shared object for a CPU, a cubin for CUDA and text for OpenCL;
// runtime/devices/device_kernel.h calls the latter two. PTX may stand beside a cubin, and nowhere
// else.
//
// where the header holds the KernelInfo, the hash and size of the object, the version of the kernel
// ABI and its own hash. Code is run only after all of these were checked, on the bytes that will be
// run.
//
// The kernel ABI, kRuntimeAbi: a kernel is a list of phases. Each phase is an exported function
//
//     extern "C" int32_t f(void* const* buffers, void* scratch, int32_t task);
//
// called once for each task in [0, tasks), in any order and in parallel; all tasks of a phase end
// before the next phase begins. `buffers` has a pointer for each argument, inputs first, and then
// one for each buffer of the preparation, each to an array in storage layout, aligned to its
// element. `scratch` is one arena of scratch_bytes for all
// tasks, aligned to 64 bytes, uninitialised, or null where scratch_bytes is 0. A result other than
// 0 is a failure. Objects import
// nothing but memcpy, memmove, memset and memcmp of the C library.
//
// The preparation is phases of the same kind that compute buffers from constant inputs: before the
// first call, and again when one of these inputs changes. Kernels without one are written as
// version 2 of the ABI, others as version 3; both are read.
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

/// Version of the code generator's output. It grows whenever old artifacts or records stop meaning
/// the same, and takes part in every lookup.
inline constexpr int64_t current_codegen_abi = 5;

struct PhaseInfo {
  std::string symbol;
  int64_t tasks = 1;
  int threads = 0;           ///< threads of one task; 0 on a CPU, whose tasks have none
  int64_t shared_bytes = 0;  ///< shared memory that a GPU launch adds to the declared one
  /// Parameters of the code after its pointers, of which scratch is the last.
  std::vector<TensorMap> maps = {};
  /// A block of a GPU may run several tasks: `blockIdx.x`, and every gridDim.x-th after it.
  bool persistent = false;
  friend bool operator==(const PhaseInfo&, const PhaseInfo&) = default;
};

struct ArgumentInfo {
  std::string name;
  DType dtype = Float32;
  bool is_output = false;
  std::vector<int64_t> shape;  ///< logical; empty for a scalar
  std::string layout;  ///< layout of the storage as text; empty: row-major, as the logical array
  int64_t storage_elements = 0;  ///< elements in storage layout, padding included
  /// The entry of KernelInfo::packs; empty: none is needed, or only run() serves.
  std::string pack = {};
  /// An input that the preparation reads and no phase of a call: calls may be given null for it.
  bool only_prepares = false;
  friend bool operator==(const ArgumentInfo&, const ArgumentInfo&) = default;
};

/// The buffers that a kernel computes from constant inputs, and the code that does.
struct PreparationInfo {
  std::vector<int> inputs;            ///< the arguments that it reads, by their index
  std::vector<ArgumentInfo> buffers;  ///< the results; in a call they are behind the arguments
  std::vector<PhaseInfo> phases;      ///< their buffers are the inputs, then the results
  int64_t scratch_bytes = 0;
  friend bool operator==(const PreparationInfo&, const PreparationInfo&) = default;
};

struct KernelInfo {
  std::string workload;   ///< text key
  std::string schedule;   ///< text
  std::string target;     ///< canonical text of a Target
  std::string toolchain;  ///< compiler and version, for people and records
  int64_t codegen_abi = 0;
  std::vector<ArgumentInfo> arguments;  ///< inputs, then outputs
  std::vector<PhaseInfo> phases;
  int64_t scratch_bytes = 0;
  /// Two-buffer kernels without scratch: {logical, storage} for an input, {storage, logical} for an
  /// output.
  std::map<std::string, std::vector<PhaseInfo>> packs;
  std::optional<PreparationInfo> preparation = std::nullopt;
  int spills = 0;     ///< register spills that the compiler left in the object
  int64_t flops = 0;  ///< floating-point operations of one call
  friend bool operator==(const KernelInfo&, const KernelInfo&) = default;
};

struct Artifact {
  KernelInfo info;
  std::string object;    ///< an ELF shared object; for GPUs a cubin, or OpenCL C
  std::string ptx = {};  ///< PTX beside a cubin, from which drivers compile for newer GPUs
  friend bool operator==(const Artifact&, const Artifact&) = default;
};

/// Owners whose files are trusted. A file is code: anyone who can write it, or rename a file over
/// it, can run code as this process.
enum class Trust {
  Own,        ///< files of the effective user
  OwnOrRoot,  ///< files of root too: artifacts that were installed with the system
};

/// The file name of the kernel for these four, "<16 hex digits>.twart": where the compiler puts it
/// in a cache directory and where a Session looks for it.
std::string artifact_name(std::string_view workload, std::string_view schedule,
                          std::string_view target, int64_t codegen_abi);

/// Invalid, naming the field, unless the ABI's promises can hold: inputs first, sizes that fit in
/// memory arithmetic, symbols that are identifiers, packs that exist, a target that parses.
Status check_info(const KernelInfo& info);

/// Invalid, naming the missing features, unless kernels for `target` (canonical text) run on
/// `machine`.
Status check_target(std::string_view target, const Target& machine);

/// The buffers of a call: the arguments, then the results of the preparation.
std::vector<ArgumentInfo> call_buffers(const KernelInfo& info);

/// Bytes of an argument's array in storage layout, and of its logical array. Requires: check_info
/// holds.
int64_t storage_bytes(const ArgumentInfo& argument);
int64_t logical_bytes(const ArgumentInfo& argument);

/// The largest scratch memory of a kernel and the largest arena of a network: more than any machine
/// can address, and sums of some of them are still numbers.
inline constexpr int64_t most_memory_bytes = int64_t{1} << 56;

/// The largest file of an artifact.
inline constexpr int64_t most_artifact_bytes = 12 + (int64_t{4} << 20) + (int64_t{256} << 20);

/// The bytes of the artifact's file, equal for equal artifacts. Fails with Invalid if check_info()
/// does or if the file would be too large.
Result<std::string> artifact_bytes(const Artifact& artifact);

/// Parses the bytes of an artifact's file. Fails with Invalid as read_artifact() does, but does not
/// check the machine; the caller must trust the origin of the bytes.
Result<Artifact> parse_artifact(std::string_view bytes);

/// Replaces `path` atomically by the artifact, readable by its owner only. A reader sees the old
/// file or the new one; after a crash too.
Status write_artifact(const std::string& path, const Artifact& artifact);

/// Reads and checks an artifact; does not load it. The file is opened once, without following a
/// link in its last component, and what is checked is what is returned. NotCompiled: there is no
/// such file. Invalid: it is another user's or writable by others (as is its directory), truncated,
/// changed, of another ABI version, or for a machine with features that `machine` lacks.
Result<Artifact> read_artifact(const std::string& path, Trust trust = Trust::Own,
                               const Target& machine = host_target());

/// The same, but for an artifact of any target: the device that loads it decides whether it can run
/// the code.
Result<Artifact> read_artifact_of_any_target(const std::string& path, Trust trust = Trust::Own);

}  // namespace tw::runtime
