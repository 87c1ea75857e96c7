// SPDX-License-Identifier: Apache-2.0
#pragma once
// A session returns kernels by workload. It looks up the best schedule for this machine in the
// database, and loads the artifact of that schedule from the cache directory. It compiles nothing.
//
//     TW_TRY(Session session, Session::open({.database = "team.db", .cache = cache}));
//     TW_TRY(Kernel kernel, session.kernel(workload_key));
//     TW_RETURN_IF_ERROR(kernel.call(buffers, session.pool()));
//
// With a GPU in its options, a session also returns kernels for that GPU:
//
//     TW_TRY(auto gpu, open_device("cuda:1"));
//     TW_TRY(Session session, Session::open({.database = "team.db", .cache = cache, .gpu = gpu}));
//     TW_TRY(DeviceKernel kernel, session.device_kernel(workload_key));
//     TW_RETURN_IF_ERROR(kernel.call_on(arrays, stream));
//
// Thread-safe. A child of fork() may call the kernels that its parent got. To get other kernels, it
// must open a session of its own.

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
  /// Path of a tuning database. Empty: the session has no database, and kernels and networks come
  /// only from files.
  std::string database;
  /// Directory of compiled artifacts, whose file names are artifact_name(). May be empty only if
  /// the session has no database.
  std::string cache;
  int threads = 0;  ///< threads of the pool; 0: as many as affinity mask and cgroup quota allow
  /// Name of the device, as records spell it. Records of this device are preferred to other records
  /// of the target. If it is empty, a session with a GPU uses gpu_text(), and a session for the
  /// processor prefers no device.
  std::string device;
  int64_t codegen_abi = current_codegen_abi;  ///< code generator version of the records to use
  Trust trust = Trust::Own;
  Target machine = host_target();
  std::shared_ptr<Device> gpu = {};  ///< device of device_kernel(): a GPU or an OpenCL device
};

class Session {
 public:
  /// Opens a session. The cache directory need not exist yet. Fails with Database if the database
  /// cannot be opened, and with Usage if a database is given and no cache.
  static Result<Session> open(SessionOptions options);

  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  /// Returns the kernel of the best record for a workload, which is given by its text key. The
  /// record is for the session's number of threads or, if there is none, for one thread. Later
  /// calls for the same workload return the same kernel, even if the database has a better one by
  /// then.
  ///
  /// `workload` may also name the layouts of the caller's arrays, in braces after the key, as
  /// records spell them: "... f32 fast {in=NCHW16c out=NHWC}". Kernel::run() then uses arrays in
  /// these layouts, and Kernel::call() converts to them.
  ///
  /// Fails with NoCandidate if there is no record; the message has the command that tunes. Fails
  /// with NotCompiled if there is a record but no artifact; the message has the command that
  /// compiles. Fails with Invalid if the artifact is refused.
  Result<Kernel> kernel(std::string_view workload);

  /// Loads the kernel of an artifact file, without asking the database.
  Result<Kernel> load(const std::string& path);

  /// Opens the network of a model file (runtime/model.h), without asking the database. The network
  /// runs on the session's GPU if there is one. Otherwise it runs on the processor; call it with
  /// pool(). Fails with Usage if the network is for a GPU and the session has none, or if it is for
  /// the processor and the session has a GPU.
  Result<Model> model(const std::string& path);

  /// These functions do for the GPU what kernel() and load() do for the processor. device_kernel()
  /// looks up the targets of targets_of(), the closest first, and uses the best record for the
  /// first target that has one. So a newer GPU can run the PTX of an older GPU's kernels. Both fail
  /// with Usage if the session has no GPU.
  Result<DeviceKernel> device_kernel(std::string_view workload);
  Result<DeviceKernel> load_on_device(const std::string& path);

  /// Returns the GPU of the session; null if it has none.
  const std::shared_ptr<Device>& gpu() const;

  ThreadPool& pool();

 private:
  struct State;
  explicit Session(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace tw::runtime
