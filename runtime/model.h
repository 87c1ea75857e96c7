// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Model is a network that can be called: its kernels are loaded, its constants are mapped, and
// one call runs all of its steps in memory that it takes from a small cache. No compiler is
// involved. Copies share everything; const calls are thread-safe, so one model serves many threads
// and sessions. A call runs the variant that is for the shapes of its inputs.
//
//     TW_TRY(Model model, Model::open("resnet50.twart"));
//     ThreadPool pool;
//     const std::vector<Buffer> arrays = {{x, Float32, {1, 3, 224, 224}}, {y, Float32, {1, 1000}}};
//     TW_RETURN_IF_ERROR(model.call(arrays, pool));

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/arguments.h"
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
  LoadOptions library;
};

/// Time of one step of one call.
struct StepTime {
  int step = 0;
  int64_t begin_ns = 0, end_ns = 0;  ///< since the first step began
};

/// What one call ran, and when.
struct ModelProfile {
  size_t variant = 0;           ///< number in ModelFile::variants
  std::vector<StepTime> steps;  ///< in the order in which they ran
};

class Model {
 public:
  /// Errors as map_model() and Kernel::load(). The constants are mapped from the file, which must
  /// not be changed in place while the model lives (write_model() replaces it).
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
  /// The same, and says when each step ran.
  Result<ModelProfile> profile(std::span<const Buffer> buffers, ThreadPool& pool,
                               int threads = 0) const;

  /// Bytes of memory that the model holds for its constants, and that each call of a variant takes
  /// beside the caller's arrays.
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
