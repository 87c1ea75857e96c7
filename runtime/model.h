// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Model is a network that can be called. Its kernels are loaded and its constants are mapped from
// the file. A call runs all steps, in working memory from a cache. Nothing is compiled, except PTX
// by the driver of a GPU. A call runs the variant that was compiled for the shapes of its inputs. A
// network for a GPU runs on the device that the options give, with its constants and working memory
// there. Copies of a Model share everything, and const methods are thread-safe, so one model serves
// many threads and sessions.
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
#include "runtime/devices/device_model.h"
#include "runtime/kernel.h"
#include "runtime/model_file.h"
#include "runtime/thread_pool.h"

namespace tw::runtime {

struct ModelOptions {
  Target machine = host_target();
  Trust trust = Trust::Own;
  /// Checked: opening the model reads all constants and compares their hash, at 2 GB/s on a core
  /// with SHA instructions. Trusted: constants are not checked, and a page is read from the file
  /// when a step first needs it.
  Constants constants = Constants::Checked;
  LoadOptions library = {};
  /// The device that runs the network if it is for a GPU; null for networks for the processor.
  std::shared_ptr<Device> device = {};
};

/// A profile of one call: the variant that it ran, and the time of each step.
struct ModelProfile {
  size_t variant = 0;  ///< index in ModelFile::variants
  /// The runs of steps, in the order of the steps. A step of a loop has a run for each trip. Steps
  /// that run side by side (the chains of a ModelBand) are listed one after another, although their
  /// times overlap.
  std::vector<StepTime> steps;
};

/// The way in which a call runs the bands of a variant (ModelVariant::bands).
enum class BandOrder {
  SideBySide,  ///< the chains of a band at the same time, each on one thread
  InOrder,     ///< all steps one after another, each on up to its own number of threads
};

class Model {
 public:
  /// Opens a model file. The constants are mapped from the file. The file must not be changed in
  /// place while the model lives; write_model() replaces it instead. Fails with the errors of
  /// map_model(), and with those of Kernel::load() or, for a device, DeviceNetwork::load(). Fails
  /// with Usage if the network is for a GPU and no device is given, or if it is for the processor
  /// and a device is given.
  static Result<Model> open(const std::string& path, const ModelOptions& options = {});
  /// Does the same as open(), for a model in memory. The constants are copied.
  static Result<Model> load(ModelFile model, const ModelOptions& options = {});

  /// Returns the model as it was loaded, without the bytes of kernels and constants.
  const ModelFile& info() const;
  /// Returns the names, types and shapes of the arrays that call() expects for the variant, inputs
  /// first. All variants have the same names and types. Requires: variant < info().variants.size().
  std::span<const ArgumentInfo> arguments(size_t variant = 0) const;
  /// Returns the variant that call() runs on these arrays: the one for the inputs' shapes, and
  /// always 0 if the model has only one. Fails with Usage if the number of arrays is wrong, or if
  /// no variant fits; the message then lists the shapes that the model has.
  Result<size_t> variant_of(std::span<const Buffer> buffers) const;

  /// Runs the network on logical arrays, one for each input and then one for each output. Each step
  /// runs on at most `threads` threads of the pool (0: all), and on no more than its own limit,
  /// ModelStep::threads. With at least two threads, the chains of a band (ModelBand) run side by
  /// side.
  ///
  /// Arrays that are strided or not aligned to the size of an element are copied. If there are no
  /// such arrays, only the first call allocates memory. Outputs are unspecified after an error.
  /// - Fails with the errors of variant_of().
  /// - Fails with Usage if an array does not fit its argument, or if an output shares memory with
  ///   another array; the message names the argument.
  /// - Fails with Environment if there is no memory for the call.
  /// - Fails with Internal if a kernel reports a failure; the message names the step.
  Status call(std::span<const Buffer> buffers, ThreadPool& pool, int threads = 0) const;
  /// Does the same as call(), and returns the time of each step. On a device the steps run one
  /// after another, and the device's clock measures their times.
  Result<ModelProfile> profile(std::span<const Buffer> buffers, ThreadPool& pool, int threads = 0,
                               BandOrder order = BandOrder::SideBySide) const;

  // The methods above also call networks on a device; they ignore the pool then. They copy the
  // inputs to the device, submit all steps at once (on CUDA as one graph), copy the outputs back,
  // and wait once. They fail with the errors of variant_of() and DeviceKernel::call(). They fail
  // with Environment if the device has no memory for the call; the message names the purpose and
  // the size.

  /// Calls a network on a device, without a pool. Fails with Usage if the network is for the
  /// processor.
  Status call(std::span<const Buffer> buffers) const;
  /// Enqueues a call on arrays in the device's memory, on the caller's queue or the device's own,
  /// like DeviceKernel::call_on(). Calls of one variant on one queue share working memory, which
  /// the first of these calls allocates. The model must outlive the calls. Fails with Usage if the
  /// network is for the processor.
  Status call_on(std::span<const DeviceArray> arrays, DeviceStream stream = {}) const;
  /// Returns the device that the network runs on; null for networks for the processor.
  std::shared_ptr<Device> device() const;

  /// Returns the size of the constants in bytes. They are in the device's memory if there is a
  /// device.
  int64_t constant_bytes() const;
  /// Returns the bytes of memory that a call of the variant needs in addition to the caller's
  /// arrays, in the device's memory if there is a device.
  int64_t call_bytes(size_t variant = 0) const;

 private:
  struct State;
  explicit Model(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  static Result<Model> make(std::shared_ptr<State> state, const ModelOptions& options);

  std::shared_ptr<const State> state_;
};

/// Returns the nanoseconds that each step of the variant took, summed over all runs of the step.
/// Requires: a profile of this model.
std::vector<double> times_of_steps(const ModelFile& model, const ModelProfile& profile);

/// Prints the profile in the Trace Event Format of chrome://tracing, which Perfetto reads too: one
/// event for each run of a step. Steps of chain k of a band have the thread id k + 1, other steps
/// have 1. Requires: a profile of this model.
std::string to_trace(const ModelFile& model, const ModelProfile& profile);

}  // namespace tw::runtime
