// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Schedule is a Compute and the steps that say how to compute it. A schedule is immutable and
// printable. The database stores the text of schedules, which has the same meaning wherever it is
// parsed.
//
//   Schedule s = Schedule(gemm)
//       .split("c", "m", 6).split("c", "n", 64).reorder("c", {"m.0", "n.0", "k", "m.1", "n.1"})
//       .cache_write("c", "n.0").parallel("c", "m.0");
//   Result<Program> program = s.program();
//
// After an error further steps are ignored; program() and error() return the first error.
// Thread-safe to share.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dsl/compute.h"
#include "schedules/program/legality.h"
#include "schedules/program/program.h"
#include "schedules/step.h"

namespace tw::schedules {

struct Nest;

/// The version word, which is the first word of schedule text. A change in the meaning of any text
/// needs a new version.
inline constexpr std::string_view schedule_version = "tw1";

class Schedule {
 public:
  explicit Schedule(dsl::Compute compute);

  /// Returns the schedule with one more step, or with several more. After a step that failed,
  /// further steps are ignored.
  Schedule then(Step step) const;
  Schedule then(const std::vector<Step>& steps) const;
  /// Appends a step, like `*this = then(step)`, but copies the nest only if another schedule shares
  /// it.
  void add(Step step);

  // Each function below appends the step of its name. The parameters are the fields of the step in
  // order (step.h). docs/schedules.md shows the effect of each step.
  Schedule split(std::string stage, std::string loop, int64_t factor, Tail tail = Tail::Guard,
                 OwnNames<2> names = {}) const {
    return then(Split{std::move(stage), std::move(loop), factor, tail, std::move(names)});
  }
  Schedule fuse(std::string stage, std::string outer, std::string inner,
                OwnNames<1> names = {}) const {
    return then(Fuse{std::move(stage), std::move(outer), std::move(inner), std::move(names)});
  }
  Schedule reorder(std::string stage, std::vector<std::string> loops) const {
    return then(Reorder{std::move(stage), std::move(loops)});
  }
  Schedule unroll(std::string stage, std::string loop) const {
    return then(Unroll{std::move(stage), std::move(loop)});
  }
  Schedule vectorize(std::string stage, std::string loop) const {
    return then(Vectorize{std::move(stage), std::move(loop)});
  }
  Schedule parallel(std::string stage, std::string loop) const {
    return then(Parallel{std::move(stage), std::move(loop)});
  }
  Schedule bind(std::string stage, std::string loop) const {
    return then(Bind{std::move(stage), std::move(loop)});
  }
  Schedule compute_at(std::string stage, std::string consumer, std::string loop) const {
    return then(ComputeAt{std::move(stage), std::move(consumer), std::move(loop)});
  }
  Schedule store_at(std::string stage, std::string consumer, std::string loop) const {
    return then(StoreAt{std::move(stage), std::move(consumer), std::move(loop)});
  }
  Schedule inlined(std::string stage) const { return then(Inline{std::move(stage)}); }
  Schedule epilogue(std::string stage, std::string into) const {
    return then(Epilogue{std::move(stage), std::move(into)});
  }
  Schedule cache_write(std::string stage, std::string loop, Scope scope = Scope::Register) const {
    return then(CacheWrite{std::move(stage), std::move(loop), scope});
  }
  Schedule cache_read(std::string tensor, std::string stage, std::string loop,
                      std::vector<std::string> readers = {}) const {
    return then(
        CacheRead{std::move(tensor), std::move(stage), std::move(loop), std::move(readers)});
  }
  Schedule store_in(std::string stage, Scope scope = Scope::Register) const {
    return then(StoreIn{std::move(stage), scope});
  }
  Schedule cache_operand(std::string stage, int64_t operand, std::string loop,
                         std::vector<std::string> loops) const {
    return then(CacheOperand{std::move(stage), operand, std::move(loop), std::move(loops)});
  }
  Schedule cache_result(std::string stage, std::vector<std::string> loops) const {
    return then(CacheResult{std::move(stage), std::move(loops)});
  }
  Schedule tensorize(std::string stage, std::string loop, std::string tile) const {
    return then(Tensorize{std::move(stage), std::move(loop), std::move(tile)});
  }
  Schedule pipeline(std::string stage, int64_t depth) const {
    return then(Pipeline{std::move(stage), depth});
  }
  Schedule bulk(std::string stage) const { return then(Bulk{std::move(stage)}); }
  Schedule specialise(std::string stage) const { return then(Specialise{std::move(stage)}); }
  Schedule persist(std::string stage) const { return then(Persist{std::move(stage)}); }
  Schedule launch_bounds(std::string stage, int64_t blocks) const {
    return then(LaunchBounds{std::move(stage), blocks});
  }
  Schedule pad(std::string stage, std::string loop, int64_t elements) const {
    return then(Pad{std::move(stage), std::move(loop), elements});
  }
  Schedule swizzle(std::string stage, int64_t bytes) const {
    return then(Swizzle{std::move(stage), bytes});
  }
  Schedule rfactor(std::string stage, std::string axis, int64_t factor,
                   Partition partition = Partition::Interleaved) const {
    return then(Rfactor{std::move(stage), std::move(axis), factor, partition});
  }
  Schedule winograd(std::string stage, std::string axis, int64_t tile) const {
    return then(Winograd{std::move(stage), std::move(axis), tile});
  }
  Schedule pack_factors(std::string stage, std::string axis, int64_t multiple,
                        std::string type = {}) const {
    return then(PackFactors{std::move(stage), std::move(axis), multiple, std::move(type)});
  }
  Schedule pad_factors(std::string stage, std::string axis) const {
    return then(PadFactors{std::move(stage), std::move(axis)});
  }
  Schedule prefetch(std::string stage, std::string tensor, std::string loop, std::string at) const {
    return then(Prefetch{std::move(stage), std::move(tensor), std::move(loop), std::move(at)});
  }
  Schedule prepare(std::string stage) const { return then(Prepare{std::move(stage)}); }
  Schedule set_layout(std::string tensor, std::string layout) const {
    return then(SetLayout{std::move(tensor), std::move(layout)});
  }

