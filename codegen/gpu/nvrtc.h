// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compiles CUDA C++ to code for GPUs through NVRTC, the compiler of the CUDA toolkit as a library.
// This needs neither a GPU nor a driver. The library is opened when code is generated, so programs
// that only run kernels do not need it. A compilation takes 20 ms to seconds and cannot be stopped.
// If it must be possible to stop it, run it in a process of its own. Const calls are thread-safe.
//
//     TW_TRY(const Nvrtc nvrtc, Nvrtc::open({.directories = {cuda_home + "/lib64"}}));
//     TW_TRY(const CudaCode gemm, nvrtc.compile(text, "sm_90a"));
//     TW_TRY(const runtime::DeviceModule module, device->load(gemm.code));

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/own_files.h"
#include "base/result.h"
#include "runtime/device.h"

namespace tw::codegen {

struct NvrtcOptions {
  /// Directories in which libnvrtc is searched for first. Programs pass $CUDA_HOME/lib64 and
  /// $CUDA_PATH/lib64, if these variables are set.
  std::vector<std::string> directories = {};
  /// True to search nvrtc_places() after `directories`.
  bool usual_places = true;
};

/// Returns the directories in which the library is searched for by default: "" for the loader's
/// search path, /usr/local/cuda/lib64, and the folders nvidia/cu13/lib that the Python package
/// cuda-toolkit has installed in one of these places:
/// - the directory site-packages or dist-packages that contains one of `files`;
/// - a virtual environment named .venv, in a directory above one of `files` or in the checkout in
///   which the program was built.
/// The folder .venv must belong to this user or to root, and others must not be able to write to
/// it.
std::vector<std::string> nvrtc_places(const OwnFiles& files = own_files());

/// The resources that a __global__ function needs, as ptxas reports them. Bytes are per thread,
/// except for shared memory, whose bytes are per block.
struct CudaFunctionFacts {
  std::string name = {};
  int registers = 0;
  int64_t stack_bytes = 0;  ///< local arrays and spilled registers
  int64_t spill_store_bytes = 0;
  int64_t spill_load_bytes = 0;
  int64_t shared_bytes = 0;  ///< static shared memory, without `extern __shared__`
};

struct CudaCode {
  runtime::DeviceCode code;  ///< `text` is PTX if it was asked for, else empty
  std::vector<CudaFunctionFacts> functions;
  std::vector<std::string> advice = {};  ///< result of parse_ptxas_advice()
};

class Nvrtc {
 public:
  /// Opens the library. It searches all places for libnvrtc.so.13, then all places for
  /// libnvrtc.so.12. Fails with Environment if neither can be opened, or if a function is missing
  /// in it.
  static Result<Nvrtc> open(const NvrtcOptions& options = {});

  /// Returns the path of the library that was opened, or its bare file name if the loader found it.
  const std::string& path() const;
  /// Returns the version of the toolkit that the library belongs to: 1000 * major + 10 * minor, so
  /// 13.0 is 13000.
  int version() const;
  /// Returns the architectures that the library compiles for: "sm_80", ..., "sm_90", "sm_90a", ...
  const std::vector<std::string>& architectures() const;

  /// Compiles C++17 text without headers to a cubin. If `ptx` is true, the result also has PTX,
  /// which drivers compile for GPUs newer than the cubin's. Do not ask for PTX if `architecture`
  /// ends in a letter. Fails with Unsupported if `architecture` is not one of architectures(), or
  /// if the compiler fails without saying that the text is wrong. Fails with Invalid if the text
  /// does not compile; the message has the first lines of the compiler's errors.
  Result<CudaCode> compile(const std::string& text, const std::string& architecture,
                           bool ptx = false) const;

 private:
  struct Library;
  explicit Nvrtc(std::shared_ptr<const Library> library) : library_(std::move(library)) {}

  std::shared_ptr<const Library> library_;
};

/// Returns the advisory messages in ptxas's log. Each says that ptxas changed, added or ignored
/// instructions. Example: "C7508: Potential Performance Loss: 'setmaxnreg' ignored; ...". If
/// several messages have the same code (C7508), only the first is returned. Line numbers in the
/// messages refer to the PTX.
std::vector<std::string> parse_ptxas_advice(std::string_view log);

/// True if the advisory message says that the kernel lacks the property that makes its schedule
/// fast: its wgmma instructions are serialized, or registers are not moved to the warpgroups that
/// need them.
bool is_loss(std::string_view advice);

/// Returns the resources of each function in the log that --ptxas-options=-v prints, in the order
/// of the log.
std::vector<CudaFunctionFacts> parse_ptxas_log(std::string_view log);

}  // namespace tw::codegen
