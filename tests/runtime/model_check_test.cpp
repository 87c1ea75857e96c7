// SPDX-License-Identifier: Apache-2.0
#include "runtime/model_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.h"
#include "runtime/arena_plan.h"
#include "tests/nightly.h"
#include "tests/runtime/tiny_model.h"

namespace tw::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t most_int = std::numeric_limits<int64_t>::max();

/// Returns the error message of check_model() for the tiny model after `change`; "" if the model is
/// accepted. The tensors are x, w, h, rows, doubled, flat, y, in this order.
std::string defect_of(const std::function<void(ModelFile&)>& change) {
  ModelFile model = tiny_model_without_code();
  change(model);
  const Status status = check_model(model);
  if (status) return "";
  EXPECT_EQ(status.error().code, ErrorCode::Invalid);
  EXPECT_THAT(status.error().message, HasSubstr("[model] the network 'tiny' cannot run: "));
  return status.error().message;
}

TEST(ModelCheck, TheUnchangedModelIsSafe) {
  EXPECT_EQ(defect_of([](auto&) {}), "");
}

TEST(ModelCheck, ImpossibleNumbersAreRefused) {
  EXPECT_THAT(defect_of([](auto& m) { m.target = "z80"; }), HasSubstr("z80"));
  EXPECT_THAT(defect_of([](auto& m) { m.threads = 0; }), HasSubstr("0 threads"));
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].arena_bytes = -1; }),
              HasSubstr("arena of -1 bytes"));
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].steps[1].threads = -1; }),
              HasSubstr("step 1 'twice' has -1 threads"));
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].steps[1].predicted_ns = -1; }),
              HasSubstr("-1 ns"));
  EXPECT_THAT(defect_of([](auto& m) {
                m.variants[0].steps[1].predicted_ns = std::numeric_limits<double>::quiet_NaN();
              }),
              HasSubstr("nan ns"));
}

TEST(ModelCheck, KernelsAreCheckedLikeArtifacts) {
  EXPECT_THAT(defect_of([](auto& m) { m.kernels[0].info.phases.clear(); }), HasSubstr("no phases"));
  EXPECT_THAT(defect_of([](auto& m) {
                m.kernels[0].info.target = "cuda:sm_90a";
                m.kernels[0].info.phases[0].threads = 32;
              }),
              HasSubstr("is for cuda:sm_90a, the network for"));
}

TEST(ModelCheck, Fault11_SizesThatDoNotFitTheShapeAreRefused) {
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].tensors[2].shape = {-4}; }),
              HasSubstr("tensor 'h' has the extent -4"));
  EXPECT_THAT(defect_of([](auto& m) {
                m.variants[0].tensors[2].shape = {most_int, most_int};
              }),
              HasSubstr("does not fit 64 bits"));
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].tensors[2].bytes = 12; }),
              HasSubstr("tensor 'h' has 12 bytes, its shape needs 16"));
  EXPECT_THAT(defect_of([](auto& m) {
                m.variants[0].tensors[2].layout = "A";
                m.variants[0].tensors[2].bytes = 12;
              }),
              HasSubstr("tensor 'h' has 12 bytes, its shape needs 16"));
}

TEST(ModelCheck, PortsAreRowMajorArraysOfTheirNumber) {
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].inputs = {7}; }),
              HasSubstr("input 0 is tensor 7"));
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].inputs = {-1}; }),
              HasSubstr("input 0 is tensor -1"));
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].outputs = {2}; }),
              HasSubstr("output 0 is tensor 'h', which lies elsewhere"));
  EXPECT_THAT(defect_of([](auto& m) {
                m.variants[0].outputs = {6, 6};
              }),
              HasSubstr("output 1 is tensor 'y', which lies elsewhere"));
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].tensors[0].layout = "A"; }),
              HasSubstr("input 'x' is stored as 'A'"));
}

TEST(ModelCheck, TensorsOutsideOfTheirMemoryAreRefused) {
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].tensors[4].at = 128; }),
              HasSubstr("tensor 'doubled' has 16 bytes at 128"));
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].tensors[4].at = -64; }), HasSubstr("at -64"));
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].tensors[4].at = most_int - 63; }),
              HasSubstr("tensor 'doubled'"));
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].tensors[4].at = 32; }),
              HasSubstr("a multiple of 64"));
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].arena_bytes = 79; }),
              HasSubstr("inside of 79 bytes"));
  EXPECT_THAT(defect_of([](auto& m) { m.constants.pop_back(); }),
              HasSubstr("tensor 'w' has 16 bytes at 0"));
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].tensors[1].at = 64; }),
              HasSubstr("tensor 'w'"));
  EXPECT_THAT(defect_of([](auto& m) {
                m.variants[0].tensors[3].place = Place::Input;
                m.variants[0].tensors[3].at = 1;
              }),
              HasSubstr("tensor 'rows' is in array 1 of the caller's"));
  EXPECT_THAT(defect_of([](auto& m) {
                m.variants[0].tensors[3] = m.variants[0].tensors[6];
                m.variants[0].tensors[3].shape = {8};
                m.variants[0].tensors[3].bytes = 32;
              }),
              HasSubstr("which has 16"));
}

