// SPDX-License-Identifier: Apache-2.0
// Tests of kernels that are exported as shared objects, as a C program, a dynamic loader and
// TVM-FFI see them.

#include "codegen/export.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "base/isa.h"
#include "codegen/command.h"
#include "codegen/export_text.h"
#include "dsl/parse.h"
#include "dsl/workload.h"
#include "schedules/space/default_schedule.h"
#include "tests/codegen/kernels.h"
#include "tests/isa_targets.h"

namespace tw::codegen {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t patience_ns = 60'000'000'000;

Result<ExportedKernel> exported_default(const dsl::Workload& workload, const std::string& name) {
  TW_TRY(const schedules::Schedule schedule, schedules::default_schedule(workload, host_target()));
  ExportOptions options;
  options.name = name;
  return export_kernel(workload.key(), schedule.to_string(), host_target(), options);
}

class Export : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "tw_export_XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override {
    for (void* handle : handles_) dlclose(handle);
    std::filesystem::remove_all(folder_);
  }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  /// Exports the default schedule of a workload into lib<name>.so.
  void export_workload(const std::string& workload, const std::string& name) {
    const auto parsed = dsl::parse_workload(workload);
    ASSERT_TRUE(parsed) << parsed.error().message;
    const auto exported = exported_default(*parsed, name);
    ASSERT_TRUE(exported) << exported.error().message;
    const Status written = write_exported(path("lib" + name + ".so"), *exported);
    ASSERT_TRUE(written) << written.error().message;
  }

  template <typename Function>
  Function* symbol(const std::string& library, const std::string& name) {
    void* handle = dlopen(path(library).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) ADD_FAILURE() << dlerror();
    handles_.push_back(handle);
    void* address = dlsym(handle, name.c_str());
    if (address == nullptr) ADD_FAILURE() << dlerror();
    return reinterpret_cast<Function*>(address);
  }

  std::string folder_;
  std::vector<void*> handles_;
};

// Returns y = 2 x with both arrays in blocks of four channels. The export has two phases that pack
// x and unpack y, and one with the tasks.
KernelSpec doubling_in_blocks() {
  const auto blocked = [](const std::string& name, bool is_output) {
    Argument a = argument(name, Float32, {}, is_output);
    a.shape = {2, 5, 3};
    a.letters = "NCH";
    a.layout = *dsl::Layout::parse("NCH4c", a.letters);
    a.buffer.extents = a.layout.storage_shape(a.shape);
    return a;
  };
  const std::vector<Expr> at = {var("n"), var("c"), var("h"), var("v")};
  const Program program = single_phase(
      {blocked("x", false), blocked("y", true)}, {{"n", 2}, {"c", 2}},
      {serial("h", 3,
              {vector("v", 4, {assign("y", at, f32("x", at) * dsl::constant(Float32, 2))})})});
  return {"doubling", "tw1", program, 60};
}

constexpr const char* c_program = R"c(
#include <stdio.h>
#include "libproduct.h"

enum { M = 5, N = 7, K = 3 };

int main(void) {
  float a[M * K], b[K * N], c[M * N];
  for (int i = 0; i < M * K; ++i) a[i] = (float)(i - 4);
  for (int i = 0; i < K * N; ++i) b[i] = (float)(3 - i);
  if (product(a, b, c) != 0) return 1;
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      float sum = 0;
      for (int k = 0; k < K; ++k) sum += a[m * K + k] * b[k * N + n];
      if (c[m * N + n] != sum) return 2;
    }
  if (product(a, b, NULL) != 2 || product(a, b, a) != 2) return 3;
  printf("agrees\n");
  return 0;
}
)c";

TEST_F(Export, CAndCxxProgramsCallTheFunctionOfTheHeader) {
  export_workload("dense m=5 n=7 k=3 f32 fast", "product");
  write("main.c", c_program);
  for (const std::vector<std::string>& compiler :
       {std::vector<std::string>{"cc", "-std=c99", "-pedantic", "-x", "c"},
        std::vector<std::string>{"c++", "-x", "c++"}}) {
    std::vector<std::string> argv = compiler;
    for (const std::string& more :
         {std::string("-Wall"), std::string("-Wextra"), std::string("-Werror"), path("main.c"),
          std::string("-x"), std::string("none"), path("libproduct.so"), "-Wl,-rpath," + folder_,
          std::string("-o"), path("main")})
      argv.push_back(more);
    const auto built = run_command(argv, patience_ns);
    ASSERT_TRUE(built) << built.error().message;
    const auto ran = run_command({path("main")}, patience_ns);
    ASSERT_TRUE(ran) << ran.error().message;
    EXPECT_EQ(*ran, "agrees\n");
  }
}

