// SPDX-License-Identifier: Apache-2.0
#pragma once
// Networks for tests of assembling models.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/random.h"
#include "codegen/gpu/nvrtc.h"
#include "runtime/model.h"
#include "schedules/space/default_schedule.h"
#include "tests/tuner/networks.h"
#include "tuner/network/assemble.h"
#include "tuner/network/join_models.h"
#include "tuner/network/race.h"
#include "tuner/network/step_threads.h"

namespace tw::tuner {

/// Returns x -> conv -> c, c flattened -> f, f v -> y. The results are y, c and f.
inline graph::Graph with_reshape() {
  graph::Graph graph;
  graph.inputs = {{"x", {Float32, {1, 16, 4, 4}}}};
  graph.constants["w"] = graph::make_constant(graph::normal_array({16, 16, 3, 3}, 1));
  graph.constants["v"] = graph::make_constant(graph::normal_array({256, 10}, 2));
  graph.operators = {
      graph::named("conv2d n=1 c=16 h=4 w=4 k=16 r=3 s=3 pad=1 f32 fast", {"x", "w"}, "c"),
      reshaped("c", "f", {1, 16, 4, 4}, {1, 256}),
      graph::named("dense m=1 n=10 k=256 f32 fast", {"f", "v"}, "y")};
  graph.outputs = {"y", "c", "f"};
  return graph;
}

}  // namespace tw::tuner
