// SPDX-License-Identifier: Apache-2.0
#pragma once
// The artifact of a whole network, such as net.twart: kernels, packed constants, and the steps that
// call the kernels. Its file is
//
//     "TWNETF03" | u32 header length, little endian | JSON header | kernels | zeros | constants
//
// where each of the kernels is a whole artifact file (runtime/artifact.h). The header holds the
// size and the SHA-256 of each kernel and of the constants, and the SHA-256 of the header itself.
// The constants begin at the next multiple of 4096 bytes, so that a loader can map them instead of
// reading them.
//
// A network has a variant for each set of input shapes that it was compiled for, such as batches of
// 1 and of 8. Variants share kernels and constants.
//
// Older versions are read too. Version 2, "TWNETF02", has no loops. Version 1, "TWNETF01", also has
// only one variant, whose fields are fields of the header. Bands (ModelBand) have no version of
// their own, because a runtime that ignores bands runs all steps in order, which gives the same
// results.
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
  Constant,  ///< the constants of the file, where it is packed for the kernels that read it
  Arena,     ///< the arena, which is the working memory of a call
};

/// Movement of a tensor in a loop. `place` and `at` determine an address. In trip t the tensor lies
/// `begin + advance * t` bytes after this address. If the period is not 0, it lies `begin + advance
/// * (t % period)` bytes after it. Example: {.begin = 0, .advance = 64, .period = 2} gives the
/// offsets 0, 64, 0, 64 in the trips 0 to 3. Outside of loops t is 0.
struct Slide {
  int64_t begin = 0, advance = 0, period = 0;
  friend bool operator==(const Slide&, const Slide&) = default;

  /// Returns the offset in bytes of the tensor in trip `trip`. Requires: a tensor of a model that
  /// passes check_model().
  int64_t at(int64_t trip) const { return begin + advance * (period > 0 ? trip % period : trip); }
};

/// An array that steps read or write, and its place in memory.
struct ModelTensor {
  std::string name;
  DType dtype = Float32;
  std::vector<int64_t> shape;  ///< logical shape, without layout or padding
  std::string layout;          ///< text as in ArgumentInfo; empty: row-major
  int64_t bytes = 0;  ///< size in storage layout; 0 for a constant that only preparations read
  Place place = Place::Arena;
  int64_t at = 0;  ///< index of the input or output, or byte offset in constants or arena
  Slide slide = {};
  friend bool operator==(const ModelTensor&, const ModelTensor&) = default;
};

/// A call of a kernel on tensors of the variant.
struct ModelStep {
  /// Name of the operator; for a copy into another layout "tensor: NCHW -> NCHW16c".
  std::string name;
  int kernel = 0;              ///< index into ModelFile::kernels
  std::vector<int> arguments;  ///< indices of tensors, one for each of call_buffers()
  int threads = 0;             ///< largest number of threads to run on; 0: all of the pool
  double predicted_ns = 0;
  friend bool operator==(const ModelStep&, const ModelStep&) = default;
};

/// A loop: steps that run `trips` times, one trip after another.
struct ModelLoop {
  std::string name;
  int first = 0, count = 0;  ///< steps `first` to `first + count` - 1
  int64_t trips = 1;
  friend bool operator==(const ModelLoop&, const ModelLoop&) = default;
};

/// A band: consecutive steps, from `first` on, that may run side by side. A band consists of
/// chains, each of them consecutive steps. The steps of a chain run in order on one thread; the
/// chains run at the same time on several threads. Example: in {3, {2, 1}} step 5 runs beside steps
/// 3 and 4.
struct ModelBand {
  int first = 0;
  std::vector<int> chains;  ///< number of steps of each chain, in order
  friend bool operator==(const ModelBand&, const ModelBand&) = default;

  /// Returns the index after the last step of the band. Requires: a model that passes
  /// check_model().
  int end() const { return std::accumulate(chains.begin(), chains.end(), first); }
};

