// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "graph/onnx/import.h"
#include "tests/graph/onnx_imports.h"
#include "tests/graph/onnx_models.h"

namespace tw::graph {
namespace {

using ::testing::ElementsAre;

// ---- 60: external data --------------------------------------------------------------------------

class OnnxExternalData : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = (std::filesystem::temp_directory_path() / "tw_onnx_XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    root_ = folder;
    std::filesystem::create_directories(root_ / "model" / "data");
    write("model/data/w.bin");
    write("outside.bin");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& name) {
    std::ofstream(root_ / name, std::ios::binary) << std::string("\0\0\x80\x3f\0\0\0\x40", 8);
  }

  /// Imports a model with a tensor of `count` floats in the file `location`.
  Result<Graph> read(const std::string& location, int64_t count = 2,
                     const std::map<std::string, std::string>& entries = {}) {
    TensorProto tensor = tensor_of("w", TensorProto::FLOAT, {count});
    tensor.set_data_location(TensorProto::EXTERNAL);
    std::map<std::string, std::string> all = entries;
    all["location"] = location;
    for (const auto& [key, value] : all) {
      auto& entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    return imported(constant_model(tensor), {}, (root_ / "model").string());
  }

  void expect_refused(const std::string& location, const std::string& why) {
    expect_error(read(location), ErrorCode::Invalid, why);
  }

  std::filesystem::path root_;
};

TEST_F(OnnxExternalData, IsReadBelowTheFolder) {
  const auto graph = read("data/w.bin");
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_THAT(values_of(*graph, "w"), ElementsAre(1, 2));
  const auto part = read("data/../data/w.bin", 1, {{"offset", "4"}, {"length", "4"}});
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_THAT(values_of(*part, "w"), ElementsAre(2));
}

TEST_F(OnnxExternalData, Fault60_PathsThatLeadOutside) {
  expect_refused("../outside.bin", "outside of the model's folder");
  expect_refused("data/../../outside.bin", "outside of the model's folder");
  expect_refused((root_ / "outside.bin").string(), "outside of the model's folder");
  expect_refused(std::string("data/w.bin\0x", 12), "a zero byte");
}

TEST_F(OnnxExternalData, Fault60_Links) {
  std::filesystem::create_symlink(root_ / "outside.bin", root_ / "model/link.bin");
  expect_refused("link.bin", "a symbolic link leads out of the folders of the model");
  std::filesystem::create_directory_symlink(root_, root_ / "model/parent");
  expect_refused("parent/outside.bin", "a symbolic link leads out of the folders of the model");
  std::filesystem::create_symlink("loop.bin", root_ / "model/loop.bin");
  expect_error(read("loop.bin"), ErrorCode::Environment, "cannot be read");
  std::filesystem::create_symlink("data/w.bin", root_ / "model/inner.bin");
  EXPECT_TRUE(read("inner.bin"));
  std::filesystem::create_hard_link(root_ / "outside.bin", root_ / "model/hard.bin");
  EXPECT_TRUE(read("hard.bin"));
}

// Caches of downloads have links such as snapshot/m.onnx -> ../blobs/aa and snapshot/w.bin ->
// ../blobs/bb.
TEST_F(OnnxExternalData, LinksMayLeadToTheFolderOfTheModelsOwnFile) {
  std::filesystem::create_directories(root_ / "blobs");
  std::filesystem::create_directories(root_ / "snapshot");
  TensorProto tensor = tensor_of("w", TensorProto::FLOAT, {2});
  tensor.set_data_location(TensorProto::EXTERNAL);
  auto& entry = *tensor.add_external_data();
  entry.set_key("location");
  const auto write_model = [&](const std::string& location) {
    tensor.mutable_external_data(0)->set_value(location);
    std::ofstream(root_ / "blobs/aa", std::ios::binary)
        << constant_model(tensor).SerializeAsString();
    return read_onnx((root_ / "snapshot/m.onnx").string());
  };
  write("blobs/bb");
  std::filesystem::create_symlink("../blobs/aa", root_ / "snapshot/m.onnx");
  std::filesystem::create_symlink("../blobs/bb", root_ / "snapshot/w.bin");
  std::filesystem::create_symlink("../outside.bin", root_ / "snapshot/far.bin");
  const auto model = write_model("w.bin");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT(values_of(model->graph, "w"), ElementsAre(1, 2));
  expect_error(write_model("far.bin"), ErrorCode::Invalid,
               "a symbolic link leads out of the folders of the model");
  expect_error(write_model("../blobs/bb"), ErrorCode::Invalid, "outside of the model's folder");
}

TEST_F(OnnxExternalData, Fault60_WhatIsNoFile) {
  expect_refused("data", "no regular file");
  ASSERT_EQ(mkfifo((root_ / "model/pipe").c_str(), 0600), 0);
  expect_refused("pipe", "no regular file");
  expect_error(read("none.bin"), ErrorCode::Environment, "cannot be read");
}

TEST_F(OnnxExternalData, Fault60_RangesThatAreNotInTheFile) {
  const std::string huge = "9223372036854775807";
  expect_error(read("data/w.bin", 3), ErrorCode::Invalid, "8 bytes, expected 12");
  expect_error(read("data/w.bin", 3, {{"length", "12"}}), ErrorCode::Invalid, "more than its 8");
  expect_error(read("data/w.bin", 2, {{"offset", huge}}), ErrorCode::Invalid, "offset");
  expect_error(read("data/w.bin", 2, {{"offset", "4"}, {"length", "8"}}), ErrorCode::Invalid,
               "8 bytes from 4 on are more than its 8 bytes");
  expect_error(read("data/w.bin", 2, {{"offset", "8"}, {"length", huge}}), ErrorCode::Invalid,
               "expected 8");
  expect_error(read("data/w.bin", 2, {{"offset", "-4"}}), ErrorCode::Invalid, "no number of bytes");
  expect_error(read("data/w.bin", 2, {{"length", "99999999999999999999"}}), ErrorCode::Invalid,
               "no number of bytes");
}

TEST_F(OnnxExternalData, Fault60_AModelWithoutAFolderHasNone) {
  TensorProto tensor = tensor_of("w", TensorProto::FLOAT, {2});
  tensor.set_data_location(TensorProto::EXTERNAL);
  expect_invalid(constant_model(tensor), "external data have no location");
  auto& entry = *tensor.add_external_data();
  entry.set_key("location");
  entry.set_value("w.bin");
  expect_invalid(constant_model(tensor), "the model has no folder");
}

TEST_F(OnnxExternalData, ModelsAreReadFromFiles) {
  std::ofstream(root_ / "model/m.onnx", std::ios::binary) << identity_model().SerializeAsString();
  EXPECT_TRUE(read_onnx((root_ / "model/m.onnx").string()));
  EXPECT_EQ(read_onnx((root_ / "none.onnx").string()).error().code, ErrorCode::Environment);
  EXPECT_EQ(read_onnx((root_ / "model").string()).error().code, ErrorCode::Environment);
  const std::string damaged = (root_ / "outside.bin").string();
  expect_error(read_onnx(damaged), ErrorCode::Invalid, damaged + ": the model cannot be read");
}

}  // namespace
}  // namespace tw::graph
