// SPDX-License-Identifier: Apache-2.0
#pragma once
// The artifact of a whole network, net.twart: kernels, packed constants, and the steps that call
// them. In a file it is
//
//     "TWNETF03" | u32 header length, little endian | JSON header | kernels | zeros | constants
//
// where each kernel is the bytes of an artifact (runtime/artifact.h). The header names the size and
// the SHA-256 of each kernel and of the constants, and its own. The constants begin at the next
// multiple of 4096 bytes, so that a loader maps them instead of reading them.
//
// A network has a variant for each set of input shapes that it was compiled for, such as batches of
// 1 and of 8. Variants share kernels and constants. Files of version 2, "TWNETF02", which have no
// loops, are read too; so are those of version 1, "TWNETF01", whose header holds the fields of the
// one variant directly. Bands need no version of their own: a runtime that does not know them runs
// all steps in order, which is always right.
//
// Plain values and free functions; thread-safe.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "base/target.h"
#include "runtime/artifact.h"
#include "runtime/mapped_file.h"

namespace tw::runtime {

/// The memory that holds the array of a tensor.
enum class Place {
  Input,     ///< the caller's array for an input
  Output,    ///< the caller's array for an output
  Constant,  ///< in the file, packed for the kernels that read it
  Arena,     ///< in the memory of a call
};

/// Movement of a tensor in a loop: in trip t it lies `begin + advance * t` bytes behind its place,
/// or `begin + advance * (t % period)` if the period is not 0. Outside of loops t is 0.
struct Slide {
  int64_t begin = 0, advance = 0, period = 0;
  friend bool operator==(const Slide&, const Slide&) = default;

  /// The offset in a trip. Requires: a tensor of a model that passes check_model().
  int64_t at(int64_t trip) const { return begin + advance * (period > 0 ? trip % period : trip); }
};

/// One array that steps read or write.
struct ModelTensor {
  std::string name;
  DType dtype = Float32;
  std::vector<int64_t> shape;  ///< logical
  std::string layout;          ///< text as in ArgumentInfo; empty: row-major
  int64_t bytes = 0;           ///< in storage layout; 0: a constant that only preparations read
  Place place = Place::Arena;
  int64_t at = 0;  ///< index of the input or output, or byte offset in the constants or arena
  Slide slide = {};
  friend bool operator==(const ModelTensor&, const ModelTensor&) = default;
};

/// One call of a kernel.
struct ModelStep {
  std::string name;            ///< of the operator, or "tensor: NCHW -> NCHW16c"
  int kernel = 0;              ///< index into ModelFile::kernels
  std::vector<int> arguments;  ///< tensors, one for each of call_buffers() of the kernel
  int threads = 0;             ///< most threads that it runs on; 0: all of the pool
  double predicted_ns = 0;
  friend bool operator==(const ModelStep&, const ModelStep&) = default;
};

/// Steps that run `trips` times, one trip after the other.
struct ModelLoop {
  std::string name;
  int first = 0, count = 0;  ///< the steps: `count` of them from `first` on
  int64_t trips = 1;
  friend bool operator==(const ModelLoop&, const ModelLoop&) = default;
};

/// Steps that may run side by side. They are consecutive, from `first` on, and consist of chains
/// that are consecutive too. The steps of a chain run in order on one thread; the chains run at the
/// same time on several threads. Example: {3, {2, 1}} runs step 5 beside steps 3 and 4.
struct ModelBand {
  int first = 0;
  std::vector<int> chains;  ///< number of steps of each
  friend bool operator==(const ModelBand&, const ModelBand&) = default;

