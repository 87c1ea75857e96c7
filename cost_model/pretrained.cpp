// SPDX-License-Identifier: Apache-2.0
#include "cost_model/pretrained.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/hash.h"
#include "cost_model/features.h"
#include "cost_model/model_file.h"

namespace tw::cost_model {
namespace {

constexpr int file_version = 1;

// Options of the trees, which predict the logarithm of a time (regression). The numbers matter
// little. For comparison, trees were trained without a fifth of the workloads of two machines and
// predicted this fifth. With 400 rounds of depth 5, the speeds of the candidates predicted to be
// fastest were within 0.01 of those with these options.
constexpr BoosterOptions options = {.objective = Objective::Regression,
                                    .rounds = 300,
                                    .depth = 7,
                                    .bins = 64,
                                    .learning_rate = 0.06};

// Least weight of a trial in training. A trial that takes twice as long as the best one weighs half
// as much, and so on down to this weight.
constexpr double least_weight = 0.05;

double log2_size(int64_t bytes) { return std::log2(1 + static_cast<double>(bytes)); }

/// Returns the numbers of the machine on which times depend.
std::vector<float> numbers_of(const Machine& machine) {
  const Core& core = machine.core;
  std::vector<double> numbers = {log2_size(core.vector_bytes),
                                 static_cast<double>(core.vector_registers),
                                 core.clock_ghz,
                                 core.fma_per_cycle,
                                 core.fma_latency_cycles,
                                 core.loads_per_cycle,
                                 core.stores_per_cycle,
                                 core.instructions_per_cycle,
                                 core.store_forward_cycles,
                                 core.embedded_broadcast ? 1.0 : 0.0,
                                 machine.memory_bytes_per_cycle};
  for (const CacheLevel& level : machine.caches) {
    numbers.push_back(log2_size(level.bytes));
    numbers.push_back(level.bytes_per_cycle);
  }
  return {numbers.begin(), numbers.end()};
}

/// Returns the number of features that the model reads: all but the last one, which is the model's
/// own prediction (features.def).
size_t features_read() { return feature_count() - 1; }

size_t columns() { return features_read() + numbers_of(Machine()).size(); }

void append(std::span<const float> features, const std::vector<float>& machine, Matrix& matrix) {
  const std::span<const float> read = features.first(features_read());
  std::vector<float> row(read.begin(), read.end());
  row.insert(row.end(), machine.begin(), machine.end());
  matrix.append(row);
}

ModelKind kind() { return {"tilewright-pretrained", file_version, columns(), "such model"}; }

}  // namespace

Pretrained::Pretrained(Booster booster, std::string bytes)
    : booster_(std::move(booster)), bytes_(std::move(bytes)), name_(short_hash(bytes_)) {}

Result<Pretrained> Pretrained::train(std::span<const CorpusTrial> trials) {
  TrainingSet data(columns());
  data.rows.reserve(trials.size());
  for (const CorpusTrial& trial : trials) {
    append(trial.features, numbers_of(*trial.machine), data.rows);
    data.labels.push_back(
        static_cast<float>(std::log2(1 + trial.ns) - analytic_time_of(trial.features)));
    data.weights.push_back(static_cast<float>(std::max(least_weight, trial.best_ns / trial.ns)));
  }
  TW_TRY(Booster booster, Booster::train(data, options));
  TW_TRY(const std::string content, booster.to_bytes());
  return Pretrained(std::move(booster), model_bytes(kind(), content));
}

Result<Pretrained> Pretrained::from_bytes(std::string_view bytes) {
  const auto content = model_content(kind(), bytes);
  if (!content)
    return fail(content.error().code,
                fmt::format("[pretrained model] it {}: train it again from the corpus",
                            content.error().message));
  TW_TRY(Booster booster, Booster::from_bytes(*content));
  return Pretrained(std::move(booster), std::string(bytes));
}

Result<std::vector<double>> Pretrained::times(std::span<const std::vector<float>* const> rows,
                                              const Machine& machine) const {
  const std::vector<float> numbers = numbers_of(machine);
  Matrix matrix(columns());
  matrix.reserve(rows.size());
  for (const std::vector<float>* row : rows) append(*row, numbers, matrix);
  TW_TRY(const std::vector<float> corrections, booster_.predict(matrix));
  std::vector<double> times;
  for (size_t i = 0; i < rows.size(); ++i)
    times.push_back(analytic_time_of(*rows[i]) + corrections[i]);
  return times;
}

}  // namespace tw::cost_model
