// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/join_models.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/integer.h"
#include "base/result.h"
#include "base/target.h"

namespace tw::tuner {
namespace {

/// Kernels and constants of models, each kept once.
class JoinedModel {
 public:
  explicit JoinedModel(const runtime::ModelFile& first) {
    model_.name = first.name;
    model_.target = first.target;
    model_.codegen_abi = first.codegen_abi;
    model_.threads = first.threads;
    alignment_ = runtime::tensor_alignment(parse_target(first.target).value());
  }

  void add(const runtime::ModelFile& other) {
    TW_CHECK(other.name == model_.name && other.target == model_.target &&
                 other.codegen_abi == model_.codegen_abi && other.threads == model_.threads,
             "models of one network");
    std::vector<int> kernels;
    for (const runtime::Artifact& kernel : other.kernels) kernels.push_back(number_of(kernel));
    for (runtime::ModelVariant variant : other.variants) {
      for (runtime::ModelStep& step : variant.steps)
        step.kernel = kernels[static_cast<size_t>(step.kernel)];
      for (runtime::ModelTensor& tensor : variant.tensors)
        if (tensor.place == runtime::Place::Constant)
          tensor.at = place_of(
              std::string_view(other.constants)
                  .substr(static_cast<size_t>(tensor.at), static_cast<size_t>(tensor.bytes)));
      model_.variants.push_back(std::move(variant));
    }
  }

  runtime::ModelFile take() { return std::move(model_); }

 private:
  int number_of(const runtime::Artifact& kernel) {
    const auto known = std::ranges::find(model_.kernels, kernel);
    const auto number = static_cast<int>(known - model_.kernels.begin());
    if (known == model_.kernels.end()) model_.kernels.push_back(kernel);
    return number;
  }

  /// Returns the offset of these bytes in the constants, and appends the bytes if they are new.
  int64_t place_of(std::string_view bytes) {
    const auto end = static_cast<int64_t>(model_.constants.size());
    const auto [known, is_new] = places_.emplace(bytes, end);
    if (!is_new) return known->second;
    model_.constants.append(bytes);
    model_.constants.resize(
        static_cast<size_t>(round_up(std::ssize(model_.constants), alignment_)));
    return end;
  }

  runtime::ModelFile model_;
  int64_t alignment_ = 1;  ///< of constants
  /// Offsets of constants; the keys point into the models that were added.
  std::map<std::string_view, int64_t> places_;
};

}  // namespace

runtime::ModelFile join_models(std::span<const runtime::ModelFile* const> models) {
  TW_CHECK(!models.empty());
  JoinedModel joined(*models.front());
  for (const runtime::ModelFile* const model : models) joined.add(*model);
  return joined.take();
}

}  // namespace tw::tuner