TEST_F(Export, TheObjectExportsItsFunctionsAndNeedsNoOtherLibraryThanC) {
  export_workload("dense m=5 n=7 k=3 f32 fast", "product");
  const auto defined =
      run_command({"nm", "-D", "--defined-only", path("libproduct.so")}, patience_ns);
  ASSERT_TRUE(defined);
  for (const char* name : {" T product\n", " T product_on\n", " T __tvm_ffi_product\n"})
    EXPECT_THAT(*defined, HasSubstr(name));
  EXPECT_THAT(*defined, Not(HasSubstr("tw_")));
  const auto loaded = run_command({"objdump", "-p", path("libproduct.so")}, patience_ns);
  ASSERT_TRUE(loaded);
  for (size_t at = 0; (at = loaded->find("NEEDED", at)) != std::string::npos; ++at)
    EXPECT_EQ(loaded->substr(at, 30), "NEEDED               libc.so.6");
}

TEST_F(Export, KernelsForTilesOfACoreRunWhereTheirRegistersAre) {
  const auto workload = dsl::parse_workload("matmul m=5 n=7 k=3 f32 fast");
  const Target target = parse_target(target_text_of_isa("amx")).value();
  const auto schedule = schedules::default_schedule(*workload, target);
  ASSERT_TRUE(schedule) << schedule.error().message;
  ExportOptions options;
  options.name = "product";
  const auto exported = export_kernel(workload->key(), schedule->to_string(), target, options);
  ASSERT_TRUE(exported) << exported.error().message;
  const Status written = write_exported(path("libproduct.so"), *exported);
  ASSERT_TRUE(written) << written.error().message;
  auto* product = symbol<int32_t(float*, float*, float*)>("libproduct.so", "product");
  ASSERT_NE(product, nullptr);
  std::vector<float> a(15, 1), b(21, 1), c(35, 0);
  constexpr int32_t lacks_features = 5;
  const bool runs = host_target().has("amx_tile") && request_tile_registers();
  EXPECT_EQ(product(a.data(), b.data(), c.data()), runs ? 0 : lacks_features);
  EXPECT_EQ(c[0], runs ? 3 : 0);
}

TEST_F(Export, KernelsOfArmAskForTheirFeatures) {
  runtime::KernelInfo info;
  runtime::ArgumentInfo& argument = info.arguments.emplace_back();
  argument.name = "a";
  argument.shape = {8};
  argument.storage_elements = 8;
  const Target target = parse_target("arm-64-linux-asimddp-sve2").value();
  EXPECT_THAT(export_source(info, "triple", target),
              AllOf(HasSubstr("(getauxval(16) >> 20 & 1)"), HasSubstr("(getauxval(26) >> 1 & 1)")));
}

TEST_F(Export, ArraysInOtherLayoutsArePackedInTheCallersMemory) {
  ExportOptions options;
  options.name = "doubled";
  const auto exported = export_kernel(doubling_in_blocks(), host_target(), options);
  ASSERT_TRUE(exported) << exported.error().message;
  ASSERT_TRUE(write_exported(path("doubled.so"), *exported));
  EXPECT_THAT(read("doubled.h"), HasSubstr("#define DOUBLED_WORKSPACE_BYTES 384\n"));

  using Body = int32_t(void*, int32_t);
  using Run = int32_t(void*, int32_t, Body*, void*);
  auto* const doubled = symbol<int32_t(const float*, float*)>("doubled.so", "doubled");
  auto* const doubled_on =
      symbol<int32_t(const float*, float*, void*, Run*, void*)>("doubled.so", "doubled_on");
  std::vector<float> x(30), y(30, -1), again(30, -1), expected;
  std::iota(x.begin(), x.end(), 1.0f);
  for (const float value : x) expected.push_back(2 * value);
  EXPECT_EQ(doubled(x.data(), y.data()), 0);
  EXPECT_EQ(y, expected);

  alignas(64) char workspace[384 + 64] = {};
  std::vector<int32_t> counts;
  Run* const backwards = [](void* context, int32_t count, Body* body, void* data) {
    static_cast<std::vector<int32_t>*>(context)->push_back(count);
    for (int32_t i = count; i > 0; --i)
      if (const int32_t code = body(data, i - 1)) return code;
    return 0;
  };
  EXPECT_EQ(doubled_on(x.data(), again.data(), workspace, backwards, &counts), 0);
  EXPECT_EQ(again, expected);
  EXPECT_EQ(counts, (std::vector<int32_t>{2, 4, 2}));
  EXPECT_THAT(std::vector<char>(workspace + 384, workspace + 448), testing::Each(0));
  EXPECT_EQ(doubled_on(x.data(), again.data(), workspace + 4, nullptr, nullptr), 2);
  Run* const fails = [](void*, int32_t, Body*, void*) { return 3; };
  EXPECT_EQ(doubled_on(x.data(), again.data(), workspace, fails, nullptr), 1);
}

