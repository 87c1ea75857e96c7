// SPDX-License-Identifier: Apache-2.0
// Tests the machine code of large kernels that ptxas makes for sm_90a, with NVIDIA's disassembler.
// The code must have the instructions that its schedule asks for, and keep its accumulators in
// registers. Some tests change the default schedule. Others take the schedule that the cost model
// chooses without trials, as `show` and `explain` print it.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/text.h"
#include "codegen/gpu/emitter.h"
#include "dsl/workload.h"
#include "schedules/problem.h"
#include "schedules/program/legality.h"
#include "tests/codegen/gpu_runs.h"
#include "tests/nightly.h"
#include "tests/schedules/spaces.h"
#include "tuner/search/scoring.h"

namespace tw::ptx {
namespace {

namespace fs = std::filesystem;

/// Returns the path of nvdisasm: that of the Python package in .venv, otherwise that of a toolkit;
/// "" if there is none.
std::string disassembler() {
  std::vector<fs::path> places;
  std::error_code error;
  for (const auto& python : fs::directory_iterator(TW_SOURCE_DIR "/.venv/lib", error))
    places.push_back(python.path() / "site-packages/nvidia/cu13/bin");
  if (const char* home = getenv("CUDA_HOME")) places.push_back(fs::path(home) / "bin");
  places.emplace_back("/usr/local/cuda/bin");
  for (const fs::path& place : places)
    if (fs::exists(place / "nvdisasm", error)) return (place / "nvdisasm").string();
  return {};
}

/// Returns the instructions of a kernel with their operands, one in each element. Labels, such as
/// ".L_x_4:", are elements of their own.
std::vector<std::string> disassembled(const std::string& program, const std::string& cubin) {
  std::string path = (fs::temp_directory_path() / "tw_sass_XXXXXX").string();
  close(mkstemp(path.data()));
  std::ofstream(path, std::ios::binary) << cubin;
  std::string text;
  const std::string command = fmt::format("'{}' -c '{}'", program, path);
  if (FILE* pipe = popen(command.c_str(), "r")) {
    char part[4096];
    for (size_t n; (n = fread(part, 1, sizeof part, pipe)) > 0;) text.append(part, n);
    EXPECT_EQ(pclose(pipe), 0) << command;
  }
  fs::remove(path);
  std::vector<std::string> lines;
  for (const std::string& line :
       split(text, '\n')) {  // "  /*01a0*/  HGMMA.64x128x16... ;  /* ... */"
    const size_t begin = line.find("/*"), end = line.find("*/");
    const bool has_address = end != std::string::npos && end > begin + 5 &&
                             line.find_first_not_of("0123456789abcdef", begin + 2) == end;
    if (has_address && line.find(';') != std::string::npos) lines.push_back(line.substr(end + 2));
    if (line.starts_with(".L")) lines.push_back(line);
  }
  return lines;
}

/// A loop: the lines from a label, `begin`, to the instruction that jumps back to it, `end`.
struct SassLoop {
  size_t begin, end;
  bool has(size_t line) const { return begin <= line && line <= end; }
};

bool is_instruction(const std::string& line, std::string_view what) {
  return line.find(what) != std::string::npos;
}

/// Returns the loops before the first EXIT without a condition. The code after it is slow paths for
/// rare cases. These paths jump back into the kernel, but form no loops.
std::vector<SassLoop> loops_of(const std::vector<std::string>& lines) {
  std::vector<SassLoop> loops;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (tw::words(lines[i]).front() == "EXIT") break;
    const size_t from = lines[i].find("(.L"), to = lines[i].find(')');
    if (!is_instruction(lines[i], "BRA") || from == std::string::npos) continue;
    const std::string label = lines[i].substr(from + 1, to - from - 1) + ":";
    const auto at = static_cast<size_t>(std::ranges::find(lines, label) - lines.begin());
    if (at < i) loops.push_back({at, i});
  }
  return loops;
}

/// Returns the smallest loop that has these two lines; all lines if no loop has them.
SassLoop innermost_loop(const std::vector<std::string>& lines, size_t first, size_t last) {
  SassLoop smallest = {0, lines.size() - 1};
  for (const SassLoop& loop : loops_of(lines))
    if (loop.has(first) && loop.has(last) && loop.end - loop.begin < smallest.end - smallest.begin)
      smallest = loop;
  return smallest;
}

int64_t count_between(const std::vector<std::string>& lines, const SassLoop& range,
                      std::string_view what) {
  int64_t count = 0;
  for (size_t i = range.begin; i <= range.end; ++i) count += is_instruction(lines[i], what);
  return count;
}

/// Returns the lines that have this instruction.
std::vector<size_t> places_of(const std::vector<std::string>& lines, std::string_view what) {
  std::vector<size_t> places;
  for (size_t i = 0; i < lines.size(); ++i)
    if (is_instruction(lines[i], what)) places.push_back(i);
  return places;
}

/// Counts barriers between stores of a row. A barrier counts once if it is between the first store
/// and the last one, and once for each store whose innermost loop contains it. A loop that also
/// exchanges values between lanes (SHFL) is a loop over rows, each of which is reduced; its
/// barriers do not count.
int64_t barriers_among_stores(const std::vector<std::string>& lines) {
  const std::vector<size_t> stores = places_of(lines, "STG");
  if (stores.empty()) return 0;
  int64_t barriers = count_between(lines, {stores.front(), stores.back()}, "BAR.SYNC");
  for (const size_t store : stores) {
    const SassLoop loop = innermost_loop(lines, store, store);
    if (loop.begin > 0 && count_between(lines, loop, "SHFL") == 0)
      barriers += count_between(lines, loop, "BAR.SYNC");
  }
  return barriers;
}

class Sass : public testing::Test {
 protected:
  void SetUp() override {
    const auto nvrtc = codegen::open_nvrtc();
    if (!nvrtc) GTEST_SKIP() << "[SKIP] " << nvrtc.error().message;
    nvrtc_ = std::make_unique<codegen::Nvrtc>(*nvrtc);
    disassembler_ = disassembler();
    if (disassembler_.empty())
      GTEST_SKIP() << "[SKIP] no nvdisasm: install tools/requirements/test.txt into .venv";
  }

