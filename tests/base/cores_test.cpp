// SPDX-License-Identifier: Apache-2.0
#include "base/cores.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/target.h"

namespace tw {
namespace {

namespace fs = std::filesystem;

int cores_of_mask() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  return CPU_COUNT(&set);
}

class Cores : public testing::Test {
 protected:
  Cores() {
    std::string name = (fs::temp_directory_path() / "tw_cores_XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    sources_.membership = folder_ + "/membership";
    sources_.groups = folder_ + "/groups";
  }
  ~Cores() override { fs::remove_all(folder_); }

  void write(const std::string& path, const std::string& line) {
    fs::create_directories(fs::path(folder_ + "/" + path).parent_path());
    std::ofstream(folder_ + "/" + path) << line << "\n";
  }
  int cores() { return usable_cores(sources_); }

  std::string folder_;
  CoreSources sources_;
};

TEST_F(Cores, Fault49_WithoutQuotasTheMaskCounts) {
  EXPECT_EQ(cores(), cores_of_mask());  // no files at all
  write("membership", "0::/");
  write("groups/cpu.max", "max 100000");
  EXPECT_EQ(cores(), cores_of_mask());
  for (const char* odd : {"", "max", "-1 100000", "0 100000", "50000 0", "many 100000"}) {
    write("groups/cpu.max", odd);
    EXPECT_EQ(cores(), cores_of_mask()) << odd;
  }
}

TEST_F(Cores, Fault49_AQuotaOfHalfAProcessorIsOne) {
  write("membership", "0::/");
  write("groups/cpu.max", "50000 100000");
  EXPECT_EQ(cores(), 1);
}

TEST_F(Cores, Fault49_AQuotaBeyondTheMaskChangesNothing) {
  write("membership", "0::/");
  write("groups/cpu.max", "99999999999 100000");
  EXPECT_EQ(cores(), cores_of_mask());
}

TEST_F(Cores, Fault49_TheQuotaOfTheOwnGroupAndOfThoseAboveItCounts) {
  write("membership", "0::/system.slice/tuner.service");
  write("groups/cpu.max", "max 100000");
  write("groups/system.slice/tuner.service/cpu.max", "100000 100000");
  EXPECT_EQ(cores(), 1);
  write("groups/system.slice/tuner.service/cpu.max", "max 100000");
  EXPECT_EQ(cores(), cores_of_mask());
  write("groups/system.slice/cpu.max", "50000 100000");
  EXPECT_EQ(cores(), 1);
}

TEST_F(Cores, Fault49_AContainerThatSeesAnothersPathHasItsOwnRoot) {
  write("membership", "0::/docker/0123");
  write("groups/cpu.max", "100000 100000");
  EXPECT_EQ(cores(), 1);
}

TEST_F(Cores, Fault49_VersionOneOfControlGroups) {
  write("membership", "12:memory:/x\n4:cpu,cpuacct:/box\n0::/");
  write("groups/cpu/cpu.cfs_quota_us", "-1");
  write("groups/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(cores(), cores_of_mask());
  write("groups/cpu/box/cpu.cfs_quota_us", "50000");
  write("groups/cpu/box/cpu.cfs_period_us", "100000");
  EXPECT_EQ(cores(), 1);
}

// A cpuset of a control group is visible in the thread's affinity mask.
TEST_F(Cores, Fault49_AMaskOfOneProcessorIsOne) {
  std::thread([this] {
    cpu_set_t all, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    int core = 0;
    while (!CPU_ISSET(core, &all)) ++core;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(cores(), 1);
    EXPECT_EQ(host_target().machine.cores, 1);
  }).join();
}

}  // namespace
}  // namespace tw
