// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Model is a network that can be called: its kernels are loaded, its constants are mapped, and
// one call runs all of its steps in memory that it takes from a small cache. No compiler is
// involved. Copies share everything; const calls are thread-safe, so one model serves many threads
// and sessions. A call runs the variant that is for the shapes of its inputs. A network for a GPU
// runs on the device that the options name, with its constants and its working memory there.
//
//     TW_TRY(Model model, Model::open("resnet50.twart"));
//     ThreadPool pool;
//     const std::vector<Buffer> arrays = {{x, Float32, {1, 3, 224, 224}}, {y, Float32, {1, 1000}}};
//     TW_RETURN_IF_ERROR(model.call(arrays, pool));
//
//     TW_TRY(const auto gpu, open_cuda_device());
//     TW_TRY(Model on_gpu, Model::open("resnet50_gpu.twart", {.device = gpu}));
//     TW_RETURN_IF_ERROR(on_gpu.call(arrays));              // copied in and out
//     TW_RETURN_IF_ERROR(on_gpu.call_on(on_device, stream));  // queued, nothing is copied

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/arguments.h"
#include "runtime/device_model.h"
#include "runtime/kernel.h"
#include "runtime/model_file.h"
#include "runtime/thread_pool.h"

namespace tw::runtime {

struct ModelOptions {
  Target machine = host_target();
  Trust trust = Trust::Own;
  /// Checking the constants reads all of them before the first call, 2 GB/s on a core with SHA
  /// instructions; trusted ones are read when a step first needs them.
  Constants constants = Constants::Checked;
  LoadOptions library = {};
  /// Where a network for a GPU runs; null for one of the processor.
  std::shared_ptr<Device> device = {};
};

/// What one call ran, and when.
struct ModelProfile {
  size_t variant = 0;           ///< number in ModelFile::variants
  std::vector<StepTime> steps;  ///< in the order in which they ran
};

class Model {
 public:
  /// Errors as map_model() and Kernel::load(), for a device as DeviceNetwork::load(); Usage where
  /// the network is for a GPU and no device is given, or for the processor and one is. The
  /// constants are mapped from the file, which must not be changed in place while the model lives
  /// (write_model() replaces it).
  static Result<Model> open(const std::string& path, const ModelOptions& options = {});
  /// The same for a model in memory, whose constants are copied.
  static Result<Model> load(ModelFile model, const ModelOptions& options = {});

  /// What it was loaded from, without the bytes of kernels and constants.
  const ModelFile& info() const;
  /// Inputs, then outputs: names, types and shapes of the arrays that call() takes. All variants
  /// have the same names and types. Requires: variant < info().variants.size().
  std::span<const ArgumentInfo> arguments(size_t variant = 0) const;
  /// The variant that call() runs on these arrays. Usage, listing the shapes that there are, where
  /// several variants have other ones; a model with a single variant always answers 0.
  Result<size_t> variant_of(std::span<const Buffer> buffers) const;

  /// Runs the network on logical arrays: one for each input, then one for each output, on at most
  /// `threads` threads of the pool (0: all) and in each step on at most as many as the step says.
  /// Errors as variant_of(). Checks the arrays as Kernel::call() does: Usage, naming the argument,
  /// also where an output shares memory with another array. Arrays that are strided or not aligned
  /// to their element are copied; other calls after the first allocate nothing. Environment where
  /// there is no memory for the call; Internal, naming the step, where a kernel reports a failure.
  /// Outputs are unspecified after an error.
  Status call(std::span<const Buffer> buffers, ThreadPool& pool, int threads = 0) const;
  /// The same, and says when each step ran; on a device by its clock, one step after the other.
  Result<ModelProfile> profile(std::span<const Buffer> buffers, ThreadPool& pool,
                               int threads = 0) const;

  // Of a network on a device, for which the calls above use no thread of the pool: they copy the
  // inputs there, submit all steps at once (on CUDA as one graph), copy the outputs back and wait
  // once. Errors as variant_of() and DeviceKernel::call(); Environment, naming what and how much,
  // where the device has no memory for the call.

  /// The same call without a pool. Usage: the network is for the processor.
  Status call(std::span<const Buffer> buffers) const;
  /// Enqueues one call on arrays in the device's memory, on a queue of the caller's or the device's
  /// own, as DeviceKernel::call_on(). Calls of one variant on one queue share working memory, which
  /// the first one allocates; the model has to outlive them. Usage: the network is for the
  /// processor.
  Status call_on(std::span<const DeviceArray> arrays, DeviceStream stream = {}) const;
  /// Null for a network of the processor.
  std::shared_ptr<Device> device() const;

  /// Bytes of memory that the model holds for its constants, and that each call of a variant takes
  /// beside the caller's arrays; of a network on a device, there.
  int64_t constant_bytes() const;
  int64_t call_bytes(size_t variant = 0) const;

 private:
  struct State;
  explicit Model(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  static Result<Model> make(std::shared_ptr<State> state, const ModelOptions& options);

  std::shared_ptr<const State> state_;
};

/// The profile in the Trace Event Format of chrome://tracing, which Perfetto reads too: an event
/// for each step. Requires: a profile of this model.
std::string to_trace(const ModelFile& model, const ModelProfile& profile);

}  // namespace tw::runtime
