// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lowers a plan to a model that runs: the sequence of kernel calls and their arrays, the constants
// packed for these kernels, and the place of every other array in the memory of a call.
//
//   TW_TRY(const Script script, make_script(graph, planned));
//   TW_TRY(const auto kernels, build_kernels(script.kernels, target, environment, built));
//   TW_TRY(runtime::ModelFile model, assemble(graph, script, kernels));
//
// The result of an operator that moves nothing, such as a reshape, is a view: it shares the storage
// of its input. A concatenation that moves nothing makes the storages of its inputs parts of its
// own, so that their producers write them there; inputs that are constants, arrays of the caller's
// or parts of another storage already are copied.
//
// What a loop reads or writes slice by slice is one array of which the tensor in the body is a part
// that moves from trip to trip. A state whose values are stacked lies in an array of one value more
// than there are trips: each trip reads one value and writes the next. Other states have two
// places, which trips read and write by turns. So no trip copies anything, unless the body itself
// does. Thread-safe; make_script() is pure, and assemble() runs the preparations of the kernels
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

/// A kernel that a plan runs.
struct KernelUse {
  KernelChoice kernel;
  std::string name;       ///< of its first operator or tensor
  double runs = 1;        ///< in one call of the network
  double latency_ns = 0;  ///< of one run: measured, or to be expected
};

/// A plan with the kernels that it means.
struct PlannedNetwork {
  graph::Plan plan;
  std::vector<graph::Scheme> schemes;  ///< of each operator: the scheme that the plan chose
  std::vector<KernelChoice> kernels;   ///< of each operator; without a schedule: it is a view
  /// The kernel of a copy between two layouts, which may be the same.
  std::function<Result<KernelChoice>(const graph::TensorType&, const dsl::Layout& from,
                                     const dsl::Layout& to)>
      transform;
  /// The kernels that the plan runs, copies between layouts included; one may come several times.
  std::vector<KernelUse> uses = {};
};

/// An array that a call reads or writes: a tensor of the graph as it lies in memory.
struct ScriptArgument {
  std::string tensor;
  dsl::Layout layout;  ///< unused for constants, which are packed as the kernel wants them
  size_t storage = 0;  ///< index into Script::storages; unused for constants
  bool is_constant = false;
};

struct ScriptCall {
  std::string name;                            ///< of the operator, or "tensor: NCHW -> NCHW16c"
  size_t kernel = 0;                           ///< index into Script::kernels
  std::vector<ScriptArgument> arguments = {};  ///< inputs, then outputs of the kernel's compute
  /// The measured time of all its runs in a call of the model, or else the predicted one.
  double cost_ns = 0;
  bool is_measured = false;
};

/// Position of a storage within another storage.
struct ScriptPart {
  size_t whole = 0;  ///< index into Script::storages
  int64_t at = 0;    ///< offset in bytes
  /// In a loop: `advance` is the number of bytes by which the part moves from trip to trip, and
  /// `places` the number of different positions that it takes in turn. `period` is `places`, or 0
  /// if each trip has a position of its own.
  int64_t advance = 0, period = 0, places = 1;
};

/// The memory of one array. Views share the storage of the tensor that they are views of.
struct ScriptStorage {
  runtime::Place place = runtime::Place::Arena;
  int64_t number = 0;                   ///< index of the graph's input or output, if `place` is one
  std::optional<ScriptPart> part = {};  ///< its position, if it is a part of another storage
};

/// Calls that run several times.
struct ScriptLoop {
  std::string name;
  size_t first = 0, end = 0;  ///< calls, the last one excluded
  int64_t trips = 1;
  std::vector<size_t> kept;  ///< storages that have to keep their content from trip to trip
};

/// Consecutive calls that do not depend on each other but within chains, which are consecutive too
/// (runtime::ModelBand).
struct ScriptBand {
  size_t first = 0;
  std::vector<size_t> chains;  ///< number of calls of each
};

/// The calls of a model before any of its kernels is built.
struct Script {
  std::vector<KernelRequest> kernels;  ///< distinct
  std::vector<ScriptStorage> storages;
  std::vector<ScriptCall> calls;
  std::vector<ScriptLoop> loops;                ///< in order, apart from each other
  std::vector<ScriptBand> bands;                ///< in order, apart from each other (bands.h)
  std::vector<ScriptArgument> inputs, outputs;  ///< row-major, in the order of the graph
};

/// The calls of a plan. Unsupported if the result of an operator has no elements. Returns errors of
/// `planned.transform`.
Result<Script> make_script(const graph::Graph& graph, const PlannedNetwork& planned);

/// The description that a model file carries.
struct ModelTitle {
  std::string name;    ///< name of the network
  std::string target;  ///< canonical text of a Target
  int threads = 1;     ///< number of threads that its kernels were chosen for
  std::string plan;    ///< text of the plan, for people
};

/// Packs the constants, runs the preparations of the kernels on them, places all arrays, and checks
/// the model. What the calls of a band use keeps its memory while the band runs. Requires: one
/// kernel for each of script.kernels, in order. Internal if a kernel has another layout of an array
/// than the script.
Result<runtime::ModelFile> assemble(const graph::Graph& graph, const Script& script,
                                    const std::vector<runtime::Artifact>& kernels,
                                    const ModelTitle& title);

}  // namespace tw::tuner
