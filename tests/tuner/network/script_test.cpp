// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/random.h"
#include "codegen/gpu/nvrtc.h"
#include "runtime/model.h"
#include "schedules/space/default_schedule.h"
#include "tests/tuner/network/assembling.h"
#include "tests/tuner/networks.h"
#include "tuner/network/assemble.h"
#include "tuner/network/join_models.h"
#include "tuner/network/race.h"
#include "tuner/network/step_threads.h"

namespace tw::tuner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// ---- scripts --------------------------------------------------------------------------------

/// Returns a plan in which every tensor is row-major.
PlannedNetwork row_major_plan(const graph::Graph& graph) {
  PlannedNetwork network;
  for (const graph::Operator& op : graph.operators) {
    graph::Scheme scheme;
    for (const dsl::Input& input : op.workload.compute.inputs)
      scheme.inputs.push_back(dsl::Layout::row_major(static_cast<int>(input.shape.size())));
    for (const std::string& name : op.workload.compute.outputs)
      scheme.outputs.push_back(
          dsl::Layout::row_major(static_cast<int>(op.workload.compute.shape_of(name).size())));
    scheme.cost_ns = 10;
    network.schemes.push_back(std::move(scheme));
    const bool moves_nothing = graph::is_reshape(op) || graph::as_concatenation(op);
    network.kernels.push_back({op.workload, moves_nothing ? "" : "tw1\n", 10});
  }
  network.transform = [](const graph::TensorType& type, const dsl::Layout& from,
                         const dsl::Layout& to) -> Result<KernelChoice> {
    TW_TRY(dsl::Workload copy, transform_workload(type, from, to));
    return KernelChoice{std::move(copy), "tw1\n", 5};
  };
  return network;
}

TEST(Script, EqualKernelsAreOneAndTimesAreThoseOfThePlan) {
  const graph::Graph graph = two_convolutions();
  PlannedNetwork planned = row_major_plan(graph);
  planned.kernels[1].measured_ns = planned.schemes[1].cost_ns = 7;
  const auto script = make_script(graph, planned);
  ASSERT_TRUE(script) << script.error().message;
  EXPECT_THAT(script->kernels, SizeIs(2));
  ASSERT_THAT(script->calls, SizeIs(3));
  EXPECT_EQ(script->calls[0].kernel, script->calls[1].kernel);
  EXPECT_EQ(script->calls[0].cost_ns, 10);
  EXPECT_EQ(script->calls[1].cost_ns, 7);
  EXPECT_TRUE(script->calls[1].is_measured);
}

TEST(Script, ResultsLieInTheCallersArraysAndAliasesInOne) {
  const graph::Graph graph = with_reshape();
  const auto script = make_script(graph, row_major_plan(graph));
  ASSERT_TRUE(script) << script.error().message;
  ASSERT_THAT(script->outputs, SizeIs(3));
  for (size_t i = 0; i < 3; ++i) {
    const ScriptStorage& storage = script->storages[script->outputs[i].storage];
    EXPECT_EQ(storage.place, runtime::Place::Output);
    EXPECT_EQ(storage.number, static_cast<int64_t>(i));
  }
  EXPECT_THAT(script->calls, SizeIs(3));  // f is a view of c, but both are results, so f is copied
}

/// Returns the place of each argument of the call in the array of a concatenation. For example,
/// "7+1024" is byte 1024 of storage 7. An argument that is in no concatenation gives "-".
std::vector<std::string> places_of(const Script& script, const std::string& call) {
  const auto found = std::ranges::find(script.calls, call, &ScriptCall::name);
  std::vector<std::string> places;
  for (const ScriptArgument& argument : found->arguments) {
    const auto& part = script.storages[argument.storage].part;
    places.push_back(part ? fmt::format("{}+{}", part->whole, part->at) : "-");
  }
  return places;
}

