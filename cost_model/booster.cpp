// SPDX-License-Identifier: Apache-2.0
#include "cost_model/booster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "cost_model/xgboost.h"

namespace tw::cost_model {
namespace {

struct FreeMatrix {
  void operator()(void* handle) const { xgboost()->XGDMatrixFree(handle); }
};
using MatrixHandle = std::unique_ptr<void, FreeMatrix>;

Status checked(int code, std::string_view operation) {
  if (code == 0) return {};
  std::string reason = xgboost()->XGBGetLastError();
  reason = reason.substr(0, reason.find("\nStack trace"));
  return fail(ErrorCode::Internal,
              fmt::format("[{}] XGBoost says: {}", operation, first_lines(reason, 4)));
}

tl::unexpected<Error> nothing_to_learn(const std::string& what) {
  return fail(ErrorCode::Invalid, fmt::format("[train cost model] {}", what));
}

bool all_finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

/// Returns the description of a matrix that XGBoost expects: NumPy's array interface, as JSON.
std::string array_interface(const Matrix& rows) {
  return fmt::format(R"({{"data":[{},true],"shape":[{},{}],"typestr":"<f4","version":3}})",
                     reinterpret_cast<uintptr_t>(rows.values().data()), rows.rows(),
                     rows.columns());
}

Status check_sizes(const TrainingSet& data) {
  const size_t rows = data.rows.rows();
  if (data.labels.size() != rows || (!data.weights.empty() && data.weights.size() != rows))
    return nothing_to_learn(
        fmt::format("{} rows with {} labels and {} weights; give one of each a row", rows,
                    data.labels.size(), data.weights.size()));
  return {};
}

Status check(const TrainingSet& data) {
  TW_RETURN_IF_ERROR(check_sizes(data));
  if (data.labels.size() < 2)
    return nothing_to_learn(fmt::format("{} rows given, at least 2 needed; measure more candidates",
                                        data.labels.size()));
  if (!all_finite(data.labels) || !all_finite(data.weights) || !all_finite(data.rows.values()))
    return nothing_to_learn("a feature, label or weight is NaN or infinite; leave that sample out");
  if (!data.weights.empty() && *std::max_element(data.weights.begin(), data.weights.end()) <= 0)
    return nothing_to_learn("no row has a positive weight; give 1 where none is known");
  const auto [low, high] = std::minmax_element(data.labels.begin(), data.labels.end());
  if (*low == *high)
    return nothing_to_learn(fmt::format(
        "all {} labels are {}: nothing tells them apart; measure candidates that differ",
        data.labels.size(), *low));
  return {};
}

std::string_view objective_name(Objective objective) {
  switch (objective) {
    case Objective::Regression:
      return "reg:squarederror";
    case Objective::Probability:
      return "binary:logistic";
  }
  return "";
}

std::vector<std::pair<std::string, std::string>> parameters(const BoosterOptions& options) {
  return {{"verbosity", "0"},
          {"nthread", "1"},
          {"tree_method", "hist"},
          {"max_bin", std::to_string(options.bins)},
          {"max_depth", std::to_string(options.depth)},
          {"eta", fmt::format("{}", options.learning_rate)},
          {"seed", std::to_string(options.seed)},
          {"objective", std::string(objective_name(options.objective))},
          // The default metric of some objectives rejects real-valued labels.
          {"disable_default_eval_metric", "1"}};
}

Result<MatrixHandle> make_matrix(const TrainingSet& data) {
  DMatrixHandle raw = nullptr;
  TW_RETURN_IF_ERROR(
      checked(xgboost()->XGDMatrixCreateFromDense(array_interface(data.rows).c_str(),
                                                  R"({"missing":NaN,"nthread":1})", &raw),
              "train cost model"));
  MatrixHandle matrix(raw);
  TW_RETURN_IF_ERROR(checked(
      xgboost()->XGDMatrixSetFloatInfo(raw, "label", data.labels.data(), data.labels.size()),
      "train cost model"));
  if (!data.weights.empty())
    TW_RETURN_IF_ERROR(checked(
        xgboost()->XGDMatrixSetFloatInfo(raw, "weight", data.weights.data(), data.weights.size()),
        "train cost model"));
  return matrix;
}

}  // namespace

void Matrix::append(std::span<const float> row) {
  TW_CHECK(row.size() == columns_, "rows of a matrix have equal length");
  values_.insert(values_.end(), row.begin(), row.end());
}

void Booster::Free::operator()(void* handle) const { xgboost()->XGBoosterFree(handle); }

Result<Booster> Booster::train(const TrainingSet& data, const BoosterOptions& options) {
  TW_RETURN_IF_ERROR(check(data));
  TW_RETURN_IF_ERROR(xgboost());
  TW_TRY(const MatrixHandle matrix, make_matrix(data));
  BoosterHandle raw = nullptr;
  const DMatrixHandle matrices[] = {matrix.get()};
  TW_RETURN_IF_ERROR(checked(xgboost()->XGBoosterCreate(matrices, 1, &raw), "train cost model"));
  Handle handle(raw);
  for (const auto& [name, value] : parameters(options))
    TW_RETURN_IF_ERROR(checked(xgboost()->XGBoosterSetParam(raw, name.c_str(), value.c_str()),
                               "train cost model"));
  for (int round = 0; round < options.rounds; ++round)
    TW_RETURN_IF_ERROR(
        checked(xgboost()->XGBoosterUpdateOneIter(raw, round, matrix.get()), "train cost model"));
  return Booster(std::move(handle), data.rows.columns());
}

Result<Booster> Booster::from_bytes(std::string_view bytes) {
  TW_RETURN_IF_ERROR(xgboost());
  BoosterHandle raw = nullptr;
  TW_RETURN_IF_ERROR(checked(xgboost()->XGBoosterCreate(nullptr, 0, &raw), "load cost model"));
  Handle handle(raw);
  TW_RETURN_IF_ERROR(checked(
      xgboost()->XGBoosterLoadModelFromBuffer(raw, bytes.data(), bytes.size()), "load cost model"));
  TW_RETURN_IF_ERROR(checked(xgboost()->XGBoosterSetParam(raw, "nthread", "1"), "load cost model"));
  bst_ulong columns = 0;
  TW_RETURN_IF_ERROR(checked(xgboost()->XGBoosterGetNumFeature(raw, &columns), "load cost model"));
  return Booster(std::move(handle), columns);
}

Result<std::vector<float>> Booster::predict(const Matrix& rows) const {
  if (rows.columns() != columns_)
    return fail(
        ErrorCode::Internal,
        fmt::format("[predict] rows of {} features given to a model of {}; extract them again",
                    rows.columns(), columns_));
  if (rows.rows() == 0) return std::vector<float>{};
  const bst_ulong* shape = nullptr;
  bst_ulong dimensions = 0;
  const float* values = nullptr;
  constexpr const char* config =
      R"({"type":0,"training":false,"iteration_begin":0,"iteration_end":0,)"
      R"("strict_shape":false,"missing":NaN,"cache_id":0})";
  TW_RETURN_IF_ERROR(
      checked(xgboost()->XGBoosterPredictFromDense(handle_.get(), array_interface(rows).c_str(),
                                                   config, nullptr, &shape, &dimensions, &values),
              "predict"));
  std::vector<float> result(values, values + rows.rows());
  if (all_finite(result)) return result;
  return fail(ErrorCode::Internal,
              "[predict] XGBoost gave a score that is not finite; learn again");
}

Result<std::string> Booster::to_bytes() const {
  bst_ulong size = 0;
  const char* bytes = nullptr;
  TW_RETURN_IF_ERROR(checked(
      xgboost()->XGBoosterSaveModelToBuffer(handle_.get(), R"({"format":"ubj"})", &size, &bytes),
      "save cost model"));
  return std::string(bytes, size);
}

}  // namespace tw::cost_model
