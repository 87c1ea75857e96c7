// SPDX-License-Identifier: Apache-2.0
#pragma once
// Networks for tests of network tuning. Their kernels are rows of a table, in which a test says how
// long a workload is predicted to take and how long it takes when it is measured.

#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/abi.h"
#include "runtime/model.h"
#include "schedules/schedule.h"
#include "tests/graph/graphs.h"
#include "tests/tuner/tuning.h"
#include "tuner/network/network.h"
#include "tuner/network/race.h"
#include "tuner/trial_record.h"
#include "tuner/workers/device.h"

namespace tw::tuner {

inline const std::string small_conv = "conv2d n=1 c=32 h=8 w=8 k=32 r=3 s=3 pad=1 f32 fast";

/// Returns conv2d twice, each with its own weights, and a sum with the input: x -> c1 -> c2, y = c2
/// + x.
inline graph::Graph two_convolutions() {
  graph::Graph graph;
  graph.inputs = {{"x", {Float32, {1, 32, 8, 8}}}};
  graph.constants["w1"] = graph::make_constant(graph::normal_array({32, 32, 3, 3}, 1));
  graph.constants["w2"] = graph::make_constant(graph::normal_array({32, 32, 3, 3}, 2));
  graph.operators = {graph::named(small_conv, {"x", "w1"}, "c1"),
                     graph::named(small_conv, {"c1", "w2"}, "c2"),
                     graph::named("add_relu n=1 c=32 h=8 w=8 f32 fast", {"c2", "x"}, "y")};
  graph.outputs = {"y"};
  return graph;
}

inline graph::Operator reshaped(const std::string& from, const std::string& to,
                                const std::vector<int64_t>& shape,
                                const std::vector<int64_t>& result) {
  const auto compute = graph::reshape(Float32, shape, result).value();
  return graph::make_operator(compute, {from}, {to}, {}).value();
}

/// Returns the concatenation of tensors of these shapes along `dimension`.
inline graph::Operator joined(const std::vector<std::string>& tensors,
                              const std::vector<std::vector<int64_t>>& shapes, size_t dimension,
                              const std::string& to,
                              const std::map<std::string, graph::Constant>& constants = {}) {
  const auto compute = graph::concatenate(Float32, shapes, dimension).value();
  return graph::make_operator(compute, tensors, {to}, constants).value();
}

/// Returns random weights, scaled so that a sum of `products` products with them is about as large
/// as the elements that it is made from.
inline graph::Constant weights_of(const std::vector<int64_t>& shape, uint64_t seed,
                                  double products) {
  dsl::Array array = graph::normal_array(shape, seed);
  for (int64_t i = 0; i < array.size(); ++i)
    array.set_float(i, array.get_float(i) / std::sqrt(products));
  return graph::make_constant(std::move(array));
}

/// Returns x -> conv -> c -> reshape -> g -> grouped conv -> h -> reshape -> i -> conv -> y.
inline graph::Graph grouped_between_others() {
  graph::Graph graph;
  const std::vector<int64_t> image = {1, 32, 8, 8}, grouped = {1, 8, 4, 8, 8};
  graph.inputs = {{"x", {Float32, image}}};
  for (const char* name : {"w1", "w2"}) graph.constants[name] = weights_of({32, 32, 3, 3}, 1, 288);
  graph.constants["v"] = weights_of({8, 4, 4, 3, 3}, 2, 36);
  graph.operators = {
      graph::named(small_conv, {"x", "w1"}, "c"), reshaped("c", "g", image, grouped),
      graph::named("conv2d n=1 c=32 h=8 w=8 k=32 r=3 s=3 pad=1 groups=8 f32 fast", {"g", "v"}, "h"),
      reshaped("h", "i", grouped, image), graph::named(small_conv, {"i", "w2"}, "y")};
  graph.outputs = {"y"};
  return graph;
}

/// Returns a dense block. After the first convolution it has three more, each of which reads the
/// results of all before it: c0 -> c1, y1 = c0 c1 -> c2, y2 = y1 c2 -> c3, y3 = y2 c3 -> pooled.
inline graph::Graph dense_block() {
  graph::Graph graph;
  graph.inputs = {{"x", {Float32, {1, 16, 4, 4}}}};
  std::string last = "x";
  for (int64_t i = 0; i < 4; ++i) {
    const std::string conv = "c" + std::to_string(i), w = "w" + std::to_string(i);
    const int64_t channels = 16 * std::max<int64_t>(i, 1);
    graph.constants[w] = weights_of({16, channels, 3, 3}, 10 + static_cast<uint64_t>(i), 144);
    graph.operators.push_back(graph::named(
        "conv2d n=1 c=" + std::to_string(channels) + " h=4 w=4 k=16 r=3 s=3 pad=1 f32 fast",
        {last, w}, conv));
    if (i == 0) {
      last = conv;
      continue;
    }
    const std::string all = "y" + std::to_string(i);
    graph.operators.push_back(joined({last, conv}, {{1, channels, 4, 4}, {1, 16, 4, 4}}, 1, all));
    last = all;
  }
  graph.operators.push_back(
      graph::named("global_avg_pool n=1 c=64 h=4 w=4 f32 fast", {last}, "pooled"));
  graph.outputs = {"pooled"};
  return graph;
}

/// Returns concatenations whose pieces cannot all be written in place, each for another reason: y1
/// contains an input of the graph; y2 contains `a` twice, and `a` is also a part of y1 and a result
/// of the graph; y3 contains a constant, and a tensor that is also a part of y2; y4 is a result of
/// the graph.
inline graph::Graph awkward_concatenations(int64_t batch = 1) {
  graph::Graph graph;
  const std::vector<int64_t> image = {batch, 16, 4, 4};
  graph.inputs = {{"x", {Float32, image}}, {"k", {Float32, image}}};
  graph.constants["v"] = graph::make_constant(graph::normal_array(image, 3));
  const std::string size = "n=" + std::to_string(batch),
                    add = "add_relu " + size + " c=16 h=4 w=4 f32 fast";
  const auto pooled = [&](int64_t channels, const std::string& from, const std::string& to) {
    return graph::named(
        "global_avg_pool " + size + " c=" + std::to_string(channels) + " h=4 w=4 f32 fast", {from},
        to);
  };
  graph.operators = {graph::named(add, {"x", "k"}, "a"),
                     graph::named(add, {"a", "k"}, "b"),
                     joined({"x", "a"}, {image, image}, 1, "y1"),
                     joined({"a", "b", "a"}, {image, image, image}, 1, "y2"),
                     joined({"v", "b"}, {image, image}, 1, "y3", graph.constants),
                     joined({"b", "k"}, {image, image}, 1, "y4"),
                     pooled(32, "y1", "r1"),
                     pooled(48, "y2", "r2"),
                     pooled(32, "y3", "r3")};
  graph.outputs = {"r1", "r2", "r3", "y4", "a"};
  return graph;
}

/// Returns a schedule that sets the layouts that the workload asks for, and does nothing else.
inline std::string plain_schedule(const dsl::Workload& workload) {
  std::string text = "tw1\n";
  for (const auto& [tensor, layout] : workload.layouts)
    text += "set_layout " + tensor + " " + layout + "\n";
  return text;
}

/// Times of workloads by operator and layouts, for example "conv2d " if all layouts are free. A
/// workload that is not in the map has the time `otherwise`.
struct Times {
  std::map<std::string, double> ns = {};
  double otherwise = 1000;
  double otherwise_hot = 0;  ///< the time with hot caches

