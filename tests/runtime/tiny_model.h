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

/// Returns a network y = 2 (x * w) + x for f32 {4} with w = {1, 2, 3, 4}, in three steps:
///
///     multiply(x, w) -> h     twice(rows) -> doubled     add(flat, x) -> y
///
/// rows is a reshape of h, and flat is a reshape of doubled. multiply fails with 7 if x is -1. add
/// needs scratch memory that is apart from its inputs. tiny_result() computes y.
ModelFile tiny_model();
std::vector<float> tiny_result(const std::vector<float>& x);

/// Returns tiny_model() for a GPU: the target is "opencl" or "cuda:sm_90a". Its multiply does not
/// fail at -1.
ModelFile tiny_model_for(const std::string& target);
/// Returns tiny_model_for() with a second variant: y = 2 x for x of f32 {2, 2}, by the same kernel
/// `twice`.
ModelFile two_variants_model_for(const std::string& target);
/// Returns the kernels of the two models above as functions for the driver of
/// tests/runtime/fake_cuda.h.
std::map<std::string, FakeKernel> tiny_kernels_for_fake_cuda();

/// Returns tiny_model() with bytes that are no code in place of the kernels, for tests that never
/// load it.
ModelFile tiny_model_without_code();

/// Returns a network y = x * w with the same w, in one step.
ModelFile one_step_model();

/// Returns one_step_model() with a second variant: y = 2 x for x of f32 {2, 2}.
ModelFile two_variants_model();

/// Returns a network y = 2^steps x for f32 {4}. It is a chain of steps, whose arrays plan_arena()
/// places.
ModelFile chain_model(int steps);

/// Returns a network with a loop, for s of f32 {4} and x of f32 {trips, 4}. h begins as s * w. Each
/// trip multiplies h by a row of x, and y has the value of h after each trip. There are three
/// steps, and the second step runs `trips` times:
///
///     multiply(s, w) -> first     multiply(row, h) -> next     copy(hs) -> y
///
/// The tensors are s, x, w, first, h, next, row, hs, y. The values of h lie one after another in
/// the arena, from byte 48 on: in trip t, h is at byte 48 + 16 t and next is behind it.
ModelFile loop_model(int64_t trips);
ModelFile loop_model_without_code(int64_t trips);
/// Returns loop_model() for a GPU with rows of 16 elements, and its kernels as functions for the
/// driver of tests/runtime/fake_cuda.h.
ModelFile loop_model_for_cuda(int64_t trips);
std::map<std::string, FakeKernel> loop_kernels_for_fake_cuda(int64_t trips);

/// Returns a network y = r_0 + r_1 + ... for f32 {4}, with h = x * w. r_k is (h + x) * w for even
/// k, and twice that for odd k. There is a chain of two or three steps for each k, and all chains
/// form one band, which begins at step 1. With two chains:
///
///     multiply(x, w) -> h
///     add(h, x) -> d0     multiply(d0, w) -> e0
///     add(h, x) -> d1     multiply(d1, w) -> e1     twice(e1) -> f1
///     add(e0, f1) -> y
///
/// All arrays of the arena lie apart, in the order in which they are written. add needs scratch
/// memory of its own while it runs. multiply fails with 7 if x is -1. branches_result() computes y.
ModelFile branches_model(int chains);
ModelFile branches_model_without_code(int chains);
std::vector<float> branches_result(int chains, const std::vector<float>& x);

/// Returns a file of this format with a changed header. The header's hash is made to agree with the
/// change (runtime/sealed_header.h).
std::string with_header(const std::string& bytes,
                        const std::function<void(nlohmann::json&)>& change);

}  // namespace tw::runtime