TEST(ModelCheck, StepsThatDoNotFitTheirKernelAreRefused) {
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].steps[0].kernel = 3; }),
              HasSubstr("step 0 'multiply' calls kernel 3"));
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].steps[0].kernel = -1; }),
              HasSubstr("calls kernel -1"));
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].steps[0].arguments.pop_back(); }),
              HasSubstr("gives 2 tensors, its kernel has 3 arguments"));
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].steps[0].arguments[1] = 7; }),
              HasSubstr("gives tensor 7"));
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].steps[0].arguments[1] = -1; }),
              HasSubstr("gives tensor -1"));
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].steps[1].arguments[0] = 2; }),
              AllOf(HasSubstr("tensor 'h', f32[4] of 16 bytes"),
                    HasSubstr("argument 'a' of its kernel, f32[2, 2] of 16 bytes")));
  EXPECT_THAT(defect_of([](auto& m) { m.kernels[0].info.arguments[0].dtype = Int32; }),
              HasSubstr("i32[4]"));
}

/// Returns the defect of the tiny model if h is stored in the layout `tensor` and its kernel's
/// argument has the layout `argument`.
std::string defect_with_layouts(const std::string& tensor, const std::string& argument) {
  return defect_of([&](ModelFile& m) {
    m.variants[0].tensors[2].layout = tensor;
    m.variants[0].arena_bytes = 96;
    m.kernels[0].info.arguments[2].layout = argument;
    m.variants[0].tensors[2].bytes = m.variants[0].tensors[3].bytes = 32;
    m.kernels[0].info.arguments[2].storage_elements = 8;
    m.variants[0].tensors[3].layout = m.kernels[1].info.arguments[0].layout = "AB4b";
    m.kernels[1].info.arguments[0].storage_elements = 8;
  });
}

TEST(ModelCheck, LayoutsAgreeWhateverTheirLetters) {
  EXPECT_EQ(defect_with_layouts("C8c", "C8c"), "");
  EXPECT_EQ(defect_with_layouts("C8c", "A8a"), "");
  EXPECT_EQ(defect_with_layouts("NCHW16c", "ABCD16b"), "");
  EXPECT_THAT(defect_with_layouts("C8c", "C4c"), HasSubstr("f32[4] as C8c of 32 bytes"));
  EXPECT_THAT(defect_with_layouts("NCHW16c", "ABCD16d"), HasSubstr("as ABCD16d"));
  EXPECT_THAT(defect_with_layouts("C8c", "AB8a"), HasSubstr("as AB8a"));
}

TEST(ModelCheck, Fault12_OutputsLieApartFromAllOtherArguments) {
  EXPECT_THAT(
      defect_of([](auto& m) { m.variants[0].tensors[4].at = m.variants[0].tensors[5].at = 64; }),
      HasSubstr("step 1 'twice' writes tensor 'doubled', which overlaps its argument 'rows'"));
  EXPECT_THAT(defect_of([](auto& m) {
                m.kernels[0].info.arguments[1].is_output = true;
                m.variants[0].tensors[1] = m.variants[0].tensors[2];
              }),
              HasSubstr("overlaps its argument"));
}

TEST(ModelCheck, InputsAndConstantsAreNeverWritten) {
  EXPECT_THAT(defect_of([](auto& m) {
                m.variants[0].steps[2].arguments = {5, 2, 0};
              }),
              HasSubstr("step 2 'add' writes tensor 'x', which is an input"));
  EXPECT_THAT(defect_of([](auto& m) {
                m.variants[0].steps[2].arguments = {5, 0, 1};
              }),
              HasSubstr("step 2 'add' writes tensor 'w', which is a constant"));
}

TEST(ModelCheck, TensorsAreWrittenBeforeTheyAreRead) {
  EXPECT_THAT(defect_of([](auto& m) { std::swap(m.variants[0].steps[0], m.variants[0].steps[1]); }),
              HasSubstr("step 0 'twice' reads tensor 'rows', which no step has written"));
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].steps.pop_back(); }),
              HasSubstr("the caller reads tensor 'y', which no step has written"));
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].steps[2].arguments[0] = 6; }),
              HasSubstr("overlaps its argument"));
}

TEST(ModelCheck, TensorsAreWrittenOnce) {
  EXPECT_THAT(defect_of([](auto& m) { m.variants[0].steps.push_back(m.variants[0].steps[0]); }),
              HasSubstr("tensor 'h' is written by 2 steps"));
}

TEST(ModelCheck, TensorsAreNotOverwrittenWhileTheyAreNeeded) {
  // `late` lies where h lies. The step `again` writes it, and then `add` reads h.
  EXPECT_THAT(defect_of([](auto& m) {
                m.variants[0].tensors.push_back(m.variants[0].tensors[2]);
                m.variants[0].tensors[7].name = "late";
                m.variants[0].steps.insert(m.variants[0].steps.begin() + 2,
                                           ModelStep{"again", 0, {0, 1, 7}, 0, 0});
                m.variants[0].steps[3].arguments = {5, 2, 6};
              }),
              HasSubstr("step 3 'add' reads tensor 'h' where 'late' lies by then"));
  // The same holds for a tensor that overlaps only a part of h.
  EXPECT_THAT(
      defect_of([](auto& m) {
        m.variants[0].tensors.push_back({"wide", Float32, {4, 8}, "", 128, Place::Arena, 0});
        m.variants[0].tensors.push_back(
            {"wide_again", Float32, {4, 8}, "", 128, Place::Arena, 128});
        m.variants[0].arena_bytes = 256;
        m.kernels.push_back(m.kernels[0]);
        for (ArgumentInfo& argument : m.kernels[3].info.arguments) {
          argument.shape = {4, 8};
          argument.storage_elements = 32;
        }
        m.kernels[3].info.arguments.erase(m.kernels[3].info.arguments.begin(),
                                          m.kernels[3].info.arguments.begin() + 2);
        m.variants[0].steps.insert(m.variants[0].steps.begin() + 1,
                                   ModelStep{"wide", 3, {7}, 0, 0});
      }),
      HasSubstr("step 2 'twice' reads tensor 'rows', which no step has written or another "
                "one has overwritten"));
}

