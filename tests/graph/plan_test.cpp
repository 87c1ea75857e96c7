// SPDX-License-Identifier: Apache-2.0
#include "graph/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/random.h"
#include "graph/plan_text.h"
#include "tests/graph/graphs.h"
#include "tests/graph/plans.h"
#include "tests/graph/schemes.h"

namespace tw::graph {
namespace {

/// Index of a storage: two layouts of a case have the same index if they put all elements at the
/// same offsets.
using Place = size_t;

using ::testing::HasSubstr;

/// A graph in which all tensors have one shape, the schemes of its operators, and the costs of
/// copies, which depend on the places of their layouts.
struct Case {
  std::vector<int64_t> shape;
  Graph graph;
  Schemes schemes;
  PlanOptions options;
  std::vector<std::vector<int64_t>> offsets;  ///< array size, then all elements' offsets; by place
  std::map<std::string, Place> places;        ///< places of layouts, by the layouts' texts
  std::map<std::pair<Place, Place>, double> copies;

  void add_layout(const dsl::Layout& layout) {
    std::vector<int64_t> all = {1};  // the size of the array, then the offsets
    for (const int64_t extent : layout.storage_shape(shape)) all[0] *= extent;
    for (int64_t a = 0; a < shape[0]; ++a)
      for (int64_t b = 0; b < shape[1]; ++b)
        for (int64_t c = 0; c < shape[2]; ++c) all.push_back(layout.offset(shape, {a, b, c}));
    const auto place = static_cast<Place>(std::ranges::find(offsets, all) - offsets.begin());
    if (place == offsets.size()) offsets.push_back(std::move(all));
    places[layout.to_string("ABC")] = place;
  }
  Place place(const dsl::Layout& layout) const { return places.at(layout.to_string("ABC")); }
  TransformCost transform_cost() const {
    return [this](const TensorType&, const dsl::Layout& from, const dsl::Layout& to) {
      return copies.at({place(from), place(to)});
    };
  }
  bool is_tensor(const std::string& name) const { return !graph.constants.contains(name); }
};

class RandomCases {
 public:
  explicit RandomCases(uint64_t seed) : random_(seed) {}

  Case next() {
    Case made;
    made.shape = random_.pick<std::vector<int64_t>>({{2, 4, 4}, {1, 4, 4}, {4, 1, 3}, {1, 4, 1}});
    is_integral_ = random_.chance(0.5);
    choose_layouts(made);
    add_graph(made);
    add_schemes(made);
    return made;
  }

 private:
  double cost(double largest) {
    return is_integral_ ? static_cast<double>(random_.below(static_cast<int64_t>(largest) + 1))
                        : largest * random_.unit();
  }

  void choose_layouts(Case& made) {
    std::vector<std::string> texts = {"ABC", "BCA", "CAB", "ABC2b", "ABC4b"};
    random_.shuffle(texts);
    texts.resize(static_cast<size_t>(2 + random_.below(3)));
    layouts_ = {dsl::Layout::row_major(3)};
    for (const std::string& text : texts)
      layouts_.push_back(dsl::Layout::parse(text, "ABC").value());
    for (const dsl::Layout& layout : layouts_) made.add_layout(layout);
    const double no_copy = random_.chance(0.2) ? 0.2 : 0;
    const double largest = random_.pick<double>({0, 2, 8, 30});
    for (Place from = 0; from < made.offsets.size(); ++from)
      for (Place to = 0; to < made.offsets.size(); ++to)
        made.copies[{from, to}] = random_.chance(no_copy) ? infinite : cost(largest);
  }

  void add_graph(Case& made) {
    std::vector<std::string> tensors = {"x"};
    if (random_.chance(0.5)) tensors.push_back("y");
    for (const std::string& name : tensors)
      made.graph.inputs.push_back({name, {Float32, made.shape}});
    made.graph.constants["w"] = weight_of(made.shape);
    const int64_t operators = 1 + random_.below(5);
    for (int64_t op = 0; op < operators; ++op) {
      std::vector<std::string> inputs, outputs;
      for (int64_t i = random_.below(4); i > 0; --i)
        inputs.push_back(random_.chance(0.1) ? "w" : random_.pick(tensors));
      for (int64_t o = 0; o <= (random_.chance(0.2) ? 1 : 0); ++o)
        outputs.push_back(fmt::format("t{}_{}", op, o));
      made.graph.operators.push_back(
          {workload_of(made.shape, inputs.size(), outputs.size()), inputs, outputs});
      tensors.insert(tensors.end(), outputs.begin(), outputs.end());
    }
    tensors.push_back("w");
    for (const std::string& name : tensors)
      if (random_.chance(0.3)) made.graph.outputs.push_back(name);
  }

