// SPDX-License-Identifier: Apache-2.0
// Tests comparisons on a GPU with a fake driver and fake libraries. Our kernel is a function of
// this test. The fakes of cuBLAS and cuDNN really compute. Each of them says how much time it
// takes.

#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/compare.h"
#include "bench/peers/vendor_library.h"
#include "codegen/abi.h"
#include "dsl/interpret.h"
#include "dsl/random_inputs.h"
#include "schedules/schedule.h"
#include "tests/bench/fake_vendor.h"
#include "tests/runtime/fake_cuda.h"

namespace tw::bench {
namespace {

using testing::HasSubstr;

template <typename T>
T value(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

template <typename Control>
Control* control_of(const std::string& library, const char* name) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw std::runtime_error(dlerror());
  return reinterpret_cast<Control*>(dlsym(handle, name));
}

runtime::FakeCuda& driver() {
  return *control_of<runtime::FakeCudaControl>(TW_FAKE_CUDA, "fake_cuda")();
}

FakeVendor& vendor(const std::string& library) {
  return *control_of<FakeVendorControl>(TW_FAKE_LIBRARIES "/" + library, "fake_vendor")();
}

class OnFakeGpu : public testing::Test {
 protected:
  void SetUp() override {
    driver() = {};
    driver().kernels["peak"] = {1, [](void* const*) {}};
    vendor("libcublas.so.13") = {};
    vendor("libcudnn.so.9") = {};
    setup_.device = value(runtime::open_cuda_device({.library = TW_FAKE_CUDA}));
  }

  /// Returns our kernel. It has as many blocks as it shall take microseconds, and `error` is added
  /// to the first element of its result.
  runtime::Artifact ours(const Item& item, int64_t microseconds, float error) {
    const dsl::Workload& w = item.workload;
    const auto program = value(schedules::Schedule(w.compute).program());
    runtime::Artifact artifact;
    artifact.info.workload = w.key();
    artifact.info.schedule = "tw1";
    artifact.info.target = "cuda:sm_90";
    artifact.info.toolchain = "by hand";
    artifact.info.codegen_abi = codegen::codegen_abi;
    artifact.info.phases = {{"ours_p0", microseconds, 32}};
    for (const schedules::Argument& a : program.arguments)
      artifact.info.arguments.push_back(
          {a.buffer.name, a.buffer.type, a.is_output, a.shape, "", a.buffer.elements(), ""});
    artifact.object = runtime::cubin(90);
    driver().kernels["ours_p0"] = {
        static_cast<int>(artifact.info.arguments.size()) + 1,
        [error, infos = artifact.info.arguments,
         outputs = value(dsl::interpret(w.compute, inputs_))](void* const* arguments) {
          for (size_t i = 0; i < infos.size(); ++i) {
            if (!infos[i].is_output) continue;
            const dsl::Array& output = outputs.at(infos[i].name);
            std::memcpy(arguments[i], output.data.data(), output.data.size());
            *static_cast<float*>(arguments[i]) += error;
          }
        }};
    return artifact;
  }

  Status compare(const Item& item, const Peer& peer, int64_t our_us, float our_error, Row& row) {
    CompareOptions options;
    options.peer = peer;
    options.rounds = 3;
    options.gpu = &setup_;
    inputs_ = value(dsl::random_inputs(item.workload.compute, 1));
    const bench::Setup setup{.workload = &item.workload, .inputs = &inputs_, .gpu = &setup_};
    const auto artifact = ours(item, our_us, our_error);
    TW_TRY(const auto contender, make_ours_on_device(artifact, setup));
    TW_TRY(auto forms, peer.make(item.name, setup));
    return compare_contenders(item, inputs_, *contender, std::move(forms), options,
                              tuner::monotonic_clock(), row);
  }

  static Item item(const std::string& key) { return {"item", value(dsl::parse_workload(key)), 1}; }

