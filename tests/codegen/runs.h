// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ways to run one Program, and the check that they all agree: the interpreter, the emitted C with
// sanitizers in a process of its own, and the compiled object between guard pages.

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

/// Returns random integers from -3 to 3, or from 0 to 3 for u8 and bool. They are so small that
/// sums are exact in every type and order.
Storage integer_inputs(const Program& program, uint64_t seed);
/// Returns random reals in [-2, 2), and integers as in integer_inputs() for other types.
Storage real_inputs(const Program& program, uint64_t seed);
/// Returns inputs in which every third element is the largest value of its integer type, and all
/// other elements are the least.
Storage extreme_inputs(const Program& program);

Result<Storage> run_c(const Program& program, const Storage& inputs);
Result<Storage> run_object(const Program& program, const Storage& inputs,
                           const Target& target = host_target());

/// Returns this machine's target, x86-64-v3 (without AVX-512) and x86-64-linux-sse4_1 (without
/// AVX); only those that this machine can run.
std::vector<Target> runnable_targets();

/// Compiles the program for an AArch64 target, links it statically with the cross compiler, and
/// runs it in qemu-aarch64, which has all extensions. Fails with Environment if one of these tools
/// is missing.
Result<Storage> run_arm(const Program& program, const Storage& inputs,
                        const std::string& target = "arm-64-linux");

/// Returns "" if every output element of `actual` differs from the expected one by at most relative
/// * |expected| + absolute. Otherwise describes the first element that does not.
std::string difference(const Program& program, const Storage& expected, const Storage& actual,
                       double relative, double absolute);

/// Expects that the interpreter, the C and the objects for all targets agree on `inputs`. The
/// relative tolerance of targets without FMA is 2.5 times as large.
void expect_agreement(const Program& program, const Storage& inputs, double relative = 0,
                      double absolute = 0, const std::vector<Target>& targets = runnable_targets());

}  // namespace tw::codegen