TEST_F(Export, PreparedStagesAreComputedInEachCall) {
  const auto compute = dsl::parse_compute(R"(
input a: f32[3, 4]
weight w: f32[5, 4]
v: f32[k=5, c=4] = w[k, c] + 1.0
u: f32[c=4, k=5] = v[k, c] * v[k, c]
out: f32[m=3, k=5] = sum(c=4) a[m, c] * u[c, k]
)");
  ASSERT_TRUE(compute) << compute.error().message;
  const auto schedule = schedules::parse_schedule(*compute, "tw1\nprepare v\nprepare u");
  ASSERT_TRUE(schedule) << schedule.error().message;
  ExportOptions options;
  options.name = "product";
  const auto exported = export_kernel({"product", schedule->to_string(), *schedule->program(), 0},
                                      host_target(), options);
  ASSERT_TRUE(exported) << exported.error().message;
  ASSERT_TRUE(write_exported(path("product.so"), *exported));
  auto* const product =
      symbol<int32_t(const float*, const float*, float*)>("product.so", "product");
  const std::vector<float> a(12, 1);
  for (const float weight : {2.0f, 5.0f}) {
    const std::vector<float> w(20, weight);
    std::vector<float> out(15, -1);
    EXPECT_EQ(product(a.data(), w.data(), out.data()), 0);
    EXPECT_EQ(out, std::vector<float>(15, 4 * (weight + 1) * (weight + 1)));
  }
}