TEST(ModelCheck, AReshapeStandsForOneTensorOnly) {
  // rows is a reshape of h. After `late` was written to the same place, no step may read rows.
  EXPECT_THAT(defect_of([](auto& m) {
                m.variants[0].tensors.push_back(m.variants[0].tensors[2]);
                m.variants[0].tensors[7].name = "late";
                m.variants[0].tensors.push_back(m.variants[0].tensors[4]);
                m.variants[0].tensors[8].name = "second";
                m.variants[0].steps.insert(m.variants[0].steps.begin() + 2,
                                           ModelStep{"again", 0, {0, 1, 7}, 0, 0});
                m.variants[0].steps.push_back({"twice again", 1, {3, 8}, 0, 0});
              }),
              HasSubstr("step 4 'twice again' reads tensor 'rows' where 'late' lies by then"));
}

TEST(ModelCheck, AReshapeKeepsTheType) {
  EXPECT_THAT(defect_of([](auto& m) {
                m.variants[0].tensors[3].dtype = Int32;
                m.kernels[1].info.arguments[0].dtype = Int32;
              }),
              HasSubstr("reads tensor 'rows' where 'h' lies"));
}

TEST(ModelCheck, InputsAndOutputsMayBeReshapedToo) {
  EXPECT_EQ(defect_of([](auto& m) {  // the step `twice` reads x as {2, 2}
              m.variants[0].tensors[3].place = Place::Input;
              m.variants[0].tensors[3].at = 0;
            }),
            "");
  EXPECT_EQ(defect_of([](auto& m) {  // the step `twice` writes the output as {2, 2}
              m.variants[0].tensors[4].place = Place::Output;
              m.variants[0].tensors[4].at = 0;
              m.variants[0].steps.pop_back();
            }),
            "");
}

TEST(ModelCheck, LaterStepsMayReadOutputs) {
  EXPECT_EQ(
      defect_of([](auto& m) {
        m.variants[0].tensors.push_back({"rows of y", Float32, {2, 2}, "", 16, Place::Output, 0});
        m.variants[0].tensors.push_back({"z", Float32, {2, 2}, "", 16, Place::Output, 1});
        m.variants[0].outputs.push_back(8);
        m.variants[0].steps.push_back({"twice y", 1, {7, 8}, 0, 0});
      }),
      "");
}

/// Returns a network of random steps. Each step reads tensors that were written before and writes
/// one tensor. plan_arena() has placed the tensors.
ModelFile random_model(Random& random) {
  ModelFile model = tiny_model_without_code();
  model.variants[0].steps.clear();
  model.kernels.resize(1);
  model.variants[0].tensors = {model.variants[0].tensors[0], model.variants[0].tensors[6]};
  model.variants[0].outputs = {1};
  std::vector<Lifetime> lifetimes;
  const int steps = 2 + static_cast<int>(random.below(8));
  for (int step = 0; step < steps; ++step) {
    const bool is_last = step + 1 == steps;
    const int64_t elements = is_last ? 4 : 1 + random.below(60);
    Artifact kernel = model.kernels[0];
    kernel.info.arguments.clear();
    ModelStep call{"step", static_cast<int>(model.kernels.size()), {}, 0, 0};
    for (int64_t input = random.below(3); input >= 0; --input) {
      const auto read = static_cast<size_t>(random.below(step + 1));
      const size_t tensor = read == 0 ? 0 : read + 1;  // index 0 is x, index 1 is y
      call.arguments.push_back(static_cast<int>(tensor));
      kernel.info.arguments.push_back({"in" + std::to_string(input), Float32, false,
                                       model.variants[0].tensors[tensor].shape, "",
                                       model.variants[0].tensors[tensor].bytes / 4, ""});
      if (read > 0) lifetimes[read - 1].last = step;
    }
    call.arguments.push_back(is_last ? 1 : static_cast<int>(model.variants[0].tensors.size()));
    kernel.info.arguments.push_back({"out", Float32, true, {elements}, "", elements, ""});
    model.kernels.push_back(kernel);
    model.variants[0].steps.push_back(call);
    if (is_last) break;
    model.variants[0].tensors.push_back(
        {"t" + std::to_string(step), Float32, {elements}, "", 4 * elements, Place::Arena, 0});
    lifetimes.push_back({4 * elements, step, step});
  }
  const ArenaPlan plan = plan_arena(lifetimes);
  for (size_t i = 0; i < lifetimes.size(); ++i)
    model.variants[0].tensors[i + 2].at = plan.offsets[i];
  model.variants[0].arena_bytes = plan.bytes;
  return model;
}

