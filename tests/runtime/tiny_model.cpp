// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/tiny_model.h"

#include <nlohmann/json.hpp>
#include <span>

#include "runtime/arena_plan.h"
#include "runtime/sealed_header.h"
#include "tests/runtime/tiny_kernels.h"

namespace tw::runtime {
namespace {

constexpr std::string_view multiply_source = R"(
#include <stdint.h>
int32_t multiply(void* const* buffers, void* scratch, int32_t task) {
  const float *x = buffers[0], *w = buffers[1];
  ((float*)buffers[2])[task] = x[task] * w[task];
  return x[task] == -1 ? 7 : 0;
})";

constexpr std::string_view twice_source = R"(
#include <stdint.h>
int32_t twice(void* const* buffers, void* scratch, int32_t row) {
  const float* x = buffers[0];
  for (int i = 2 * row; i < 2 * row + 2; ++i) ((float*)buffers[1])[i] = 2 * x[i];
  return 0;
})";

constexpr std::string_view add_source = R"(
#include <stdint.h>
int32_t sum(void* const* buffers, void* scratch, int32_t task) {
  ((float*)scratch)[3 - task] = ((const float*)buffers[0])[task] + ((const float*)buffers[1])[task];
  return (uintptr_t)scratch % 64 == 0 ? 0 : 1;
}
int32_t store(void* const* buffers, void* scratch, int32_t task) {
  for (int i = 0; i < 4; ++i) ((float*)buffers[2])[i] = ((const float*)scratch)[3 - i];
  return 0;
})";

constexpr std::string_view copy_source = R"(
#include <stdint.h>
int32_t copy(void* const* buffers, void* scratch, int32_t row) {
  for (int i = 4 * row; i < 4 * row + 4; ++i) ((float*)buffers[1])[i] = ((float*)buffers[0])[i];
  return 0;
})";

constexpr std::string_view tiny_opencl = R"(
#define FLOATS __global float*
__kernel void multiply(FLOATS x, FLOATS w, FLOATS out, FLOATS scratch) {
  out[get_global_id(0)] = x[get_global_id(0)] * w[get_global_id(0)];
}
__kernel void twice(FLOATS x, FLOATS out, FLOATS scratch) {
  out[get_global_id(0)] = 2 * x[get_global_id(0)];
}
__kernel void sum(FLOATS a, FLOATS b, FLOATS out, FLOATS scratch) {
  scratch[get_global_id(0)] = a[get_global_id(0)] + b[get_global_id(0)];
}
__kernel void store(FLOATS a, FLOATS b, FLOATS out, FLOATS scratch) {
  out[get_global_id(0)] = scratch[get_global_id(0)];
}
)";

struct TinyArgument {
  std::string name;
  std::vector<int64_t> shape;
  bool is_output = false;
};

Artifact tiny_kernel(const std::string& workload, const std::vector<TinyArgument>& arguments,
                     std::vector<PhaseInfo> phases) {
  Artifact kernel;
  kernel.info.workload = workload;
  kernel.info.schedule = "tw1\n";
  kernel.info.target = plain_target();
  kernel.info.toolchain = "cc";
  kernel.info.codegen_abi = current_codegen_abi;
  for (const auto& [name, shape, is_output] : arguments)
    kernel.info.arguments.push_back({name, Float32, is_output, shape, "", 4, ""});
  kernel.info.phases = std::move(phases);
  kernel.object = "\177ELF is no code";
  return kernel;
}

ModelTensor tiny_tensor(const std::string& name, std::vector<int64_t> shape, Place place,
                        int64_t at) {
  return {name, Float32, std::move(shape), "", 16, place, at};
}

ModelFile empty_model(const std::string& name) {
  ModelFile model;
  model.variants.resize(1);
  model.name = name;
  model.target = plain_target();
  model.codegen_abi = current_codegen_abi;
  model.threads = 2;
  model.variants[0].plan = "one way only\n";
  model.variants[0].graph = "graph (x: f32[4]) -> (y: f32[4])\n";
  return model;
}

std::string constants_of_w() {
  const float w[] = {1, 2, 3, 4};
  return {reinterpret_cast<const char*>(w), sizeof w};
}

Artifact multiply_kernel() {
  return tiny_kernel("multiply(a[4],b[4])", {{"a", {4}}, {"b", {4}}, {"out", {4}, true}},
                     {{"multiply", 4}});
}