  /// Compiles a large product.
  void compile(const char* type, const schedules::KnobChanges& changes) {
    compile_default(fmt::format("dense m=4096 n=4096 k=4096 {} fast", type), changes);
  }

  /// Compiles the default point of a workload with changed knobs.
  void compile_default(const std::string& key, const schedules::KnobChanges& changes) {
    const auto workload = dsl::parse_workload(key);
    ASSERT_TRUE(workload) << workload.error().message;
    const auto space =
        schedules::Space::derive(schedules::Problem{workload->compute, workload->layouts}, target_);
    ASSERT_TRUE(space) << space.error().message;
    const auto point = schedules::changed(*space, space->default_point(), changes);
    ASSERT_TRUE(point && space->allowed(*point));
    compile_schedule(space->schedule(*point));
  }

  /// Returns the schedule that the cost model chooses for a workload without trials.
  Result<schedules::Schedule> chosen(const std::string& key) const {
    TW_TRY(const dsl::Workload workload, dsl::parse_workload(key));
    TW_TRY(const std::string text,
           tuner::predicted_schedule(schedules::problem_of(workload), target_, 1));
    return schedules::parse_schedule(workload.compute, text);
  }

  void compile_chosen(const std::string& key) {
    const auto schedule = chosen(key);
    ASSERT_TRUE(schedule) << schedule.error().message;
    compile_schedule(*schedule);
  }