/// True if no tensor of the arena is overwritten before its last read. The function tracks which
/// tensor each byte of the arena holds.
bool keeps_what_is_needed(const ModelFile& model) {
  std::vector<int> holds(static_cast<size_t>(model.variants[0].arena_bytes), -1);
  const auto bytes_of = [&](int index) {
    const ModelTensor& tensor = model.variants[0].tensors[static_cast<size_t>(index)];
    return tensor.place == Place::Arena
               ? std::span(holds).subspan(static_cast<size_t>(tensor.at),
                                          static_cast<size_t>(tensor.bytes))
               : std::span<int>();
  };
  for (const ModelStep& step : model.variants[0].steps) {
    const int output = step.arguments.back();
    std::ranges::fill(bytes_of(output), output);
    for (size_t i = 0; i + 1 < step.arguments.size(); ++i)
      for (const int found : bytes_of(step.arguments[i]))
        if (found != step.arguments[i]) return false;
  }
  return true;
}

TEST(ModelCheck, RandomPlansAreSafeAndMovedTensorsAreJudgedByTheBytesTheyHold) {
  Random random(21);
  int refused = 0, accepted = 0;
  for (int round = 0; round < 1000; ++round) {
    ModelFile model = random_model(random);
    const Status planned = check_model(model);
    ASSERT_TRUE(planned) << planned.error().message;
    ModelTensor& moved =
        model.variants[0].tensors[2 + static_cast<size_t>(
                                          random.below(std::ssize(model.variants[0].tensors) - 2))];
    moved.at = 64 * random.below((model.variants[0].arena_bytes - moved.bytes) / 64 + 1);
    const bool safe = check_model(model).has_value();
    ASSERT_EQ(safe, keeps_what_is_needed(model)) << "round " << round;
    ++(safe ? accepted : refused);
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 100);
}

/// Returns a model that computes left and right from x. A kernel reads both as one tensor of 32
/// elements, because they lie side by side. It writes `late`, from which y is computed.
ModelFile joined_model() {
  ModelFile model = tiny_model_without_code();
  ModelVariant& variant = model.variants[0];
  const auto piece = [](const std::string& name, int64_t at) {
    return ModelTensor{name, Float32, {16}, "", 64, Place::Arena, at};
  };
  variant.tensors = {variant.tensors[0],
                     variant.tensors[6],
                     piece("left", 64),
                     piece("right", 128),
                     {"whole", Float32, {32}, "", 128, Place::Arena, 64},
                     piece("late", 0)};
  variant.outputs = {1};
  variant.arena_bytes = 192;
  const auto kernel = [&](std::vector<int64_t> in, std::vector<int64_t> out) {
    Artifact made = model.kernels[0];
    made.info.arguments = {{"in", Float32, false, in, "", in[0], ""},
                           {"out", Float32, true, out, "", out[0], ""}};
    return made;
  };
  model.kernels = {kernel({4}, {16}), kernel({32}, {16}), kernel({16}, {4})};
  variant.steps = {{"left", 0, {0, 2}, 0, 0},
                   {"right", 0, {0, 3}, 0, 0},
                   {"late", 1, {4, 5}, 0, 0},
                   {"y", 2, {5, 1}, 0, 0}};
  return model;
}

/// Returns the error message of check_model() for joined_model() after `change`; "" if it is
/// accepted.
std::string defect_of_joined(const std::function<void(ModelVariant&)>& change) {
  ModelFile model = joined_model();
  change(model.variants[0]);
  const Status status = check_model(model);
  return status ? "" : status.error().message;
}

TEST(ModelCheck, TensorsSideBySideMayBeReadAsOne) {
  EXPECT_EQ(defect_of_joined([](auto&) {}), "");
  const std::string unwritten = "step 2 'late' reads tensor 'whole', which no step has written";
  EXPECT_THAT(defect_of_joined([](ModelVariant& v) { v.tensors[3].at = 0; }), HasSubstr(unwritten));
  EXPECT_THAT(defect_of_joined([](ModelVariant& v) { v.tensors[2].at = 0; }), HasSubstr(unwritten));
  EXPECT_THAT(defect_of_joined([](ModelVariant& v) { v.steps.erase(v.steps.begin() + 1); }),
              HasSubstr("step 1 'late' reads tensor 'whole', which no step has written"));
  EXPECT_THAT(defect_of_joined([](ModelVariant& v) { v.tensors[3].dtype = Int32; }),
              HasSubstr("i32[16]"));
}

TEST(ModelCheck, PiecesAreNotOverwrittenWhileTheWholeIsNeeded) {
  const auto again = [](ModelVariant& v) {
    v.tensors.push_back(v.tensors[5]);
    v.tensors[6] = {"more", Float32, {16}, "", 64, Place::Arena, 192};
    v.arena_bytes = 256;
    v.steps.push_back({"more", 1, {4, 6}, 0, 0});
  };
  EXPECT_EQ(defect_of_joined(again), "");
  EXPECT_THAT(defect_of_joined([&](ModelVariant& v) {
                again(v);
                v.tensors.push_back({"other", Float32, {16}, "", 64, Place::Arena, 128});
                v.steps.insert(v.steps.begin() + 3, ModelStep{"other", 0, {0, 7}, 0, 0});
              }),
              HasSubstr("step 5 'more' reads tensor 'whole' where 'other' lies by then"));
}

