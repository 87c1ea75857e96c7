// SPDX-License-Identifier: Apache-2.0
#pragma once
// Names that the author of a schedule gives to loops ("split c n 16 as no ni"), and the derived
// names that they stand for ("n.0", "n.1"). Steps are applied, stored and hashed under derived
// names; only text and errors for people have own names. Free functions; thread-safe.

#include <string>

#include "schedules/nest.h"
#include "schedules/step.h"

namespace tw::schedules {

/// True if a loop of any stage has, or had, a name of its own.
bool has_own_names(const Nest& nest);

/// The derived name of the loop that `name` means: an own name, or a name derived from own names
/// ("no.1", "no*mo"). Returns `name` itself if the stage has no such loop.
std::string derived_name(const StageNest& stage, const std::string& name);

/// The step with each loop under its derived name. A name that means no loop stays as it is.
Step with_derived_names(const Nest& nest, Step step);

/// Removes the own names that the step gives to the loops that it makes.
void forget_own_names(Step& step);

/// The index, among the words of the step's line, of the first word that names a stage, a tensor
/// or a loop that does not exist; 0, the step's name, if there is no such word.
size_t word_at_fault(const Nest& nest, const Step& step);

}  // namespace tw::schedules