  /// Number behind the last step. Requires: a model that passes check_model().
  int end() const { return std::accumulate(chains.begin(), chains.end(), first); }
};

/// The network for one set of input shapes.
struct ModelVariant {
  std::vector<ModelTensor> tensors;
  std::vector<int> inputs, outputs;   ///< tensors that the caller gives arrays for, row-major
  std::vector<ModelStep> steps;       ///< in an order in which they can run
  int64_t arena_bytes = 0;            ///< memory of one call
  std::string plan;                   ///< for people: what was chosen and what it costs
  std::string graph;                  ///< text of the graph (graph/graph.h), for people and tools
  std::vector<ModelLoop> loops = {};  ///< in the order of their steps, apart from each other
  /// In the order of their steps, apart from each other. A loop is outside of all bands or wholly
  /// in one chain.
  std::vector<ModelBand> bands = {};
  friend bool operator==(const ModelVariant&, const ModelVariant&) = default;
};

struct ModelFile {
  std::string name;    ///< of the network
  std::string target;  ///< canonical text of a Target
  int64_t codegen_abi = 0;
  int threads = 1;                     ///< that its kernels were chosen for
  std::vector<ModelVariant> variants;  ///< at least one; alike but for shapes, steps and memory
  std::vector<Artifact> kernels;
  std::string constants;  ///< bytes; tensors say where in them
  friend bool operator==(const ModelFile&, const ModelFile&) = default;
};

/// Alignment in bytes of the tensors of a network for a GPU, in constants and arena. Sub-buffers of
/// OpenCL must begin at such offsets (CL_DEVICE_MEM_BASE_ADDR_ALIGN, 4096 bits on NVIDIA GPUs).
inline constexpr int64_t device_tensor_alignment = 512;
/// Alignment in bytes of the tensors of a network for this target, in constants and arena.
int64_t tensor_alignment(const Target& target);

/// Most runs of steps in one call of a variant that has loops.
inline constexpr int64_t most_step_runs = int64_t{1} << 22;

/// Most chains of a band: each has scratch memory of its own in every call.
inline constexpr size_t most_chains = 64;

/// Calls `run(step, trip)` for each run of the steps `first` to `end` - 1 in one call of the
/// variant, in order; `step` is an index into ModelVariant::steps. Ends with the first error.
/// Requires: loops that pass check_model(), each of which is wholly in the range or outside of it.
template <typename Run>
Status for_each_run(const ModelVariant& variant, size_t first, size_t end, const Run& run) {
  size_t step = first;
  auto loop =
      std::ranges::lower_bound(variant.loops, static_cast<int>(first), {}, &ModelLoop::first);
  for (; loop != variant.loops.end() && std::cmp_less(loop->first, end); ++loop) {
    const auto begin = static_cast<size_t>(loop->first),
               behind = begin + static_cast<size_t>(loop->count);
    for (; step < begin; ++step) TW_RETURN_IF_ERROR(run(step, 0));
    for (int64_t trip = 0; trip < loop->trips; ++trip)
      for (step = begin; step < behind; ++step) TW_RETURN_IF_ERROR(run(step, trip));
  }
  for (; step < end; ++step) TW_RETURN_IF_ERROR(run(step, 0));
  return {};
}
/// The same for all steps.
template <typename Run>
Status for_each_run(const ModelVariant& variant, const Run& run) {
  return for_each_run(variant, 0, variant.steps.size(), run);
}

/// Calls `run(chain, first, end)` for each chain of the band, with the range of its steps.
template <typename Run>
void for_each_chain(const ModelBand& band, const Run& run) {
  auto first = static_cast<size_t>(band.first);
  for (size_t chain = 0; chain < band.chains.size(); ++chain) {
    const size_t end = first + static_cast<size_t>(band.chains[chain]);
    run(chain, first, end);
    first = end;
  }
}

/// Largest size of a model's file in bytes.
inline constexpr int64_t most_model_bytes = int64_t{16} << 30;

/// The shapes of the inputs that the variant is for, such as "x [1, 4], m [4]".
std::string show_inputs(const ModelVariant& variant);

/// Lower bound on the arena of a variant: the largest sum of the arrays in it that are needed at
/// one step, where arrays that some step reads as one are one array. The steps of bands count as
/// they run in order, so bands may need more. Requires: a model that passes check_model().
int64_t least_arena_bytes(const ModelFile& model, const ModelVariant& variant);

/// Invalid, naming step or tensor, unless running the model is safe:
/// - there is a variant; all have inputs and outputs of the same names and types, and no two have
///   inputs of the same shapes;
/// - indices are in range; constants, arena and the caller's arrays contain their tensors in every
///   trip, at multiples of 64; row-major tensors that have a slide, in networks for processors, at
///   multiples of the size of an element;
/// - loops have at least one trip, and there are at most most_step_runs runs of steps;
/// - the arguments of each step agree with its kernel in type, shape and bytes, and in layout up to
///   letters: each kernel has letters of its own, so NCHW16c may be ABCD16b;
/// - each tensor is written by at most one step, before it is read and not overwritten while it is
///   needed, in every trip; inputs and constants are never written;
/// - outputs of a step lie apart from its other arguments;
/// - bands have 2 to most_chains chains of at least one step; no step of a chain writes what a step
///   of another chain of the band reads or writes.
/// A tensor that no step writes is another name for what lies in exactly its place when it is first
/// read, one tensor or several side by side: so reshapes take no step, nor do concatenations whose
/// pieces are written where they belong. A tensor that moves in a loop and that no step writes is
/// another name for whatever lies there in the trip.
Status check_model(const ModelFile& model);

/// Invalid if the network or one of its kernels is for a processor with features that `machine`
/// lacks. Networks for GPUs pass: only the device that loads them can tell.
Status check_targets(const ModelFile& model, const Target& machine);

/// The bytes of the file, equal for equal models. Fails as check_model() does, and where the file
/// would be too large.
Result<std::string> model_bytes(const ModelFile& model);
/// Invalid as map_model(), but does not check the machine; the caller must trust the origin of the
/// bytes.
Result<ModelFile> parse_model(std::string_view bytes);

/// Replaces `path` atomically by the model, readable by its owner only, as write_artifact() does.
Status write_model(const std::string& path, const ModelFile& model);

/// A model whose constants are mapped from its file.
struct MappedModel {
  ModelFile model;  ///< without constants
  MappedFile file;
  std::string_view constants;  ///< within the file, at a multiple of 4096
};
/// Checked constants are compared with their hash, which reads all of them; trusted ones are not.
enum class Constants { Checked, Trusted };

/// Maps and checks a model; does not load it. NotCompiled: there is no such file. Invalid: it is
/// another user's or writable by others (as is its directory), truncated, changed, unsafe, or for a
/// machine with features that `machine` lacks. The file must not be changed in place while the
/// model lives; write_model() replaces it.
Result<MappedModel> map_model(const std::string& path, Trust trust = Trust::Own,
                              const Target& machine = host_target(),
                              Constants constants = Constants::Checked);
/// The same as a value: the constants are read.
Result<ModelFile> read_model(const std::string& path, Trust trust = Trust::Own,
                             const Target& machine = host_target());

/// True if the file begins with the magic bytes of a model, of any version; false also if it cannot
/// be read.
bool is_model_file(const std::string& path);

}  // namespace tw::runtime
