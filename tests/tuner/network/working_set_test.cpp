// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/working_set.h"

#include <gtest/gtest.h>

#include "base/target.h"
#include "tests/tuner/networks.h"

namespace tw::tuner {
namespace {

// The constants take 72 KiB. Each activation takes 8 KiB, and three are alive at a time: x, which
// the sum at the end reads, and the input and result of a convolution.
constexpr int64_t bytes_of_two_convolutions = (72 + 3 * 8) << 10;

TEST(WorkingSet, HasAllConstantsAndTheActivationsThatAreAliveTogether) {
  EXPECT_EQ(working_set_bytes(two_convolutions()), bytes_of_two_convolutions);
}

TEST(WorkingSet, KeepsOutputsOfTheGraphToTheEnd) {
  graph::Graph graph = two_convolutions();
  graph.outputs.push_back(graph.operators[0].outputs[0]);
  EXPECT_EQ(working_set_bytes(graph), bytes_of_two_convolutions + (8 << 10));
}

TEST(WorkingSet, DropsResultsThatNothingReads) {
  graph::Graph graph = two_convolutions();
  graph.operators.insert(graph.operators.begin(), graph::named(small_conv, {"x", "w1"}, "unread"));
  EXPECT_EQ(working_set_bytes(graph), bytes_of_two_convolutions);
}

TEST(WorkingSet, ANetworkHasTheStateOfTheLevelThatIsTwiceAsLarge) {
  const graph::Graph graph = two_convolutions();
  const auto state = [&](int64_t l2, int64_t l3) {
    Machine machine;
    machine.caches[1].bytes = l2;
    machine.caches[2].bytes = l3;
    return state_of(graph, machine);
  };
  constexpr int64_t twice = 2 * bytes_of_two_convolutions;
  EXPECT_EQ(state(twice, twice), dsl::CacheState::Hot);
  EXPECT_EQ(state(twice - 1, twice), dsl::CacheState::NetworkL3);
  EXPECT_EQ(state(twice - 1, twice - 1), dsl::CacheState::NetworkMemory);
  EXPECT_EQ(state_of(graph, parse_target("cuda:sm_80")->machine), dsl::CacheState::Hot);
}

TEST(WorkingSet, OfALoopIsThatOfATrip) {
  const auto bytes = [](int64_t trips) { return working_set_bytes(graph::recurrence(trips)); };
  // xs, hs and ys have two rows of three f32 for each trip, i.e. 24 bytes each.
  EXPECT_EQ(bytes(1010) - bytes(1000), 3 * 10 * 24);
  Machine machine;
  machine.caches[1].bytes = 4 << 10;
  machine.caches[2].bytes = 8 << 10;
  const graph::Graph graph = graph::recurrence(1000);
  EXPECT_EQ(state_of(graph, machine), dsl::CacheState::NetworkMemory);
  EXPECT_EQ(states_of_loops(graph, machine), std::vector{dsl::CacheState::Hot});
}

TEST(WorkingSet, DropsResultsOfALoopThatNothingReads) {
  const auto bytes = [](int64_t trips) {
    graph::Graph graph = graph::recurrence(trips);
    graph.operators.push_back(graph.operators.back());
    graph.operators.back().outputs = {"z2"};
    graph.outputs = {"z", "z2"};
    return working_set_bytes(graph);
  };
  // During the loop xs, hs and ys are alive. At the last operator ys, z and z2 are alive, but no
  // longer hs.
  EXPECT_EQ(bytes(1010) - bytes(1000), 3 * 10 * 24);
}

}  // namespace
}  // namespace tw::tuner
