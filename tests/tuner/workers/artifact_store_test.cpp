// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/artifact_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

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

// A directory that cannot be read cannot be synced. Root may read every directory, so the test
// becomes another user.
TEST_F(Store, SyncsNothingWhileKernelsAreTimed) {
  constexpr uid_t nobody = 65534;
  const uid_t user = geteuid();
  ASSERT_EQ(chmod(folder_.path().c_str(), 0300), 0);
  if (user == 0 &&
      (chown(folder_.path().c_str(), nobody, static_cast<gid_t>(-1)) != 0 || seteuid(nobody) != 0))
    GTEST_SKIP() << "root cannot become another user here";
  const auto name = store_.put("some bytes");
  ASSERT_EQ(seteuid(user), 0);
  ASSERT_EQ(chmod(folder_.path().c_str(), 0700), 0);
  ASSERT_TRUE(name) << name.error().message;
  EXPECT_TRUE(std::filesystem::exists(file(*name)));
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
