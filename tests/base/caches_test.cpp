// SPDX-License-Identifier: Apache-2.0
#include "base/caches.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace tw {
namespace {

class Caches : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "cachesXXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void add(int index, const std::string& level, const std::string& type, const std::string& size) {
    const std::filesystem::path cache = folder_ + "/index" + std::to_string(index);
    std::filesystem::create_directory(cache);
    std::ofstream(cache / "level") << level << "\n";
    std::ofstream(cache / "type") << type << "\n";
    std::ofstream(cache / "size") << size << "\n";
  }

  std::string folder_;
};

TEST_F(Caches, AreThoseOfOneCore) {
  add(0, "1", "Data", "48K");
  add(1, "1", "Instruction", "32K");
  add(2, "2", "Unified", "1024K");
  add(3, "3", "Unified", "32768K");
  EXPECT_EQ(cache_sizes(folder_), (std::array<int64_t, 3>{48 << 10, 1 << 20, 32 << 20}));
}

TEST_F(Caches, MayBeFewer) {
  add(0, "1", "Data", "64K");
  add(1, "2", "Unified", "512K");
  EXPECT_EQ(cache_sizes(folder_), (std::array<int64_t, 3>{64 << 10, 512 << 10, 0}));
}

TEST_F(Caches, WhatIsNoSizeIsNotKnown) {
  add(0, "1", "Data", "many");
  add(1, "2", "Unified", "256K");
  add(2, "9", "Unified", "256K");
  EXPECT_EQ(cache_sizes(folder_), (std::array<int64_t, 3>{0, 256 << 10, 0}));
}

}  // namespace
}  // namespace tw
