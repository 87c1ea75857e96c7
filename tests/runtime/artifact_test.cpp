// SPDX-License-Identifier: Apache-2.0
#include "runtime/artifact.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "runtime/kernel.h"
#include "tests/runtime/tiny_kernels.h"
#include "tests/runtime/tiny_model.h"

namespace tw::runtime {
namespace {

using testing::HasSubstr;

/// Returns an artifact whose object has no code. Tests only read it and never load it.
Artifact small_artifact() {
  Artifact artifact;
  artifact.info.workload = "copy(x[4])";
  artifact.info.schedule = "tw1\nsplit";
  artifact.info.target = plain_target();
  artifact.info.toolchain = "none";
  artifact.info.codegen_abi = 3;
  artifact.info.arguments = {{.name = "x",
                              .dtype = BFloat16,
                              .shape = {2, 3},
                              .layout = "x",
                              .storage_elements = 8,
                              .pack = "p"},
                             {.name = "y",
                              .dtype = Float32,
                              .is_output = true,
                              .shape = {},
                              .layout = "",
                              .storage_elements = 1,
                              .pack = ""}};
  artifact.info.phases = {{"f", 4}};
  artifact.info.packs = {{"p", {{"g", 2}, {"h", 1}}}};
  artifact.info.scratch_bytes = 128;
  artifact.info.spills = 2;
  artifact.info.flops = 24;
  artifact.object = std::string("\177ELF\0not code", 13);
  return artifact;
}

class ArtifactTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(write_artifact(path_, small_artifact())); }

  void expect_refused(const std::string& what) {
    const auto read = read_artifact(path_);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::Invalid);
    EXPECT_THAT(read.error().message, HasSubstr(what));
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_ / "kernel.twart";
};

TEST_F(ArtifactTest, ReadsWhatItWrote) {
  const auto read = read_artifact(path_);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, small_artifact());
}

TEST_F(ArtifactTest, LeavesNoTemporaryFile) {
  const auto entries = std::filesystem::directory_iterator(directory_.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

mode_t artifact_mode(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
}

TEST_F(ArtifactTest, HasTheModeThatTheUmaskLeaves) {
  for (const auto& [mask, mode] : {std::pair{022, 0644u}, {077, 0600u}, {027, 0640u}, {0, 0644u}}) {
    const mode_t before = umask(static_cast<mode_t>(mask));
    const std::string path = directory_ / fmt::format("{:o}.twart", mask);
    const Status written = write_artifact(path, small_artifact());
    umask(before);
    ASSERT_TRUE(written) << written.error().message;
    EXPECT_EQ(artifact_mode(path), mode) << path;
    EXPECT_TRUE(read_artifact(path)) << path;
  }
}

TEST_F(ArtifactTest, KeepsTheModeOfTheFileThatItReplacesButForOthersWhoMayWrite) {
  for (const auto& [former, mode] :
       {std::pair{0600, 0600u}, {0755, 0755u}, {0444, 0444u}, {0666, 0644u}}) {
    ASSERT_EQ(chmod(path_.c_str(), static_cast<mode_t>(former)), 0);
    ASSERT_TRUE(write_artifact(path_, small_artifact()));
    EXPECT_EQ(artifact_mode(path_), mode);
  }
}

TEST_F(ArtifactTest, ReplacesAnOldFile) {
  Artifact other = small_artifact();
  other.info.flops = 99;
  ASSERT_TRUE(write_artifact(path_, other));
  EXPECT_EQ(read_artifact(path_)->info.flops, 99);
}

TEST_F(ArtifactTest, MissingFileIsNotCompiled) {
  EXPECT_EQ(read_artifact(directory_ / "other.twart").error().code, ErrorCode::NotCompiled);
  EXPECT_EQ(read_artifact(directory_ / "none/other.twart").error().code, ErrorCode::NotCompiled);
}

// Without this message, somebody could take a tuned network for a damaged kernel and delete it.
TEST_F(ArtifactTest, ANetworkIsNamedAsOne) {
  ASSERT_TRUE(write_model(path_, tiny_model_without_code()));
  expect_refused("it is a network: open it by Model::open() or tw_model_open()");
  write_bytes(path_, "junk");
  expect_refused("it does not begin with TWARTF01; compile it again");
}

TEST_F(ArtifactTest, WritingWhereNothingCanBeWrittenIsAnEnvironmentError) {
  EXPECT_EQ(write_artifact(directory_ / "none/k.twart", small_artifact()).error().code,
            ErrorCode::Environment);
}

TEST_F(ArtifactTest, Fault52_FeaturesThatTheMachineLacksAreNamed) {
  Artifact artifact = small_artifact();
  artifact.info.target = "x86-64-linux-avx2-avx512f-fma";
  ASSERT_TRUE(write_artifact(path_, artifact));
  const Target machine = *parse_target("x86-64-v3");
  const auto read = read_artifact(path_, Trust::Own, machine);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::Invalid);
  EXPECT_THAT(read.error().message, HasSubstr("has no avx512f"));
  EXPECT_TRUE(read_artifact(path_, Trust::Own, *parse_target("x86-64-v4")));
  KernelOptions options;
  options.machine = machine;
  EXPECT_THAT(Kernel::load(artifact, options).error().message, HasSubstr("has no avx512f"));
}

TEST_F(ArtifactTest, Fault52_AnotherArchitectureIsRefused) {
  Artifact artifact = small_artifact();
  artifact.info.target =
      host_target().architecture == Architecture::X86_64 ? "arm-64-linux" : "x86-64-linux";
  ASSERT_TRUE(write_artifact(path_, artifact));
  expect_refused("this machine has no");
}

TEST_F(ArtifactTest, Fault54_EveryTruncationIsRefused) {
  const std::string bytes = read_bytes(path_);
  for (size_t length = 0; length < bytes.size(); length += 7) {
    write_bytes(path_, bytes.substr(0, length));
    ASSERT_EQ(read_artifact(path_).error().code, ErrorCode::Invalid) << length;
  }
  write_bytes(path_, fmt::format("{}x", bytes));
  expect_refused("the header says");
}

TEST_F(ArtifactTest, Fault54_EveryFlippedBitIsRefused) {
  const std::string bytes = read_bytes(path_);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    write_bytes(path_, flipped);
    const auto read = read_artifact(path_);
    ASSERT_FALSE(read) << "bit " << bit;
    ASSERT_EQ(read.error().code, ErrorCode::Invalid) << "bit " << bit;
  }
}