  void compile_schedule(const schedules::Schedule& schedule) {
    schedule_ = schedule.to_string();
    const auto program = schedule.program(schedules::limits_of(target_));
    ASSERT_TRUE(program) << program.error().message;
    const auto code = codegen::emit_gpu(*program, "k", codegen::GpuDialect::Cuda);
    ASSERT_TRUE(code) << code.error().message;
    compile_text(code->text);
  }

  void compile_text(const std::string& text) {
    const auto compiled = nvrtc_->compile(text, "sm_90a");
    ASSERT_TRUE(compiled) << compiled.error().message;
    lines_ = disassembled(disassembler_, compiled->code.binary);
    ASSERT_GT(lines_.size(), 20u);
  }

  /// Returns the factor by which the schedule splits a loop. For example, 64 for the loop "product
  /// k" if the schedule has the step "split product k 64".
  int64_t factor(const std::string& loop) const {
    const std::string step = "split " + loop + " ";
    const size_t at = schedule_.find(step);
    EXPECT_NE(at, std::string::npos) << step << schedule_;
    return at == std::string::npos ? 1 : std::stoll(schedule_.substr(at + step.size()));
  }

  /// Expects no instruction that accesses local memory, because spilled registers would be there.
  void expect_no_spills() const {
    EXPECT_EQ(count("STL"), 0) << schedule_;
    EXPECT_EQ(count("LDL"), 0) << schedule_;
  }

  int64_t count(const std::string& what) const {
    return count_between(lines_, {0, lines_.size() - 1}, what);
  }