TEST(ModelCheck, WhatIsReadAsOneCountsAsOneArray) {
  ModelFile model = joined_model();
  EXPECT_EQ(least_arena_bytes(model, model.variants[0]), 192);  // left, right and late
  // If no step reads both as one, left is no longer needed when right is written.
  model.kernels[1].info.arguments[0].shape = {16};
  model.kernels[1].info.arguments[0].storage_elements = 16;
  model.variants[0].steps[2].arguments[0] = 3;
  ASSERT_TRUE(check_model(model));
  EXPECT_EQ(least_arena_bytes(model, model.variants[0]), 128);
}

TEST(ModelCheck, VariantsTakeTheSameInputsInOtherShapes) {
  EXPECT_THAT(defect_of([](auto& m) { m.variants.clear(); }), HasSubstr("it has no variant"));
  EXPECT_THAT(defect_of([](auto& m) { m.variants.push_back(m.variants[0]); }),
              HasSubstr("variants 0 and 1 are for inputs of the same shapes, x [4]"));
  const auto with_second = [](const std::function<void(ModelFile&)>& change) {
    ModelFile model = two_variants_model();
    change(model);
    const Status status = check_model(model);
    return status ? std::string() : status.error().message;
  };
  EXPECT_EQ(with_second([](auto&) {}), "");
  EXPECT_THAT(with_second([](auto& m) { m.variants[1].tensors[0].name = "z"; }),
              HasSubstr("variant 1 has other inputs or outputs than variant 0"));
  EXPECT_THAT(with_second([](auto& m) { m.variants[1].steps[0].kernel = 2; }),
              HasSubstr("variant 1: step 0 'twice' calls kernel 2"));
}

TEST(ModelCheck, TheBoundOfAnArenaIsTheLargestSumOfArraysNeededAtOnce) {
  const ModelFile tiny = tiny_model_without_code();
  EXPECT_EQ(least_arena_bytes(tiny, tiny.variants[0]), 128);  // h and doubled, each padded to 64
  const ModelFile chain = chain_model(9);
  EXPECT_EQ(least_arena_bytes(chain, chain.variants[0]), 128);
  const ModelFile one_step = one_step_model();
  EXPECT_EQ(least_arena_bytes(one_step, one_step.variants[0]), 0);
  Random random(22);
  for (int round = 0; round < 300; ++round) {
    const ModelFile model = random_model(random);
    const int64_t bound = least_arena_bytes(model, model.variants[0]);
    ASSERT_LE(bound, model.variants[0].arena_bytes) << "round " << round;
    ASSERT_LE(10 * model.variants[0].arena_bytes, 11 * bound) << "round " << round;
  }
}

TEST(ModelCheck, ConstantsMayLieElsewhere) {
  ModelFile model = tiny_model_without_code();
  model.constants.clear();
  EXPECT_TRUE(find_defect(model, 16));
  EXPECT_FALSE(find_defect(model, 15));
}

// ---- loops ----------------------------------------------------------------------------------

/// Returns the error message of check_model() for loop_model_without_code(3) after `change`; "" if
/// it is accepted. The tensors are s, x, w, first, h, next, row, hs, y, in this order.
std::string defect_of_loop(const std::function<void(ModelVariant&)>& change) {
  ModelFile model = loop_model_without_code(3);
  change(model.variants[0]);
  const Status status = check_model(model);
  return status ? "" : status.error().message;
}

TEST(ModelCheck, LoopsHaveStepsOfTheirOwn) {
  EXPECT_EQ(defect_of_loop([](auto&) {}), "");
  const auto with = [](ModelLoop loop) {
    return defect_of_loop([&](ModelVariant& v) { v.loops = {loop}; });
  };
  EXPECT_THAT(with({"l", -1, 1, 3}), HasSubstr("loop 'l' has 1 steps from -1 on"));
  EXPECT_THAT(with({"l", 1, 0, 3}), HasSubstr("loop 'l' has 0 steps"));
  EXPECT_THAT(with({"l", 1, 3, 3}), HasSubstr("loop 'l' has 3 steps from 1 on"));
  EXPECT_THAT(with({"l", 1, std::numeric_limits<int>::max(), 3}), HasSubstr("steps from 1 on"));
  EXPECT_THAT(with({"l", 1, 1, 0}), HasSubstr("loop 'l' has 0 trips"));
  EXPECT_THAT(with({"l", 1, 1, most_int}), HasSubstr("trips: expected 1 to"));
  EXPECT_THAT(with({"l", 1, 2, most_step_runs}), HasSubstr("its loops run more than"));
  EXPECT_THAT(defect_of_loop([](ModelVariant& v) { v.loops.push_back(v.loops[0]); }),
              HasSubstr("loop 'cell' has 1 steps from 1 on: expected at least one of 2 to 2"));
}