  const std::optional<Error>& error() const { return error_; }
  const dsl::Compute& compute() const { return *compute_; }
  /// Returns the steps in canonical form: with derived names of loops, without own names
  /// (loop_names.h).
  const std::vector<Step>& steps() const { return steps_; }
  /// Returns the loop nest that the steps have built so far. Requires: no error.
  const Nest& nest() const { return *nest_; }

  /// Lowers and checks the schedule. Returns its program, or the reason why it is illegal.
  Result<Program> program(const Limits& limits = {}) const;

  /// Returns the text of the schedule: "tw1", then each step on a line.
  std::string to_string() const;
  /// Returns a hash of the text, as 16 hexadecimal digits.
  std::string hash() const;

 private:
  std::shared_ptr<const dsl::Compute> compute_;
  std::shared_ptr<Nest> nest_;  // copied before a change if another schedule shares it
  std::vector<Step> steps_;
  std::optional<Error> error_;
};

/// Parses schedule text. It begins with the version "tw1"; the steps follow. The version and each
/// step are on lines of their own, or are separated by `;`. A `#` begins a comment, which ends with
/// the line. Fails if the text is no schedule or if a step is illegal.
Result<Schedule> parse_schedule(const dsl::Compute& compute, std::string_view text);

/// As parse_schedule(), for text that a person wrote. Error messages give the position in the text.
/// `source` is the name of the text in messages: "[split] gemm.tw1, line 3, column 9: stage 'c' has
/// no loop 'z': ...".
Result<Schedule> read_schedule(const dsl::Compute& compute, std::string_view text,
                               std::string_view source);
/// As read_schedule(), but returns the steps without applying them.
Result<std::vector<Step>> read_steps(std::string_view text, std::string_view source);

/// Returns the text of the steps that make the schedule use another algorithm than the declared
/// operations: "winograd out x 4, winograd out.m y 4"; empty if there are none. Such an algorithm
/// rounds even if the declared operations are exact: Winograd's transforms multiply by fractions
/// such as 1/6.
std::string algorithm_text(const std::vector<Step>& steps);
/// As algorithm_text() of steps, for schedule text; empty if the text is no schedule.
std::string algorithm_text(std::string_view schedule);
/// Returns the text of all steps that rewrite the compute: those of algorithm_text(), and
/// pack_factors and pad_factors. Empty if there are none. Search spaces identify an algorithm by
/// this text.
std::string rewriting_text(const std::vector<Step>& steps);
/// As rewriting_text() of steps, for schedule text; empty if the text is no schedule.
std::string rewriting_text(std::string_view schedule);
/// Returns a short name of the algorithm that a schedule's text uses, for tables: "winograd 4 x 4",
/// "packed", "padded" or "direct". "direct" also stands for text that is no schedule.
std::string algorithm_name(std::string_view schedule);

}  // namespace tw::schedules
