// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Schedule is a Compute and the steps that say how to compute it. Immutable, printable,
// replayable: the text is what the database stores, and it means the same wherever it is replayed.
//
//   Schedule s = Schedule(gemm)
//       .split("c", "m", 6).split("c", "n", 64).reorder("c", {"m.0", "n.0", "k", "m.1", "n.1"})
//       .cache_write("c", "n.0").parallel("c", "m.0");
//   Result<Program> program = s.program();
//
// The fluent calls forward the first error, which program() and error() report, so that the same
// calls serve a person and a search. Thread-safe to share.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dsl/compute.h"
#include "schedules/legality.h"
#include "schedules/program.h"
#include "schedules/step.h"

namespace tw::schedules {

struct Nest;

/// The version word that schedule text begins with. A change of what any text means needs a new
/// one.
inline constexpr std::string_view schedule_version = "tw1";

class Schedule {
 public:
  explicit Schedule(dsl::Compute compute);

  /// The schedule with one more step; once a step failed, all further ones are ignored.
  Schedule then(Step step) const;
  Schedule then(const std::vector<Step>& steps) const;
  /// As `*this = then(step)`, without a copy of the nest where this schedule alone holds it.
  void add(Step step);

  Schedule split(std::string stage, std::string loop, int64_t factor,
                 Tail tail = Tail::Guard) const;
  Schedule fuse(std::string stage, std::string outer, std::string inner) const;
  Schedule reorder(std::string stage, std::vector<std::string> loops) const;
  Schedule unroll(std::string stage, std::string loop) const;
  Schedule vectorize(std::string stage, std::string loop) const;
  Schedule parallel(std::string stage, std::string loop) const;
  Schedule bind(std::string stage, std::string loop) const;
  Schedule compute_at(std::string stage, std::string consumer, std::string loop) const;
  Schedule inlined(std::string stage) const;
  Schedule epilogue(std::string stage, std::string into) const;
  Schedule cache_write(std::string stage, std::string loop, Scope scope = Scope::Register) const;
  Schedule cache_read(std::string tensor, std::string stage, std::string loop) const;
  Schedule cache_operand(std::string stage, int64_t operand, std::string loop,
                         std::vector<std::string> loops) const;
  Schedule tensorize(std::string stage, std::string loop, std::string tile) const;
  Schedule pipeline(std::string stage, int64_t depth) const;
  Schedule bulk(std::string stage) const;
  Schedule specialise(std::string stage) const;
  Schedule pad(std::string stage, std::string loop, int64_t elements) const;
  Schedule swizzle(std::string stage, int64_t bytes) const;
  Schedule rfactor(std::string stage, std::string axis, int64_t factor,
                   Partition partition = Partition::Interleaved) const;
  Schedule set_layout(std::string tensor, std::string layout) const;

  const std::optional<Error>& error() const { return error_; }
  const dsl::Compute& compute() const { return *compute_; }
  const std::vector<Step>& steps() const { return steps_; }
  /// The loop nest that the steps have built so far. Requires: no error.
  const Nest& nest() const { return *nest_; }

  /// Lowers and checks: what the schedule means, or the reason why it is illegal.
  Result<Program> program(const Limits& limits = {}) const;

  /// "tw1" and one step a line.
  std::string to_string() const;
  /// 16 hex digits of the text.
  std::string hash() const;

 private:
  std::shared_ptr<const dsl::Compute> compute_;
  std::shared_ptr<Nest> nest_;  // copied before it changes, where it is shared
  std::vector<Step> steps_;
  std::optional<Error> error_;
};

/// Steps on lines, or separated by `;`; the first word is the version.
Result<Schedule> parse_schedule(const dsl::Compute& compute, std::string_view text);

}  // namespace tw::schedules
