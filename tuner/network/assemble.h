// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lowers a plan to a model that can run. The model has the sequence of kernel calls and their
// arrays, the constants, packed for these kernels, and the place of every other array in the memory
// of a call.
//
//   TW_TRY(const Script script, make_script(graph, planned));
//   TW_TRY(const auto kernels, build_kernels(script.kernels, target, environment, built));
//   TW_TRY(runtime::ModelFile model, assemble(graph, script, kernels));
//
// The result of an operator that moves nothing, such as a reshape, is a view: it shares the storage
// of its input. The result of a concatenation that moves nothing contains the storages of its
// inputs as parts, so that the producers of the inputs write directly into it. Inputs that cannot
// become parts are copied: constants, arrays of the caller, and arrays that are a part of another
// storage already.
//
// If a loop reads or writes a tensor slice by slice, the tensor is one array, and the body's tensor
// is a part of it that moves from trip to trip. A state whose values are stacked is an array with
// one value more than there are trips: each trip reads a value and writes the next one. Any other
// state has two places, which the trips read and write by turns. So trips copy nothing, unless the
// body itself does. Thread-safe; make_script() is pure, and assemble() runs the preparations of the
// kernels (preparing.h).

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
  std::string name;       ///< name of the kernel's first operator or tensor
  double runs = 1;        ///< number of runs in one call of the network
  double latency_ns = 0;  ///< time of one run: measured, or else expected
};

/// A plan and the kernels that it runs.
struct PlannedNetwork {
  graph::Plan plan;
  std::vector<graph::Scheme> schemes;  ///< for each operator, the scheme that the plan chose
  std::vector<KernelChoice> kernels;   ///< for each operator; without a schedule, it is a view
  /// Returns the kernel of a copy from one layout to another, which may be the same one.
  std::function<Result<KernelChoice>(const graph::TensorType&, const dsl::Layout& from,
                                     const dsl::Layout& to)>
      transform;
  /// The kernels that the plan runs, including copies between layouts. A kernel may occur several
  /// times.
  std::vector<KernelUse> uses = {};
};

/// An array that a call reads or writes: a tensor of the graph and its layout in memory.
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
  /// Time of all runs of the call in one call of the model: measured, or else predicted.
  double cost_ns = 0;
  bool is_measured = false;
};

/// Position of a storage within another storage.
struct ScriptPart {
  size_t whole = 0;  ///< index into Script::storages
  int64_t at = 0;    ///< offset in bytes
  /// Movement in a loop. `advance` is the number of bytes by which the part moves from trip to
  /// trip, and `places` the number of different positions that it takes in turn. `period` equals
  /// `places`; it is 0 if each trip has a position of its own.
  int64_t advance = 0, period = 0, places = 1;
};

/// The memory of one array. A view shares the storage of the tensor that it is a view of.
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

/// Consecutive calls that form consecutive chains. A call depends on other calls of the band only
/// within its own chain (runtime::ModelBand).
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

/// Makes the calls of a plan. Unsupported if the result of an operator has no elements. Errors of
/// `planned.transform`.
Result<Script> make_script(const graph::Graph& graph, const PlannedNetwork& planned);

/// Description of a model in its file.
struct ModelTitle {
  std::string name;    ///< name of the network
  std::string target;  ///< canonical text of a Target
  int threads = 1;     ///< number of threads for which its kernels were chosen
  std::string plan;    ///< text of the plan, for people
};

/// Packs the constants, runs the preparations of the kernels on them, places all arrays, and checks
/// the model. Arrays that the calls of a band use keep their memory while the band runs. Internal
/// if a kernel has another layout of an array than the script. Requires: a kernel for each of
/// script.kernels, in order.
Result<runtime::ModelFile> assemble(const graph::Graph& graph, const Script& script,
                                    const std::vector<runtime::Artifact>& kernels,
                                    const ModelTitle& title);

}  // namespace tw::tuner
