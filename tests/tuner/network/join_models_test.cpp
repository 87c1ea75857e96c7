// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/join_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tw::tuner {
namespace {

using ::testing::ElementsAre;

/// Returns a model of two steps for `batch` rows of x: first (x, c) -> h, second (h, d) -> y. Each
/// batch has kernels of its own. They have no code, because the model is never loaded.
runtime::ModelFile batch_model(int64_t batch, const std::string& constants) {
  const auto kernel = [](const std::string& workload, std::vector<int64_t> shape) {
    runtime::Artifact artifact;
    artifact.info.workload = workload;
    artifact.info.target = "x86-64-linux";
    artifact.info.arguments = {{"a", Float32, false, shape, "", shape[0], ""},
                               {"c", Float32, false, {16}, "", 16, ""},
                               {"out", Float32, true, shape, "", shape[0], ""}};
    artifact.info.phases = {{"f", 1}};
    return artifact;
  };
  runtime::ModelFile model;
  model.name = "net";
  model.target = "x86-64-linux";
  model.threads = 2;
  model.kernels = {kernel("first n=" + std::to_string(batch), {batch}), kernel("other", {batch})};
  if (batch == 8) model.kernels[0] = kernel("unused by others", {batch});
  model.constants = constants;
  runtime::ModelVariant variant;
  variant.tensors = {{"x", Float32, {batch}, "", 4 * batch, runtime::Place::Input, 0},
                     {"c", Float32, {16}, "", 64, runtime::Place::Constant, 0},
                     {"d", Float32, {16}, "", 64, runtime::Place::Constant, 64},
                     {"h", Float32, {batch}, "", 4 * batch, runtime::Place::Arena, 0},
                     {"y", Float32, {batch}, "", 4 * batch, runtime::Place::Output, 0}};
  variant.inputs = {0};
  variant.outputs = {4};
  variant.steps = {{"first", 0, {0, 1, 3}, 0, 1}, {"second", 1, {3, 2, 4}, 1, 1}};
  variant.arena_bytes = 64;
  model.variants = {variant};
  return model;
}

std::string filled(const char* letters) {
  std::string bytes;
  for (const char* letter = letters; *letter != 0; ++letter) bytes.append(64, *letter);
  return bytes;
}

TEST(JoinModels, EqualConstantsAreKeptOnce) {
  const runtime::ModelFile one = batch_model(1, filled("ab")), eight = batch_model(8, filled("cb"));
  const runtime::ModelFile joined =
      join_models(std::vector<const runtime::ModelFile*>{&one, &eight});
  EXPECT_EQ(joined.constants, filled("abc"));
  ASSERT_EQ(joined.variants.size(), 2u);
  EXPECT_EQ(joined.variants[0].tensors[1].at, 0);
  EXPECT_EQ(joined.variants[0].tensors[2].at, 64);
  EXPECT_EQ(joined.variants[1].tensors[1].at, 128);
  EXPECT_EQ(joined.variants[1].tensors[2].at, 64);
  const Status safe = runtime::check_model(joined);
  EXPECT_TRUE(safe) << safe.error().message;
}

TEST(JoinModels, EqualKernelsAreKeptOnce) {
  runtime::ModelFile second = batch_model(8, filled("ab"));
  second.kernels[0] = second.kernels[1];
  second.kernels.resize(1);
  second.variants[0].steps[1].kernel = 0;
  const runtime::ModelFile one = batch_model(1, filled("ab")), eight = batch_model(8, filled("ab"));
  const std::vector<const runtime::ModelFile*> models = {&eight, &one, &second};
  const runtime::ModelFile joined = join_models(models);
  EXPECT_EQ(joined.kernels.size(), 4u);
  EXPECT_EQ(joined.variants[1].steps[0].kernel, 2);
  EXPECT_EQ(joined.variants[2].steps[0].kernel, 1);
  EXPECT_EQ(joined.variants[1].steps[1].threads, 1);
}

TEST(JoinModels, ConstantsOfAGpuBeginWhereDevicesTakeThem) {
  runtime::ModelFile one = batch_model(1, filled("ab")), eight = batch_model(8, filled("cb"));
  one.target = eight.target = "opencl";
  const runtime::ModelFile joined =
      join_models(std::vector<const runtime::ModelFile*>{&one, &eight});
  for (const runtime::ModelVariant& variant : joined.variants)
    for (const int constant : {1, 2})
      EXPECT_EQ(variant.tensors[static_cast<size_t>(constant)].at % 512, 0);
  EXPECT_EQ(joined.constants.size(), 3u * 512);
}

TEST(JoinModels, OneModelStaysAsItIs) {
  const runtime::ModelFile model = batch_model(1, filled("ab"));
  EXPECT_EQ(join_models(std::vector<const runtime::ModelFile*>{&model}), model);
}

}  // namespace
}  // namespace tw::tuner
