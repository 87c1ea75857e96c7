// SPDX-License-Identifier: Apache-2.0
#pragma once
// Verifies a kernel before it is timed. Runs in a worker process (processes/sandbox.h). A kernel
// that accesses a guard region or writes to an input ends the worker, and the parent process is
// told the fault.

#include <list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dsl/layout.h"
#include "dsl/workload.h"
#include "runtime/kernel.h"
#include "tuner/measure/cache_lines.h"
#include "tuner/measure/reference.h"
#include "tuner/measure/verdict.h"
#include "tuner/processes/guarded_buffer.h"

namespace tw::tuner {

/// Cache of inputs in the layouts that kernels asked for. It saves packing and the page faults of
/// new memory, which take longer than a call. The inputs stay read-only, so that no kernel can
/// change the inputs of another kernel. The least recently used inputs are dropped first.
class PackedInputs {
 public:
  /// Returns `array` in `layout`, from the cache if it is there; otherwise it is packed now.
  /// `layout_text` is the layout as text; the cache finds a buffer by it, by `options` and by the
  /// address of `array`. Call clear() when an array that was passed is destroyed, before the next
  /// get().
  Result<std::shared_ptr<const GuardedBuffer>> get(const dsl::Array& array,
                                                   const dsl::Layout& layout,
                                                   const std::string& layout_text,
                                                   const BufferOptions& options);
  void clear() { entries_.clear(); }

 private:
  struct Entry {
    const dsl::Array* array;
    std::string layout;
    BufferOptions options;
    std::shared_ptr<const GuardedBuffer> buffer;
  };
  std::list<Entry> entries_;  ///< sorted by their last use, the latest first
};

/// The inputs of a kernel that are taken from a PackedInputs: all of them, or only the constants.
enum class SharedInputs { All, Constants };

/// Guarded buffers for the arguments of a kernel, in their layouts, with the inputs of one fill.
/// They are packed and unpacked by packing.h and not by the kernel's own code. If the kernel has a
/// preparation, there are also buffers for its results, which prepare() computes.
class KernelBuffers {
 public:
  /// Allocates the buffers and packs the inputs. Shared inputs are taken from `packed` and are
  /// read-only; `shared` says which inputs these are. If `packed` is null, no input is shared. Each
  /// other input is packed into a buffer of this object, which can be made writable.
  static Result<KernelBuffers> make(const runtime::Kernel& kernel, const dsl::Workload& workload,
                                    const dsl::Arrays& inputs, BufferOptions options,
                                    PackedInputs* packed, SharedInputs shared = SharedInputs::All);
  /// Fills the buffers for the results of the kernel's preparation with the pattern `poison`, runs
  /// the preparation, and makes these buffers read-only. With `backwards`, the preparation runs on
  /// one thread and with its tasks in reverse order. Fails with Invalid if the preparation writes
  /// outside of its buffers.
  Status prepare(const runtime::Kernel& kernel, Poison poison, runtime::ThreadPool& pool,
                 int threads, bool backwards = false);
  /// Returns a pointer to each buffer that runtime::call_buffers() describes.
  std::vector<void*> pointers() const;
  Bytes bytes(size_t argument) const {
    return {buffers_[argument]->data(), buffers_[argument]->size()};
  }
  void poison_outputs(const runtime::Kernel& kernel, Poison pattern);
  Status make_writable(size_t argument) { return own_[argument]->make_writable(); }
  /// Returns the outputs in logical layout. Fails with Invalid if the kernel wrote to the memory
  /// around an argument; the message names the argument.
  Result<dsl::Arrays> outputs(const runtime::Kernel& kernel) const;
  /// Returns the memory of the buffers that the preparation computed.
  std::vector<Bytes> prepared() const;

 private:
  std::vector<dsl::Layout> layouts_;
  std::vector<std::shared_ptr<GuardedBuffer>> own_;  ///< null for an input that is shared
  std::vector<std::shared_ptr<const GuardedBuffer>> buffers_;
  std::vector<std::shared_ptr<GuardedBuffer>> prepared_;
};

/// Returns the inputs of a kernel by their roles in a network. Buffers that the preparation
/// computed count as constants; inputs that only the preparation reads are left out. Makes the
/// activations in `buffers` writable.
Result<Roles> roles_of(const runtime::Kernel& kernel, const dsl::Workload& workload,
                       KernelBuffers& buffers);

/// The conversions between layouts that are part of each call of a kernel. There are conversions
/// only if dsl::keeps_arrays() is true of the workload, which means that the kernel is called on
/// arrays of the user. Constants are not converted, nor are arrays for which the user asked for a
/// layout (Workload::layouts). The input arrays must outlive the object.
class Conversions {
 public:
  /// Finds the conversions. The inputs that each call packs are made writable in `buffers`.
  static Result<Conversions> of(const runtime::Kernel& kernel, const dsl::Workload& workload,
                                const dsl::Arrays& inputs, KernelBuffers& buffers);
  /// Makes one call as a user makes it: packs the inputs, runs the kernel, and unpacks the outputs.
  Status call(const runtime::Kernel& kernel, std::span<void* const> storage,
              runtime::ThreadPool& pool, int threads);

 private:
  /// Arguments that each call converts: pairs of the index of an argument and the user's array.
  std::vector<std::pair<int, const dsl::Array*>> inputs_;
  std::vector<std::pair<int, dsl::Array>> outputs_;
};

/// Verifies a kernel by three runs:
/// - on the integer fill, on one thread, with guards before the data;
/// - on the N(0, 1) fill, on all threads, with guards behind the data;
/// - on the N(0, 1) fill again, on one thread, with the tasks in reverse order; the outputs must
///   have the same bits as those of the second run.
///
/// Before each run, the outputs, the scratch memory and the stack are filled with another poison.
/// If the kernel has a preparation or packing kernels, a fourth run calls it as users do, on
/// row-major arrays. This run is left out if an argument in another layout has no packing kernel.
Verdict verify(const runtime::Kernel& kernel, const dsl::Workload& workload,
               const Reference& reference, PackedInputs& packed, runtime::ThreadPool& pool,
               int threads);

}  // namespace tw::tuner
