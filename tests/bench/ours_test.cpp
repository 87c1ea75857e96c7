// SPDX-License-Identifier: Apache-2.0
#include "bench/ours.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/abi.h"
#include "schedules/schedule.h"
#include "tests/db/samples.h"
#include "tuner/workers/device.h"

namespace tw::bench {
namespace {

db::Record record_of(const dsl::Workload& workload, const std::string& device) {
  db::Record record = db::sample_record(1);
  record.workload = workload.key();
  record.op = workload.op;
  record.target = host_target().to_string();
  record.device = device;
  record.codegen_abi = codegen::codegen_abi;
  record.schedule = schedules::Schedule(workload.compute).to_string();
  return db::seal(std::move(record));
}

// The schedule of such a record is only a candidate for a trial, so a kernel needs tuning first.
TEST(FindKernel, ARecordOfAnotherMachineIsNoKernelOfThisOne) {
  const db::Folder folder;
  db::Store store = db::Store::open(folder / "t.db", db::OpenMode::ReadWrite).value();
  dsl::Workload workload = dsl::make_workload("dense", {{"m", 4}, {"n", 4}, {"k", 4}}).value();
  ASSERT_TRUE(store.append(std::vector{record_of(workload, "Another CPU; 64 cores")}));
  const auto known = tuner::best_known(store, workload, host_target(), 1);
  ASSERT_TRUE(known && *known);
  for (const dsl::CacheState state : {dsl::CacheState::Hot, dsl::CacheState::NetworkMemory}) {
    workload.state = state;
    const auto found = find_kernel(workload, host_target(), {}, Search::No, store, {}, {});
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, ErrorCode::NoCandidate) << found.error().message;
    EXPECT_THAT(found.error().message, testing::HasSubstr("for 1 threads of this machine"));
  }
}

}  // namespace
}  // namespace tw::bench