  const Target target_ = *parse_target("cuda:sm_90a");
  std::unique_ptr<codegen::Nvrtc> nvrtc_;
  std::string disassembler_, schedule_;
  std::vector<std::string> lines_;
};

/// Returns knob values with which the threads copy both operands, for tiles of 128 x 128.
schedules::KnobChanges copied_by_threads() {
  return {{"copies", 0}, {"block.columns", 128}, {"staged", 0}};
}

/// Returns knob values with which warps of their own copy both operands by TMA, for tiles of 128 x
/// 256.
schedules::KnobChanges copied_in_bulk() {
  return {{"copies", 2}, {"stages", 4}, {"block.columns", 256}, {"staged", 0}};
}

TEST_F(Sass, WarpgroupProductsHaveOneInstructionATile) {
  ASSERT_NO_FATAL_FAILURE(compile("bf16", copied_by_threads()));
  const int64_t terms = factor("product k") / factor("product k.1");
  const int64_t rows = factor("product m.1") / 64;
  EXPECT_EQ(count("HGMMA.64x" + std::to_string(factor("product n")) + "x16.F32.BF16"), terms * rows)
      << schedule_;
  EXPECT_EQ(count("HGMMA"), terms * rows);
  EXPECT_EQ(count("UTMALDG"), 0);
  EXPECT_EQ(count("USETMAXREG"), 0);
  EXPECT_GT(count("LDGSTS"), 0);
  expect_no_spills();
}

TEST_F(Sass, SpecialisedProductsCopyInBulkAndMoveRegisters) {
  ASSERT_NO_FATAL_FAILURE(compile("bf16", copied_in_bulk()));
  EXPECT_EQ(count("HGMMA.64x256x16.F32.BF16"), factor("product k") / factor("product k.1"));
  // A box is as wide as its swizzle, i.e. 64 elements. There is one box of the rows and there are
  // four of the columns, and a loop may issue the four.
  EXPECT_GE(count("UTMALDG"), 2);
  EXPECT_EQ(count("USETMAXREG"), 2);
  EXPECT_EQ(count("LDGSTS"), 0);
  EXPECT_GE(count("SYNCS"), 4);
  expect_no_spills();
}

// A 3 x 3 convolution of an image with channels last, with the schedule that the search begins
// with. Between one wait for a copy and one wait for the products there are the instructions of 64
// terms.
TEST_F(Sass, ConvolutionsCopyBothOperandsInBulk) {
  ASSERT_NO_FATAL_FAILURE(compile_default(
      "conv2d n=32 c=64 h=56 w=56 k=64 r=3 s=3 stride=1 pad=1 dilation=1 groups=1 bf16 fast "
      "{in=NHWC out=NHWC}",
      {}));
  EXPECT_NE(schedule_.find("\nbulk in@conv"), std::string::npos) << schedule_;
  EXPECT_NE(schedule_.find("\nbulk w@conv"), std::string::npos) << schedule_;
  EXPECT_EQ(count("UTMALDG.4D"), 2) << schedule_;  // pixels: before and in the loop
  EXPECT_EQ(count("UTMALDG.2D"), 2) << schedule_;
  EXPECT_EQ(count("HGMMA.64x64x16.F32.BF16"), 4) << schedule_;
  EXPECT_EQ(count("WARPGROUP.DEPBAR"), 1) << schedule_;
  EXPECT_EQ(count("LDGSTS") + count("LDG.E"), 0) << schedule_;
  expect_no_spills();
}

// After each wait for a copy (PHASECHK), instructions compute at least 64 terms of the sums. Then
// one arrival frees the slot of the pipeline.
TEST_F(Sass, ChosenConvolutionsCopyBothOperandsInBulk) {
  for (const std::string& sizes : due<std::string>(
           {"c=64 h=56 w=56 k=64 r=3 s=3 stride=1", "c=256 h=14 w=14 k=256 r=3 s=3 stride=1",
            "c=128 h=56 w=56 k=128 r=3 s=3 stride=2", "c=128 h=28 w=28 k=128 r=3 s=3 stride=1"},
           3)) {
    ASSERT_NO_FATAL_FAILURE(compile_chosen(fmt::format(
        "conv2d n=32 {} pad=1 dilation=1 groups=1 bf16 fast {{in=NHWC out=NHWC}}", sizes)));
    EXPECT_GT(count("UTMALDG.4D"), 0) << schedule_;  // pixels
    EXPECT_GT(count("UTMALDG.2D"), 0) << schedule_;  // weights
    EXPECT_EQ(count("LDGSTS") + count("LDG.E"), 0) << schedule_;
    const std::vector<size_t> products = places_of(lines_, "HGMMA");
    ASSERT_FALSE(products.empty()) << schedule_;
    const SassLoop loop = innermost_loop(lines_, products.front(), products.back());
    EXPECT_EQ(count_between(lines_, loop, "PHASECHK"), 1) << schedule_;
    EXPECT_EQ(count_between(lines_, loop, "SYNCS.ARRIVE"), 1) << schedule_;
    EXPECT_GE(count_between(lines_, loop, "HGMMA"), 4) << schedule_;
    expect_no_spills();
  }
}

// The chosen pipeline of a large product has at least four stages. If four stages and the staged
// results do not fit into the shared memory of a block, it has as many stages as fit.
TEST_F(Sass, ChosenProductsHaveFourStagesOrAsManyAsFit) {
  const auto schedule = chosen("dense m=4096 n=4096 k=4096 bf16 fast");
  ASSERT_TRUE(schedule) << schedule.error().message;
  std::string text = schedule->to_string();
  const std::string step = "\npipeline a@product ";
  const size_t at = text.find(step);
  ASSERT_NE(at, std::string::npos) << text;
  const int64_t stages = std::stoll(text.substr(at + step.size()));
  if (stages >= 4) return;
  for (const char* operand : {"a", "b"}) {
    const std::string before = fmt::format("\npipeline {}@product {}\n", operand, stages);
    const size_t place = text.find(before);
    ASSERT_NE(place, std::string::npos) << text;
    text.replace(place, before.size(),
                 fmt::format("\npipeline {}@product {}\n", operand, stages + 1));
  }
  const auto longer = schedules::parse_schedule(schedule->compute(), text);
  ASSERT_TRUE(longer) << longer.error().message;
  const auto program = longer->program(schedules::limits_of(target_));
  ASSERT_FALSE(program) << "another stage fits:\n" << schedule->to_string();
  const std::string limit = fmt::format("at most {}", schedules::limits_of(target_).shared_bytes);
  EXPECT_NE(program.error().message.find(limit), std::string::npos) << program.error().message;
}

TEST_F(Sass, SplitTf32HasThreeInstructionsATile) {
  ASSERT_NO_FATAL_FAILURE(compile("f32", {}));
  const int64_t rows = factor("out m.1") / factor("out m.1.1");
  const int64_t columns = factor("out n.1") / factor("out n.1.1");
  const int64_t terms = factor("out k") / factor("out k.1");
  EXPECT_EQ(count("HMMA.1688.F32.TF32"), 3 * rows * columns * terms) << schedule_;
  EXPECT_EQ(count("HGMMA"), 0);
  expect_no_spills();
}

TEST_F(Sass, RowsAreReadAndWrittenInVectorsWithoutBarriers) {
  const schedules::KnobChanges in_rows = {{"rows", 1}, {"place", 1}};
  const std::pair<const char*, schedules::KnobChanges> cases[] = {
      {"softmax rows=8192 cols=4096 f32 fast", in_rows},
      {"layer_norm rows=8192 cols=4096 f32 fast", in_rows},
      {"add_relu n=32 c=256 h=56 w=56 f32 fast", {}}};
  for (const auto& [key, changes] : cases) {
    ASSERT_NO_FATAL_FAILURE(compile_default(key, changes)) << key;
    EXPECT_GT(count("STG.E.128"), 0) << key << schedule_;
    EXPECT_EQ(count("STG"), count("STG.E.128")) << key << schedule_;
    const auto first_store = std::ranges::find_if(
        lines_, [](const std::string& line) { return line.find("STG") != std::string::npos; });
    EXPECT_EQ(std::count_if(first_store, lines_.end(),
                            [](const auto& line) { return line.find("BAR") != std::string::npos; }),
              0)
        << key << schedule_;
    expect_no_spills();
  }
}

// A kernel that stores one value in each iteration of a loop. The loop begins with `first` and ends
// with `last`.
TEST_F(Sass, BarriersAmongStoresAreFound) {
  const auto barriers_with = [this](const std::string& first, const std::string& last) {
    compile_text(
        R"(extern "C" __global__ void k(float* out, int n) {
  __shared__ float row[1024];
  row[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  #pragma unroll 1
  for (int j = 0; j < n; ++j) {)" +
        first + "out[j * 128 + threadIdx.x] = row[threadIdx.x ^ 1];" + last + "}\n}\n");
    return barriers_among_stores(lines_);
  };
  const std::string barrier = "__syncthreads();";
  EXPECT_EQ(barriers_with("", ""), 0);
  EXPECT_EQ(barriers_with(barrier, ""), 1);
  EXPECT_EQ(barriers_with("", barrier), 1);
  // The barrier counts three times: it is between the two stores, and it is in the innermost loop
  // around each of them.
  EXPECT_EQ(barriers_with("", barrier + "out[j] = row[j];"), 3);
  // This loop exchanges values as a loop over rows does.
  EXPECT_EQ(barriers_with("row[threadIdx.x] = __shfl_xor_sync(~0u, row[threadIdx.x], 1);" + barrier,
                          barrier),
            0);
}

TEST_F(Sass, ChosenElementwiseKernelsAccessMemoryInVectors) {
  for (const char* key :
       {"add_relu n=32 c=256 h=56 w=56 f32 fast", "add_relu n=32 c=256 h=56 w=56 bf16 fast",
        "gelu rows=8192 cols=3072 f32 fast", "gelu rows=8192 cols=3072 bf16 fast"}) {
    ASSERT_NO_FATAL_FAILURE(compile_chosen(key)) << key;
    EXPECT_GT(count("LDG.E.128"), 0) << key << schedule_;
    EXPECT_EQ(count("LDG"), count("LDG.E.128")) << key << schedule_;
    EXPECT_GT(count("STG.E.128"), 0) << key << schedule_;
    EXPECT_EQ(count("STG"), count("STG.E.128")) << key << schedule_;
    expect_no_spills();
  }
}

// A row stays in registers, and is loaded and stored 16 bytes at a time. Elements of 16 bits may be
// accessed 8 bytes at a time, because a thread that stores eight of them also reads eight f32 of
// the scale. These are 32 bytes, so loads of 16 bytes by neighbouring threads would not be
// contiguous.
TEST_F(Sass, ChosenRowKernelsAccessMemoryInVectorsWithoutBarriers) {
  constexpr const char* rms_norm =
      "expr fast input in: {0}[8192, 4096]; weight scale: f32[4096]; square: f32[i=8192] = "
      "sum(j=4096) f32(in[i, j]) * f32(in[i, j]); out: {0}[i=8192, j=4096] = {0}(f32(in[i, j]) / "
      "sqrt(square[i] / 4096.0 + 1e-5) * scale[j])";
  for (const std::string type : {"f32", "bf16"})
    for (const std::string& key : {fmt::format("softmax rows=8192 cols=4096 {} fast", type),
                                   fmt::format("softmax rows=1536 cols=128 {} fast", type),
                                   fmt::format("layer_norm rows=8192 cols=4096 {} fast", type),
                                   fmt::format(fmt::runtime(rms_norm), type)}) {
      ASSERT_NO_FATAL_FAILURE(compile_chosen(key)) << key;
      EXPECT_THAT(schedule_, testing::HasSubstr("store_in in@out")) << key;
      const bool is_half = type == "bf16";
      for (const std::string access : {"LDG", "STG"}) {
        const int64_t narrower = is_half ? count(access + ".E.64") : 0;
        EXPECT_GT(count(access), 0) << key << schedule_;
        EXPECT_EQ(count(access), count(access + ".E.128") + narrower) << key << schedule_;
      }
      EXPECT_EQ(barriers_among_stores(lines_), 0) << key << schedule_;
      expect_no_spills();
    }
}

TEST_F(Sass, OutputsOf16BitsAreStoredInPairs) {
  for (const char* type : {"bf16", "f16"})
    for (const auto& changes : {copied_by_threads(), copied_in_bulk()}) {
      ASSERT_NO_FATAL_FAILURE(compile(type, changes));
      // For each 64 rows, each of 128 threads has one conversion and one store for each two of its
      // results.
      const int64_t pairs = factor("product n") / 4 * factor("product m.1") / 64;
      EXPECT_EQ(count("F2FP"), pairs) << schedule_;
      EXPECT_EQ(count("STG.E "), pairs);
      EXPECT_EQ(count("STG"), pairs);
      expect_no_spills();
    }
}

// Each thread copies staged results 16 bytes at a time.
TEST_F(Sass, StagedOutputsOf16BitsAreStoredInVectors) {
  for (const char* type : {"bf16", "f16"}) {
    ASSERT_NO_FATAL_FAILURE(
        compile(type, {{"copies", 3}, {"stages", 3}, {"block.columns", 128}, {"staged", 1}}));
    const int64_t results = factor("product m") * factor("product n");
    const int64_t threads = 128 * (factor("product m") / 64);
    EXPECT_EQ(count("STG.E.128"), results / threads / 8) << schedule_;
    EXPECT_EQ(count("STG"), count("STG.E.128")) << schedule_;
    EXPECT_EQ(count("LDS.128"), count("STG.E.128")) << schedule_;
    EXPECT_EQ(count("F2FP"), results / threads / 2) << schedule_;
    expect_no_spills();
  }
}

}  // namespace
}  // namespace tw::ptx
