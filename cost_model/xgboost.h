// SPDX-License-Identifier: Apache-2.0
#pragma once
// The functions of XGBoost's C interface that this project uses. The shared library is opened when
// a function is first needed. Without the library, tuning uses the analytic model. Thread-safe.

#include <xgboost/c_api.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace tw::cost_model {

#define TW_XGBOOST_FUNCTIONS(X)   \
  X(XGBGetLastError)              \
  X(XGDMatrixCreateFromDense)     \
  X(XGDMatrixSetFloatInfo)        \
  X(XGDMatrixFree)                \
  X(XGBoosterCreate)              \
  X(XGBoosterSetParam)            \
  X(XGBoosterUpdateOneIter)       \
  X(XGBoosterGetNumFeature)       \
  X(XGBoosterPredictFromDense)    \
  X(XGBoosterLoadModelFromBuffer) \
  X(XGBoosterSaveModelToBuffer)   \
  X(XGBoosterFree)

struct XGBoost {
#define X(name) decltype(&::name) name = nullptr;
  TW_XGBOOST_FUNCTIONS(X)
#undef X
};

/// Opens the first of the libraries `names` that has all functions; the library stays open. Fails
/// with Environment if no library has them.
Result<XGBoost> open_xgboost(const std::vector<std::string>& names);

/// Returns the functions of the installed library, which is opened at the first call. Fails with
/// Environment if the library is not installed.
const Result<XGBoost>& xgboost();

}  // namespace tw::cost_model