TEST(ModelCheck, Fault56_TensorsStayInsideInEveryTrip) {
  const auto slid = [](size_t tensor, Slide slide) {
    return defect_of_loop([&](ModelVariant& v) { v.tensors[tensor].slide = slide; });
  };
  EXPECT_THAT(defect_of_loop([](ModelVariant& v) { v.loops[0].trips = 4; }),
              HasSubstr("tensor 'next' has 16 bytes at 0, moved by 64 + 16 a trip in 4 trips"));
  EXPECT_THAT(defect_of_loop([](ModelVariant& v) {
                v.arena_bytes += 16;
                v.loops[0].trips = 4;
              }),
              HasSubstr("tensor 'row'"));
  EXPECT_THAT(defect_of_loop([](ModelVariant& v) { --v.arena_bytes; }), HasSubstr("tensor 'next'"));
  EXPECT_THAT(slid(6, {0, -16, 0}), HasSubstr("tensor 'row'"));
  EXPECT_THAT(slid(6, {-16, 16, 0}), HasSubstr("tensor 'row'"));
  EXPECT_THAT(slid(6, {2, 8, 0}), HasSubstr("expected a multiple of 4"));
  EXPECT_THAT(slid(6, {0, 6, 0}), HasSubstr("expected a multiple of 4"));
  EXPECT_THAT(slid(6, {0, most_int - 3, 0}), HasSubstr("tensor 'row'"));
  EXPECT_THAT(slid(6, {most_int - 3, 16, 0}), HasSubstr("tensor 'row'"));
  EXPECT_THAT(slid(6, {0, std::numeric_limits<int64_t>::min(), 0}), HasSubstr("tensor 'row'"));
  EXPECT_THAT(slid(6, {0, 16, -1}), HasSubstr("tensor 'row'"));
  EXPECT_THAT(slid(2, {16, 0, 0}), HasSubstr("tensor 'w'"));
  EXPECT_THAT(slid(1, {0, 16, 0}), HasSubstr("input 'x' moves in its array"));
  EXPECT_EQ(slid(6, {32, -16, 0}), "");
  EXPECT_EQ(slid(6, {16, 16, 2}), "");
  EXPECT_EQ(slid(6, {32, 0, 0}), "");
}

TEST(ModelCheck, TripsReadWhatWasWritten) {
  const auto slid = [](size_t tensor, Slide slide) {
    return defect_of_loop([&](ModelVariant& v) { v.tensors[tensor].slide = slide; });
  };
  const std::string unwritten = "step 1 'next' reads tensor 'h', which no step has written";
  EXPECT_THAT(defect_of_loop([](ModelVariant& v) {
                v.steps.erase(v.steps.begin());
                v.loops[0].first = 0;
              }),
              HasSubstr("step 0 'next' reads tensor 'h', which no step has written"));
  EXPECT_THAT(slid(3, {32, 0, 0}), HasSubstr(unwritten));
  EXPECT_THAT(slid(4, {48, 24, 0}), HasSubstr("overlaps its argument 'h'"));
  EXPECT_THAT(defect_of_loop([](ModelVariant& v) {
                v.arena_bytes = 160;
                v.tensors[4].slide = {48, 48, 0};
              }),
              HasSubstr(unwritten));
  EXPECT_THAT(slid(5, {64, 0, 0}), HasSubstr("overlaps its argument 'h'"));
  EXPECT_THAT(slid(4, {64, 16, 0}), HasSubstr("writes tensor 'next', which overlaps its argument"));
  EXPECT_THAT(slid(5, {64, 16, 2}), HasSubstr("step 2 'y' reads tensor 'hs', which no step"));
  EXPECT_THAT(defect_of_loop([](ModelVariant& v) { v.loops.clear(); }),
              HasSubstr("step 2 'y' reads tensor 'hs', which no step has written"));
  EXPECT_THAT(defect_of_loop([](ModelVariant& v) { v.loops[0].trips = 2; }),
              HasSubstr("step 2 'y' reads tensor 'hs', which no step has written"));
}

TEST(ModelCheck, TripsMayReadSlicesOfWhatAStepWrote) {
  ModelFile model = loop_model_without_code(8);
  ModelVariant& variant = model.variants[0];
  variant.tensors.push_back({"xs", Float32, {8, 4}, "", 128, Place::Arena, 192});
  variant.arena_bytes = 320;
  variant.tensors[6].place = Place::Arena;
  variant.tensors[6].at = 192;
  variant.steps.insert(variant.steps.begin() + 1, ModelStep{"xs", 1, {1, 9}, 0, 0});
  variant.loops[0].first = 2;
  const Status status = check_model(model);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(least_arena_bytes(model, variant), 256);  // all of xs and all of hs
  variant.tensors[6].slide.begin = 8;
  EXPECT_THAT(check_model(model).error().message, HasSubstr("tensor 'row'"));
  variant.tensors[6].slide = {0, 8, 0};
  EXPECT_TRUE(check_model(model));
  variant.tensors[9].at = 128;  // hs then overwrites a part of xs
  variant.tensors[6].at = 128;
  EXPECT_FALSE(check_model(model));
}

/// True if all steps stay inside of their arrays in all trips, and read only bytes of the arena
/// that a step has written before.
bool is_safe_byte_by_byte(const ModelVariant& variant) {
  std::vector<bool> written(static_cast<size_t>(variant.arena_bytes));
  for (size_t step = 0; step < variant.steps.size(); ++step) {
    const bool repeats = step == 1;
    for (int64_t trip = 0; trip < (repeats ? variant.loops[0].trips : 1); ++trip)
      for (size_t i = 0; i < variant.steps[step].arguments.size(); ++i) {
        const ModelTensor& tensor =
            variant.tensors[static_cast<size_t>(variant.steps[step].arguments[i])];
        const bool is_output = i + 1 == variant.steps[step].arguments.size();
        const bool is_in_arena = tensor.place == Place::Arena;
        int64_t begin = is_in_arena || tensor.place == Place::Constant ? tensor.at : 0;
        const auto& [offset, advance, period] = tensor.slide;
        begin += offset + advance * (period > 0 ? trip % period : trip);
        const int64_t size = is_in_arena ? variant.arena_bytes
                             : tensor.place == Place::Constant
                                 ? 16
                                 : (tensor.place == Place::Input && tensor.at == 0 ? 16 : 48);
        if (begin < 0 || begin + tensor.bytes > size) return false;
        for (int64_t byte = begin; is_in_arena && byte < begin + tensor.bytes; ++byte) {
          if (!is_output && !written[static_cast<size_t>(byte)]) return false;
          if (is_output) written[static_cast<size_t>(byte)] = true;
        }
      }
  }
  return true;
}

