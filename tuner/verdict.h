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

/// Whether a run left the outputs of the one before, byte by byte, or why it left none.
using Repeated = tl::expected<bool, Verdict>;
bool same_bytes(const dsl::Arrays& a, const dsl::Arrays& b);

/// The runs whose outputs are judged: on integers and on N(0, 1).
enum class Pass { Integers, Normal };

/// Integers must agree bit by bit where the operator is exact, N(0, 1) within the tolerance; that
/// run is repeated, and must leave the same outputs. Each of the three holds other poison in all
/// memory that it has to write before it reads.
Verdict judge(const Reference& reference,
              const std::function<Outputs(const Fill& fill, Pass pass)>& run,
              const std::function<Repeated(const dsl::Arrays& outputs)>& repeat);

/// Outputs of the normal fill against the reference's.
Verdict compare(const dsl::Arrays& outputs, const Reference& reference);

}  // namespace tw::tuner