TEST_F(ArtifactTest, Fault54_AFileThatOthersMayWriteIsRefused) {
  for (const mode_t mode : {0620, 0602}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    expect_refused("chmod go-w");
  }
}

TEST_F(ArtifactTest, Fault54_ADirectoryThatOthersMayWriteIsRefused) {
  for (const mode_t mode : {0720, 01777}) {
    ASSERT_EQ(chmod(directory_.path().c_str(), mode), 0);
    expect_refused("its directory has mode");
  }
}

TEST_F(ArtifactTest, Fault54_ALinkIsNotFollowed) {
  const std::string link = directory_ / "link.twart";
  ASSERT_EQ(symlink(path_.c_str(), link.c_str()), 0);
  EXPECT_THAT(read_artifact(link).error().message, HasSubstr("symbolic link"));
}

TEST_F(ArtifactTest, Fault54_WhatIsNoFileIsRefused) {
  const std::string fifo = directory_ / "fifo.twart";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(read_artifact(fifo).error().message, HasSubstr("no regular file"));
  const Status written = write_artifact(fifo, small_artifact());
  EXPECT_EQ(written.error().code, ErrorCode::Usage);
  EXPECT_THAT(written.error().message, HasSubstr("a device or a pipe, which would be replaced"));
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
  EXPECT_THAT(read_artifact(directory_.path()).error().message, HasSubstr("refuses"));
}

TEST_F(ArtifactTest, Fault54_AnotherUsersFileIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(chown(path_.c_str(), 12345, 0), 0);
  expect_refused("belongs to user 12345");
  EXPECT_FALSE(read_artifact(path_, Trust::OwnOrRoot));
}

TEST_F(ArtifactTest, Fault55_AnotherAbiVersionIsRefused) {
  const std::string changed =
      with_header(read_bytes(path_), [](auto& json) { json["runtime_abi"] = kRuntimeAbi + 1; });
  write_bytes(path_, changed);
  expect_refused("kernel ABI is version 4, this runtime's is 3");
}

