// SPDX-License-Identifier: Apache-2.0
// Tests the machine code of large products that ptxas makes for sm_90a, with NVIDIA's disassembler.
// The code must have the instructions that its schedule asks for, and keep its accumulators in
// registers.

#include <fmt/format.h>
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
#include "schedules/program/legality.h"
#include "tests/codegen/gpu_runs.h"
#include "tests/schedules/spaces.h"

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

/// Returns the instructions of a kernel with their operands, one in each element.
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
  }
  return lines;
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
    const Target target = *parse_target("cuda:sm_90a");
    const auto workload = dsl::parse_workload(key);
    ASSERT_TRUE(workload) << workload.error().message;
    const auto space =
        schedules::Space::derive(schedules::Problem{workload->compute, workload->layouts}, target);
    ASSERT_TRUE(space) << space.error().message;
    const auto point = schedules::changed(*space, space->default_point(), changes);
    ASSERT_TRUE(point && space->allowed(*point));
    schedule_ = space->schedule(*point).to_string();
    const auto program = space->schedule(*point).program(schedules::limits_of(target));
    ASSERT_TRUE(program) << program.error().message;
    const auto code = codegen::emit_gpu(*program, "k", codegen::GpuDialect::Cuda);
    ASSERT_TRUE(code) << code.error().message;
    const auto compiled = nvrtc_->compile(code->text, "sm_90a");
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
    return std::ranges::count_if(
        lines_, [&](const auto& line) { return line.find(what) != std::string::npos; });
  }

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
