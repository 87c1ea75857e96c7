// SPDX-License-Identifier: Apache-2.0
#pragma once
// An own name is a name that the author of a schedule gives to a loop: `split c n 16 as no ni`
// names the two loops `no` and `ni`. Without `as`, the step itself derives the names of the loops,
// `n.0` and `n.1`; these are called derived names. Steps are applied, stored and hashed with
// derived names. Own names appear only in schedule text and in errors for people. Free functions;
// thread-safe.

#include <string>

#include "schedules/nest.h"
#include "schedules/step.h"

namespace tw::schedules {

/// True if the author gave an own name to a loop of any stage, even if that loop no longer exists.
bool has_own_names(const Nest& nest);

/// Returns the derived name of the loop that `name` means. `name` is an own name, or a name that
/// later steps derive from own names. After `split c n 16 as no ni`, "no" means "n.0". After a
/// further `split c no 2`, "no.1" means "n.0.1". Returns `name` itself if the stage has no such
/// loop.
std::string derived_name(const StageNest& stage, const std::string& name);

/// Returns the step with own names of loops replaced by derived names. A name that means no loop
/// stays unchanged.
Step with_derived_names(const Nest& nest, Step step);

/// Removes the own names that the step gives to the loops that it makes: the words after `as`.
void forget_own_names(Step& step);

/// Returns the index of the first word of the step that names a stage, a tensor or a loop that does
/// not exist. Word 0 is the name of the step: in `split c z 16`, the missing loop `z` is word 2.
/// Returns 0 if all names exist.
size_t word_at_fault(const Nest& nest, const Step& step);

}  // namespace tw::schedules