/// The network for one set of input shapes.
struct ModelVariant {
  std::vector<ModelTensor> tensors;
  /// Indices of the tensors whose arrays the caller passes. These arrays are row-major.
  std::vector<int> inputs, outputs;
  std::vector<ModelStep> steps;       ///< in an order in which they can run
  int64_t arena_bytes = 0;            ///< size of the arena, the working memory of a call
  std::string plan;                   ///< a report about the plan for people: its choices and costs
  std::string graph;                  ///< text of the graph (graph/graph.h), for people and tools
  std::vector<ModelLoop> loops = {};  ///< sorted by `first`; loops do not overlap
  /// The bands, sorted by `first`; they do not overlap. A loop is either outside of all bands or
  /// wholly inside one chain.
  std::vector<ModelBand> bands = {};
  friend bool operator==(const ModelVariant&, const ModelVariant&) = default;
};

struct ModelFile {
  std::string name;    ///< name of the network
  std::string target;  ///< canonical text of a Target
  int64_t codegen_abi = 0;
  int threads = 1;                     ///< number of threads for which the kernels were chosen
  std::vector<ModelVariant> variants;  ///< at least one; they differ in shapes, steps and memory
  std::vector<Artifact> kernels;
  std::string constants;  ///< all constants as bytes; ModelTensor::at is an offset here
  friend bool operator==(const ModelFile&, const ModelFile&) = default;
};

/// Alignment in bytes of tensors in the constants and the arena of a network for a GPU. OpenCL
/// sub-buffers must begin at such offsets (CL_DEVICE_MEM_BASE_ADDR_ALIGN, 4096 bits on NVIDIA
/// GPUs).
inline constexpr int64_t device_tensor_alignment = 512;
/// Returns the alignment in bytes of tensors in the constants and the arena of a network for this
/// target.
int64_t tensor_alignment(const Target& target);

/// Largest number of runs of steps in one call of a variant that has loops.
inline constexpr int64_t most_step_runs = int64_t{1} << 22;

/// Largest number of chains of a band. Each chain has its own scratch memory in every call.
inline constexpr size_t most_chains = 64;

/// Calls `run(step, trip)` for each run of the steps `first` to `end` - 1 in one call of the
/// variant, in order; `step` is an index into ModelVariant::steps. Stops at the first error and
/// returns this error. Requires: the loops pass check_model(), and each loop is wholly inside the
/// range or wholly outside of it.
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
/// Calls `run(step, trip)` for each run of all steps of the variant, in order. Stops at the first
/// error and returns this error.
template <typename Run>
Status for_each_run(const ModelVariant& variant, const Run& run) {
  return for_each_run(variant, 0, variant.steps.size(), run);
}

/// Calls `run(chain, first, end)` for each chain of the band. `chain` is the index of the chain in
/// the band. The chain consists of the steps `first` to `end` - 1.
template <typename Run>
void for_each_chain(const ModelBand& band, const Run& run) {
  auto first = static_cast<size_t>(band.first);
  for (size_t chain = 0; chain < band.chains.size(); ++chain) {
    const size_t end = first + static_cast<size_t>(band.chains[chain]);
    run(chain, first, end);
    first = end;
  }
}

/// Limit on the size of a model's file in bytes.
inline constexpr int64_t most_model_bytes = int64_t{16} << 30;

/// Prints the names and shapes of the variant's inputs, such as "x [1, 4], m [4]".
std::string show_inputs(const ModelVariant& variant);

/// Returns a lower bound on the size in bytes of a variant's arena. For each run of a step, the
/// sizes of the arena's arrays that are alive are added; the bound is the largest of these sums.
/// Arrays that a step reads as one tensor, such as the inputs of a concatenation, count as one
/// array. The bound treats bands as if their steps ran in order, so a variant with bands may need a
/// larger arena. Requires: a model that passes check_model().
int64_t least_arena_bytes(const ModelFile& model, const ModelVariant& variant);