/// Returns the variant y = 2 x for f32 {2, 2}. It uses kernel 1, `twice`.
ModelVariant square_variant() {
  ModelVariant square;
  square.tensors = {tiny_tensor("x", {2, 2}, Place::Input, 0),
                    tiny_tensor("y", {2, 2}, Place::Output, 0)};
  square.inputs = {0};
  square.outputs = {1};
  square.steps = {{"twice", 1, {0, 1}, 0, 10}};
  square.plan = "another way\n";
  square.graph = "graph (x: f32[2, 2]) -> (y: f32[2, 2])\n";
  return square;
}

void move_to_gpu(Artifact& kernel, const std::string& target) {
  kernel.info.target = target;
  for (PhaseInfo& phase : kernel.info.phases) phase = {phase.symbol, 2, 2, 0};
  kernel.object = target == "opencl" ? std::string(tiny_opencl) : cubin(90);
  if (target != "opencl") kernel.info.toolchain = "nvrtc-13.0";
}

}  // namespace

ModelFile tiny_model_without_code() {
  ModelFile model = empty_model("tiny");
  model.variants[0].tensors = {tiny_tensor("x", {4}, Place::Input, 0),
                               tiny_tensor("w", {4}, Place::Constant, 0),
                               tiny_tensor("h", {4}, Place::Arena, 64),
                               tiny_tensor("rows", {2, 2}, Place::Arena, 64),
                               tiny_tensor("doubled", {2, 2}, Place::Arena, 0),
                               tiny_tensor("flat", {4}, Place::Arena, 0),
                               tiny_tensor("y", {4}, Place::Output, 0)};
  model.variants[0].inputs = {0};
  model.variants[0].outputs = {6};
  model.variants[0].arena_bytes = 80;
  model.kernels = {
      multiply_kernel(),
      tiny_kernel("twice(a[2,2])", {{"a", {2, 2}}, {"out", {2, 2}, true}}, {{"twice", 2}}),
      tiny_kernel("add(a[4],b[4])", {{"a", {4}}, {"b", {4}}, {"out", {4}, true}},
                  {{"sum", 4}, {"store", 1}})};
  model.kernels[2].info.scratch_bytes = 16;
  model.variants[0].steps = {{"multiply", 0, {0, 1, 2}, 0, 20},
                             {"twice", 1, {3, 4}, 1, 10.5},
                             {"add", 2, {5, 0, 6}, 2, 30}};
  model.constants = constants_of_w();
  return model;
}

ModelFile tiny_model() {
  ModelFile model = tiny_model_without_code();
  model.kernels[0].object = compile_c(multiply_source);
  model.kernels[1].object = compile_c(twice_source);
  model.kernels[2].object = compile_c(add_source);
  return model;
}

ModelFile tiny_model_for(const std::string& target) {
  ModelFile model = tiny_model_without_code();
  model.target = target;
  // Arrays of the arena must begin at this alignment, because OpenCL needs it for sub-buffers.
  for (ModelTensor& tensor : model.variants[0].tensors)
    if (tensor.place == Place::Arena && tensor.at > 0) tensor.at = device_tensor_alignment;
  model.variants[0].arena_bytes = device_tensor_alignment + 16;
  for (Artifact& kernel : model.kernels) move_to_gpu(kernel, target);
  return model;
}

ModelFile two_variants_model_for(const std::string& target) {
  ModelFile model = tiny_model_for(target);
  model.variants.push_back(square_variant());
  return model;
}

std::map<std::string, FakeKernel> tiny_kernels_for_fake_cuda() {
  using Floats = std::span<float* const>;
  const auto kernel = [](int arguments, const std::function<float(Floats, int)>& element, int to) {
    const auto run = [=](void* const* given) {
      std::vector<float*> arrays;
      for (int i = 0; i < arguments; ++i) arrays.push_back(static_cast<float*>(given[i]));
      for (int i = 0; i < 4; ++i) arrays[static_cast<size_t>(to)][i] = element(arrays, i);
    };
    return FakeKernel{arguments, run};
  };
  return {{"multiply", kernel(
                           4, [](Floats a, int i) { return a[0][i] * a[1][i]; }, 2)},
          {"twice", kernel(
                        3, [](Floats a, int i) { return 2 * a[0][i]; }, 1)},
          {"sum", kernel(
                      4, [](Floats a, int i) { return a[0][i] + a[1][i]; }, 3)},
          {"store", kernel(
                        4, [](Floats a, int i) { return a[3][i]; }, 2)}};
}

std::vector<float> tiny_result(const std::vector<float>& x) {
  std::vector<float> y;
  for (size_t i = 0; i < x.size(); ++i) y.push_back(2 * x[i] * static_cast<float>(i + 1) + x[i]);
  return y;
}

