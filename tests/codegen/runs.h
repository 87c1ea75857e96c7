// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ways to run one Program, and the check that all of them agree: the interpreter, the emitted C
// under sanitizers in a process of its own, and the compiled object between guard pages.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "schedules/program/evaluate.h"
#include "schedules/program/program.h"

namespace tw::codegen {

using schedules::Program;
using schedules::Storage;

/// Small whole numbers, so that sums are exact in every type and order; bf16, f16 and i8 get the
/// smallest.
Storage integer_inputs(const Program& program, uint64_t seed);
/// Reals in [-2, 2); whole numbers for integer types.
Storage real_inputs(const Program& program, uint64_t seed);
/// The least and the largest values of integers.
Storage extreme_inputs(const Program& program);

Result<Storage> run_c(const Program& program, const Storage& inputs);
Result<Storage> run_object(const Program& program, const Storage& inputs,
                           const Target& target = host_target());

/// This machine, and what is below it: without AVX-512, without AVX.
std::vector<Target> runnable_targets();

/// The object for a target with AArch64, linked statically by the cross compiler and run by
/// qemu-aarch64, which has all of its extensions. Environment: one of these is missing.
Result<Storage> run_arm(const Program& program, const Storage& inputs,
                        const std::string& target = "arm-64-linux");

/// Every output element of `actual` differs by at most relative * |expected| + absolute; the first
/// that does not is described, else "".
std::string difference(const Program& program, const Storage& expected, const Storage& actual,
                       double relative, double absolute);

/// Expects interpreter = C = objects for all of the targets, on `inputs`.
void expect_agreement(const Program& program, const Storage& inputs, double relative = 0,
                      double absolute = 0, const std::vector<Target>& targets = runnable_targets());

}  // namespace tw::codegen