  void add_schemes(Case& made) {
    for (const Operator& op : made.graph.operators) {
      std::vector<Scheme>& schemes = made.schemes.emplace_back();
      for (int64_t s = random_.below(3); s >= 0; --s) {
        Scheme& scheme = schemes.emplace_back();
        for (size_t i = 0; i < op.inputs.size(); ++i)
          scheme.inputs.push_back(random_.pick(layouts_));
        for (size_t o = 0; o < op.outputs.size(); ++o)
          scheme.outputs.push_back(random_.pick(layouts_));
        scheme.cost_ns = cost(20);
      }
    }
  }

  const Constant& weight_of(const std::vector<int64_t>& shape) {
    if (!weights_.contains(shape)) weights_[shape] = make_constant(normal_array(shape, 1));
    return weights_[shape];
  }
  const dsl::Workload& workload_of(const std::vector<int64_t>& shape, size_t inputs,
                                   size_t outputs) {
    const std::tuple key(shape, inputs, outputs);
    if (!workloads_.contains(key)) workloads_[key] = sum_workload(shape, inputs, outputs);
    return workloads_[key];
  }

  Random random_;
  bool is_integral_ = false;
  std::vector<dsl::Layout> layouts_;
  std::map<std::vector<int64_t>, Constant> weights_;
  std::map<std::tuple<std::vector<int64_t>, size_t, size_t>, dsl::Workload> workloads_;
};

/// The copies that a choice of schemes needs: the place in which each tensor is produced, and the
/// other places to which it is copied.
struct Needed {
  std::map<std::string, Place> produced;
  std::map<std::string, std::set<Place>> copies;  ///< other places of each tensor
};

Needed needed_by(const Case& given, const std::vector<size_t>& choice) {
  Needed needed;
  const Place row_major = given.place(dsl::Layout::row_major(3));
  for (const Port& port : given.graph.inputs) needed.produced[port.name] = row_major;
  for (size_t op = 0; op < choice.size(); ++op) {
    const Operator& run = given.graph.operators[op];
    const Scheme& scheme = given.schemes[op][choice[op]];
    for (size_t i = 0; i < run.inputs.size(); ++i)
      if (given.is_tensor(run.inputs[i]))
        needed.copies[run.inputs[i]].insert(given.place(scheme.inputs[i]));
    for (size_t o = 0; o < run.outputs.size(); ++o)
      needed.produced[run.outputs[o]] = given.place(scheme.outputs[o]);
  }
  for (const std::string& name : given.graph.outputs)
    if (given.is_tensor(name)) needed.copies[name].insert(row_major);
  for (auto& [tensor, copies] : needed.copies) copies.erase(needed.produced[tensor]);
  return needed;
}

/// Returns the cost of the kernels and copies of a choice of schemes; infinite if a copy is
/// impossible.
double brute_cost(const Case& given, const std::vector<size_t>& choice) {
  double cost = 0;
  for (size_t op = 0; op < choice.size(); ++op) cost += given.schemes[op][choice[op]].cost_ns;
  const Needed needed = needed_by(given, choice);
  for (const auto& [tensor, copies] : needed.copies)
    for (const Place to : copies) cost += given.copies.at({needed.produced.at(tensor), to});
  return cost;
}

bool has_same_places(const Case& given, const Operator& op, const Scheme& a, const Scheme& b) {
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (given.is_tensor(op.inputs[i]) && given.place(a.inputs[i]) != given.place(b.inputs[i]))
      return false;
  for (size_t o = 0; o < op.outputs.size(); ++o)
    if (given.place(a.outputs[o]) != given.place(b.outputs[o])) return false;
  return true;
}

/// True if another scheme of the operator with equivalent layouts is cheaper, or costs the same and
/// has a smaller index.
bool is_superseded(const Case& given, size_t op, size_t scheme) {
  const std::vector<Scheme>& schemes = given.schemes[op];
  for (size_t s = 0; s < schemes.size(); ++s)
    if (has_same_places(given, given.graph.operators[op], schemes[s], schemes[scheme]) &&
        std::pair(schemes[s].cost_ns, s) < std::pair(schemes[scheme].cost_ns, scheme))
      return true;
  return false;
}

struct Choices {
  std::vector<size_t> schemes;
  double cost;
};

/// Returns all choices of finite cost, the cheapest first.
std::vector<Choices> brute_force(const Case& given) {
  std::vector<Choices> all;
  std::vector<size_t> choice(given.schemes.size());
  while (true) {
    if (const double cost = brute_cost(given, choice); std::isfinite(cost))
      all.push_back({choice, cost});
    size_t op = 0;
    while (op < choice.size() && ++choice[op] == given.schemes[op].size()) choice[op++] = 0;
    if (op == choice.size()) break;
  }
  std::ranges::stable_sort(all, {}, &Choices::cost);
  return all;
}

std::vector<Choices> without_superseded(const Case& given, std::vector<Choices> all) {
  std::erase_if(all, [&](const Choices& choices) {
    for (size_t op = 0; op < choices.schemes.size(); ++op)
      if (is_superseded(given, op, choices.schemes[op])) return true;
    return false;
  });
  return all;
}

bool is_named(const Case& given, const std::string& text) {
  const dsl::Layout layout = dsl::Layout::parse(text, "ABC").value();
  for (const std::vector<Scheme>& schemes : given.schemes)
    for (const Scheme& scheme : schemes)
      if (std::ranges::count(scheme.inputs, layout) + std::ranges::count(scheme.outputs, layout))
        return true;
  return false;
}

/// Returns the cost of the cheapest choice in which each array is row-major or in one block layout,
/// the same for all arrays, which a scheme names. Infinite if there is no such choice.
double uniform_cost(const Case& given, const std::vector<Choices>& all) {
  double least = infinite;
  for (const std::string blocked : {"ABC", "ABC2b", "ABC4b"}) {
    if (blocked != "ABC" && !is_named(given, blocked)) continue;
    const auto is_allowed = [&](const dsl::Layout& layout) {
      const Place place = given.place(layout);
      return place == given.places.at("ABC") || place == given.places.at(blocked);
    };
    const auto is_uniform = [&](const Choices& choices) {
      for (size_t op = 0; op < choices.schemes.size(); ++op) {
        const Scheme& scheme = given.schemes[op][choices.schemes[op]];
        for (size_t i = 0; i < scheme.inputs.size(); ++i)
          if (given.is_tensor(given.graph.operators[op].inputs[i]) && !is_allowed(scheme.inputs[i]))
            return false;
        if (!std::ranges::all_of(scheme.outputs, is_allowed)) return false;
      }
      return true;
    };
    const auto cheapest = std::ranges::find_if(all, is_uniform);
    if (cheapest != all.end()) least = std::min(least, cheapest->cost);
  }
  return least;
}

/// Checks every field of the plan that follows from its schemes.
void expect_consistent(const Case& given, const Plan& plan) {
  ASSERT_EQ(plan.schemes.size(), given.schemes.size());
  const Needed needed = needed_by(given, plan.schemes);
  std::map<std::string, Place> produced;
  for (const auto& [tensor, layout] : plan.produced) produced[tensor] = given.place(layout);
  EXPECT_EQ(produced, needed.produced);

  double sum = 0;
  for (size_t op = 0; op < plan.schemes.size(); ++op)
    sum += given.schemes[op][plan.schemes[op]].cost_ns;
  std::map<std::string, std::set<Place>> copies;
  std::pair<std::string, std::string> before;
  for (const Transform& transform : plan.transforms) {
    const std::pair key(transform.tensor, transform.to.to_string("ABC"));
    EXPECT_LT(before, key);
    before = key;
    EXPECT_EQ(transform.from, plan.produced.at(transform.tensor));
    EXPECT_EQ(transform.cost_ns,
              given.copies.at({given.place(transform.from), given.place(transform.to)}));
    EXPECT_TRUE(copies[transform.tensor].insert(given.place(transform.to)).second);
    sum += transform.cost_ns;
  }
  std::map<std::string, std::set<Place>> expected = needed.copies;
  std::erase_if(expected, [](const auto& tensor) { return tensor.second.empty(); });
  EXPECT_EQ(copies, expected);
  EXPECT_EQ(plan.predicted_ns, sum);
}

TEST(Plan, EqualsBruteForceOnRandomGraphs) {
  RandomCases cases(1);
  Random random(2);
  int infeasible = 0;
  for (int i = 0; i < 4'000; ++i) {
    SCOPED_TRACE(i);
    Case given = cases.next();
    if (random.chance(0.3)) given.options.limits.table_elements = 2;
    const std::vector<Choices> all = without_superseded(given, brute_force(given));
    const auto count = static_cast<size_t>(1 + random.below(5));
    const auto plans =
        make_plans(given.graph, given.schemes, given.transform_cost(), count, given.options);
    if (all.empty()) {
      ASSERT_FALSE(plans);
      EXPECT_EQ(plans.error().code, ErrorCode::Invalid);
      EXPECT_THAT(plans.error().message, HasSubstr("operator 't"));
      ++infeasible;
      continue;
    }
    ASSERT_TRUE(plans) << plans.error().message;
    ASSERT_EQ(plans->size(), std::min(count, all.size()));
    std::set<std::vector<size_t>> distinct;
    for (size_t p = 0; p < plans->size(); ++p) {
      const Plan& plan = (*plans)[p];
      EXPECT_NEAR(plan.predicted_ns, all[p].cost, 1e-9);
      EXPECT_EQ(plan.lower_bound_ns, plans->front().predicted_ns);
      EXPECT_TRUE(plan.is_optimal);
      EXPECT_TRUE(distinct.insert(plan.schemes).second);
      expect_consistent(given, plan);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(infeasible, 20);
}

TEST(Plan, CheapestWithEqualsBruteForce) {
  RandomCases cases(3);
  for (int i = 0; i < 1'500; ++i) {
    SCOPED_TRACE(i);
    const Case given = cases.next();
    Schemes expected = given.schemes;
    for (std::vector<Scheme>& schemes : expected)
      for (Scheme& scheme : schemes) scheme.cost_ns = infinite;
    const std::vector<Choices> all = brute_force(given);
    for (const Choices& choices : all)
      for (size_t op = 0; op < choices.schemes.size(); ++op) {
        double& least = expected[op][choices.schemes[op]].cost_ns;
        least = std::min(least, choices.cost);
      }
    const auto times =
        cheapest_with(given.graph, given.schemes, given.transform_cost(), given.options);
    ASSERT_EQ(times.has_value(), !all.empty());
    if (all.empty()) continue;
    ASSERT_TRUE(times->has_value());
    for (size_t op = 0; op < expected.size(); ++op)
      for (size_t s = 0; s < expected[op].size(); ++s) {
        const double time = (**times)[op][s], least = expected[op][s].cost_ns;
        if (std::isinf(least))
          EXPECT_EQ(time, infinite);
        else
          EXPECT_NEAR(time, least, 1e-9);
      }
    if (HasFailure()) return;
  }
}

TEST(Plan, ACheaperEntryNeverMakesItDearer) {
  RandomCases cases(5);
  Random random(6);
  for (int i = 0; i < 1'000; ++i) {
    Case given = cases.next();
    const auto plan_cost = [&]() {
      const auto plans =
          make_plans(given.graph, given.schemes, given.transform_cost(), 1, given.options);
      return plans ? plans->front().predicted_ns : infinite;
    };
    const double before = plan_cost();
    const auto op = static_cast<size_t>(random.below(static_cast<int64_t>(given.schemes.size())));
    given.schemes[op][0].cost_ns *= 0.5;
    const double with_a_scheme = plan_cost();
    EXPECT_LE(with_a_scheme, before + 1e-9);
    for (auto& [layouts, cost] : given.copies) cost = std::min(cost, 3.0);
    EXPECT_LE(plan_cost(), with_a_scheme + 1e-9);
  }
}

TEST(Plan, AllChoicesPayForWhatTheirLayoutsNeed) {
  RandomCases cases(7);
  int with_row_major = 0;
  for (int i = 0; i < 1'500; ++i) {
    SCOPED_TRACE(i);
    Case given = cases.next();
    for (auto& [layouts, cost] : given.copies) cost = std::min(cost, 30.0);
    const auto chosen = [&](Choice choice) {
      return choose(given.graph, given.schemes, given.transform_cost(), choice, given.options);
    };
    const Plan global = *chosen(Choice::Global), local = *chosen(Choice::LocalBest);
    const std::vector<Choices> all = brute_force(given);
    EXPECT_NEAR(global.predicted_ns, all.front().cost, 1e-9);
    expect_consistent(given, local);
    EXPECT_LE(global.predicted_ns, local.predicted_ns + 1e-9);
    double fastest = 0;
    for (size_t op = 0; op < given.schemes.size(); ++op) {
      const double least = std::ranges::min(given.schemes[op], {}, &Scheme::cost_ns).cost_ns;
      EXPECT_EQ(given.schemes[op][local.schemes[op]].cost_ns, least);
      fastest += least;
    }
    EXPECT_EQ(local.lower_bound_ns, fastest);
    EXPECT_EQ(local.is_optimal, local.predicted_ns == fastest);

    const auto uniform = chosen(Choice::Uniform);
    const double expected = uniform_cost(given, all);
    ASSERT_EQ(uniform.has_value(), std::isfinite(expected));
    if (uniform) {
      expect_consistent(given, *uniform);
      EXPECT_NEAR(uniform->predicted_ns, expected, 1e-9);
    }
    if (const auto row_major = chosen(Choice::RowMajor)) {
      ++with_row_major;
      expect_consistent(given, *row_major);
      EXPECT_TRUE(row_major->transforms.empty());
      ASSERT_TRUE(uniform);
      EXPECT_LE(uniform->predicted_ns, row_major->predicted_ns + 1e-9);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(with_row_major, 200);
}

TEST(Plan, AResidualBlock) {
  const Graph graph = residual_block();
  const Schemes schemes = {{scheme("NCHW NCHW", "NCHW", 30), scheme("NCHW4c NCHW", "NCHW4c", 10)},
                           {scheme("NCHW NCHW", "NCHW", 5), scheme("NCHW4c NCHW4c", "NCHW4c", 4),
                            scheme("NCHW4c NCHW4c", "NCHW", 4.5)}};
  // The tensors have 4 channels, so that a block of 4 channels is the same as channels last.
  const auto plans = make_plans(graph, schemes, every_copy(3), 3);
  ASSERT_TRUE(plans) << plans.error().message;
  ASSERT_EQ(plans->size(), 3u);
  const Plan& plan = plans->front();
  EXPECT_EQ(plan.schemes, (std::vector<size_t>{1, 2}));
  EXPECT_EQ(plan.predicted_ns, 17.5);  // both readers of x share its copy
  ASSERT_EQ(plan.transforms.size(), 1u);
  EXPECT_EQ(plan.transforms[0].tensor, "x");
  EXPECT_EQ(plan.transforms[0].from.to_string("NCHW"), "NCHW");
  EXPECT_EQ(plan.transforms[0].to.to_string("NCHW"), "NCHW4c");
  EXPECT_EQ(plan.produced.at("c").to_string("NCHW"), "NCHW4c");
  const std::vector<int64_t> shape = {1, 4, 6, 6};
  EXPECT_EQ(transform_to(plan, "x", shape, dsl::Layout::row_major(4)), nullptr);
  for (const char* equal : {"NCHW4c", "NHWC"})
    EXPECT_EQ(transform_to(plan, "x", shape, layouts(equal, "NCHW")[0]), &plan.transforms[0]);
  EXPECT_EQ((*plans)[1].schemes, (std::vector<size_t>{1, 1}));
  EXPECT_EQ((*plans)[1].predicted_ns, 20);
  EXPECT_EQ((*plans)[2].schemes, (std::vector<size_t>{1, 0}));
  EXPECT_EQ((*plans)[2].predicted_ns, 21);
}

/// Returns a graph with two convolutions, x -> c1 -> c2, and y = c2 + x.
Graph two_convolutions() {
  const std::string conv = "conv2d n=1 c=8 h=4 w=4 k=8 r=3 s=3 pad=1 f32 fast";
  Graph graph = image_graph({named(conv, {"x", "w1"}, "c1"), named(conv, {"c1", "w2"}, "c2"),
                             named("add_relu n=1 c=8 h=4 w=4 f32 fast", {"c2", "x"}, "y")},
                            {"y"});
  graph.constants["w1"] = make_constant(normal_array({8, 8, 3, 3}, 1));
  graph.constants["w2"] = make_constant(normal_array({8, 8, 3, 3}, 2));
  return graph;
}

TEST(Plan, BlockedKernelsExchangeRowMajorArrays) {
  const Graph graph = two_convolutions();
  const std::vector<Scheme> conv = {scheme("NCHW NCHW", "NCHW", 30),
                                    scheme("NCHW4c NCHW", "NCHW4c", 10)};
  const Schemes schemes = {
      conv, conv, {scheme("NCHW NCHW", "NCHW", 5), scheme("NCHW4c NCHW4c", "NCHW4c", 4)}};
  EXPECT_EQ(planned(graph, schemes, 3, Choice::RowMajor)->predicted_ns, 65);
  // Blocked kernels throughout need copies of x and y: 10 + 10 + 4 + 3 + 3.
  EXPECT_EQ(planned(graph, schemes, 3, Choice::Uniform)->predicted_ns, 30);
  const Plan plan = *planned(graph, schemes, 3, Choice::Blocked);
  EXPECT_EQ(plan.schemes, (std::vector<size_t>{1, 1, 0}));
  EXPECT_EQ(plan.predicted_ns, 10 + 10 + 5 + 4 * 3);
  std::vector<std::string> copies;
  for (const Transform& copy : plan.transforms)
    copies.push_back(copy.tensor + ": " + copy.from.to_string("NCHW") + " -> " +
                     copy.to.to_string("NCHW"));
  EXPECT_THAT(copies, testing::UnorderedElementsAre("x: NCHW -> NCHW4c", "c1: NCHW4c -> NCHW",
                                                    "c1: NCHW -> NCHW4c", "c2: NCHW4c -> NCHW"));
  // The second convolution reads a copy that is made from the row-major copy of c1, and not the
  // array that the first convolution writes.
  const Transform* read = transform_to(plan, "c1", image, layouts("NCHW4c", "NCHW")[0]);
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(read->from, dsl::Layout::row_major(4));
}

TEST(Plan, MixedBlocks) {
  // The fastest kernels of the two operators use different blocks. With a kernel that is 1 ns
  // slower, they use the same block.
  const Graph graph = image_graph({on_images({"x"}, {"a"}), on_images({"a"}, {"b"})}, {"b"});
  const Schemes schemes = {{scheme("NCHW", "NCHW4c", 10), scheme("NCHW", "NCHW2c", 11)},
                           {scheme("NCHW2c", "NCHW", 10), scheme("NCHW4c", "NCHW", 14)}};
  EXPECT_EQ(planned(graph, schemes, 5, Choice::LocalBest)->predicted_ns, 25);
  EXPECT_EQ(planned(graph, schemes, 5, Choice::Uniform)->predicted_ns, 21);
  const Plan global = *planned(graph, schemes, 5);
  EXPECT_EQ(global.predicted_ns, 21);
  EXPECT_EQ(global.schemes, (std::vector<size_t>{1, 0}));
}

TEST(Plan, BlocksMayDifferBetweenOperators) {
  // A plan with the same block throughout is slower than one that changes the block on the way.
  const Graph graph = image_graph(
      {on_images({"x"}, {"a"}), on_images({"a"}, {"b"}), on_images({"b"}, {"c"})}, {"c"});
  const Schemes schemes = {{scheme("NCHW", "NCHW4c", 10), scheme("NCHW", "NCHW2c", 16)},
                           {scheme("NCHW4c", "NCHW2c", 10), scheme("NCHW4c", "NCHW4c", 12),
                            scheme("NCHW2c", "NCHW2c", 12)},
                           {scheme("NCHW2c", "NCHW", 10), scheme("NCHW4c", "NCHW", 16)}};
  EXPECT_EQ(planned(graph, schemes, 20, Choice::Uniform)->predicted_ns, 38);
  EXPECT_EQ(planned(graph, schemes, 20)->predicted_ns, 30);
}

TEST(Plan, SharedTransforms) {
  // The two readers are fastest with different layouts. One copy that both read is cheaper than
  // two.
  const Graph graph = image_graph(
      {on_images({"x"}, {"a"}), on_images({"a"}, {"b"}), on_images({"a"}, {"c"})}, {"b", "c"});
  const Schemes schemes = {
      {scheme("NCHW", "NCHW", 1)},
      {scheme("NCHW", "NCHW", 20), scheme("NHWC", "NCHW", 9)},
      {scheme("NCHW", "NCHW", 20), scheme("NCHW4c", "NCHW", 9), scheme("NHWC", "NCHW", 9.5)}};
  EXPECT_EQ(planned(graph, schemes, 2, Choice::LocalBest)->predicted_ns, 23);
  const Plan global = *planned(graph, schemes, 2);
  EXPECT_EQ(global.predicted_ns, 21.5);
  EXPECT_EQ(global.transforms.size(), 1u);
}

TEST(Plan, BranchesThatDisagreeBeforeAConcat) {
  // In the layout of the first branch, the second branch is 1 ns slower. A copy takes 6 ns.
  const Graph graph = image_graph(
      {on_images({"x"}, {"a"}), on_images({"x"}, {"b"}), on_images({"a", "b"}, {"c"})}, {"c"});
  const Schemes schemes = {{scheme("NCHW", "NCHW4c", 10), scheme("NCHW", "NHWC", 15)},
                           {scheme("NCHW", "NCHW4c", 11), scheme("NCHW", "NHWC", 10)},
                           {scheme("NCHW4c NCHW4c", "NCHW", 2), scheme("NHWC NHWC", "NCHW", 2)}};
  EXPECT_EQ(planned(graph, schemes, 6, Choice::LocalBest)->predicted_ns, 28);
  EXPECT_EQ(planned(graph, schemes, 6)->predicted_ns, 23);
}

TEST(Plan, TiesOfTheLocalBestGoToTheProducersLayout) {
  const Graph graph = image_graph({on_images({"x"}, {"a"}), on_images({"a"}, {"b"})}, {"b"});
  const Schemes schemes = {{scheme("NCHW", "NHWC", 1)},
                           {scheme("NCHW", "NCHW", 1), scheme("NHWC", "NCHW", 1)}};
  const Plan plan = *planned(graph, schemes, 1, Choice::LocalBest);
  EXPECT_EQ(plan.schemes[1], 1u);
  EXPECT_EQ(plan.predicted_ns, 2);
  EXPECT_TRUE(plan.is_optimal);
}

TEST(Plan, AnOperatorMayReadATensorTwice) {
  const Graph graph = image_graph({on_images({"x", "x"}, {"y"})}, {"y"});
  const Schemes schemes = {{scheme("NHWC NCHW4c", "NCHW", 5), scheme("NHWC NHWC", "NCHW", 6)}};
  EXPECT_EQ(planned(graph, schemes, 4)->predicted_ns, 10);
  EXPECT_EQ(planned(graph, schemes, 0.5)->predicted_ns, 6);
}

TEST(Plan, TensorsThatNobodyReadsKeepTheirLayout) {
  const Graph graph = image_graph({on_images({"x"}, {"a", "unread"})}, {"a"});
  const Schemes schemes = {{scheme("NCHW", "NCHW NHWC", 5)}};
  const Plan plan = *planned(graph, schemes, 4);
  EXPECT_EQ(plan.predicted_ns, 5);
  EXPECT_EQ(plan.produced.at("unread").to_string("NCHW"), "NHWC");
}

TEST(Plan, InputsAndConstantsMayBeOutputs) {
  Graph graph = image_graph({on_images({"x", "w"}, {"a"})}, {"x", "w", "a"});
  graph.constants["w"] = make_constant(normal_array(image, 1));
  const Plan plan = *planned(graph, {{scheme("NHWC NHWC", "NHWC", 5)}}, 4);
  EXPECT_EQ(plan.predicted_ns, 13);  // copies of x and of a; w is packed ahead
  EXPECT_FALSE(plan.produced.contains("w"));
}

TEST(Plan, EqualLayoutsGoByTheRowMajorOne) {
  Graph graph;
  graph.inputs = {{"x", {Float32, {1, 8, 1, 1}}}};
  graph.operators = {{sum_workload({1, 8, 1, 1}, 1, 1), {"x"}, {"y"}}};
  graph.outputs = {"y"};
  const Plan plan = *planned(graph, {{scheme("NHWC", "NCHW8c", 3)}}, 4, Choice::RowMajor);
  EXPECT_EQ(plan.predicted_ns, 3);
  EXPECT_TRUE(plan.produced.at("y").is_row_major());
}

TEST(Plan, SuperfluousCopiesMakeNoFurtherPlans) {
  // Copies are nearly free, so that plans with useless copies would be cheaper than the next useful
  // plan.
  const auto plans = make_plans(three_readers(), Schemes(3, of_a_reader), every_copy(1e-6), 27);
  ASSERT_EQ(plans->size(), 27u);
  EXPECT_EQ(plans->front().predicted_ns, 30);
  EXPECT_NEAR((*plans)[1].predicted_ns, 40, 1e-3);
  EXPECT_NEAR(plans->back().predicted_ns, 120, 1e-3);
}

TEST(Plan, ATensorMayHaveManyLayouts) {
  const std::vector<std::string> all = permutations("ABCD", 24);
  const std::vector<int64_t> shape = {2, 3, 4, 5};
  Graph graph;
  graph.inputs = {{"x", {Float32, shape}}};
  graph.operators = {{sum_workload(shape, 1, 1), {"x"}, {"t"}}};
  Schemes schemes(1);
  for (const std::string& order : all) schemes[0].push_back(scheme("ABCD", order, 10, "ABCD"));
  for (size_t i = 0; i < 5; ++i) {  // each reader has a layout in which it is faster
    graph.operators.push_back({sum_workload(shape, 1, 1), {"t"}, {fmt::format("u{}", i)}});
    std::vector<Scheme>& each = schemes.emplace_back();
    for (const std::string& order : all)
      each.push_back(scheme(order, "ABCD", order == all[i] ? 10 : 100, "ABCD"));
  }
  const Plan plan = *planned(graph, schemes, 1);
  EXPECT_TRUE(plan.is_optimal);
  EXPECT_EQ(plan.predicted_ns, 60 + 4);
}

TEST(Plan, ADenseBlockEqualsBruteForce) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const DenseBlock block(2, seed);
    Case given;
    given.shape = box;
    given.graph = block.graph;
    given.schemes = block.schemes;
    for (const dsl::Layout& layout : block.orders_of_block) given.add_layout(layout);
    for (Place from = 0; from < 3; ++from)
      for (Place to = 0; to < 3; ++to) given.copies[{from, to}] = static_cast<double>(from + to);
    const std::vector<Choices> all = brute_force(given);
    const auto plans = make_plans(given.graph, given.schemes, given.transform_cost(), 4);
    ASSERT_TRUE(plans) << plans.error().message;
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR((*plans)[i].predicted_ns, all[i].cost, 1e-9) << seed;
  }
}

TEST(Plan, NamesOfChoices) {
  EXPECT_EQ(to_string(Choice::RowMajor), "row_major");
  EXPECT_EQ(to_string(Choice::Global), "global");
}

// ---- loops ----------------------------------------------------------------------------------

TEST(Plan, CopiesInALoopCountOnceATrip) {
  Graph graph;
  const std::vector<int64_t> image = {1, 4, 2, 2};
  graph.inputs = {{"x", {Float32, image}}};
  graph.operators = {{sum_workload(image, 1, 1), {"s"}, {"next"}, 0}};
  Loop loop;
  loop.name = "loop";
  loop.trips = 10;
  loop.states = {{"s", "x", "next", "y"}};
  graph.loops = {loop};
  graph.outputs = {"y"};
  ASSERT_TRUE(validate(graph));
  // The blocked kernel takes 10 ns in all trips together. It needs two copies of 5 ns in each of 10
  // trips.
  const auto plan_with = [&](double row_major_ns) {
    const Schemes schemes = {{scheme("NCHW", "NCHW", row_major_ns), scheme("NHWC", "NHWC", 10)}};
    return make_plans(graph, schemes, every_copy(5), 1).value().front();
  };
  EXPECT_EQ(plan_with(105).predicted_ns, 105);
  const Plan blocked = plan_with(120);
  EXPECT_EQ(blocked.predicted_ns, 110);
  ASSERT_EQ(blocked.transforms.size(), 2u);
  EXPECT_EQ(blocked.transforms[0].tensor, "next");
  EXPECT_EQ(blocked.transforms[0].cost_ns, 50);
  EXPECT_EQ(blocked.transforms[1].tensor, "s");
  const std::string text =
      to_text(graph, {{scheme("NCHW", "NCHW", 120), scheme("NHWC", "NHWC", 10)}}, blocked,
              {{"direct", {}}});
  EXPECT_THAT(text, HasSubstr("loop loop"));
  EXPECT_THAT(text, HasSubstr("10 trips"));
  EXPECT_THAT(text, HasSubstr("end of loop"));
  EXPECT_THAT(to_dot(graph, {{scheme("NCHW", "NCHW", 120), scheme("NHWC", "NHWC", 10)}}, blocked),
              HasSubstr("10 trips"));
}

}  // namespace
}  // namespace tw::graph
