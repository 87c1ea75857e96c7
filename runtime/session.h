// SPDX-License-Identifier: Apache-2.0
#pragma once
// A session gives out kernels by workload. It asks the database for the best schedule on this
// machine, and loads the artifact of that schedule from the cache directory. It compiles nothing.
//
//     TW_TRY(Session session, Session::open({.database = "team.db", .cache = cache}));
//     TW_TRY(Kernel kernel, session.kernel(workload_key));
//     TW_RETURN_IF_ERROR(kernel.call(buffers, session.pool()));
//
// With a GPU in its options, a session also gives out kernels for that GPU:
//
//     TW_TRY(auto gpu, open_device("cuda:1"));
//     TW_TRY(Session session, Session::open({.database = "team.db", .cache = cache, .gpu = gpu}));
//     TW_TRY(DeviceKernel kernel, session.device_kernel(workload_key));
//     TW_RETURN_IF_ERROR(kernel.call_on(arrays, stream));
//
// Thread-safe. A child of fork() may call the kernels that its parent got, but must open its own
// session to get others.

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
  /// Path of a tuning database. Empty: the session has no database, and only load() and model()
  /// give kernels.
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
  /// Opens a session. The cache directory need not exist yet. Database: the database cannot be
  /// opened. Usage: a database is given and no cache.
  static Result<Session> open(SessionOptions options);

  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  /// Returns the kernel of the best record for a workload, given by its text key: the record for
  /// the session's number of threads, or else the record for one thread. Later calls for the same
  /// workload return the same kernel, even if the database has a better one by then.
  ///
  /// Layouts that the caller keeps follow the key in braces, as records spell them: "... f32 fast
  /// {in=NCHW16c out=NHWC}". Kernel::run() takes arrays in these layouts, and call() converts to
  /// them.
  ///
  /// NoCandidate: there is no record; the message has the command that tunes. NotCompiled: there is
  /// a record but no artifact; the message has the command that compiles. Invalid: the artifact was
  /// refused.
  Result<Kernel> kernel(std::string_view workload);

  /// Loads the kernel of an artifact file, without asking the database.
  Result<Kernel> load(const std::string& path);

  /// Opens the network of a model file (runtime/model.h), without asking the database. It runs on
  /// the session's GPU if there is one; on the processor, call it with pool(). Usage: the network
  /// is for a GPU and the session has none, or it is for the processor and the session has a GPU.
  Result<Model> model(const std::string& path);

  /// Like kernel() and load(), for the GPU. device_kernel() goes through the targets of
  /// targets_of(), the closest first, and takes the best record of the first target that has
  /// records. So a newer GPU can run the PTX of an older GPU's kernels. Usage: the session has no
  /// GPU.
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
