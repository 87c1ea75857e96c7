// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Kernel is an artifact that can be called. It owns its machine code, which copies of the Kernel
// share. Calls of const methods are thread-safe, because each call uses scratch memory of its own,
// from a small cache.
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
  /// The machine that runs the kernel. load() fails if the machine lacks a feature of the
  /// artifact's target.
  Target machine = host_target();
  /// Cache of working memory to share with other kernels. Null: the kernel gets a cache for itself.
  std::shared_ptr<ArenaCache> arenas;
  LoadOptions library;
};

class Kernel {
 public:
  /// Loads an artifact. Checks the description and the machine's features before loading the
  /// object, and that the object exports all functions after that. Fails with Invalid if a check
  /// fails, and with the errors of Library::load(). Also fails if the target has AMX and the system
  /// does not permit its tile registers.
  static Result<Kernel> load(Artifact artifact, const KernelOptions& options = {});

  const KernelInfo& info() const;

  /// Runs all phases on arrays in storage layout, one for each of call_buffers(), on at most
  /// `threads` threads of the pool (0: all). The buffers of the preparation must hold what
  /// prepare() computed. Outputs are unspecified after an error. Fails with Usage if the number of
  /// arrays is wrong, a pointer is null or not aligned to the size of an element, or an output
  /// shares memory with another argument; the message names the argument. Fails with Environment if
  /// there is no memory for scratch, and with Internal if a phase reports a failure.
  Status run(std::span<void* const> buffers, ThreadPool& pool, int threads = 0) const;

  /// Does the same as run(), with scratch memory of the caller: KernelInfo::scratch_bytes bytes,
  /// aligned to 64.
  Status run_on(std::span<void* const> buffers, void* scratch, ThreadPool& pool,
                int threads = 0) const;
  /// Does the same as run_on(), but checks nothing and allocates nothing. Requires: arrays that
  /// meet the conditions of run().
  Status run_unchecked(std::span<void* const> buffers, void* scratch, ThreadPool& pool,
                       int threads = 0) const;
  /// Does the same as run_on(), but on the calling thread and with the tasks of each phase in
  /// reverse order. If the outputs differ from those of run_on(), the kernel wrongly depends on the
  /// order of tasks.
  Status run_backwards(std::span<void* const> buffers, void* scratch) const;

  /// Computes the buffers of the preparation from constant inputs in storage layout. Does nothing
  /// if the kernel has no preparation. `buffers` are the same as for run(). Only the constant
  /// inputs and the preparation's buffers are used. Fails with the errors of run().
  Status prepare(std::span<void* const> buffers, ThreadPool& pool, int threads = 0) const;
  /// Does the same as prepare(), but on the calling thread and with the tasks of each phase in
  /// reverse order.
  Status prepare_backwards(std::span<void* const> buffers) const;

  /// pack() converts an input from logical to storage layout; unpack() converts an output back. An
  /// argument that has no layout is copied. `argument` is an index into KernelInfo::arguments. Both
  /// fail with Unsupported if the artifact has no code to convert the layout. Requires: `logical`
  /// has logical_bytes() bytes, and `storage` has storage_bytes() bytes.
  Status pack(int argument, const void* logical, void* storage, ThreadPool& pool,
              int threads = 0) const;
  Status unpack(int argument, const void* storage, void* logical, ThreadPool& pool,
                int threads = 0) const;

  /// Runs the kernel on logical arrays: checks each array against its argument (views_of()), packs
  /// the inputs, computes the buffers of the preparation, runs the kernel, and unpacks the outputs.
  /// Arrays that are strided or misaligned are copied. An output must not share memory with any
  /// other array. If an array is wrong, the message names the argument, what was expected and what
  /// was given. Fails with Unsupported if the artifact has no code to convert the layout of an
  /// argument.
  Status call(std::span<const Buffer> buffers, ThreadPool& pool, int threads = 0) const;

 private:
  struct State;
  explicit Kernel(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

}  // namespace tw::runtime
