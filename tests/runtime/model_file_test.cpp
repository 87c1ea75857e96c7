// SPDX-License-Identifier: Apache-2.0
#include "runtime/model_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "runtime/sealed_header.h"
#include "tests/runtime/tiny_kernels.h"
#include "tests/runtime/tiny_model.h"

namespace tw::runtime {
namespace {

using testing::HasSubstr;

constexpr int64_t largest_number = std::numeric_limits<int64_t>::max();

std::vector<std::string> kernels_of(const ModelFile& model) {
  std::vector<std::string> kernels;
  for (const Artifact& kernel : model.kernels) kernels.push_back(artifact_bytes(kernel).value());
  return kernels;
}

/// Returns a file of the model with the given kernel bytes and a changed header. The hash of the
/// header and the padding are made to agree with the change.
std::string with_model_header(const ModelFile& model, const std::vector<std::string>& kernels,
                              const std::function<void(nlohmann::json&)>& change) {
  const std::string bytes = model_bytes(model).value();
  const size_t header_bytes =
      header_prefix_bytes + header_text(bytes, "TWNETF03", std::ssize(bytes))->size();
  std::string changed = with_header(bytes.substr(0, header_bytes), change);
  for (const std::string& kernel : kernels) changed += kernel;
  changed.resize((changed.size() + 4095) / 4096 * 4096, '\0');
  return changed + model.constants;
}

class ModelFileTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(write_model(path_, model_)); }

  void expect_refused(const std::string& what) {
    const auto read = read_model(path_);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::Invalid);
    EXPECT_THAT(read.error().message, HasSubstr(what));
  }
  void expect_refused(const std::function<void(nlohmann::json&)>& change, const std::string& what) {
    write_bytes(path_, with_model_header(model_, kernels_of(model_), change));
    expect_refused(what);
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_ / "net.twart";
  const ModelFile model_ = tiny_model_without_code();
};

TEST_F(ModelFileTest, ReadsWhatItWrote) {
  const auto read = read_model(path_);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, model_);
  EXPECT_EQ(parse_model(model_bytes(model_).value()), model_);
}

TEST_F(ModelFileTest, EqualModelsAreEqualBytes) {
  EXPECT_EQ(read_bytes(path_), model_bytes(tiny_model_without_code()).value());
}

TEST_F(ModelFileTest, ConstantsAreMappedFromAMultipleOf4096) {
  const auto mapped = map_model(path_);
  ASSERT_TRUE(mapped) << mapped.error().message;
  EXPECT_EQ(mapped->constants, model_.constants);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(mapped->constants.data()) % 4096, 0u);
  EXPECT_EQ((mapped->constants.data() - mapped->file.bytes().data()) % 4096, 0);
  EXPECT_EQ(mapped->model.constants, "");
  EXPECT_EQ(mapped->model.kernels, model_.kernels);
}

TEST_F(ModelFileTest, AMappedModelOutlivesItsFile) {
  const auto mapped = map_model(path_);
  ModelFile other = model_;
  other.constants.assign(16, 'x');
  ASSERT_TRUE(write_model(path_, other));
  EXPECT_EQ(mapped->constants, model_.constants);
  std::filesystem::remove(path_);
  EXPECT_EQ(mapped->constants, model_.constants);
}

TEST_F(ModelFileTest, AModelWithoutConstantsAndStepsIsAFileToo) {
  ModelFile model;
  model.target = plain_target();
  model.variants.resize(1);
  ASSERT_TRUE(write_model(path_, model));
  EXPECT_EQ(read_model(path_), model);
}

TEST_F(ModelFileTest, VariantsShareKernelsAndConstants) {
  const ModelFile both = two_variants_model();
  ASSERT_TRUE(write_model(path_, both));
  EXPECT_EQ(read_model(path_), both);
}

TEST_F(ModelFileTest, FilesOfVersion1AreRead) {
  std::string bytes = with_model_header(model_, kernels_of(model_), [](auto& json) {
    for (const auto& [name, value] : json["variants"][0].items()) json[name] = value;
    json.erase("variants");
  });
  ASSERT_TRUE(bytes.starts_with("TWNETF03"));
  write_bytes(path_, bytes);
  expect_refused("the header has a wrong field");
  bytes[7] = '1';
  write_bytes(path_, bytes);
  EXPECT_TRUE(is_model_file(path_));
  const auto read = read_model(path_);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, model_);
}

