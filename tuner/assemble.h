// SPDX-License-Identifier: Apache-2.0
#pragma once
// From a plan to a model that runs: which kernels are called in which order on which arrays, the
// constants packed for these kernels, and every other array placed in the memory of a call.
//
//   TW_TRY(const Script script, make_script(graph, planned));
//   TW_TRY(const auto kernels, build_kernels(script.kernels, target, environment));
//   TW_TRY(runtime::ModelFile model, assemble(graph, script, kernels));
//
// An operator that moves nothing, such as a reshape, gives its array a second name, so its result
// lies where its input lies. A concatenation that moves nothing makes the arrays of its inputs
// parts of its own, so that kernels write them there; inputs that are part of another array, or
// constants, or arrays of the caller's, are copied. Pure functions; thread-safe.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/plan.h"
#include "runtime/artifact.h"
#include "runtime/model_file.h"
#include "tuner/build_kernels.h"
#include "tuner/scheme_costs.h"

namespace tw::tuner {

/// A plan with the kernels that it means.
struct PlannedNetwork {
  graph::Plan plan;
  std::vector<graph::Scheme> schemes;  ///< of each operator: the scheme that the plan chose
  std::vector<KernelChoice> kernels;   ///< of each operator; without a schedule: it moves nothing
  /// The kernel of a copy, which may also be one to the same layout.
  std::function<Result<KernelChoice>(const graph::TensorType&, const dsl::Layout& from,
                                     const dsl::Layout& to)>
      transform;
};

/// An array that a call reads or writes: a tensor of the graph as it lies in memory.
struct ScriptArgument {
  std::string tensor;
  dsl::Layout layout;  ///< of a constant: nothing, as the kernel decides it
  size_t storage = 0;  ///< index into Script::storages; of a constant: nothing
  bool is_constant = false;
};

struct ScriptCall {
  std::string name;                            ///< of the operator, or "tensor: NCHW -> NCHW16c"
  size_t kernel = 0;                           ///< index into Script::kernels
  std::vector<ScriptArgument> arguments = {};  ///< inputs, then outputs of the kernel's compute
  double cost_ns = 0;                          ///< measured, else predicted
  bool is_measured = false;
};

/// Where a storage lies within another one.
struct ScriptPart {
  size_t whole = 0;  ///< index into Script::storages
  int64_t at = 0;    ///< in bytes
};

/// Memory of one array, which several tensors of equal bytes may share. The numbers of inputs and
/// outputs are those of the graph.
struct ScriptStorage {
  runtime::Place place = runtime::Place::Arena;
  int64_t number = 0;                   ///< of the input or output
  std::optional<ScriptPart> part = {};  ///< of the array of a concatenation
};

/// The calls of a model before any of its kernels is built.
struct Script {
  std::vector<KernelRequest> kernels;  ///< distinct
  std::vector<ScriptStorage> storages;
  std::vector<ScriptCall> calls;
  std::vector<ScriptArgument> inputs, outputs;  ///< row-major, in the order of the graph
};

/// Unsupported for an operator whose result has no elements. Errors of `transform` are returned.
Result<Script> make_script(const graph::Graph& graph, const PlannedNetwork& planned);

/// What a model says of itself.
struct ModelTitle {
  std::string name;    ///< of the network
  std::string target;  ///< canonical text of a Target
  int threads = 1;     ///< that its kernels were chosen for
  std::string plan;    ///< for people
};

/// Packs, places and checks. Requires: the kernels of the script, in order. Internal where a kernel
/// keeps an array otherwise than the script says.
Result<runtime::ModelFile> assemble(const graph::Graph& graph, const Script& script,
                                    const std::vector<runtime::Artifact>& kernels,
                                    const ModelTitle& title);

}  // namespace tw::tuner
