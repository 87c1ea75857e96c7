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

/// Applies a step to the nest. Invalid, with the reason, if the step is illegal; the nest must not
/// be used after an error. steps/<name>.cpp defines the function of each step.
#define X(Type, method) Status apply(Nest& nest, const Type& step);
TW_STEPS(X)
#undef X

/// An Invalid error: "[step] why".
tl::unexpected<Error> illegal(std::string_view step, const std::string& why);

/// Finds a stage by name. If there is none, the error lists the stages.
Result<StageNest*> stage_of(Nest& nest, std::string_view step, const std::string& name);
/// Finds a stage that cache_operand made. Fails if there is no stage of that name, or another step
/// made it.
Result<StageNest*> operand_stage_of(Nest& nest, std::string_view step, const std::string& name);
/// Finds a stage that cache_operand or cache_result made. Fails if there is no stage of that name,
/// or another step made it.
Result<StageNest*> cached_stage_of(Nest& nest, std::string_view step, const std::string& name);
/// Finds the index of a loop of the stage. If there is no such loop, the error lists the loops.
Result<int> loop_index(const StageNest& stage, std::string_view step, const std::string& name);

/// Gives own names to loops that the step has made. `loops` are the derived names of these loops,
/// and `own` has one own name for each of them, or is empty. Fails if an own name is not valid
/// (dsl::is_valid_name) or is the name of another loop of the stage.
Status name_loops(StageNest& stage, std::string_view step,
                  std::initializer_list<std::string_view> loops,
                  const std::vector<std::string>& own);

/// Fails if a nest of loops of these extents would have more iterations than the proofs of Bounds
/// can handle. The limit also keeps the bytes of every buffer within int64.
Status check_iterations(const std::vector<int64_t>& extents, std::string_view step,
                        const std::string& stage);
/// Fails if another stage is computed at the stage's loop number `outermost` or at a loop inside of
/// it: a step must not change the loops around another stage.
Status check_untouched(const Nest& nest, const StageNest& stage, std::string_view step,
                       int outermost);
/// The reason, as text of an error message, why a loop along which a stage scans cannot become a
/// vector, tasks or threads.
std::string runs_in_order(const std::string& loop);
/// Fails if the stage is a scan, to which the step does not apply.
Status check_no_scan(const StageNest& stage, std::string_view step);
/// True if the stage has the loops of default_nest() and no stage is computed inside of it.
bool has_fresh_loops(const Nest& nest, const StageNest& stage);
/// True if no step has been applied to the stage.
bool is_fresh(const Nest& nest, const StageNest& stage);

/// One loop for each axis: spatial axes first, then reduction axes; if the stage scans, the axis
/// along which it scans is last, and the terms of a scan have no loop of their own. `extents` are
/// those of the spatial axes. The variable of a loop is `prefix` and the name of the axis.
/// Requires: an extent for each spatial axis.
std::vector<NestLoop> default_loops(const dsl::Stage& stage, const std::string& prefix,
                                    const std::vector<int64_t>& extents);
/// In a scan, sets the axis of the terms to the axis along which the stage scans: iteration j adds
/// the term k = j.
void follow_scanned_axis(StageNest& stage);
/// The nest of a stage with default loops. The variable of a loop is the axis name (`m`) in the
/// last stage of a compute; in any other stage it has the stage's name as a prefix (`c.m`).
StageNest make_stage_nest(const dsl::Stage& stage, bool is_last);

/// Gives a placed stage default loops over a region of its tensor: the region begins at `low` and
/// has the given extents. Adds guards where the region may extend beyond the tensor. Requires: one
/// entry for each axis.
void compute_region(StageNest& stage, const std::vector<Expr>& low,
                    const std::vector<int64_t>& extents);

/// Replaces a loop variable by an expression in the axes and guards of the stage. Requires: the
/// expression does not use the variable itself; a loop whose meaning changes gets a new variable.
void replace_variable(StageNest& stage, const std::string& variable, const Expr& replacement);
/// Replaces every read of `tensor` in the stage's body by what `rewrite` returns for it.
void rewrite_reads(dsl::Stage& stage, const std::string& tensor,
                   const std::function<Expr(const dsl::Read&)>& rewrite);
/// The stage's definition in the compute of the nest. Requires: there is one.
dsl::Stage& definition(Nest& nest, const std::string& name);
/// Removes the loops of a stage from the nest, but keeps its definition in the compute.
void erase_stage(Nest& nest, const std::string& name);
/// Adds `stage` to the nest and to its compute, with default loops, before the stage `name`.
void insert_before(Nest& nest, const std::string& name, const dsl::Stage& stage);

/// The chain of stages from `stage` to one that is placed in `consumer`. Each stage of the chain is
/// computed in a loop of the next stage, and the last one in a loop of `consumer`. If s is computed
/// in a loop of t, and t in a loop of out, placed_inside(s, "out") is {s, t}. Empty if the stage is
/// not computed inside of `consumer`.
std::vector<const StageNest*> placed_inside(const Nest& nest, const StageNest& stage,
                                            const std::string& consumer);

}  // namespace tw::schedules
