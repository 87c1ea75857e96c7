// SPDX-License-Identifier: Apache-2.0
// Fuzz target for files of kernels and of networks. The first byte says whether the rest is a whole
// file or only the header. Hashes stop nearly every mutation of a whole file. A header is sealed,
// as a hostile writer would seal it, and put before the code and constants of a seed.
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/artifact.h"
#include "runtime/model_file.h"
#include "runtime/sealed_header.h"
#include "tests/fuzz/promises.h"
#include "tests/fuzz/target.h"
#include "tests/runtime/tiny_model.h"

namespace tw::fuzz {
namespace {

using runtime::header_prefix_bytes;

constexpr char kernel_file = 'K', network_file = 'N', kernel_header = 'k', network_header = 'n';
constexpr std::string_view kernel_magic = "TWARTF01", network_magic = "TWNETF03";
constexpr size_t page_bytes = 4096;
constexpr int64_t padding_bytes = 64;

runtime::Artifact seed_kernel() {
  runtime::Artifact kernel = runtime::tiny_model_without_code().kernels.at(0);
  kernel.info.packs["to_blocks"] = kernel.info.phases;
  kernel.info.arguments[0].layout = "A4a";
  kernel.info.arguments[0].pack = "to_blocks";
  return kernel;
}

runtime::ModelFile seed_network() {
  runtime::ModelFile model = runtime::tiny_model_without_code();
  model.variants.push_back(model.variants[0]);
  for (runtime::ModelTensor& tensor : model.variants[1].tensors)
    tensor.shape.insert(tensor.shape.begin(), 1);
  return runtime::check_model(model) ? model : runtime::tiny_model_without_code();
}

std::string kernel_bytes() { return runtime::artifact_bytes(seed_kernel()).value(); }
std::string network_bytes() { return runtime::model_bytes(seed_network()).value(); }

std::string header_of(const std::string& file, std::string_view magic) {
  return std::string(runtime::header_text(file, magic, std::ssize(file)).value());
}

/// Returns the bytes that follow the header of a file.
std::string rest_of(const std::string& file, std::string_view magic) {
  return file.substr(header_prefix_bytes + header_of(file, magic).size());
}

std::vector<std::string> artifact_seeds() {
  const std::string kernel = kernel_bytes(), network = network_bytes();
  return {kernel_file + kernel, network_file + network,
          kernel_header + header_of(kernel, kernel_magic),
          network_header + header_of(network, network_magic)};
}

/// Returns the header with the hash that belongs to it; nullopt if the text is no JSON object.
std::optional<std::string> sealed(std::string_view text, std::string_view magic) {
  const auto is_shallow = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    return depth <= 12;
  };
  nlohmann::json header = nlohmann::json::parse(text, is_shallow, false);
  if (!header.is_object()) return std::nullopt;
  header.erase("header_hash");
  const auto bytes = runtime::seal_header(magic, std::move(header));
  return bytes ? std::optional(*bytes) : std::nullopt;
}

bool kernel_accepts(std::string_view file) {
  const auto kernel = runtime::parse_artifact(file);
  if (!kernel) return check_error(kernel.error()), false;
  const auto again = runtime::artifact_bytes(*kernel);
  TW_CHECK(again && runtime::parse_artifact(*again) == *kernel, "a kernel must be read back");
  for (const runtime::ArgumentInfo& argument : kernel->info.arguments)
    TW_CHECK(runtime::storage_bytes(argument) >= 0 && runtime::logical_bytes(argument) >= 0);
  return true;
}

bool network_accepts(std::string_view file) {
  const auto model = runtime::parse_model(file);
  if (!model) return check_error(model.error()), false;
  const auto again = runtime::model_bytes(*model);
  TW_CHECK(again && runtime::parse_model(*again) == *model, "a network must be read back");
  for (const runtime::ModelVariant& variant : model->variants) {
    // The bound includes the padding of each array, which the last array in the arena does not
    // need.
    TW_CHECK(runtime::least_arena_bytes(*model, variant) - padding_bytes < variant.arena_bytes);
    TW_CHECK(!runtime::show_inputs(variant).empty());
  }
  return true;
}

bool kernel_header_accepts(std::string_view text) {
  static const std::string code = rest_of(kernel_bytes(), kernel_magic);
  const auto head = sealed(text, kernel_magic);
  return head && kernel_accepts(*head + code);
}

bool network_header_accepts(std::string_view text) {
  static const std::string seed = network_bytes();
  static const size_t constants_bytes = seed_network().constants.size();
  static const std::string rest = rest_of(seed, network_magic);
  static const std::string kernels =
      rest.substr(0, rest.find_last_not_of('\0', rest.size() - constants_bytes - 1) + 1);
  auto head = sealed(text, network_magic);
  if (!head) return false;
  *head += kernels;
  head->resize((head->size() + page_bytes - 1) / page_bytes * page_bytes);
  return network_accepts(*head + seed.substr(seed.size() - constants_bytes));
}

bool artifact_accepts(std::string_view input) {
  if (input.empty()) return false;
  const std::string_view rest = input.substr(1);
  switch (input[0]) {
    case kernel_file:
      return kernel_accepts(rest);
    case network_file:
      return network_accepts(rest);
    case kernel_header:
      return kernel_header_accepts(rest);
    default:
      return network_header_accepts(rest);
  }
}

}  // namespace

const Target artifact_target = {.name = "artifact",
                                .summary = "files of kernels and of networks, and their headers",
                                .seeds = artifact_seeds,
                                .accepts = artifact_accepts,
                                .words = {"\"maps\":[",
                                          "\"threads\":",
                                          "\"shared_bytes\":",
                                          "\"ptx_bytes\":0,\"ptx_hash\":\"\",",
                                          "null",
                                          "[]",
                                          "{}",
                                          "[[",
                                          "-1",
                                          "\"arena\"",
                                          "\"constant\"",
                                          "\"input\"",
                                          "\"output\"",
                                          "\"f16\"",
                                          "\"A4a\"",
                                          "\"bytes\":",
                                          "\"at\":",
                                          "\"cuda:sm_90a\"",
                                          "\"opencl\"",
                                          ",",
                                          "true",
                                          "1e300"}};

}  // namespace tw::fuzz
