// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Kernel is an artifact that can be called. It owns its machine code, which copies of the Kernel
// share. Const calls are thread-safe: each takes its own scratch memory from a small cache.
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
  /// The machine that runs the kernel. load() fails if it lacks a feature of the artifact's target.
  Target machine = host_target();
  /// Cache of working memory to share with other kernels. Null: the kernel gets a cache for itself.
  std::shared_ptr<ArenaCache> arenas;
  LoadOptions library;
};

class Kernel {
 public:
  /// Loads an artifact. Before any code can run, checks the description, the machine's features and
  /// the symbols; Invalid if a check fails.
  static Result<Kernel> load(Artifact artifact, const KernelOptions& options = {});

  const KernelInfo& info() const;

  /// Runs all phases on arrays in storage layout, one for each of call_buffers(), on at most
  /// `threads` threads of the pool (0: all). The buffers of the preparation must hold what
  /// prepare() computed. Outputs are unspecified after an error. Usage, naming the argument: a
  /// wrong number of arrays, null or misaligned pointers, outputs that share memory with another
  /// argument. Environment: there is no memory for scratch. Internal: a phase reports a failure.
  Status run(std::span<void* const> buffers, ThreadPool& pool, int threads = 0) const;

  /// Like run(), with scratch memory that the caller provides: scratch_bytes bytes, aligned to 64.
  Status run_on(std::span<void* const> buffers, void* scratch, ThreadPool& pool,
                int threads = 0) const;
  /// Like run_on(), but checks nothing and allocates nothing. Requires: arrays that meet the
  /// conditions of run().
  Status run_unchecked(std::span<void* const> buffers, void* scratch, ThreadPool& pool,
                       int threads = 0) const;
  /// Like run_on(), but on the calling thread and with the tasks of each phase in reverse order.
  /// Outputs that differ from those of run_on() show that a kernel depends on the order of tasks.
  Status run_backwards(std::span<void* const> buffers, void* scratch) const;

  /// Computes the buffers of the preparation from constant inputs in storage layout. Does nothing
  /// if the kernel has no preparation. Takes the pointers that run() takes, and uses only those of
  /// the constant inputs and of the preparation's buffers. Fails as run().
  Status prepare(std::span<void* const> buffers, ThreadPool& pool, int threads = 0) const;
  /// Like prepare(), but on the calling thread and with the tasks of each phase in reverse order.
  Status prepare_backwards(std::span<void* const> buffers) const;

  /// pack() converts an input from logical to storage layout; unpack() converts an output back. An
  /// argument that has no layout is copied. `argument` is an index into KernelInfo::arguments.
  /// Requires: `logical` has logical_bytes() bytes, and `storage` has storage_bytes() bytes.
  Status pack(int argument, const void* logical, void* storage, ThreadPool& pool,
              int threads = 0) const;
  Status unpack(int argument, const void* storage, void* logical, ThreadPool& pool,
                int threads = 0) const;

  /// Runs the kernel on logical arrays: checks each against its argument, packs the inputs,
  /// prepares, runs, and unpacks the outputs. Arrays that are strided or misaligned are copied. An
  /// output must not share memory with any other array. The message of an error names the argument,
  /// what was expected and what was given. Unsupported: the artifact has no code to convert the
  /// layout of an argument.
  Status call(std::span<const Buffer> buffers, ThreadPool& pool, int threads = 0) const;

 private:
  struct State;
  explicit Kernel(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

}  // namespace tw::runtime