ModelFile one_step_model() {
  ModelFile model = empty_model("product");
  model.variants[0].tensors = {tiny_tensor("x", {4}, Place::Input, 0),
                               tiny_tensor("w", {4}, Place::Constant, 0),
                               tiny_tensor("y", {4}, Place::Output, 0)};
  model.variants[0].inputs = {0};
  model.variants[0].outputs = {2};
  model.kernels = {multiply_kernel()};
  model.kernels[0].object = compile_c(multiply_source);
  model.variants[0].steps = {{"multiply", 0, {0, 1, 2}, 0, 20}};
  model.constants = constants_of_w();
  return model;
}

ModelFile two_variants_model() {
  ModelFile model = one_step_model();
  model.kernels.push_back(
      tiny_kernel("twice(a[2,2])", {{"a", {2, 2}}, {"out", {2, 2}, true}}, {{"twice", 2}}));
  model.kernels[1].object = compile_c(twice_source);
  model.variants.push_back(square_variant());
  return model;
}

ModelFile loop_model_without_code(int64_t trips) {
  ModelFile model = empty_model("loop");
  ModelVariant& variant = model.variants[0];
  const auto rows = [&](const std::string& name, Place place, int64_t at) {
    return ModelTensor{name, Float32, {trips, 4}, "", 16 * trips, place, at};
  };
  variant.tensors = {tiny_tensor("s", {4}, Place::Input, 0),
                     rows("x", Place::Input, 1),
                     tiny_tensor("w", {4}, Place::Constant, 0),
                     tiny_tensor("first", {4}, Place::Arena, 0),
                     tiny_tensor("h", {4}, Place::Arena, 0),
                     tiny_tensor("next", {4}, Place::Arena, 0),
                     tiny_tensor("row", {4}, Place::Input, 1),
                     rows("hs", Place::Arena, 64),
                     rows("y", Place::Output, 0)};
  variant.tensors[3].slide = {48, 0, 0};
  variant.tensors[4].slide = {48, 16, 0};
  variant.tensors[5].slide = {64, 16, 0};
  variant.tensors[6].slide = {0, 16, 0};
  variant.inputs = {0, 1};
  variant.outputs = {8};
  variant.arena_bytes = 64 + 16 * trips;
  variant.steps = {{"first", 0, {0, 2, 3}, 0, 20},
                   {"next", 0, {6, 4, 5}, 0, 20.0 * static_cast<double>(trips)},
                   {"y", 1, {7, 8}, 0, 10}};
  variant.loops = {{"cell", 1, 1, trips}};
  model.kernels = {multiply_kernel(),
                   tiny_kernel("copy", {{"a", {trips, 4}}, {"out", {trips, 4}, true}},
                               {{"copy", static_cast<int>(trips)}})};
  for (ArgumentInfo& argument : model.kernels[1].info.arguments)
    argument.storage_elements = 4 * trips;
  model.constants = constants_of_w();
  return model;
}

ModelFile loop_model_for_cuda(int64_t trips) {
  constexpr int64_t wider = 4;
  ModelFile model = loop_model_without_code(trips);
  model.target = "cuda:sm_90a";
  for (ModelTensor& tensor : model.variants[0].tensors) {
    tensor.shape.back() *= wider;
    tensor.bytes *= wider;
    if (tensor.place == Place::Arena) tensor.at *= wider;
    tensor.slide.begin *= wider;
    tensor.slide.advance *= wider;
  }
  model.variants[0].arena_bytes *= wider;
  for (Artifact& kernel : model.kernels) {
    move_to_gpu(kernel, model.target);
    for (ArgumentInfo& argument : kernel.info.arguments) {
      argument.shape.back() *= wider;
      argument.storage_elements = wider * (&kernel == &model.kernels[0] ? 4 : 4 * trips);
    }
  }
  for (int64_t i = 1; i < wider; ++i) model.constants += constants_of_w();
  return model;
}

std::map<std::string, FakeKernel> loop_kernels_for_fake_cuda(int64_t trips) {
  const auto multiply = [](void* const* given) {
    for (int i = 0; i < 16; ++i)
      static_cast<float*>(given[2])[i] =
          static_cast<float*>(given[0])[i] * static_cast<float*>(given[1])[i];
  };
  const auto copy = [trips](void* const* given) {
    for (int64_t i = 0; i < 16 * trips; ++i)
      static_cast<float*>(given[1])[i] = static_cast<float*>(given[0])[i];
  };
  return {{"multiply", {4, multiply}}, {"copy", {3, copy}}};
}

ModelFile loop_model(int64_t trips) {
  ModelFile model = loop_model_without_code(trips);
  model.kernels[0].object = compile_c(multiply_source);
  model.kernels[1].object = compile_c(copy_source);
  return model;
}