TEST(ModelCheck, RandomLoopsThatAreAcceptedAreSafe) {
  const int rounds = cases_of(4'000, 20'000);
  Random random(8);
  int accepted = 0, unsafe = 0;
  for (int round = 0; round < rounds; ++round) {
    ModelFile model = loop_model_without_code(3);
    ModelVariant& variant = model.variants[0];
    for (int64_t changes = 1 + random.below(3); changes > 0; --changes) {
      Slide& slide = variant.tensors[static_cast<size_t>(3 + random.below(4))].slide;
      const int64_t number = 4 * (random.below(41) - 20);
      if (random.below(2) == 0)
        (random.below(2) == 0 ? slide.begin : slide.advance) +=
            random.below(2) == 0 ? 4 * number : number;
      else if (random.below(2) == 0)
        slide.period = random.below(4);
      else if (random.below(2) == 0)
        variant.loops[0].trips = 1 + random.below(5);
      else
        variant.arena_bytes += number;
    }
    if (variant.arena_bytes < 0) continue;
    const bool is_accepted = check_model(model).has_value();
    const bool is_safe = is_safe_byte_by_byte(variant);
    ASSERT_TRUE(is_safe || !is_accepted) << "round " << round;
    accepted += is_accepted ? 1 : 0;
    unsafe += is_safe ? 0 : 1;
  }
  EXPECT_GT(accepted, rounds / 40);
  EXPECT_GT(unsafe, rounds / 40);
}

// ---- bands ----------------------------------------------------------------------------------

/// Returns the error message of check_model() for branches_model_without_code(2) after `change`; ""
/// if it is accepted. The tensors are x, w, h, d0, e0, d1, e1, f1, y, in this order.
std::string defect_of_branches(const std::function<void(ModelVariant&)>& change) {
  ModelFile model = branches_model_without_code(2);
  change(model.variants[0]);
  const Status status = check_model(model);
  return status ? "" : status.error().message;
}

TEST(ModelCheck, BandsHaveChainsOfTheirOwn) {
  EXPECT_EQ(defect_of_branches([](auto&) {}), "");
  const auto with = [](std::vector<ModelBand> bands) {
    return defect_of_branches([&](ModelVariant& v) { v.bands = std::move(bands); });
  };
  EXPECT_EQ(with({}), "");
  EXPECT_THAT(with({{1, {}}}), HasSubstr("band 0 has 0 chains: expected 2 to 64"));
  EXPECT_THAT(with({{1, {5}}}), HasSubstr("band 0 has 1 chains: expected 2 to 64"));
  EXPECT_THAT(with({{0, std::vector<int>(65, 1)}}), HasSubstr("band 0 has 65 chains"));
  EXPECT_THAT(with({{1, {5, 0}}}), HasSubstr("band 0 has a chain of 0 steps"));
  EXPECT_THAT(with({{1, {6, -1}}}), HasSubstr("band 0 has a chain of -1 steps"));
  EXPECT_THAT(with({{-1, {2, 3}}}), HasSubstr("band 0 has 5 steps from -1 on"));
  EXPECT_THAT(with({{5, {1, 2}}}), HasSubstr("band 0 has 3 steps from 5 on: expected some of 0"));
  EXPECT_THAT(with({{1, {2, std::numeric_limits<int>::max()}}}), HasSubstr("steps from 1 on"));
  EXPECT_THAT(with({{1, {2, 3}}, {5, {1, 1}}}), HasSubstr("band 1 has 2 steps from 5 on"));
}

TEST(ModelCheck, LoopsLieInOneChainOrOutsideOfBands) {
  const auto with = [](const ModelLoop& loop) {
    return defect_of_branches([&](ModelVariant& v) { v.loops = {loop}; });
  };
  // A step that runs twice reads and writes the same arrays again, so these loops are legal.
  EXPECT_EQ(with({"l", 1, 2, 2}), "");
  EXPECT_EQ(with({"l", 4, 2, 2}), "");
  EXPECT_EQ(with({"l", 6, 1, 2}), "");
  EXPECT_THAT(with({"l", 0, 2, 2}), HasSubstr("chain 0 of band 0 has a part of loop 'l'"));
  EXPECT_THAT(with({"l", 2, 2, 2}), HasSubstr("chain 0 of band 0 has a part of loop 'l'"));
  EXPECT_THAT(with({"l", 5, 2, 2}), HasSubstr("chain 1 of band 0 has a part of loop 'l'"));
  EXPECT_THAT(with({"l", 0, 7, 2}), HasSubstr("chain 0 of band 0 has a part of loop 'l'"));
}