TEST_F(ModelFileTest, FilesOfVersion2AreRead) {
  std::string bytes = with_model_header(model_, kernels_of(model_), [](auto& json) {
    for (auto& variant : json["variants"]) variant.erase("loops");
  });
  bytes[7] = '2';
  write_bytes(path_, bytes);
  EXPECT_TRUE(is_model_file(path_));
  const auto read = read_model(path_);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, model_);
}

TEST_F(ModelFileTest, KeepsLoops) {
  const ModelFile model = loop_model_without_code(3);
  ASSERT_TRUE(write_model(path_, model));
  EXPECT_EQ(read_model(path_), model);
  write_bytes(path_, with_model_header(model, kernels_of(model), [](auto& json) {
                json["variants"][0]["tensors"][6]["slide"] = {0, 16};
              }));
  expect_refused("the header has a wrong field");
}

TEST_F(ModelFileTest, LeavesNoTemporaryFile) {
  const auto entries = std::filesystem::directory_iterator(directory_.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST_F(ModelFileTest, IsToldFromOtherFiles) {
  EXPECT_TRUE(is_model_file(path_));
  EXPECT_FALSE(is_model_file(directory_.path()));
  EXPECT_FALSE(is_model_file(directory_ / "none"));
  ASSERT_EQ(mkfifo((directory_ / "fifo").c_str(), 0600), 0);
  EXPECT_FALSE(is_model_file(directory_ / "fifo"));
  for (const std::string_view other : {"", "TWNETF0", "TWARTF01 and more"}) {
    write_bytes(path_, other);
    EXPECT_FALSE(is_model_file(path_)) << other;
    expect_refused("it does not begin with TWNETF03");
  }
}

TEST_F(ModelFileTest, AKernelIsNamedAsOne) {
  ASSERT_TRUE(write_artifact(path_, model_.kernels.front()));
  expect_refused("it is a kernel: load it by Session::load() or tw_kernel_load()");
}

TEST_F(ModelFileTest, MissingFileIsNotCompiled) {
  EXPECT_EQ(read_model(directory_ / "other.twart").error().code, ErrorCode::NotCompiled);
}

TEST_F(ModelFileTest, UnsafeModelsAreNotWritten) {
  ModelFile model = model_;
  model.variants[0].steps.pop_back();
  EXPECT_EQ(write_model(path_, model).error().code, ErrorCode::Invalid);
  EXPECT_FALSE(model_bytes(model));
  model = model_;
  model.name = "\xff";
  EXPECT_THAT(write_model(path_, model).error().message, HasSubstr("not UTF-8"));
  EXPECT_EQ(read_model(path_), model_) << "the old file stays";
}

TEST_F(ModelFileTest, UnsafeModelsAreNotRead) {
  expect_refused([](auto& json) { json["variants"][0]["steps"][1]["arguments"][1] = 3; },
                 "writes tensor 'rows', which overlaps its argument 'rows'");
  expect_refused([](auto& json) { json["variants"][0]["arena_bytes"] = 64; }, "inside of 64 bytes");
}

TEST_F(ModelFileTest, AnUntouchedRewriteIsAccepted) {  // so the helper causes no refusal
  EXPECT_EQ(with_model_header(model_, kernels_of(model_), [](auto&) {}), read_bytes(path_));
}

TEST_F(ModelFileTest, Fault52_FeaturesThatTheMachineLacksAreNamed) {
  ModelFile model = model_;
  for (Artifact& kernel : model.kernels) kernel.info.target = "x86-64-linux-avx2-avx512f-fma";
  ASSERT_TRUE(write_model(path_, model));
  const auto of_kernels = read_model(path_, Trust::Own, *parse_target("x86-64-v3"));
  ASSERT_FALSE(of_kernels);
  EXPECT_THAT(of_kernels.error().message, HasSubstr("has no avx512f"));
  model = model_;
  model.target = "x86-64-linux-avx2-avx512f-fma";
  ASSERT_TRUE(write_model(path_, model));
  EXPECT_FALSE(read_model(path_, Trust::Own, *parse_target("x86-64-v3")));
}

TEST_F(ModelFileTest, Fault54_EveryTruncationIsRefused) {
  const std::string bytes = read_bytes(path_);
  for (size_t length = 0; length < bytes.size(); length += 5) {
    const auto parsed = parse_model(std::string_view(bytes).substr(0, length));
    ASSERT_FALSE(parsed) << length;
    ASSERT_EQ(parsed.error().code, ErrorCode::Invalid) << length;
  }
  write_bytes(path_, bytes.substr(0, bytes.size() - 1));
  expect_refused("its constants have 15 bytes, the header says 16");
  write_bytes(path_, bytes + "x");
  expect_refused("its constants have 17 bytes, the header says 16");
}

TEST_F(ModelFileTest, Fault54_EveryChangedByteIsRefused) {
  const std::string bytes = read_bytes(path_);
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ (1 << (at % 8)));
    const auto parsed = parse_model(changed);
    ASSERT_FALSE(parsed) << "byte " << at;
    ASSERT_EQ(parsed.error().code, ErrorCode::Invalid) << "byte " << at;
  }
}