ModelFile chain_model(int steps) {
  std::vector<Lifetime> lifetimes;
  for (int step = 0; step + 1 < steps; ++step) lifetimes.push_back({16, step, step + 1});
  const ArenaPlan plan = plan_arena(lifetimes);
  ModelFile model = empty_model("chain");
  model.kernels = {tiny_kernel("twice(a[4])", {{"a", {4}}, {"out", {4}, true}}, {{"twice", 2}})};
  model.kernels[0].object = compile_c(twice_source);
  model.variants[0].arena_bytes = plan.bytes;
  model.variants[0].tensors = {tiny_tensor("x", {4}, Place::Input, 0)};
  for (int step = 0; step < steps; ++step) {
    const bool is_last = step + 1 == steps;
    model.variants[0].tensors.push_back(
        tiny_tensor("t" + std::to_string(step), {4}, is_last ? Place::Output : Place::Arena,
                    is_last ? 0 : plan.offsets[static_cast<size_t>(step)]));
    model.variants[0].steps.push_back({"twice" + std::to_string(step), 0, {step, step + 1}, 0, 10});
  }
  model.variants[0].inputs = {0};
  model.variants[0].outputs = {steps};
  return model;
}

ModelFile branches_model_without_code(int chains) {
  ModelFile model = empty_model("branches");
  ModelVariant& variant = model.variants[0];
  variant.tensors = {tiny_tensor("x", {4}, Place::Input, 0),
                     tiny_tensor("w", {4}, Place::Constant, 0)};
  model.kernels = {multiply_kernel(),
                   tiny_kernel("twice(a[4])", {{"a", {4}}, {"out", {4}, true}}, {{"twice", 2}}),
                   tiny_kernel("add(a[4],b[4])", {{"a", {4}}, {"b", {4}}, {"out", {4}, true}},
                               {{"sum", 4}, {"store", 1}})};
  model.kernels[2].info.scratch_bytes = 16;
  const auto add = [&](const std::string& name, int kernel, std::vector<int> inputs) {
    const auto tensor = static_cast<int>(variant.tensors.size());
    variant.tensors.push_back(tiny_tensor(name, {4}, Place::Arena, variant.arena_bytes));
    variant.arena_bytes += 64;
    inputs.push_back(tensor);
    variant.steps.push_back({name, kernel, inputs, 0, 10});
    return tensor;
  };
  const int x = 0, w = 1, h = add("h", 0, {x, w});
  ModelBand band{1, {}};
  std::vector<int> results;
  for (int chain = 0; chain < chains; ++chain) {
    const std::string number = std::to_string(chain);
    const int d = add("d" + number, 2, {h, x});
    results.push_back(add("e" + number, 0, {d, w}));
    if (chain % 2 == 1) results.back() = add("f" + number, 1, {results.back()});
    band.chains.push_back(2 + chain % 2);
  }
  int sum = results[0];
  for (int chain = 1; chain < chains; ++chain)
    sum = add("s" + std::to_string(chain), 2, {sum, results[static_cast<size_t>(chain)]});
  variant.tensors.back().name = "y";
  variant.tensors.back().place = Place::Output;
  variant.tensors.back().at = 0;
  variant.inputs = {0};
  variant.outputs = {sum};
  variant.bands = {band};
  model.constants = constants_of_w();
  return model;
}

ModelFile branches_model(int chains) {
  ModelFile model = branches_model_without_code(chains);
  model.kernels[0].object = compile_c(multiply_source);
  model.kernels[1].object = compile_c(twice_source);
  model.kernels[2].object = compile_c(add_source);
  return model;
}

std::vector<float> branches_result(int chains, const std::vector<float>& x) {
  std::vector<float> y;
  for (size_t i = 0; i < x.size(); ++i) {
    const auto w = static_cast<float>(i + 1);
    const float e = (x[i] * w + x[i]) * w;
    float sum = e;
    for (int chain = 1; chain < chains; ++chain) sum += chain % 2 == 1 ? 2 * e : e;
    y.push_back(sum);
  }
  return y;
}

std::string with_header(const std::string& bytes,
                        const std::function<void(nlohmann::json&)>& change) {
  const std::string magic = bytes.substr(0, 8);
  const auto text = header_text(bytes, magic, std::ssize(bytes)).value();
  nlohmann::json header = nlohmann::json::parse(text);
  header.erase("header_hash");
  change(header);
  return seal_header(magic, header).value() + bytes.substr(header_prefix_bytes + text.size());
}

}  // namespace tw::runtime
