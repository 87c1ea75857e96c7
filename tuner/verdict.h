// SPDX-License-Identifier: Apache-2.0
#pragma once
// What becomes of a kernel's outputs: the rules by which it is right or wrong, wherever it ran.

#include <functional>
#include <string>
#include <tl/expected.hpp>

#include "db/record.h"
#include "tuner/reference.h"

namespace tw::tuner {

struct Verdict {
  db::TrialStatus status = db::TrialStatus::Ok;
  std::string reason;
  double error = 0;  ///< of the normal fill, relative to its largest element
};

tl::unexpected<Verdict> rejected(db::TrialStatus status, std::string reason);

/// Outputs of a run, or why there are none.
using Outputs = tl::expected<dsl::Arrays, Verdict>;

/// The runs of a kernel that is judged: on integers, on N(0, 1), and that once more. Each holds
/// other poison in all memory that it has to write before it reads.
enum class Pass { Integers, Normal, Again };

/// Integers must agree bit by bit where the operator is exact, N(0, 1) within the tolerance, and
/// the last two runs bit by bit with each other.
Verdict judge(const Reference& reference,
              const std::function<Outputs(const Fill& fill, Pass pass)>& run);

/// Outputs of the normal fill against the reference's.
Verdict compare(const dsl::Arrays& outputs, const Reference& reference);

}  // namespace tw::tuner