TEST(Script, EachPieceIsPartOfOneArrayAtOneOffset) {
  const graph::Graph graph = awkward_concatenations();
  const auto script = make_script(graph, row_major_plan(graph));
  ASSERT_TRUE(script) << script.error().message;
  std::vector<std::string> names;
  for (const ScriptCall& call : script->calls) names.push_back(call.name);
  EXPECT_THAT(
      names, ElementsAre("a", "b", "x: NCHW -> NCHW", "a: NCHW -> NCHW", "a: NCHW -> NCHW",
                         "v: NCHW -> NCHW", "b: NCHW -> NCHW", "b: NCHW -> NCHW", "k: NCHW -> NCHW",
                         "r1", "r2", "r3", "y4: NCHW -> NCHW", "a: NCHW -> NCHW"));
  std::set<std::pair<size_t, int64_t>> taken;
  for (const ScriptStorage& storage : script->storages) {
    if (!storage.part) continue;
    EXPECT_EQ(storage.place, runtime::Place::Arena);
    EXPECT_TRUE(taken.emplace(storage.part->whole, storage.part->at).second);
  }
  EXPECT_THAT(taken, SizeIs(2 + 3 + 2 + 2));
  EXPECT_THAT(places_of(*script, "a"), ElementsAre("-", "-", testing::EndsWith("+1024")));
  for (const ScriptArgument& output : script->outputs)
    EXPECT_EQ(script->storages[output.storage].place, runtime::Place::Output);
}

/// Makes random graphs. Each tensor has a few rows. The operators are softmax, reshapes that change
/// nothing, and concatenations of any tensors.
class RandomRows {
 public:
  explicit RandomRows(Random& random) : random_(random) {
    for (const char* name : {"x", "u"}) {
      const int64_t rows = add(name, 1 + random.below(3));
      graph_.inputs.push_back({name, {Float32, {rows, columns}}});
    }
    const int64_t rows = add("v", 1 + random.below(3));
    graph_.constants["v"] = graph::make_constant(graph::normal_array({rows, columns}, 5));
  }

  graph::Graph make() {
    for (int64_t count = 2 + random_.below(9), i = 0; i < count; ++i)
      add_operator("t" + std::to_string(i));
    graph_.outputs = {names_.back()};
    for (size_t i = 0; i + 1 < names_.size(); ++i)
      if (random_.chance(0.2)) graph_.outputs.push_back(names_[i]);
    return std::move(graph_);
  }

  static constexpr int64_t columns = 16;

 private:
  int64_t add(const std::string& name, int64_t rows) {
    names_.push_back(name);
    return rows_[name] = rows;
  }

  void add_operator(const std::string& name) {
    const std::string from = random_.pick(names_);
    const int64_t rows = rows_.at(from);
    if (random_.chance(0.5)) return add_concatenation(name);
    if (graph_.constants.contains(from)) return;
    graph_.operators.push_back(
        random_.chance(0.3)
            ? reshaped(from, name, {rows, columns}, {rows, columns})
            : graph::named("softmax rows=" + std::to_string(rows) + " cols=16 f32 fast", {from},
                           name));
    add(name, rows);
  }

  void add_concatenation(const std::string& name) {
    std::vector<std::string> pieces;
    std::vector<std::vector<int64_t>> shapes;
    int64_t rows = 0;
    for (int64_t count = 2 + random_.below(3), i = 0; i < count; ++i) {
      pieces.push_back(random_.pick(names_));
      shapes.push_back({rows_.at(pieces.back()), columns});
      rows += shapes.back()[0];
    }
    if (rows > 64) return;
    graph_.operators.push_back(joined(pieces, shapes, 0, name, graph_.constants));
    add(name, rows);
  }

  Random& random_;
  graph::Graph graph_;
  std::vector<std::string> names_;
  std::map<std::string, int64_t> rows_;
};

/// Runs a script on names of rows in place of numbers. Each call must find the names of the rows
/// that it reads, and writes those of its result.
class RowsInMemory {
 public:
  RowsInMemory(const graph::Graph& graph, const Script& script) : script_(script) {
    for (const auto& [name, type] : graph::tensor_types(graph))
      for (int64_t row = 0; row < type.shape[0]; ++row)
        rows_[name].push_back(fmt::format("{}:{}", name, row));
    for (const graph::Operator& op : graph.operators) {
      if (graph::is_reshape(op)) rows_[op.name()] = rows_.at(op.inputs[0]);
      const auto concatenation = graph::as_concatenation(op);
      if (!concatenation) continue;
      rows_[op.name()].clear();
      for (const size_t input : concatenation->inputs)
        std::ranges::copy(rows_.at(op.inputs[input]), std::back_inserter(rows_[op.name()]));
    }
  }

