// SPDX-License-Identifier: Apache-2.0
#pragma once
// Draws random pairs of a compute and a schedule that have a certain form
// (tests/schedules/kernel_forms.h), and runs them as test cases of GPU kernels.

#include <gtest/gtest.h>
#include <stdio.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/codegen/gpu_runs.h"
#include "tests/nightly.h"
#include "tests/schedules/kernel_forms.h"

namespace tw::codegen {

/// Returns the number of pairs to run of each form: $TW_RANDOM_CASES if it is set, otherwise 300
/// under TW_NIGHTLY and 4 otherwise.
inline int64_t pairs_of_form() { return cases_asked_for(cases_of<int64_t>(4, 300)); }

/// Runs pairs_of_form() pairs that have the form, until a pair fails. Up to 20 pairs are compiled
/// as one text. Prints how many of the pairs also had each other form. `expect` runs cases and
/// expects that their outputs are right.
template <typename Expect>
void run_pairs_of(const schedules::KernelForm& form, uint64_t first_seed, Expect&& expect) {
  constexpr int64_t pairs_of_text = 20;
  const int64_t count = pairs_of_form();
  schedules::FormTally tally;
  for (int64_t done = 0; done < count && !testing::Test::HasFailure(); done += pairs_of_text) {
    std::vector<GpuCase> cases;
    for (int64_t i = done; i < std::min(done + pairs_of_text, count); ++i) {
      const uint64_t seed = first_seed + static_cast<uint64_t>(i);
      const schedules::FormPair pair = schedules::random_pair_of(form, seed);
      cases.push_back(interpreted_case(pair.title, pair.compute, pair.schedule, seed, pair.slack));
      tally.add(pair);
    }
    if (!testing::Test::HasFailure()) expect(cases);
  }
  printf("%s\n", tally.text().c_str());
}

inline std::string name_of_form(const testing::TestParamInfo<schedules::KernelForm>& info) {
  return info.param.name;
}

}  // namespace tw::codegen
