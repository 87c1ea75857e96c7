// SPDX-License-Identifier: Apache-2.0
#pragma once
// A session gives out kernels by workload: it asks the database for the best schedule on this
// machine and loads the artifact that was compiled from it into the cache directory. It compiles
// nothing.
//
//     TW_TRY(Session session, Session::open({.database = "team.db", .cache = cache}));
//     TW_TRY(Kernel kernel, session.kernel(workload_key));
//     TW_RETURN_IF_ERROR(kernel.call(buffers, session.pool()));
//
// With a GPU in its options it also gives that one's kernels:
//
//     TW_TRY(auto gpu, open_device("cuda:1"));
//     TW_TRY(Session session, Session::open({.database = "team.db", .cache = cache, .gpu = gpu}));
//     TW_TRY(DeviceKernel kernel, session.device_kernel(workload_key));
//     TW_RETURN_IF_ERROR(kernel.call_on(arrays, stream));
//
// Thread-safe; a child of fork may call its parent's kernels but must open its own session for
// others.

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/target.h"
#include "runtime/artifact.h"
#include "runtime/device.h"
#include "runtime/devices/device_kernel.h"
#include "runtime/kernel.h"
#include "runtime/model.h"
#include "runtime/thread_pool.h"

namespace tw::runtime {

struct SessionOptions {
  std::string database;  ///< path of a tuning database; empty: kernels come from load() only
  std::string cache;     ///< directory of artifacts, named by artifact_name()
  int threads = 0;     ///< threads of the pool; 0: as many as affinity mask and cgroup quota allow
  std::string device;  ///< device name as in records, whose records are preferred to others of the
                       ///< same target; empty: for a GPU, the result of gpu_text()
  int64_t codegen_abi = current_codegen_abi;  ///< code generator version of the records to look for
  Trust trust = Trust::Own;
  Target machine = host_target();
  std::shared_ptr<Device> gpu = {};  ///< device of device_kernel(): a GPU or an OpenCL device
};

class Session {
 public:
  /// Database: it cannot be opened. The cache directory need not exist yet.
  static Result<Session> open(SessionOptions options);

  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  /// The kernel of the best record for the workload's text key, for as many threads as the session
  /// has, else for one. Layouts that its caller keeps follow the key in braces, as records spell
  /// them: "... f32 fast {in=NCHW16c out=NHWC}"; Kernel::run() takes arrays in them, and call()
  /// converts. The same workload gives the same kernel for the life of the session.
  /// NoCandidate: no record, the message has the line that tunes; NotCompiled: a record but no
  /// artifact, the message has the line that compiles; Invalid: the artifact was refused.
  Result<Kernel> kernel(std::string_view workload);

  /// The kernel of an artifact file, whatever the database says.
  Result<Kernel> load(const std::string& path);

  /// The network of a model file (runtime/model.h), whatever the database says; call it on pool().
  /// It runs on the session's GPU where it has one. Usage: the network is for the other.
  Result<Model> model(const std::string& path);

  /// The same as kernel() and load() for the GPU: the kernel of the best record of the closest
  /// target that has one. A newer GPU can so run an older one's kernels by their PTX
  /// (targets_of()). Usage: the session has no GPU.
  Result<DeviceKernel> device_kernel(std::string_view workload);
  Result<DeviceKernel> load_on_device(const std::string& path);

  /// The GPU of the session; null if it has none.
  const std::shared_ptr<Device>& gpu() const;

  ThreadPool& pool();

 private:
  struct State;
  explicit Session(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace tw::runtime