/// Checks that running the model is safe. If not, fails with Invalid; the message names the step or
/// tensor. A model is safe if all of these hold:
/// - there is a variant; all variants have inputs and outputs of the same names and types, and no
///   two have inputs of the same shapes;
/// - indices are in range; in every trip of a loop, each tensor lies inside its memory (constants,
///   arena, or the caller's array), at a multiple of 64 bytes; in networks for processors, a
///   row-major tensor that moves (Slide) may lie at any multiple of the size of an element;
/// - loops have at least one trip, and there are at most most_step_runs runs of steps;
/// - the arguments of each step agree with its kernel in type, shape and bytes, and in layout up to
///   the choice of letters: NCHW16c and ABCD16b are the same layout;
/// - at most one step writes each tensor; in every trip, that step comes before the steps that read
///   the tensor, and nothing overwrites the tensor while it is needed; no step writes inputs or
///   constants;
/// - outputs of a step share no memory with its other arguments;
/// - bands have 2 to most_chains chains, each of at least one step; no step writes memory that a
///   step of another chain of the band reads or writes.
/// A tensor that no step writes, and that is no input or constant, is an alias: another name for
/// the memory of other tensors. When a step first reads the alias, one tensor, or several tensors
/// side by side, must fill exactly its place. So the result of a reshape is an alias of its input,
/// and the result of a concatenation is an alias of its inputs. Neither operator needs a step. An
/// alias that moves in a loop (Slide) stands in each trip for the tensors, or the parts of tensors,
/// that lie at its place in that trip.
Status check_model(const ModelFile& model);

/// Checks that the machine can run the network. Fails with Invalid if the network or one of its
/// kernels is for a processor with features that `machine` lacks. Networks for GPUs are accepted,
/// because only the device that loads them can tell whether it can run them.
Status check_targets(const ModelFile& model, const Target& machine);

/// Returns the bytes of the model's file; equal models have equal bytes. Fails with the errors of
/// check_model(), and with Invalid if the file would be too large.
Result<std::string> model_bytes(const ModelFile& model);
/// Parses the bytes of a model's file. Fails with Invalid if the bytes are truncated or were
/// changed, or if the model is unsafe to run. Unlike map_model(), it does not check that the
/// machine can run the model. Requires: bytes whose origin the caller trusts.
Result<ModelFile> parse_model(std::string_view bytes);

/// Writes the model to `path`, replacing the file atomically, as write_artifact() does.
Status write_model(const std::string& path, const ModelFile& model);

/// A model whose constants are mapped from its file.
struct MappedModel {
  ModelFile model;  ///< the model with empty `constants`
  MappedFile file;
  std::string_view constants;  ///< the constants, inside of `file`, at a multiple of 4096
};
/// The treatment of constants when a model is opened. Checked constants are compared with their
/// hash, which reads all of them; trusted constants are not.
enum class Constants { Checked, Trusted };

/// Maps and checks a model, without loading it. The file must not be changed in place while the
/// model lives; write_model() replaces it. Fails with NotCompiled if there is no such file. Fails
/// with Invalid if the file or its directory belongs to another user or is writable by others. Also
/// fails with Invalid if the file is truncated, was changed, is unsafe to run, or is for a machine
/// with features that `machine` lacks.
Result<MappedModel> map_model(const std::string& path, Trust trust = Trust::Own,
                              const Target& machine = host_target(),
                              Constants constants = Constants::Checked);
/// Does the same as map_model(), but reads the constants into the result, which does not need the
/// file later.
Result<ModelFile> read_model(const std::string& path, Trust trust = Trust::Own,
                             const Target& machine = host_target());

/// True if the file begins with the magic bytes of a model, of any version. False also if the file
/// cannot be read.
bool is_model_file(const std::string& path);

}  // namespace tw::runtime
