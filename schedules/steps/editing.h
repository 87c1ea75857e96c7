// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions that the steps of a schedule share: lookup of stages and loops with errors that name
// them, and edits of a Nest that keep its stages and its compute consistent. Private to schedules/.
// A parameter `step` is the name of the step, for the message. Not thread-safe for one nest.

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

/// Applies one step to the nest, or says why it is illegal; each is defined in the file of its
/// name. The nest is of no use after an error.
#define X(Type, method) Status apply(Nest& nest, const Type& step);
TW_STEPS(X)
#undef X

/// An Invalid error: "[step] why".
tl::unexpected<Error> illegal(std::string_view step, const std::string& why);

/// The stage of that name; the error lists those that there are.
Result<StageNest*> stage_of(Nest& nest, std::string_view step, const std::string& name);
/// The stage of that name, if cache_operand made it.
Result<StageNest*> operand_stage_of(Nest& nest, std::string_view step, const std::string& name);
/// The stage of that name, if it has a buffer of a consumer's loops: cache_operand or cache_result
/// made it.
Result<StageNest*> cached_stage_of(Nest& nest, std::string_view step, const std::string& name);
/// The index of a loop of the stage; the error lists its loops.
Result<int> loop_index(const StageNest& stage, std::string_view step, const std::string& name);

/// Gives own names to loops that the step has made, in order; `own` is empty or as long as `loops`.
/// Fails if a name is not valid (dsl::is_valid_name), or is that of another loop of the stage.
Status name_loops(StageNest& stage, std::string_view step,
                  std::initializer_list<std::string_view> loops,
                  const std::vector<std::string>& own);

/// Fails if loops of these extents would have more iterations than bounds are proved for. Buffers
/// have elements for some of the loops, and the bytes of all of them fit an int64.
Status check_iterations(const std::vector<int64_t>& extents, std::string_view step,
                        const std::string& stage);
/// Fails if another stage is computed at the loop of index `outermost`, or at one inside of it:
/// such loops must not change, nor must the loops around them.
Status check_untouched(const Nest& nest, const StageNest& stage, std::string_view step,
                       int outermost);
/// The reason, for an error message, why the loop of a scan cannot become a vector, tasks or
/// threads.
std::string runs_in_order(const std::string& loop);
/// Fails if the stage is a scan, to which the step does not apply.
Status check_no_scan(const StageNest& stage, std::string_view step);
/// True if the loops of the stage are as default_nest() made them, and no stage is computed inside.
bool has_fresh_loops(const Nest& nest, const StageNest& stage);
/// True if no step has been applied to the stage.
bool is_fresh(const Nest& nest, const StageNest& stage);

/// One loop per axis, spatial axes first, the axis along which the stage scans last; their
/// variables are the axes' names after `prefix`. The terms of a scan have no loop of their own.
/// Requires: an extent for each spatial axis.
std::vector<NestLoop> default_loops(const dsl::Stage& stage, const std::string& prefix,
                                    const std::vector<int64_t>& extents);
/// Gives the index of a scan's terms the value of the axis along which it scans.
void follow_scanned_axis(StageNest& stage);
/// Variables of the last stage of a compute have no prefix.
StageNest make_stage_nest(const dsl::Stage& stage, bool is_last);

/// Gives a placed stage default loops over the elements from `low` on, and guards where these may
/// lie outside of its tensor. Requires: one entry for each axis.
void compute_region(StageNest& stage, const std::vector<Expr>& low,
                    const std::vector<int64_t>& extents);

/// Replaces a loop's variable in the axes and guards of the stage.
void replace_variable(StageNest& stage, const std::string& variable, const Expr& replacement);
/// Passes every read of `tensor` in the stage's body through `rewrite`.
void rewrite_reads(dsl::Stage& stage, const std::string& tensor,
                   const std::function<Expr(const dsl::Read&)>& rewrite);
/// The stage's definition in the compute of the nest. Requires: there is one.
dsl::Stage& definition(Nest& nest, const std::string& name);
/// Removes the loops of a stage, and leaves its definition.
void erase_stage(Nest& nest, const std::string& name);
/// Adds a stage, definition and default loops, in front of the stage `name`.
void insert_before(Nest& nest, const std::string& name, const dsl::Stage& stage);

/// The stages from this one outwards, each computed in a loop of the next, up to the one that is
/// computed in a loop of `consumer`; empty if the stage is not computed inside of `consumer`.
std::vector<const StageNest*> placed_inside(const Nest& nest, const StageNest& stage,
                                            const std::string& consumer);

}  // namespace tw::schedules