TEST_F(ModelFileTest, Fault54_ChangedConstantsAreNoticedUnlessTheyAreTrusted) {
  std::string bytes = read_bytes(path_);
  bytes.back() ^= 1;
  write_bytes(path_, bytes);
  expect_refused("its block of constants does not match its hash");
  const auto trusted = map_model(path_, Trust::Own, host_target(), Constants::Trusted);
  ASSERT_TRUE(trusted) << trusted.error().message;
  EXPECT_EQ(trusted->constants.back(), bytes.back());
}

TEST_F(ModelFileTest, Fault54_AnotherKernelIsRefused) {
  ModelFile other = model_;
  other.kernels[1].object.back() ^= 1;  // the kernel's own header and hash agree with the change
  const std::string before = model_bytes(model_).value(), after = model_bytes(other).value();
  const auto header = nlohmann::json::parse(header_text(before, "TWNETF03", 1 << 20).value());
  ASSERT_EQ(before.size(), after.size());
  write_bytes(path_, with_header(after, [&](auto& json) { json["kernels"] = header["kernels"]; }));
  expect_refused("its kernel 1 does not match its hash");
}

TEST_F(ModelFileTest, Fault54_FilesOfOthersLinksAndFifosAreRefused) {
  ASSERT_EQ(chmod(path_.c_str(), 0620), 0);
  expect_refused("chmod go-w");
  ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  const std::string link = directory_ / "link.twart", fifo = directory_ / "fifo.twart";
  ASSERT_EQ(symlink(path_.c_str(), link.c_str()), 0);
  EXPECT_THAT(read_model(link).error().message, HasSubstr("symbolic link"));
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(read_model(fifo).error().message, HasSubstr("no regular file"));
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(chown(path_.c_str(), 12345, 0), 0);
  expect_refused("belongs to user 12345");
}

TEST_F(ModelFileTest, Fault13_AFileThatIsTooLargeIsRefusedUnread) {
  ASSERT_EQ(truncate(path_.c_str(), most_model_bytes + 1), 0);
  expect_refused(fmt::format("expected at most {}", most_model_bytes));
}

TEST_F(ModelFileTest, Fault55_KernelsOfAnotherAbiVersionAreRefused) {
  std::vector<std::string> kernels = kernels_of(model_);
  kernels[2] = with_header(kernels[2], [](auto& json) { json["runtime_abi"] = 1; });
  write_bytes(
      path_, with_model_header(model_, kernels, [&](auto& json) {
        json["kernels"][2] = {{"bytes", kernels[2].size()}, {"hash", sha256_hex(kernels[2])}};
      }));
  expect_refused("kernel ABI is version 1");
}

