// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lowers a plan to a model that can run. The model contains the sequence of kernel calls with their
// arguments, the constants in the layouts that the kernels read, and the offset of every other
// array in the memory that one call of the model uses.
//
//   TW_TRY(const Script script, make_script(graph, planned));
//   TW_TRY(const auto kernels, build_kernels(script.kernels, target, environment, built));
//   TW_TRY(runtime::ModelFile model, assemble(graph, script, kernels));
//
// The result of an operator that moves nothing, such as a reshape, is a view: it shares the storage
// of its input. The result of a concatenation that moves nothing contains the storages of its
// inputs as parts, so that the producers of the inputs write directly into it. Three kinds of
// inputs cannot become parts and are copied: constants, arrays of the caller, and arrays that are
// already a part of another storage.
//
// A trip is one iteration of a loop. If a loop reads or writes a tensor slice by slice, the tensor
// is one array. In the body of the loop, the slice is a part of this array, and the position of the
// part moves from trip to trip. A state of a loop is a value that each trip reads and replaces. A
// state whose values are all collected in a result is an array with one value more than there are
// trips: with 3 trips it has 4 values, and trip t reads value t and writes value t + 1. Any other
// state has two places in memory: a trip reads one place and writes the other, and the next trip
// uses them the other way round. So no trip copies a state, unless the body of the loop contains
// such a copy.
//
// Thread-safe. make_script() is pure; assemble() runs the preparations of the kernels
// (preparing.h).

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/plan.h"
#include "runtime/artifact.h"
#include "runtime/model_file.h"
#include "tuner/network/scheme_costs.h"
#include "tuner/workers/build_kernels.h"

namespace tw::tuner {

/// One use of a kernel by a plan.
struct KernelUse {
  KernelChoice kernel;
  std::string name;       ///< name of the kernel's first operator or tensor
  double runs = 1;        ///< number of runs in one call of the network
  double latency_ns = 0;  ///< time of one run: measured, or else expected
};

/// A plan, and the schemes and kernels that it uses.
struct PlannedNetwork {
  graph::Plan plan;
  std::vector<graph::Scheme> schemes;  ///< for each operator, the scheme that the plan chose
  /// The kernel of each operator. The schedule of the kernel is empty if the operator runs no
  /// kernel, as for a view.
  std::vector<KernelChoice> kernels;
  /// Returns the kernel that copies a tensor of the given type from layout `from` to layout `to`.
  /// The two layouts may be equal, because a loop copies the first value of a state without
  /// changing its layout.
  std::function<Result<KernelChoice>(const graph::TensorType&, const dsl::Layout& from,
                                     const dsl::Layout& to)>
      transform;
  /// The kernels that the plan runs, including those that copy tensors into other layouts. There is
  /// one entry for each operator and each copy, so a kernel that several operators share occurs
  /// several times.
  std::vector<KernelUse> uses = {};
};

/// An array that a kernel call reads or writes: a tensor of the graph and its layout in memory.
struct ScriptArgument {
  std::string tensor;
  dsl::Layout layout;  ///< unused for constants, which are packed as the kernel asks
  size_t storage = 0;  ///< index into Script::storages; unused for constants
  bool is_constant = false;
};

struct ScriptCall {
  std::string name;   ///< name of the operator, or "tensor: NCHW -> NCHW16c"
  size_t kernel = 0;  ///< index into Script::kernels
  std::vector<ScriptArgument> arguments = {};  ///< inputs, then outputs of the kernel's compute
  /// Time in ns of all runs of this call in one call of the model: more than one run if the call is
  /// in a loop. The time is measured, or else expected.
  double cost_ns = 0;
  bool is_measured = false;
};

/// Position of a storage within another storage.
struct ScriptPart {
  size_t whole = 0;  ///< index into Script::storages
  int64_t at = 0;    ///< offset in bytes
  /// Movement of the part while a loop runs. In trip t the part begins `advance * (t % period)`
  /// bytes after `at`, or `advance * t` bytes after `at` if `period` is 0. `places` is the number
  /// of different positions. For example, slices of 64 bytes in a loop of 10 trips have advance 64,
  /// period 0 and places 10. Two places of 64 bytes that are used by turns have advance 64, period
  /// 2 and places 2.
  int64_t advance = 0, period = 0, places = 1;
};

/// The memory of one array. A view has the same storage as the tensor that it views.
struct ScriptStorage {
  runtime::Place place = runtime::Place::Arena;
  int64_t number = 0;  ///< index of the graph's input or output, if `place` is Input or Output
  std::optional<ScriptPart> part = {};  ///< its position, if it is a part of another storage
};

/// Consecutive calls that run several times.
struct ScriptLoop {
  std::string name;
  size_t first = 0, end = 0;  ///< indices of the first call, and after the last one
  int64_t trips = 1;
  std::vector<size_t> kept;  ///< storages that must keep their contents from trip to trip
};

/// Consecutive calls, divided into chains that may run side by side (runtime::ModelBand). No call
/// depends on a call of another chain of the band. For example, `first` 3 and `chains` {2, 1} mean
/// that calls 3 and 4 are the first chain and call 5 is the second.
struct ScriptBand {
  size_t first = 0;
  std::vector<size_t> chains;  ///< number of calls of each chain
};

/// The calls of a model before any of its kernels is built.
struct Script {
  std::vector<KernelRequest> kernels;  ///< distinct
  std::vector<ScriptStorage> storages;
  std::vector<ScriptCall> calls;
  std::vector<ScriptLoop> loops;                ///< in order; loops do not overlap
  std::vector<ScriptBand> bands;                ///< in order; bands do not overlap (bands.h)
  std::vector<ScriptArgument> inputs, outputs;  ///< row-major, in the order of the graph
};

/// Checks that a model can be assembled from any plan of the graph. Fails with Unsupported if the
/// compute of an operator has no elements. If the target is a GPU, also fails with Unsupported if a
/// loop reads or writes slices whose size is not a multiple of the alignment of tensors.
Status check_assemblable(const graph::Graph& graph, const Target& target);

/// Makes the script of a plan: its calls, and the arrays that they read and write. Fails with the
/// errors of `planned.transform`. Requires: a graph that passes check_assemblable().
Result<Script> make_script(const graph::Graph& graph, const PlannedNetwork& planned);

/// The description of a model that its file contains.
struct ModelTitle {
  std::string name;    ///< name of the network
  std::string target;  ///< canonical text of a Target
  int threads = 1;     ///< number of threads for which its kernels were chosen
  std::string plan;    ///< text of the plan, for people
};

/// Packs the constants into the layouts of the kernels, runs the kernels' preparations on them,
/// places all arrays, and checks the model. While a band runs, no array takes the memory of another
/// array that the band uses. Fails with Internal if a kernel and the script disagree about an
/// argument, for example about its layout. Also fails with the errors of Preparer (preparing.h) and
/// of runtime::check_model(). Requires: kernels[i] is the kernel of script.kernels[i]; a graph that
/// passes check_assemblable() for the target.
Result<runtime::ModelFile> assemble(const graph::Graph& graph, const Script& script,
                                    const std::vector<runtime::Artifact>& kernels,
                                    const ModelTitle& title);

}  // namespace tw::tuner
