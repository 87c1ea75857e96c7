// SPDX-License-Identifier: Apache-2.0
#include "db/workload_text.h"

#include <gtest/gtest.h>

#include "tests/db/samples.h"

namespace tw::db {
namespace {

TEST(WorkloadText, LayoutsFollowTheKeyInBraces) {
  const Record free = sample_record(0), asked = with_layouts(free, "in=NCHW16c out=NHWC");
  EXPECT_EQ(workload_text(free), free.workload);
  EXPECT_EQ(workload_text(asked), free.workload + " {in=NCHW16c out=NHWC}");
  for (const Record& record : {free, asked})
    EXPECT_EQ(parse_workload_text(workload_text(record)),
              (WorkloadName{record.workload, record.layouts}));
}

TEST(WorkloadText, OtherTextIsAKey) {
  for (const char* text : {"", "}", "{}", "a {b", "a{b}"})
    EXPECT_EQ(parse_workload_text(text), (WorkloadName{text, ""})) << text;
}

}  // namespace
}  // namespace tw::db
