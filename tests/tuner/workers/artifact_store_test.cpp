// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/artifact_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/hash.h"
#include "tests/tuner/tuning.h"

namespace tw::tuner {
namespace {

class Store : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder_ / (name + ".twart"); }

  Folder folder_;
  ArtifactStore store_{folder_.path()};
};

TEST_F(Store, BytesAreNamedByTheirHash) {
  const auto name = store_.put("some bytes");
  ASSERT_TRUE(name) << name.error().message;
  EXPECT_EQ(*name, sha256_hex("some bytes"));
  EXPECT_EQ(store_.get(*name).value(), "some bytes");
  EXPECT_EQ(store_.put("some bytes").value(), *name);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(Store, Fault54_BytesThatDoNotMatchTheirNameAreRefused) {
  const std::string name = store_.put("some bytes").value();
  std::ofstream(file(name), std::ios::app) << "!";
  const auto got = store_.get(name);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::Invalid);
}

TEST_F(Store, Fault40_ANameThatIsNoHashIsNoPath) {
  std::ofstream(folder_ / "outside.twart") << "bytes";
  for (const std::string& name : {std::string("outside"), std::string("../outside"), std::string(),
                                  std::string(63, 'a'), std::string(64, '/')}) {
    const auto got = store_.get(name);
    ASSERT_FALSE(got) << name;
    EXPECT_EQ(got.error().code, ErrorCode::Invalid);
  }
}

TEST_F(Store, AnAbsentKernelIsTold) {
  const auto got = store_.get(std::string(64, 'a'));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::NotCompiled);
}

TEST_F(Store, AKernelOfAnotherMachineIsRefused) {
  runtime::Artifact artifact;
  artifact.info.workload = "w";
  artifact.info.target = "x86-64-linux-avx512f";
  artifact.info.phases = {{"kernel_p0", 1}};
  artifact.info.arguments = {{"out", Float32, true, {4}, "", 4, ""}};
  artifact.object = "code";
  const auto name = store_.put(artifact);
  ASSERT_TRUE(name) << name.error().message;
  const Target same = parse_target(artifact.info.target).value(),
               other = parse_target("x86-64-linux").value();
  const auto loaded = store_.load(*name, same);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(*loaded, artifact);
  EXPECT_EQ(store_.load(*name, other).error().code, ErrorCode::Invalid);
  EXPECT_EQ(store_.load(store_.put("no kernel").value(), same).error().code, ErrorCode::Invalid);
}

}  // namespace
}  // namespace tw::tuner