  double of(const dsl::Workload& workload) const {
    const auto found = ns.find(workload.op + " " + dsl::print_layouts(workload.layouts));
    return found == ns.end() ? otherwise : found->second;
  }
};

/// Scripted answers of planned_services(), and a log of the tuning rounds that were requested.
struct PlannedWork {
  Target target = host_target();
  Times predicted, measured;
  std::set<std::string> unsupported = {};  ///< operators and layouts as in Times::ns
  std::vector<std::vector<TaskSpec>> rounds = {};
  std::function<void(const std::vector<TaskSpec>& tasks, const TuneOptions& options)> on_round = {};
  Ended ended = Ended::Plateau;
  Times expected = {.otherwise = 0};  ///< the pretrained model's times; 0 means the predicted time
};

inline db::Record measured_record(const dsl::Workload& workload, const Target& target,
                                  double latency_ns) {
  MeasureReply reply;
  reply.latency_ns = reply.low_ns = reply.high_ns = latency_ns;
  reply.samples_ns = {latency_ns};
  db::Record record =
      trial_record(workload, target, 1, "fake-1.0", plain_schedule(workload), reply, 1e9);
  record.host = "0123456789abcdef";
  record.session = "test";
  record.program_version = "0";
  record.created_ms = 1'700'000'000'000;
  return db::seal(std::move(record));
}

inline NetworkServices planned_services(PlannedWork& work, db::Store& store) {
  NetworkServices services;
  services.predict = [&work](const dsl::Workload& workload, Precision) -> Result<Predicted> {
    if (work.unsupported.contains(workload.op + " " + dsl::print_layouts(workload.layouts)))
      return fail(ErrorCode::Unsupported, "[space] no strategy has these layouts");
    const double analytic_ns = work.predicted.of(workload);
    const double expected_ns = work.expected.of(workload);
    return Predicted{plain_schedule(workload), analytic_ns, work.predicted.otherwise_hot,
                     expected_ns > 0 ? expected_ns : analytic_ns};
  };
  services.tune_all = [&work, &store](const std::vector<TaskSpec>& tasks,
                                      const TuneOptions& options,
                                      const OnProgress&) -> Result<std::vector<Result<Tuned>>> {
    work.rounds.push_back(tasks);
    std::vector<Result<Tuned>> results;
    for (const TaskSpec& task : tasks) {
      const db::Record record =
          measured_record(task.workload, work.target, work.measured.of(task.workload));
      TW_TRY(const auto summary, store.append({&record, 1}));
      EXPECT_EQ(summary.quarantined, 0);
      Tuned tuned;
      tuned.best = record;
      tuned.ended = work.ended;
      results.emplace_back(std::move(tuned));
    }
    if (work.on_round) work.on_round(tasks, options);
    return results;
  };
  return services;
}

/// Returns services that choose schedules as the tuner does, and predict the times of a table.
inline NetworkServices predicting(const Target& target, const Times& times) {
  NetworkServices services;
  services.predict = [predict = predict_for(target, 1, {}), times](
                         const dsl::Workload& workload, Precision precision) -> Result<Predicted> {
    TW_TRY(Predicted predicted, predict(workload, precision));
    predicted.analytic_ns = predicted.expected_ns = times.of(workload);
    return predicted;
  };
  return services;
}

/// Expects that the variant of the model computes the same as graph::interpret(), on random inputs.
inline void expect_as_interpreted_by(const graph::Graph& graph, const runtime::Model& model,
                                     size_t variant = 0) {
  auto arrays = random_arrays(model, 7, variant);
  ASSERT_TRUE(arrays) << arrays.error().message;
  runtime::ThreadPool pool(runtime::PoolOptions{.threads = 1});
  const Status called = model.call(arrays->buffers(), pool);
  ASSERT_TRUE(called) << called.error().message;
  dsl::Arrays inputs;
  for (size_t i = 0; i < graph.inputs.size(); ++i) inputs[graph.inputs[i].name] = arrays->arrays[i];
  const auto expected = graph::interpret(graph, inputs);
  ASSERT_TRUE(expected) << expected.error().message;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const auto constant = graph.constants.find(graph.outputs[i]);
    const dsl::Array& truth = constant == graph.constants.end() ? expected->at(graph.outputs[i])
                                                                : *constant->second.array;
    const dsl::Array& got = arrays->arrays[graph.inputs.size() + i];
    ASSERT_EQ(got.shape, truth.shape);
    double largest = 0;
    for (int64_t k = 0; k < truth.size(); ++k)
      largest = std::max(largest, std::abs(truth.get_float(k)));
    // The error of an algorithm such as Winograd's is in proportion to the largest element, as is
    // that of the accuracy class `fast`.
    for (int64_t k = 0; k < truth.size(); ++k)
      ASSERT_NEAR(got.get_float(k), truth.get_float(k),
                  2e-5 * largest + 2e-4 * (1 + std::abs(truth.get_float(k))))
          << graph.outputs[i] << " " << k;
  }
}

}  // namespace tw::tuner