  void run() {
    for (const ScriptArgument& input : script_.inputs) write(input);
    for (const ScriptCall& call : script_.calls) {
      const size_t inputs = script_.kernels[call.kernel].workload.compute.inputs.size();
      for (size_t i = 0; i < inputs; ++i) expect_there(call.arguments[i]);
      for (size_t i = inputs; i < call.arguments.size(); ++i) write(call.arguments[i]);
    }
    for (const ScriptArgument& output : script_.outputs) {
      EXPECT_EQ(script_.storages[output.storage].place, runtime::Place::Output);
      EXPECT_FALSE(script_.storages[output.storage].part);
      expect_there(output);
    }
  }

 private:
  /// Returns row `number` of a storage. If the storage is a part of another, this is a row of the
  /// whole array.
  std::string& row(size_t storage, size_t number) {
    while (const auto& part = script_.storages[storage].part) {
      number += static_cast<size_t>(part->at / (RandomRows::columns * 4));
      storage = part->whole;
    }
    std::vector<std::string>& array = memory_[storage];
    if (array.size() <= number) array.resize(number + 1);
    return array[number];
  }
  void write(const ScriptArgument& argument) {
    const std::vector<std::string>& rows = rows_.at(argument.tensor);
    for (size_t i = 0; i < rows.size(); ++i) row(argument.storage, i) = rows[i];
  }
  void expect_there(const ScriptArgument& argument) {
    if (argument.is_constant) return;
    const std::vector<std::string>& rows = rows_.at(argument.tensor);
    for (size_t i = 0; i < rows.size(); ++i)
      EXPECT_EQ(row(argument.storage, i), rows[i]) << argument.tensor;
  }

  const Script& script_;
  std::map<std::string, std::vector<std::string>> rows_;  ///< of each tensor
  std::map<size_t, std::vector<std::string>> memory_;     ///< of storages that are no parts
};

TEST(Script, PiecesAreWhereTheyAreReadInRandomGraphs) {
  Random random(11);
  size_t parts = 0;
  for (int round = 0; round < 300 && !testing::Test::HasFailure(); ++round) {
    const graph::Graph graph = RandomRows(random).make();
    ASSERT_TRUE(graph::validate(graph)) << graph::to_text(graph);
    const auto script = make_script(graph, row_major_plan(graph));
    ASSERT_TRUE(script) << script.error().message;
    SCOPED_TRACE(graph::to_text(graph));
    RowsInMemory(graph, *script).run();
    parts += static_cast<size_t>(std::ranges::count_if(
        script->storages, [](const ScriptStorage& storage) { return storage.part.has_value(); }));
  }
  EXPECT_GT(parts, 500u);
}

TEST(Script, TransformsThatFailAreItsError) {
  graph::Graph graph = two_convolutions();
  graph.outputs = {"x"};
  PlannedNetwork planned = row_major_plan(graph);
  planned.transform = [](const auto&, const auto&, const auto&) -> Result<KernelChoice> {
    return fail(ErrorCode::Unsupported, "no copies today");
  };
  const auto script = make_script(graph, planned);
  ASSERT_FALSE(script);
  EXPECT_EQ(script.error().message, "no copies today");
}

TEST(CheckAssemblable, TensorsWithoutElementsAreRefused) {
  graph::Graph graph;
  graph.inputs = {{"x", {Float32, {0, 8}}}};
  graph.operators = {graph::named("softmax rows=0 cols=8 f32 fast", {"x"}, "y")};
  graph.outputs = {"y"};
  const Status checked = check_assemblable(graph, host_target());
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(checked.error().message, HasSubstr("'y'"));
}

TEST(CheckAssemblable, OnGpusSlicesOfLoopsAreAligned) {
  const Target gpu = parse_target("cuda:sm_90a").value();
  graph::Graph graph = graph::recurrence(3);
  EXPECT_TRUE(check_assemblable(graph, host_target()));
  const auto expect_refused = [&] {
    const Status checked = check_assemblable(graph, gpu);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, ErrorCode::Unsupported);
    EXPECT_THAT(checked.error().message, HasSubstr("slices of 24 bytes; GPUs need a multiple of"));
  };
  expect_refused();
  graph.loops[0].slices.clear();
  expect_refused();
  // The values of states have places of their own, which are aligned.
  graph.loops[0].stacks.clear();
  EXPECT_TRUE(check_assemblable(graph, gpu));
}

}  // namespace
}  // namespace tw::tuner