  Peer cublas_ = value(cublas_peer({TW_FAKE_LIBRARIES}));
  Peer cudnn_ = value(cudnn_peer({TW_FAKE_LIBRARIES}));
  DeviceSetup setup_;
  dsl::Arrays inputs_;
};

constexpr const char* dense = "dense m=24 n=20 k=16 f32 fast";
constexpr const char* batched = "batch_matmul b=3 m=12 n=20 k=16 f32 fast";
constexpr const char* conv =
    "conv2d n=2 c=6 h=9 w=8 k=4 r=3 s=3 stride=2 pad=1 dilation=1 groups=1 f32 fast";
constexpr const char* grouped =
    "conv2d n=1 c=6 h=9 w=8 k=4 r=3 s=1 stride=1 pad=1 dilation=2 groups=2 f32 fast";

TEST_F(OnFakeGpu, ProductsAgreeAndTimesAreThoseOfTheDevicesClock) {
  for (const char* key : {dense, batched}) {
    SCOPED_TRACE(key);
    Row row;
    const Status done = compare(item(key), cublas_, 50, 0, row);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_DOUBLE_EQ(row.versus.a_ns.value, 50'000);
    EXPECT_DOUBLE_EQ(row.versus.b_ns.value, 100'000);
    EXPECT_DOUBLE_EQ(row.versus.ratio.value, 2);
    EXPECT_EQ(row.forms.size(), 2u);
    EXPECT_LT(row.agreement.apart, 1e-5);
    EXPECT_GT(row.peak_gflops, 0);
  }
  EXPECT_EQ(cublas_.version, "13.0.2");
  EXPECT_EQ(vendor("libcublas.so.13").live, 0);
}

TEST_F(OnFakeGpu, ConvolutionsAgreeInBothLayoutsAndTheFasterOneCounts) {
  for (const char* key : {conv, grouped}) {
    SCOPED_TRACE(key);
    Row row;
    const Status done = compare(item(key), cudnn_, 100, 0, row);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_DOUBLE_EQ(row.versus.ratio.value, 0.5);
    EXPECT_EQ(row.peer, "algorithm 1 NHWC");
    EXPECT_EQ(row.forms.size(), 2u);
  }
  EXPECT_EQ(cudnn_.version, "9.5.1");
  EXPECT_EQ(vendor("libcudnn.so.9").live, 0);
}

TEST_F(OnFakeGpu, Fault36_WhatIsWrongIsNotTimed) {
  Row row;
  const Status ours_wrong = compare(item(dense), cublas_, 50, 1, row);
  ASSERT_FALSE(ours_wrong);
  EXPECT_THAT(ours_wrong.error().message, HasSubstr("not timed"));
  vendor("libcublas.so.13").error = 1;
  const Status peer_wrong = compare(item(dense), cublas_, 50, 0, row);
  ASSERT_FALSE(peer_wrong);
  EXPECT_THAT(peer_wrong.error().message, HasSubstr("not timed"));
  EXPECT_EQ(row.versus.a_ns.value, 0);
}

TEST_F(OnFakeGpu, AFormThatIsWrongIsLeftOut) {
  vendor("libcudnn.so.9").error = 1;  // the fast algorithm is wrong
  Row row;
  const Status done = compare(item(conv), cudnn_, 50, 0, row);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(row.peer, "algorithm 6 NCHW");
  EXPECT_DOUBLE_EQ(row.versus.ratio.value, 2);
  EXPECT_TRUE(row.wrong_forms.contains("algorithm 1 NHWC"));
}

TEST_F(OnFakeGpu, GraphsAndEmptyCachesGiveTheSameTimes) {
  for (const bool graphs : {false, true})
    for (const bool cold : {false, true}) {
      setup_.graphs = graphs;
      setup_.evicting = cold ? value(setup_.device->allocate(64)) : runtime::DeviceBuffer();
      driver().graphs = 0;
      Row row;
      const Status done = compare(item(dense), cublas_, 50, 0, row);
      ASSERT_TRUE(done) << done.error().message;
      EXPECT_DOUBLE_EQ(row.versus.ratio.value, 2);
      EXPECT_DOUBLE_EQ(row.versus.a_ns.value, 50'000);
      EXPECT_EQ(driver().graphs > 0, graphs);
    }
}

TEST_F(OnFakeGpu, WhatEmptiesTheCachesIsLargerThanThem) {
  EXPECT_GT(value(make_evicting(*setup_.device)).bytes(), setup_.device->facts().l2_bytes);
}

TEST_F(OnFakeGpu, WhatALibraryLacksIsSaid) {
  Row row;
  EXPECT_THAT(compare(item(conv), cublas_, 50, 0, row).error().message,
              HasSubstr("expected dense or batch_matmul"));
  EXPECT_THAT(compare(item(dense), cudnn_, 50, 0, row).error().message,
              HasSubstr("expected conv2d"));
  EXPECT_THAT(compare(item("dense m=4 n=4 k=4 i32 fast"), cublas_, 50, 0, row).error().message,
              HasSubstr("expected f32, f16 or bf16"));
}

TEST(VendorLibrary, Fault51_OneThatIsNotThereIsAnErrorOfTheEnvironment) {
  const auto library = VendorLibrary::open({"libnobody.so.1"}, {"/nowhere"}, "install it");
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().code, ErrorCode::Environment);
  EXPECT_THAT(library.error().message, HasSubstr("libnobody.so.1"));
  EXPECT_THAT(library.error().message, HasSubstr("install it"));
}

TEST(VendorLibrary, Fault53_OneOfAnotherVersionIsAnErrorOfTheEnvironment) {
  const auto library = value(VendorLibrary::open({"libcublas.so.13"}, {TW_FAKE_LIBRARIES}, ""));
  int (*function)() = nullptr;
  const Status found = library.find("cublasOfTomorrow", function);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::Environment);
  EXPECT_THAT(found.error().message, HasSubstr("cublasOfTomorrow"));
}

}  // namespace
}  // namespace tw::bench