TEST_F(ModelFileTest, FieldsOfTheWrongTypeAreRefused) {
  expect_refused([](auto& json) { json["variants"][0]["tensors"] = 3; }, "wrong field");
  expect_refused([](auto& json) { json["variants"][0]["steps"][0].erase("kernel"); },
                 "wrong field");
  expect_refused([](auto& json) { json["variants"][0]["steps"][0]["arguments"] = "x"; },
                 "wrong field");
  expect_refused([](auto& json) { json["variants"][0]["tensors"][0]["dtype"] = "f7"; }, "f7");
  expect_refused([](auto& json) { json["variants"][0]["tensors"][0]["place"] = "moon"; },
                 "'moon' is no place of a tensor");
  expect_refused([](auto& json) { json["variants"][0]["steps"][0]["predicted_ns"] = nullptr; },
                 "wrong field");
  expect_refused([](auto& json) { json["variants"][0].erase("plan"); }, "wrong field");
  expect_refused([](auto& json) { json["variants"][0]["tensors"][4]["bytes"] = 16.0; },
                 "wrong field");
  expect_refused([](auto& json) { json["variants"][0]["steps"][0]["kernel"] = 0.5; },
                 "wrong field");
  expect_refused([](auto& json) { json["variants"][0]["inputs"] = {false}; }, "wrong field");
  expect_refused([](auto& json) { json["variants"][0]["arena_bytes"] = 1e300; }, "wrong field");
  expect_refused([](auto& json) { json["constants"]["bytes"] = 16.0; }, "wrong field");
}

TEST_F(ModelFileTest, NumbersAreNeverTrusted) {
  expect_refused([](auto& json) { json["variants"][0]["steps"][0]["kernel"] = int64_t{1} << 32; },
                 "calls kernel -1");
  expect_refused([](auto& json) { json["variants"][0]["inputs"] = {largest_number}; },
                 "input 0 is tensor -1");
  expect_refused([](auto& json) { json["threads"] = largest_number; }, "it has -1 threads");
  expect_refused([](auto& json) { json["variants"][0]["tensors"][4]["at"] = largest_number; },
                 "tensor 'doubled'");
  expect_refused([](auto& json) { json["variants"][0]["tensors"][4]["bytes"] = largest_number; },
                 "tensor 'doubled' has");
  expect_refused([](auto& json) { json["kernels"][0]["bytes"] = uint64_t{1} << 63; },
                 "its kernel 0 has");
  expect_refused([](auto& json) { json["kernels"][0]["bytes"] = 0; },
                 "its kernel 0 does not match its hash");
  expect_refused([](auto& json) { json["constants"]["bytes"] = uint64_t(-1); },
                 "its constants have 16 bytes");
}

TEST_F(ModelFileTest, ADeepHeaderIsRefusedAndNoStackIsExhausted) {
  const std::string text(8 << 20, '[');
  std::string bytes = "TWNETF03";
  for (int shift = 0; shift < 32; shift += 8)
    bytes += static_cast<char>((text.size() >> shift) & 0xff);
  write_bytes(path_, bytes + text);
  expect_refused("the header is no JSON");
  write_bytes(path_, bytes + text.substr(0, text.size() / 2) + std::string(text.size() / 2, ']'));
  expect_refused("the header is not in canonical form");
}

TEST_F(ModelFileTest, KeepsBands) {
  ModelFile model = branches_model_without_code(3);
  ASSERT_TRUE(write_model(path_, model));
  EXPECT_EQ(read_model(path_), model);
  for (const char* field : {"first", "chains"}) {
    write_bytes(path_, with_model_header(model, kernels_of(model), [&](auto& json) {
                  auto& value = json["variants"][0]["bands"][0][field];
                  (value.is_array() ? value[0] : value) = int64_t{1} << 40;
                }));
    expect_refused("band 0 has");
  }
  // A file without bands is the network in order. A runtime that does not know bands reads the file
  // like this.
  write_bytes(path_, with_model_header(model, kernels_of(model), [](auto& json) {
                EXPECT_EQ(json["variants"][0].erase("bands"), 1u);
              }));
  model.variants[0].bands.clear();
  EXPECT_EQ(read_model(path_), model);
}

}  // namespace
}  // namespace tw::runtime
