// SPDX-License-Identifier: Apache-2.0
// Fuzz target for a workload on the first line and a schedule for it, as records and files of
// schedules hold them. The schedule is read, lowered, and checked for a processor and for a GPU,
// but not compiled.
#include <algorithm>
#include <filesystem>

#include "dsl/workload.h"
#include "schedules/program/legality.h"
#include "schedules/program/program.h"
#include "schedules/schedule.h"
#include "tests/fuzz/promises.h"
#include "tests/fuzz/target.h"

namespace tw::fuzz {
namespace {

std::vector<std::string> golden_schedules() {
  std::vector<std::string> seeds;
  for (const auto& entry :
       std::filesystem::directory_iterator(TW_FUZZ_ROOT "/tests/schedules/golden")) {
    if (entry.path().extension() != ".tw1") continue;
    const std::string text =
        source_file("tests/schedules/golden/" + entry.path().filename().string());
    seeds.push_back(text.substr(0, text.find("---")));
  }
  std::sort(seeds.begin(), seeds.end());
  seeds.push_back(
      "dense m=8 n=8 k=64 bias=0 relu=0 f32 fast\ntw1\nrfactor out k 4\ninline out\n"
      "swizzle a@out 64\nbulk a@out\nspecialise out\nprefetch out a k k\n");
  return seeds;
}

/// Reads the same text as a file that a person has written. Errors then name the position.
void check_position(const dsl::Compute& compute, std::string_view text, bool is_valid) {
  const auto read = schedules::read_schedule(compute, text, "a.tw1");
  TW_CHECK(read.has_value() == is_valid, "both readers must agree");
  if (!read) check_error(read.error());
}

bool schedule_accepts(std::string_view input) {
  const size_t end = std::min(input.find('\n'), input.size());
  const auto workload = dsl::parse_workload(input.substr(0, end));
  if (!workload) return check_error(workload.error()), false;
  const std::string_view text = input.substr(end);
  const auto schedule = schedules::parse_schedule(workload->compute, text);
  check_position(workload->compute, text, schedule.has_value());
  if (!schedule) return check_error(schedule.error()), false;
  const auto again = schedules::parse_schedule(workload->compute, schedule->to_string());
  TW_CHECK(again && again->to_string() == schedule->to_string(), "it must print and parse back");
  for (const char* target : {"x86-64-linux-avx-avx2-fma", "cuda:sm_90a"}) {
    const auto parsed = parse_target(target);
    const auto program = schedule->program(schedules::limits_of(*parsed));
    if (!program) check_error(program.error());
  }
  return true;
}

}  // namespace

const Target schedule_target = {.name = "schedule",
                                .summary = "a workload and a schedule for it",
                                .seeds = golden_schedules,
                                .accepts = schedule_accepts,
                                .words = {"tw1",
                                          "\n",
                                          ";",
                                          "split ",
                                          "fuse ",
                                          "reorder ",
                                          "unroll ",
                                          "vectorize ",
                                          "parallel ",
                                          "bind ",
                                          "compute_at ",
                                          "inline ",
                                          "epilogue ",
                                          "cache_write ",
                                          "cache_read ",
                                          "store_in ",
                                          "cache_operand ",
                                          "cache_result ",
                                          "tensorize ",
                                          "pipeline ",
                                          "bulk ",
                                          "specialise ",
                                          "persist ",
                                          "launch_bounds ",
                                          "pad ",
                                          "swizzle ",
                                          "rfactor ",
                                          "prefetch ",
                                          "prepare ",
                                          "set_layout ",
                                          " shift",
                                          " exact",
                                          " guard",
                                          " as a b",
                                          "out",
                                          "k.0",
                                          "m.1.0",
                                          "a@out",
                                          "NCHW16c",
                                          " blocks",
                                          " shared",
                                          "# ",
                                          "mma_m16n8k8_tf32",
                                          "wgmma_m64n8k8_tf32"}};

}  // namespace tw::fuzz