/// Returns the small artifact with a preparation: it computes a buffer `u` from the input x.
Artifact small_prepared_artifact() {
  Artifact artifact = small_artifact();
  artifact.info.arguments[0].only_prepares = true;
  artifact.info.preparation = PreparationInfo{.inputs = {0},
                                              .buffers = {{.name = "u",
                                                           .dtype = Float32,
                                                           .shape = {2, 3},
                                                           .layout = "AB4b",
                                                           .storage_elements = 8}},
                                              .phases = {{"q", 2}},
                                              .scratch_bytes = 64};
  return artifact;
}

TEST_F(ArtifactTest, PreparationsNeedVersion3AndOthersKeepVersion2) {
  const auto version_of = [](const std::string& bytes) {
    int version = 0;
    (void)with_header(bytes, [&](auto& json) { version = json["runtime_abi"]; });
    return version;
  };
  EXPECT_EQ(version_of(read_bytes(path_)), 2);
  ASSERT_TRUE(write_artifact(path_, small_prepared_artifact()));
  EXPECT_EQ(version_of(read_bytes(path_)), 3);
  const auto read = read_artifact(path_);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, small_prepared_artifact());
  write_bytes(path_, with_header(read_bytes(path_), [](auto& json) { json["runtime_abi"] = 2; }));
  expect_refused("it has a preparation, which came with version 3");
  write_bytes(path_, with_header(read_bytes(path_), [](auto& json) { json["runtime_abi"] = 1; }));
  expect_refused("kernel ABI is version 1");
}

TEST(ArtifactInfo, ImpossiblePreparationsAreRefused) {
  const auto error_of = [](const std::function<void(KernelInfo&)>& change) {
    KernelInfo info = small_prepared_artifact().info;
    change(info);
    const Status status = check_info(info);
    return status ? std::string() : status.error().message;
  };
  EXPECT_EQ(error_of([](auto&) {}), "");
  EXPECT_THAT(error_of([](auto& i) { i.preparation->inputs = {0, 1}; }), HasSubstr("argument 1"));
  EXPECT_THAT(error_of([](auto& i) { i.preparation->inputs = {0, -1}; }), HasSubstr("argument -1"));
  EXPECT_THAT(error_of([](auto& i) { i.preparation->inputs = {}; }),
              HasSubstr("'x' is read by the preparation only"));
  EXPECT_THAT(error_of([](auto& i) { i.preparation.reset(); }),
              HasSubstr("'x' is read by the preparation only"));
  EXPECT_THAT(error_of([](auto& i) { i.arguments[1].only_prepares = true; }),
              HasSubstr("'y' is read by the preparation only"));
  EXPECT_THAT(error_of([](auto& i) { i.preparation->buffers[0].name = "y"; }),
              HasSubstr("prepared buffer 'y'"));
  EXPECT_THAT(error_of([](auto& i) { i.preparation->buffers[0].layout = ""; }),
              HasSubstr("stores 8 elements"));
  EXPECT_THAT(error_of([](auto& i) { i.preparation->buffers[0].is_output = true; }),
              HasSubstr("prepared buffer 'u'"));
  EXPECT_THAT(error_of([](auto& i) { i.preparation->phases.clear(); }), HasSubstr("no phases"));
  EXPECT_THAT(error_of([](auto& i) { i.preparation->phases[0].threads = 2; }),
              HasSubstr("2 threads"));
  EXPECT_THAT(error_of([](auto& i) { i.preparation->scratch_bytes = -1; }),
              HasSubstr("scratch_bytes"));
}

TEST_F(ArtifactTest, FieldsOfTheWrongTypeAreRefused) {
  const std::string bytes = read_bytes(path_);
  write_bytes(path_, with_header(bytes, [](auto& json) { json["info"]["phases"] = 3; }));
  expect_refused("wrong field");
  write_bytes(path_, with_header(bytes, [](auto& json) { json["info"].erase("flops"); }));
  expect_refused("wrong field");
  write_bytes(path_,
              with_header(bytes, [](auto& json) { json["info"]["arguments"][0]["dtype"] = "f7"; }));
  expect_refused("f7");
}

