// SPDX-License-Identifier: Apache-2.0
#pragma once
// Own names are names that the author of a schedule gives to loops ("split c n 16 as no ni"). Each
// stands for a derived name, which the step makes ("n.0", "n.1"). Steps are applied, stored and
// hashed with derived names. Own names appear only in schedule text and in errors for people. Free
// functions; thread-safe.

#include <string>

#include "schedules/nest.h"
#include "schedules/step.h"

namespace tw::schedules {

/// True if the author gave an own name to a loop of any stage, even if that loop no longer exists.
bool has_own_names(const Nest& nest);

/// The derived name of the loop that `name` means. `name` is an own name, or a name that is derived
/// from own names ("no.1", "no*mo"). Returns `name` itself if the stage has no such loop.
std::string derived_name(const StageNest& stage, const std::string& name);

/// The step with the derived name of each loop. A name that means no loop stays unchanged.
Step with_derived_names(const Nest& nest, Step step);

/// Removes the own names that the step gives to the loops that it makes.
void forget_own_names(Step& step);

/// The index, in the line of the step, of the first word that names a stage, a tensor or a loop
/// that does not exist; 0, the index of the step's name, if there is no such word.
size_t word_at_fault(const Nest& nest, const Step& step);

}  // namespace tw::schedules
