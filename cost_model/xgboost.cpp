// SPDX-License-Identifier: Apache-2.0
#include "cost_model/xgboost.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace tw::cost_model {
namespace {

Result<XGBoost> open_one(const std::string& name) {
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return fail(ErrorCode::Environment, dlerror());
  XGBoost api;
#define X(function)                                                                   \
  api.function = reinterpret_cast<decltype(api.function)>(dlsym(library, #function)); \
  if (!api.function)                                                                  \
    return fail(ErrorCode::Environment, fmt::format("{} has no {}", name, #function));
  TW_XGBOOST_FUNCTIONS(X)
#undef X
  return api;
}

}  // namespace

Result<XGBoost> open_xgboost(const std::vector<std::string>& names) {
  std::string reasons;
  for (const std::string& name : names) {
    auto api = open_one(name);
    if (api) return api;
    reasons += (reasons.empty() ? "" : "; ") + api.error().message;
  }
  return fail(ErrorCode::Environment,
              fmt::format("[cost model] XGBoost cannot be used ({}); install libxgboost0 to learn "
                          "from measurements",
                          reasons));
}

const Result<XGBoost>& xgboost() {
  static const Result<XGBoost> installed = open_xgboost({"libxgboost.so.0", "libxgboost.so"});
  return installed;
}

}  // namespace tw::cost_model