TEST_F(ArtifactTest, NumbersThatAreNoIntegersAreRefused) {
  ASSERT_TRUE(write_artifact(path_, small_prepared_artifact()));
  const std::string bytes = read_bytes(path_);
  for (const char* const field :
       {"/runtime_abi", "/object_bytes", "/info/codegen_abi", "/info/scratch_bytes", "/info/spills",
        "/info/flops", "/info/phases/0/tasks", "/info/phases/0/threads",
        "/info/phases/0/shared_bytes", "/info/arguments/0/shape/0",
        "/info/arguments/0/storage_elements", "/info/preparation/inputs/0",
        "/info/preparation/scratch_bytes"})
    for (const nlohmann::json& number :
         {nlohmann::json(1.5), nlohmann::json(1e300), nlohmann::json(true), nlohmann::json("1")}) {
      SCOPED_TRACE(fmt::format("{} {}", field, number.dump()));
      write_bytes(path_, with_header(bytes, [&](auto& json) {
                    json[nlohmann::json::json_pointer(field)] = number;
                  }));
      expect_refused("wrong field");
    }
}

TEST_F(ArtifactTest,
       AnUntouchedRewriteIsAccepted) {  // shows that the helper causes none of the refusals above
  write_bytes(path_, with_header(read_bytes(path_), [](auto&) {}));
  EXPECT_TRUE(read_artifact(path_));
}

TEST(ArtifactInfo, ImpossibleDescriptionsAreRefused) {
  const auto error_of = [](const std::function<void(KernelInfo&)>& change) {
    KernelInfo info = small_artifact().info;
    change(info);
    const Status status = check_info(info);
    return status ? std::string() : status.error().message;
  };
  EXPECT_EQ(error_of([](auto&) {}), "");
  EXPECT_THAT(error_of([](auto& i) { i.scratch_bytes = -1; }), HasSubstr("scratch_bytes"));
  EXPECT_THAT(error_of([](auto& i) { i.phases.clear(); }), HasSubstr("no phases"));
  EXPECT_THAT(error_of([](auto& i) { i.phases[0].symbol = "a b"; }), HasSubstr("'a b'"));
  EXPECT_THAT(error_of([](auto& i) { i.phases[0].tasks = int64_t{1} << 31; }), HasSubstr("tasks"));
  EXPECT_THAT(error_of([](auto& i) { i.packs["p"][1].symbol = ""; }), HasSubstr("pack 'p'"));
  EXPECT_THAT(error_of([](auto& i) { i.target = "z80"; }), HasSubstr("z80"));
  EXPECT_THAT(error_of([](auto& i) { i.arguments[0].pack = "q"; }), HasSubstr("'q'"));
  EXPECT_THAT(error_of([](auto& i) { i.arguments[1].name = "x"; }), HasSubstr("named 'x'"));
  EXPECT_THAT(error_of([](auto& i) { i.arguments[1].storage_elements = 2; }),
              HasSubstr("stores 2"));
  EXPECT_THAT(error_of([](auto& i) { i.arguments[0].storage_elements = 5; }),
              HasSubstr("'x' stores 5 elements, its shape has 6"));
  EXPECT_THAT(error_of([](auto& i) { i.arguments[0].shape = {-1, 3}; }), HasSubstr("extent -1"));
  EXPECT_THAT(error_of([](auto& i) {
                i.arguments[0].shape = {int64_t{1} << 40, int64_t{1} << 30};
              }),
              HasSubstr("64 bits"));
  EXPECT_THAT(error_of([](auto& i) { std::swap(i.arguments[0], i.arguments[1]); }),
              HasSubstr("inputs first"));
  EXPECT_THAT(error_of([](auto& i) { i.arguments.pop_back(); }), HasSubstr("no output"));
}

