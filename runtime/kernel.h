// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Kernel is an artifact that can be called. It owns its machine code; copies share it. Const
// calls are thread-safe: each takes its own scratch memory from a small cache.
//
//     TW_TRY(Artifact artifact, read_artifact(path));
//     TW_TRY(Kernel kernel, Kernel::load(std::move(artifact)));
//     ThreadPool pool;
//     const std::vector<Buffer> arrays = {
//         {a, Float32, {64, 32}}, {b, Float32, {32, 16}}, {c, Float32, {64, 16}}};
//     TW_RETURN_IF_ERROR(kernel.call(arrays, pool));

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "runtime/arena.h"
#include "runtime/arguments.h"
#include "runtime/artifact.h"
#include "runtime/library.h"
#include "runtime/thread_pool.h"

namespace tw::runtime {

struct KernelOptions {
  Target machine = host_target();      ///< must have the features of the artifact's target
  std::shared_ptr<ArenaCache> arenas;  ///< arenas shared with other kernels; null: an own cache
  LoadOptions library;
};

class Kernel {
 public:
  /// Checks the description, the machine's features and the symbols, before any code can run.
  static Result<Kernel> load(Artifact artifact, const KernelOptions& options = {});

  const KernelInfo& info() const;

  /// Runs all phases on arrays in storage layout, one for each of call_buffers(), on at most
  /// `threads` threads of the pool (0: all). prepare() must have computed those of the preparation.
  /// Usage, naming the argument, for a wrong count, null or
  /// misaligned pointers, and outputs that share memory with another argument; Environment when
  /// there is no memory for scratch; Internal when a phase reports a failure. Outputs are
  /// unspecified after an error.
  Status run(std::span<void* const> buffers, ThreadPool& pool, int threads = 0) const;

  /// Like run(), with scratch memory of the caller's: scratch_bytes bytes, aligned to 64.
  Status run_on(std::span<void* const> buffers, void* scratch, ThreadPool& pool,
                int threads = 0) const;
  /// Like run_on(), for arrays that the caller has proved to meet the conditions of run(): it
  /// checks nothing and allocates nothing.
  Status run_unchecked(std::span<void* const> buffers, void* scratch, ThreadPool& pool,
                       int threads = 0) const;
  /// Like run_on(), but on the calling thread and with the tasks of each phase in reverse order.
  /// Outputs that differ from those of run_on() show that a kernel depends on the order of tasks.
  Status run_backwards(std::span<void* const> buffers, void* scratch) const;

  /// Computes the buffers of the preparation, if there is one, from constant inputs in storage
  /// layout. Takes the same pointers as run(), of which it uses only these. Fails as run().
  Status prepare(std::span<void* const> buffers, ThreadPool& pool, int threads = 0) const;
  /// Like prepare(), on the calling thread and with tasks in reverse order, as run_backwards().
  Status prepare_backwards(std::span<void* const> buffers) const;

  /// Converts an input from logical to storage layout, or (unpack) an output back. Arguments
  /// without a pack are copied. Requires: 0 <= argument < count, arrays of logical_bytes and
  /// storage_bytes.
  Status pack(int argument, const void* logical, void* storage, ThreadPool& pool,
              int threads = 0) const;
  Status unpack(int argument, const void* storage, void* logical, ThreadPool& pool,
                int threads = 0) const;

  /// Runs on logical arrays: checks each against its argument (a message names the argument, what
  /// was expected and what was given), packs the inputs, prepares, runs, unpacks the outputs.
  /// Arrays that are strided or misaligned are copied; an output must not share memory with any
  /// other array. Unsupported where an artifact has a layout without its pack.
  Status call(std::span<const Buffer> buffers, ThreadPool& pool, int threads = 0) const;

 private:
  struct State;
  explicit Kernel(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

}  // namespace tw::runtime
