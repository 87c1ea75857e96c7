// SPDX-License-Identifier: Apache-2.0
#pragma once
// Networks of a few steps for the tests of the runtime.

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/model_file.h"
#include "tests/runtime/fake_cuda.h"

namespace tw::runtime {

/// y = 2 (x * w) + x for f32 {4} with w = {1, 2, 3, 4}, in three steps:
///
///     multiply(x, w) -> h     twice(rows) -> doubled     add(flat, x) -> y
///
/// where rows is h and flat is doubled, reshaped. multiply fails with 7 where x is -1; add needs
/// scratch memory that is apart from its inputs.
ModelFile tiny_model();
std::vector<float> tiny_result(const std::vector<float>& x);

/// The same for a GPU's target, "opencl" or "cuda:sm_90a". Nothing fails at -1.
ModelFile tiny_model_for(const std::string& target);
/// The same, and y = 2 x for x of f32 {2, 2}, by the same kernel `twice`: two variants.
ModelFile two_variants_model_for(const std::string& target);
/// The kernels of both as functions for the driver of tests/runtime/fake_cuda.h.
std::map<std::string, FakeKernel> tiny_kernels_for_fake_cuda();

/// The same with bytes that are no code in place of the kernels, for what is never loaded.
ModelFile tiny_model_without_code();

/// y = x * w for the same w, in one step.
ModelFile one_step_model();

/// The same, and y = 2 x for x of f32 {2, 2}: a model with two variants.
ModelFile two_variants_model();

/// y = 2^steps x for f32 {4}, in a chain of steps whose arrays plan_arena() places.
ModelFile chain_model(int steps);

/// A loop for s of f32 {4} and x of f32 {trips, 4}: h starts as s * w, each trip multiplies it by a
/// row of x, and y has the h of all trips, in three steps of which the second runs `trips` times:
///
///     multiply(s, w) -> first     multiply(row, h) -> next     copy(hs) -> y
///
/// Tensors are s, x, w, first, h, next, row, hs, y. The values of h lie one after another in the
/// arena, from 48 on: in trip t, h at 48 + 16 t and next behind it.
ModelFile loop_model(int64_t trips);
ModelFile loop_model_without_code(int64_t trips);
/// The same for a GPU, with rows of 16 elements, and its kernels as functions for the driver of
/// tests/runtime/fake_cuda.h.
ModelFile loop_model_for_cuda(int64_t trips);
std::map<std::string, FakeKernel> loop_kernels_for_fake_cuda(int64_t trips);

/// y = r_0 + ... for f32 {4} with h = x * w, and r_k = (h + x) * w where k is even, twice that
/// where it is odd. Steps 1 to 5 and so on are a band of a chain for each k, of two or three steps:
///
///     multiply(x, w) -> h
///     add(h, x) -> d0     multiply(d0, w) -> e0
///     add(h, x) -> d1     multiply(d1, w) -> e1     twice(e1) -> f1
///     add(e0, f1) -> y
///
/// All arrays of the arena lie apart, in the order in which they are written. add needs scratch
/// memory of its own while it runs. multiply fails with 7 where x is -1.
ModelFile branches_model(int chains);
ModelFile branches_model_without_code(int chains);
std::vector<float> branches_result(int chains, const std::vector<float>& x);

/// A file of this format with its header changed and the header's hash made to agree
/// (runtime/sealed_header.h).
std::string with_header(const std::string& bytes,
                        const std::function<void(nlohmann::json&)>& change);

}  // namespace tw::runtime