TEST_F(ArtifactTest, PtxStandsBehindACubinAndNowhereElse) {
  Artifact artifact = matvec_for_cuda("sm_80");
  artifact.ptx = ".version 9.0\n.target sm_80\n";
  ASSERT_TRUE(write_artifact(path_, artifact));
  const auto read = read_artifact_of_any_target(path_);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, artifact);

  const std::string bytes = read_bytes(path_);
  const auto error_of = [&](const std::string& changed) {
    write_bytes(path_, changed);
    const auto refused = read_artifact_of_any_target(path_);
    return refused ? std::string() : refused.error().message;
  };
  EXPECT_THAT(error_of(bytes.substr(0, bytes.size() - 1)), HasSubstr("its PTX has"));
  EXPECT_THAT(error_of(bytes + "x"), HasSubstr("1 bytes more than the header says"));
  std::string flipped = bytes;
  flipped.back() ^= 1;
  EXPECT_THAT(error_of(flipped), HasSubstr("its PTX does not match its hash"));

  artifact.info.target = "opencl";
  EXPECT_THAT(write_artifact(path_, artifact).error().message, HasSubstr("PTX and the target"));
}

/// Returns an artifact for a GPU, with a tensor map.
Artifact artifact_with_map() {
  Artifact artifact = small_artifact();
  artifact.info.target = "cuda:sm_90a";
  artifact.info.packs.clear();
  artifact.info.arguments[0].pack.clear();
  artifact.info.phases = {{.symbol = "f",
                           .tasks = 4,
                           .threads = 128,
                           .maps = {{.argument = 2,
                                     .offset = 64,
                                     .type = Float16,
                                     .extents = {72, 20, 3},
                                     .strides = {144, 2880},
                                     .box = {32, 8, 1},
                                     .swizzle = 64}},
                           .persistent = true}};
  return artifact;
}

TEST_F(ArtifactTest, KeepsTensorMaps) {
  const Artifact artifact = artifact_with_map();
  ASSERT_TRUE(write_artifact(path_, artifact));
  const auto read = read_artifact(path_, Trust::Own, *parse_target("cuda:sm_90a"));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->info.phases, artifact.info.phases);
}

TEST(ArtifactInfo, TensorMapsThatNoEngineTakesAreRefused) {
  const auto error_of = [](const std::function<void(TensorMap&)>& change) {
    KernelInfo info = artifact_with_map().info;
    change(info.phases[0].maps[0]);
    const Status status = check_info(info);
    return status ? std::string() : status.error().message;
  };
  EXPECT_EQ(error_of([](auto&) {}), "");
  EXPECT_THAT(error_of([](auto& m) { m.argument = 3; }), HasSubstr("of argument 3"));
  EXPECT_THAT(error_of([](auto& m) { m.argument = -1; }), HasSubstr("of argument -1"));
  EXPECT_THAT(error_of([](auto& m) { m.offset = 8; }), HasSubstr("byte 8 of argument 2"));
  EXPECT_THAT(error_of([](auto& m) { m.extents[1] = 0; }), HasSubstr("the extent 0"));
  EXPECT_THAT(error_of([](auto& m) { m.strides[0] = 136; }), HasSubstr("a stride of 136 bytes"));
  EXPECT_THAT(error_of([](auto& m) { m.box[1] = 257; }), HasSubstr("a box of 257 elements"));
  EXPECT_THAT(error_of([](auto& m) { m.box[0] = 12; }), HasSubstr("rows of 24 bytes"));
  EXPECT_THAT(error_of([](auto& m) { m.swizzle = 32; }),
              HasSubstr("a swizzle of 32 takes no more"));
  EXPECT_THAT(error_of([](auto& m) { m.swizzle = 48; }), HasSubstr("a swizzle of 48 bytes"));
  EXPECT_THAT(error_of([](auto& m) { m.strides.pop_back(); }), HasSubstr("3 extents, 1 strides"));
  KernelInfo info = artifact_with_map().info;
  info.target = "opencl";
  const Status status = check_info(info);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("the kernel is for opencl"));
}

TEST(ArtifactName, DependsOnAllFourPartsAndIsStable) {
  const std::string name = artifact_name("w", "s", "t", 1);
  EXPECT_EQ(name, short_hash("w\ns\nt\n1") + ".twart");
  EXPECT_NE(name, artifact_name("v", "s", "t", 1));
  EXPECT_NE(name, artifact_name("w", "r", "t", 1));
  EXPECT_NE(name, artifact_name("w", "s", "u", 1));
  EXPECT_NE(name, artifact_name("w", "s", "t", 2));
}

}  // namespace
}  // namespace tw::runtime