// The structs of tvm/ffi/c_api.h and dlpack.h.
struct FfiTensor {
  void* data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
struct FfiAny {
  int32_t type_index;
  uint32_t zero;
  const void* value;
};

TEST_F(Export, TvmFfiCallsItOnTensors) {
  export_workload("dense m=2 n=3 k=1 f32 fast", "product");
  auto* const call =
      symbol<int(void*, const FfiAny*, int32_t, FfiAny*)>("libproduct.so", "__tvm_ffi_product");
  float a[3] = {0, 2, 3}, b[3] = {1, 10, 100}, c[6] = {};
  int64_t a_shape[] = {2, 1}, b_shape[] = {1, 3}, c_shape[] = {2, 3}, rows[] = {3, 1};
  // `first` begins 4 bytes behind its address. The stride 77 is that of a dimension with one
  // element, so it does not matter.
  int64_t odd[] = {1, 77};
  struct {
    char head[24];
    FfiTensor tensor;
  } object = {{}, {c, 1, 0, 2, 2, 32, 1, c_shape, rows, 0}};
  FfiTensor first = {a, 1, 0, 2, 2, 32, 1, a_shape, odd, 4};
  FfiTensor second = {b, 1, 0, 2, 2, 32, 1, b_shape, nullptr, 0};
  FfiAny given[] = {{7, 0, &first}, {7, 0, &second}, {70, 0, &object}};
  FfiAny result = {99, 9, &result};
  ASSERT_EQ(call(nullptr, given, 3, &result), 0);
  EXPECT_THAT(c, testing::ElementsAre(2, 20, 200, 3, 30, 300));
  EXPECT_EQ(result.type_index, 0);
  EXPECT_EQ(result.value, nullptr);

  EXPECT_EQ(call(nullptr, given, 2, &result), -1);
  const auto expect_refused = [&](auto& field, auto value) {
    const auto kept = field;
    field = value;
    EXPECT_EQ(call(nullptr, given, 3, &result), -1);
    field = kept;
  };
  expect_refused(first.device_type, 2);
  expect_refused(first.bits, 64);
  expect_refused(first.ndim, 1);
  expect_refused(a_shape[0], 3);
  expect_refused(odd[0], 2);
  expect_refused(first.byte_offset, 2);
  expect_refused(given[1].type_index, 1);
  EXPECT_EQ(call(nullptr, given, 3, &result), 0);
}

TEST_F(Export, NamesThatCDoesNotAllowAreRefusedBeforeAnyWork) {
  for (const char* name : {"", "2gemm", "my-gemm", "while", "class", "_hidden", "größe", "tw_call",
                           "TW_OK", "tilewright_for"}) {
    const Status status = check_export("x.so", name);
    if (*name == '\0') {
      EXPECT_TRUE(status);  // that of the file: x
      continue;
    }
    ASSERT_FALSE(status) << name;
    EXPECT_EQ(status.error().code, ErrorCode::Usage);
  }
  EXPECT_FALSE(check_export("my kernel.so", ""));
  EXPECT_FALSE(check_export("gemm.h", ""));
  EXPECT_EQ(export_name("/a/b/libgemm.so"), "gemm");
}

TEST_F(Export, TensorsWithNamesOfCKeywordsGetOthers) {
  const auto compute = dsl::parse_compute("input int: f32[8]\nrun: f32[i=8] = int[i] + 1.0");
  ASSERT_TRUE(compute) << compute.error().message;
  const auto declared = dsl::workload(*compute);
  ASSERT_TRUE(declared) << declared.error().message;
  const auto exported = exported_default(*declared, "more");
  ASSERT_TRUE(exported) << exported.error().message;
  EXPECT_THAT(exported->header, HasSubstr("int32_t more(const float* int_, float* run_);"));
}

// The exported source has functions of its own, with names such as `convert` and `call`. The names
// of kernels and tensors must not clash with them.
TEST_F(Export, NamesOfFunctionsAndTensorsMayBeAnyWords) {
  const auto compute = dsl::parse_compute(
      "input call: f32[8]\ninput tw_call: f32[8]\n"
      "arguments: f32[i=8] = call[i] + tw_call[i]");
  ASSERT_TRUE(compute) << compute.error().message;
  const auto declared = dsl::workload(*compute);
  ASSERT_TRUE(declared) << declared.error().message;
  for (const char* name : {"convert", "call", "phases", "fits"}) {
    const auto exported = exported_default(*declared, name);
    ASSERT_TRUE(exported) << exported.error().message;
    const std::string first = std::string(name) == "call" ? "call_" : "call";
    EXPECT_THAT(exported->header,
                HasSubstr(fmt::format("int32_t {}(const float* {}, const float* xtw_call, float* "
                                      "arguments);",
                                      name, first)));
  }
}

TEST_F(Export, TheHeaderHasTheWholeExpression) {
  const auto compute = dsl::parse_compute("input a: f32[8]\nb: f32[i=8] = a[i] * 3.0");
  ASSERT_TRUE(compute) << compute.error().message;
  const auto declared = dsl::workload(*compute);
  ASSERT_TRUE(declared) << declared.error().message;
  const auto exported = exported_default(*declared, "triple");
  ASSERT_TRUE(exported) << exported.error().message;
  std::string key = declared->key();
  std::ranges::replace(key, '\n', ' ');
  EXPECT_NE(key.find('*'), std::string::npos);
  EXPECT_THAT(exported->header, HasSubstr("/* triple: " + key + "\n"));
}

TEST_F(Export, WithoutACompilerItSaysSo) {
  ExportOptions options;
  options.name = "doubled";
  options.compiler = path("no_compiler");
  const auto exported = export_kernel(doubling_in_blocks(), host_target(), options);
  ASSERT_FALSE(exported);
  EXPECT_EQ(exported.error().code, ErrorCode::Environment);
  EXPECT_THAT(exported.error().message, HasSubstr("[export]"));
}

TEST_F(Export, KernelsOfGpusAreRefused) {
  ExportOptions options;
  options.name = "doubled";
  const auto exported = export_kernel(doubling_in_blocks(), *parse_target("opencl"), options);
  ASSERT_FALSE(exported);
  EXPECT_EQ(exported.error().code, ErrorCode::Unsupported);
}

}  // namespace
}  // namespace tw::codegen