TEST(ModelCheck, ChainsDoNotUseWhatOthersWrite) {
  const auto moved = [](size_t tensor, int64_t at) {
    return defect_of_branches([&](ModelVariant& v) { v.tensors[tensor].at = at; });
  };
  const std::string beside = "chains 0 and 1 of band 0 run side by side, and one writes tensor ";
  // Without the band, d1 may take the place of d0, because no later step reads d0.
  EXPECT_EQ(defect_of_branches([](ModelVariant& v) {
              v.tensors[5].at = v.tensors[3].at;
              v.bands.clear();
            }),
            "");
  EXPECT_THAT(moved(5, 64), HasSubstr(beside + "'d0', which overlaps tensor 'd1' of the other"));
  EXPECT_EQ(moved(7, 192), "") << "f1 may take the place of d1, which is of its own chain";
  EXPECT_THAT(defect_of_branches([](ModelVariant& v) { v.steps[4].arguments[0] = 3; }),
              HasSubstr(beside + "'d0', which overlaps tensor 'd0' of the other"));
  EXPECT_THAT(defect_of_branches([](ModelVariant& v) {
                v.bands = {{0, {1, 2}}};
              }),
              HasSubstr(beside + "'h', which overlaps tensor 'h' of the other"));
  EXPECT_EQ(defect_of_branches([](ModelVariant& v) { v.bands = {{1, {2, 1}}}; }), "");
  EXPECT_THAT(defect_of_branches([](ModelVariant& v) {
                v.bands = {{3, {1, 2}}};
              }),
              HasSubstr(beside + "'d1'"));
}

TEST(ModelCheck, TensorsThatMoveTakeAllTheirPlacesInABand) {
  // d1 has two places in its loop. With `begin` 0, the second place is that of d0.
  const auto with_begin = [](int64_t begin) {
    return defect_of_branches([&](ModelVariant& v) {
      v.loops = {{"l", 3, 1, 2}};
      v.tensors[5].at = 0;
      v.tensors[5].slide = {begin, 64, 0};
      v.tensors.push_back(v.tensors[5]);
      v.tensors.back().slide = {begin + 64, 0, 0};
      v.steps[4].arguments[0] = static_cast<int>(v.tensors.size()) - 1;
      v.arena_bytes += 128;
    });
  };
  EXPECT_EQ(with_begin(448), "");
  EXPECT_THAT(with_begin(0), HasSubstr("run side by side"));
  EXPECT_THAT(with_begin(64), HasSubstr("run side by side"));
}

/// True if no chain of a band reads or writes a byte that another chain of the band writes.
/// Requires: the bands are inside of the steps, and there are no loops.
bool are_chains_apart(const ModelFile& model) {
  const ModelVariant& variant = model.variants[0];
  for (const ModelBand& band : variant.bands) {
    std::map<std::tuple<Place, int64_t>, std::pair<std::set<size_t>, std::set<size_t>>> bytes;
    for_each_chain(band, [&](size_t chain, size_t first, size_t end) {
      for (size_t number = first; number < end; ++number) {
        const ModelStep& step = variant.steps[number];
        for (size_t i = 0; i < step.arguments.size(); ++i) {
          const ModelTensor& tensor = variant.tensors[static_cast<size_t>(step.arguments[i])];
          for (int64_t byte = tensor.at; byte < tensor.at + tensor.bytes; ++byte) {
            auto& [reads, writes] = bytes[{tensor.place, byte}];
            (i + 1 == step.arguments.size() ? writes : reads).insert(chain);
          }
        }
      }
    });
    for (const auto& [place, users] : bytes) {
      const auto& [reads, writes] = users;
      if (writes.size() > 1) return false;
      if (!writes.empty() &&
          (reads.size() > 1 || (reads.size() == 1 && *reads.begin() != *writes.begin())))
        return false;
    }
  }
  return true;
}

TEST(ModelCheck, RandomBandsAreAcceptedWhereTheirChainsLieApart) {
  const std::vector<ModelFile> of_chains = {branches_model_without_code(2),
                                            branches_model_without_code(3),
                                            branches_model_without_code(4)};
  Random random(9);
  int accepted = 0, unsafe = 0;
  for (int round = 0; round < 6'000; ++round) {
    ModelFile model = of_chains[static_cast<size_t>(random.below(3))];
    ModelVariant& variant = model.variants[0];
    const auto tensors = static_cast<int64_t>(variant.tensors.size());
    for (int64_t changes = random.below(4); changes > 0; --changes) {
      ModelTensor& tensor = variant.tensors[static_cast<size_t>(2 + random.below(tensors - 3))];
      tensor.at = 64 * random.below(variant.arena_bytes / 64);
    }
    if (random.below(2) == 0) {
      variant.bands = {{static_cast<int>(random.below(4)), {}}};
      for (int64_t chains = 2 + random.below(2); chains > 0; --chains)
        variant.bands[0].chains.push_back(1 + static_cast<int>(random.below(3)));
      if (variant.bands[0].end() > std::ssize(variant.steps)) continue;
    }
    const bool is_accepted = check_model(model).has_value();
    const bool is_safe = are_chains_apart(model);
    ModelFile in_order = model;
    in_order.variants[0].bands.clear();
    ASSERT_EQ(is_accepted, is_safe && check_model(in_order).has_value()) << "round " << round;
    accepted += is_accepted ? 1 : 0;
    unsafe += is_safe ? 0 : 1;
  }
  EXPECT_GT(accepted, 500);
  EXPECT_GT(unsafe, 500);
}

}  // namespace
}  // namespace tw::runtime
