// SPDX-License-Identifier: Apache-2.0
#pragma once
// Problems that ask for random layouts of some of their tensors.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "schedules/problem.h"
#include "schedules/program/legality.h"
#include "schedules/space/space.h"

namespace tw::schedules {

/// Returns a layout with the dimensions in declared or random order, and up to two splits.
inline std::string random_layout(Random& random, const std::string& letters) {
  std::vector<char> order(letters.begin(), letters.end());
  if (random.chance(0.5)) random.shuffle(order);
  std::string text(order.begin(), order.end());
  for (int64_t n = random.below(3); n > 0 && !letters.empty(); --n) {
    const char c = letters[static_cast<size_t>(random.below(static_cast<int64_t>(letters.size())))];
    text += std::to_string(2 + random.below(3)) + static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

/// Returns a problem with the compute and a random layout for each input and output with a
/// probability of 0.65. Scalars get none.
inline Problem random_problem(Random& random, const dsl::Compute& compute) {
  std::vector<std::string> tensors;
  for (const dsl::Input& input : compute.inputs) tensors.push_back(input.name);
  tensors.insert(tensors.end(), compute.outputs.begin(), compute.outputs.end());
  Problem problem{compute};
  for (const std::string& tensor : tensors)
    if (!compute.shape_of(tensor).empty() && random.chance(0.65))
      problem.layouts[tensor] = random_layout(random, compute.letters_of(tensor));
  return problem;
}

}  // namespace tw::schedules
