// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions that scheduling steps share: lookup of stages and loops, with errors that list the
// existing names, and edits that keep the stages and the compute of a Nest consistent. Private to
// schedules/. A parameter `step` is the name of the step for error messages. Not thread-safe for
// one nest.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "schedules/nest.h"
#include "schedules/step.h"

namespace tw::schedules {

/// Applies a step to the nest. Invalid, with the reason, if the step is illegal. After an error the
/// nest must not be used. steps/<name>.cpp defines the function of each step.
#define X(Type, method) Status apply(Nest& nest, const Type& step);
TW_STEPS(X)
#undef X

/// Returns an Invalid error with the message "[step] why".
tl::unexpected<Error> illegal(std::string_view step, const std::string& why);

/// Finds a stage by name. If there is none, the error lists the stages.
Result<StageNest*> stage_of(Nest& nest, std::string_view step, const std::string& name);
/// Finds a stage that cache_operand made. Fails if there is no stage of that name or if another
/// step made the stage.
Result<StageNest*> operand_stage_of(Nest& nest, std::string_view step, const std::string& name);
/// Finds a stage that cache_operand or cache_result made. Fails if there is no stage of that name
/// or if another step made the stage.
Result<StageNest*> cached_stage_of(Nest& nest, std::string_view step, const std::string& name);
/// Finds the index of a loop of the stage. If there is no such loop, the error lists the loops.
Result<int> loop_index(const StageNest& stage, std::string_view step, const std::string& name);

/// Gives own names (loop_names.h) to loops that the step has made. `loops` are the derived names of
/// these loops, and `own` has one own name for each of them, or is empty. Fails if an own name is
/// not valid (dsl::is_valid_name) or if a loop of the stage already has the name.
Status name_loops(StageNest& stage, std::string_view step,
                  std::initializer_list<std::string_view> loops,
                  const std::vector<std::string>& own);

/// Fails if a nest of loops with these extents would have more than 2^58 iterations, the most that
/// the proofs of Bounds can handle. The limit also keeps the bytes of every buffer within int64.
/// `stage` is the name of the stage for the message.
Status check_iterations(const std::vector<int64_t>& extents, std::string_view step,
                        const std::string& stage);
/// Checks that a step may change the loops of `stage` from the loop with index `outermost` inwards.
/// Fails if another stage is computed at one of these loops, since a step must not change the loops
/// around another stage. Also fails if the stage has a staged operand (cache_operand) or staged
/// results (cache_result) at any loop, since their buffers are indexed by loops of the stage.
Status check_untouched(const Nest& nest, const StageNest& stage, std::string_view step,
                       int outermost);
/// Returns the reason, as text of an error message, why a loop along which a stage scans cannot
/// become a vector, tasks or threads.
std::string runs_in_order(const std::string& loop);
/// Fails if the stage is a scan. Steps that cannot be applied to a scan call this function.
Status check_no_scan(const StageNest& stage, std::string_view step);
/// True if the stage still has the loops of default_nest(): it is not computed inside of another
/// stage, no stage is computed inside of it, it has no accumulator (cache_write), and no step has
/// changed the names, order or kinds of its loops.
bool has_fresh_loops(const Nest& nest, const StageNest& stage);
/// True if the stage has_fresh_loops(), has no epilogue and is not prepared.
bool is_fresh(const Nest& nest, const StageNest& stage);

/// Returns one loop for each axis: spatial axes first, then reduction axes. In a scan the loop of
/// the scanned axis is last, and the terms have no loop of their own. The spatial axes have the
/// given `extents`, one for each. The variable of a loop is `prefix` followed by the name of the
/// axis.
std::vector<NestLoop> default_loops(const dsl::Stage& stage, const std::string& prefix,
                                    const std::vector<int64_t>& extents);
/// If the stage is a scan, sets the axis of its terms to the axis along which it scans: iteration j
/// adds the term k = j. Otherwise does nothing.
void follow_scanned_axis(StageNest& stage);
/// Returns the nest of a stage with default loops. The variable of a loop is the axis name (`m`) in
/// the last stage of a compute. In any other stage it has the stage's name as a prefix (`c.m`).
StageNest make_stage_nest(const dsl::Stage& stage, bool is_last);

/// Gives a stage that is computed inside of another stage default loops over a region of its
/// tensor. The region begins at `low` and has the given extents. Adds guards where the region may
/// extend beyond the tensor. Requires: `low` and `extents` have one entry for each axis.
void compute_region(StageNest& stage, const std::vector<Expr>& low,
                    const std::vector<int64_t>& extents);

/// Replaces a loop variable by an expression in the axes and guards of the stage. Requires: the
/// expression does not use the variable itself. (A loop whose meaning changes must get a new
/// variable.)
void replace_variable(StageNest& stage, const std::string& variable, const Expr& replacement);
/// Replaces every read of `tensor` in the stage's expression by what `rewrite` returns for the
/// read.
void rewrite_reads(dsl::Stage& stage, const std::string& tensor,
                   const std::function<Expr(const dsl::Read&)>& rewrite);
/// Finds the definition of the stage `name` in the compute of the nest. Requires: there is one.
dsl::Stage& definition(Nest& nest, const std::string& name);
/// Removes the loops of a stage from the nest, but keeps its definition in the compute.
void erase_stage(Nest& nest, const std::string& name);
/// Adds `stage` to the nest and to its compute, with default loops, before the stage `name`.
void insert_before(Nest& nest, const std::string& name, const dsl::Stage& stage);

/// Returns the chain of stages from `stage` outwards to `consumer`. Each stage of the chain is
/// computed in a loop of the next stage, and the last stage in a loop of `consumer`. If s is
/// computed in a loop of t, and t in a loop of out, placed_inside(s, "out") is {s, t}. Empty if the
/// stage is not computed inside of `consumer`.
std::vector<const StageNest*> placed_inside(const Nest& nest, const StageNest& stage,
                                            const std::string& consumer);

}  // namespace tw::schedules
