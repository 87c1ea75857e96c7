// SPDX-License-Identifier: Apache-2.0
#include "cost_model/cost_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/hash.h"
#include "base/random.h"
#include "cost_model/model_file.h"

namespace tw::cost_model {
namespace {

using nlohmann::json;

constexpr std::string_view file_kind = "tilewright-cost-model";
constexpr int file_version = 4;
constexpr size_t least_groups = 3;  // to hold whole groups out
constexpr size_t thoroughly_judged = 1000;
// No prediction of a failure is surer than this: what would be sixteen times as fast is tried.
constexpr double least_validity = 1.0 / 16;
// The scores of trees are multiplied by (n + trusted_trials) / (n + doubtful_trials), where n is
// the number of trials of the workload itself that the trees learned from: by a tenth for 0 trials,
// by seven tenths for 40. Searches of 29 odd convolutions, by trees that knew the layers of
// ResNet-50, began at 0.70 of the best with the full scores of the trees, and at 0.87 with the
// analytic model alone.
constexpr double trusted_trials = 2, doubtful_trials = 20;

// ---- samples ----

/// The reason for which a sample is refused; empty for a usable sample.
std::string problem_of(const Sample& sample) {
  if (sample.features.size() != feature_count())
    return fmt::format("has {} features, expected {}; extract them with this version",
                       sample.features.size(), feature_count());
  const bool finite = std::all_of(sample.features.begin(), sample.features.end(),
                                  [](float v) { return std::isfinite(v); });
  if (!finite || !std::isfinite(sample.weight) || sample.weight <= 0)
    return "has a feature that is no number, or a weight that is not positive; leave it out";
  if (sample.valid && (!std::isfinite(sample.throughput) || sample.throughput <= 0))
    return fmt::format("is valid with a throughput of {}; give a positive number",
                       sample.throughput);
  return "";
}

/// Valid samples by group, in the order in which they came.
using Groups = std::map<uint64_t, std::vector<const Sample*>>;

Groups group_valid(const std::vector<Sample>& samples) {
  Groups groups;
  for (const Sample& sample : samples)
    if (sample.valid) groups[sample.group].push_back(&sample);
  return groups;
}

double best_throughput(const std::vector<const Sample*>& group) {
  double best = 0;
  for (const Sample* sample : group) best = std::max(best, sample->throughput);
  return best;
}

/// The score by the prior, or by the fitted model: where trees begin.
double margin_of(std::span<const float> features, const Fit* fit = nullptr) {
  return -score_of_doubling * (ordering_time_of(features) + (fit ? fit->correction(features) : 0));
}

Fit fit_of(const Groups& groups) {
  std::vector<FitTrial> trials;
  for (const auto& [id, group] : groups)
    for (const Sample* sample : group)
      if (sample->same_machine) trials.push_back({sample->features, sample->throughput, id});
  return fit_factors(trials);
}

/// Labels are throughput / best of the group, so that workloads of any size count alike.
TrainingSet training_set(const Groups& groups, const Fit* base) {
  TrainingSet data(feature_count());
  for (const auto& [id, group] : groups) {
    if (group.empty()) continue;
    const double best = best_throughput(group);
    for (const Sample* sample : group) {
      data.rows.append(sample->features);
      data.labels.push_back(static_cast<float>(sample->throughput / best));
      data.weights.push_back(static_cast<float>(sample->weight));
      data.margins.push_back(static_cast<float>(margin_of(sample->features, base)));
    }
    data.groups.push_back(static_cast<unsigned>(group.size()));
  }
  return data;
}

Matrix matrix_of(std::span<const std::vector<float>> rows) {
  Matrix matrix(feature_count());
  matrix.reserve(rows.size());
  for (const std::vector<float>& row : rows) matrix.append(row);
  return matrix;
}

// ---- judging ----

/// For each sample of each group, the fold that holds it out.
using Folds = std::map<uint64_t, std::vector<int>>;

Folds assign_folds(const Groups& groups, const CostModelOptions& options) {
  Random random(options.booster.seed);
  Folds folds;
  const bool whole_groups = options.hold_out == HoldOut::Groups && groups.size() >= least_groups;
  std::vector<uint64_t> ids;
  for (const auto& [id, group] : groups) ids.push_back(id);
  random.shuffle(ids);
  for (size_t g = 0; g < ids.size(); ++g) {
    std::vector<int>& fold = folds[ids[g]];
    for (size_t i = 0; i < groups.at(ids[g]).size(); ++i)
      fold.push_back(static_cast<int>((whole_groups ? g : i) % static_cast<size_t>(options.folds)));
    random.shuffle(fold);
  }
  return folds;
}

struct Split {
  Groups train, held_out;
};

Split split(const Groups& groups, const Folds& folds, int fold) {
  Split result;
  for (const auto& [id, group] : groups)
    for (size_t i = 0; i < group.size(); ++i)
      (folds.at(id)[i] == fold ? result.held_out : result.train)[id].push_back(group[i]);
  return result;
}

struct Judgement {
  std::vector<Judged> learned, without_trees;
  std::vector<Booster> models;
  std::string failure = {};  ///< why a fold could not be learned from; empty: all could
};

/// Scores of different folds come from different models: each fold of a group is judged by itself.
/// Where the base is fitted, so is the fold's, to what is not held out.
Status judge_fold(const Split& split, bool fits, const BoosterOptions& options, size_t& next_group,
                  Judgement& judgement) {
  const Fit fitted = fits ? fit_of(split.train) : Fit{};
  const Fit* base = fits ? &fitted : nullptr;
  TW_TRY(Booster booster, Booster::train(training_set(split.train, base), options));
  for (const auto& [id, group] : split.held_out) {
    Matrix rows(feature_count());
    for (const Sample* sample : group) rows.append(sample->features);
    TW_TRY(const std::vector<float> scores, booster.predict(rows));
    for (size_t i = 0; i < group.size(); ++i) {
      const Sample& sample = *group[i];
      const double margin = margin_of(sample.features, base);
      judgement.learned.push_back({next_group, scores[i] + margin, sample.throughput});
      judgement.without_trees.push_back({next_group, margin, sample.throughput});
    }
    ++next_group;
  }
  judgement.models.push_back(std::move(booster));
  return {};
}

/// Three models are trained to judge one. With many samples that would cost more than a second, so
/// they are smaller then: on 1680 recorded trials of seven layers they judge to the same effect.
BoosterOptions for_judging(BoosterOptions options, size_t samples) {
  if (samples <= thoroughly_judged) return options;
  options.rounds = std::max(1, options.rounds / 4);
  options.depth = std::min(options.depth, 5);
  options.learning_rate = std::min(1.0, 2 * options.learning_rate);
  return options;
}

/// Judges each fold by a model of the others. Folds that cannot be learned from are left out, and
/// `failure` has the reason.
Judgement judge_trees(const Groups& groups, bool fits, const CostModelOptions& options) {
  const Folds folds = assign_folds(groups, options);
  size_t samples = 0;
  for (const auto& [id, group] : groups) samples += group.size();
  const BoosterOptions booster = for_judging(options.booster, samples);
  Judgement judgement;
  size_t next_group = 0;
  for (int fold = 0; fold < options.folds; ++fold) {
    const Status judged =
        judge_fold(split(groups, folds, fold), fits, booster, next_group, judgement);
    if (!judged)
      judgement.failure =
          fmt::format("{} of {}: {}", fold + 1, options.folds, judged.error().message);
  }
  return judgement;
}

struct FitJudgement {
  Quality prior, fitted;
};

/// Corrections of different folds compare, as they are of the same time: a group is judged as a
/// whole.
FitJudgement judge_fit(const Groups& groups, const CostModelOptions& options) {
  const Folds folds = assign_folds(groups, options);
  std::vector<Judged> prior, fitted;
  for (int fold = 0; fold < options.folds; ++fold) {
    const Split parts = split(groups, folds, fold);
    const Fit fit = fit_of(parts.train);
    for (const auto& [id, group] : parts.held_out)
      for (const Sample* sample : group) {
        if (!sample->same_machine) continue;
        prior.push_back({id, margin_of(sample->features), sample->throughput});
        fitted.push_back({id, margin_of(sample->features, &fit), sample->throughput});
      }
  }
  return {judge(prior), judge(fitted)};
}

/// One number to choose by: the order of all, less what the picks lose.
double merit(const Quality& quality) { return quality.spearman - quality.regret; }

/// True if a model has more merit on held-out samples than a simpler one; false, so that the
/// simpler one is kept, if no group could be judged.
bool is_better(const Quality& model, const Quality& simpler) {
  return model.groups > 0 && merit(model) > merit(simpler);
}

// ---- files ----

json to_json(const Quality& q) {
  return {
      {"spearman", q.spearman}, {"recall", q.recall}, {"regret", q.regret}, {"groups", q.groups}};
}

Quality quality_from(const json& j) {
  return {j.at("spearman"), j.at("recall"), j.at("regret"), j.at("groups")};
}

json to_json(const Fit& fit) {
  return {{"log_factors", fit.log_factors},
          {"usual_shares", fit.usual_shares},
          {"precision_root", fit.precision_root}};
}

Fit fit_from(const json& j) {
  Fit fit;
  j.at("log_factors").get_to(fit.log_factors);
  j.at("usual_shares").get_to(fit.usual_shares);
  j.at("precision_root").get_to(fit.precision_root);
  return fit;
}

Result<json> encode(const Booster& booster) {
  TW_TRY(const std::string bytes, booster.to_bytes());
  return json::binary(std::vector<uint8_t>(bytes.begin(), bytes.end()));
}

Result<json> encode(const std::optional<Booster>& booster) {
  return booster ? encode(*booster) : Result<json>(json(nullptr));
}

Result<std::optional<Booster>> decode(const json& j) {
  if (j.is_null()) return std::nullopt;
  const std::vector<uint8_t>& bytes = j.get_binary();
  TW_TRY(Booster booster,
         Booster::from_bytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  if (booster.columns() != feature_count())
    return fail(ErrorCode::Invalid,
                fmt::format("[load cost model] trees over {} features, expected {}",
                            booster.columns(), feature_count()));
  return booster;
}

ModelKind kind_of_file() { return {file_kind, file_version, feature_count(), "cost model"}; }

/// The content of the file that has these bytes.
Result<std::string_view> content_of(const std::string& path, std::string_view bytes) {
  auto content = model_content(kind_of_file(), bytes);
  if (content) return content;
  return fail(content.error().code,
              fmt::format("[load cost model] {}: {}; delete it, and it is learned again from the "
                          "measurements",
                          path, content.error().message));
}

Status write_file(const std::string& path, const std::string& bytes) {
  const std::string partial = path + ".partial";
  std::ofstream out(partial, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(partial, path, error);
  if (out && !error) return {};
  return fail(
      ErrorCode::Environment,
      fmt::format("[save cost model] {} cannot be written; check the folder and the free space",
                  path));
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  if (!in)
    return fail(ErrorCode::Invalid,
                fmt::format("[load cost model] {} cannot be read; learn one with update()", path));
  return bytes.str();
}

}  // namespace

std::string_view to_string(Source source) {
  constexpr std::string_view names[] = {"prior", "fitted", "learned"};
  return names[static_cast<size_t>(source)];
}

const Quality& ModelQuality::of(Source source) const {
  return source == Source::Learned ? learned : source == Source::Fitted ? fitted : prior;
}

Status CostModel::add(std::span<const Sample> samples) {
  size_t refused = 0;
  std::string first;
  for (size_t i = 0; i < samples.size(); ++i) {
    const std::string problem = problem_of(samples[i]);
    if (problem.empty())
      samples_.push_back(samples[i]);
    else if (refused++ == 0)
      first = fmt::format("sample {} {}", i, problem);
  }
  const auto valid =
      std::count_if(samples_.begin(), samples_.end(), [](const Sample& s) { return s.valid; });
  quality_.samples = static_cast<size_t>(valid);
  quality_.failures = samples_.size() - quality_.samples;
  if (!has_tried_trees_)
    quality_.note = quality_.samples < options_.least_samples
                        ? fmt::format("{} measurements, {} needed to learn", quality_.samples,
                                      options_.least_samples)
                        : fmt::format("{} measurements, not learned from yet", quality_.samples);
  if (source_ != Source::Learned) fit();
  if (refused == 0) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("[update cost model] {} of {} samples are refused: {}", refused,
                          samples.size(), first));
}

Status CostModel::update(std::span<const Sample> samples) {
  const Status added = add(samples);
  learn();
  return added;
}

void CostModel::learn() {
  fit();
  learn_order();
  learn_validity();
}

void CostModel::fit() {
  const Groups groups = group_valid(samples_);
  fit_ = fit_of(groups);
  const FitJudgement judgement = judge_fit(groups, options_);
  quality_.prior = judgement.prior;
  quality_.fitted = judgement.fitted;
  source_ = is_better(quality_.fitted, quality_.prior) ? Source::Fitted : Source::Prior;
}

void CostModel::learn_order() {
  ranker_.reset();
  judged_.clear();
  quality_.learned = quality_.without_trees = Quality{};
  base_.reset();
  if (quality_.samples < options_.least_samples) return;
  has_tried_trees_ = true;
  quality_.note.clear();
  quality_.unjudged.clear();
  const Groups groups = group_valid(samples_);
  const bool fits = source_ == Source::Fitted;
  if (fits) base_ = fit_;
  Result<Booster> booster =
      Booster::train(training_set(groups, fits ? &fit_ : nullptr), options_.booster);
  if (!booster) {
    quality_.note = booster.error().message;
    return;
  }
  Judgement judgement = judge_trees(groups, fits, options_);
  quality_.unjudged = judgement.failure;
  quality_.learned = judge(judgement.learned);
  quality_.without_trees = judge(judgement.without_trees);
  ranker_ = std::move(*booster);
  judged_ = std::move(judgement.models);
  if (is_better(quality_.learned, quality_.without_trees)) {
    source_ = Source::Learned;
    return;
  }
  quality_.note = fmt::format(
      "on held-out measurements the {} model orders better "
      "(rank correlation {:.2f}, learned {:.2f})",
      to_string(source_), quality_.without_trees.spearman, quality_.learned.spearman);
}

void CostModel::learn_validity() {
  validity_.reset();
  if (std::min(quality_.failures, quality_.samples) < options_.least_failures) return;
  TrainingSet data(feature_count());
  for (const Sample& sample : samples_) {
    data.rows.append(sample.features);
    data.labels.push_back(sample.valid ? 1.0F : 0.0F);
  }
  BoosterOptions options = options_.booster;
  options.objective = Objective::Probability;
  Result<Booster> booster = Booster::train(data, options);
  if (booster)
    validity_ = std::move(*booster);
  else
    quality_.unjudged = "what is likely to fail: " + booster.error().message;
}

Scores CostModel::predict(std::span<const std::vector<float>> rows, int64_t own) const {
  const auto known = static_cast<double>(own);
  const double trust = (known + trusted_trials) / (known + doubtful_trials);
  Scores scores{{}, std::vector<double>(rows.size(), 0.0)};
  const Fit* fit = source_ == Source::Fitted             ? &fit_
                   : source_ == Source::Learned && base_ ? &*base_
                                                         : nullptr;
  for (const std::vector<float>& row : rows) scores.mean.push_back(margin_of(row, fit));
  discount_failures(rows, scores.mean);
  if (source_ == Source::Prior) return scores;
  if (source_ == Source::Fitted) {
    for (size_t i = 0; i < rows.size(); ++i)
      scores.spread[i] = score_of_doubling * fit_.deviation(rows[i]);
    return scores;
  }
  const Matrix matrix = matrix_of(rows);
  const auto learned = ranker_->predict(matrix);
  if (!learned) return scores;
  for (size_t i = 0; i < rows.size(); ++i) scores.mean[i] += trust * (*learned)[i];
  scores.spread = spread(matrix);
  for (double& spread : scores.spread) spread *= trust;
  return scores;
}

/// Turns the score of each candidate into that of its throughput times the probability that it is
/// valid. Scores are margins: a factor of two in throughput adds score_of_doubling.
void CostModel::discount_failures(std::span<const std::vector<float>> rows,
                                  std::vector<double>& scores) const {
  if (!validity_) return;
  const std::vector<double> valid = predict_valid(rows);
  for (size_t i = 0; i < scores.size(); ++i)
    scores[i] += score_of_doubling * std::log2(std::max(valid[i], least_validity));
}

std::vector<double> CostModel::spread(const Matrix& rows) const {
  std::vector<double> sums(rows.rows(), 0.0), squares(rows.rows(), 0.0);
  double models = 0;
  for (const Booster& booster : judged_) {
    const auto scores = booster.predict(rows);
    if (!scores) continue;
    ++models;
    for (size_t i = 0; i < scores->size(); ++i) {
      sums[i] += (*scores)[i];
      squares[i] += (*scores)[i] * (*scores)[i];
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    const double mean = sums[i] / std::max(1.0, models);
    sums[i] = std::sqrt(std::max(0.0, squares[i] / std::max(1.0, models) - mean * mean));
  }
  return sums;
}

std::vector<double> CostModel::predict_valid(std::span<const std::vector<float>> rows) const {
  if (validity_)
    if (const auto values = validity_->predict(matrix_of(rows)))
      return {values->begin(), values->end()};
  const double all = static_cast<double>(quality_.samples + quality_.failures);
  const double share = all > 0 ? static_cast<double>(quality_.samples) / all : 1;
  return std::vector<double>(rows.size(), share);
}

Status CostModel::save(const std::string& path) const {
  TW_TRY(json ranker, encode(ranker_));
  TW_TRY(json validity, encode(validity_));
  json judged = json::array();
  for (const Booster& booster : judged_) {
    TW_TRY(json encoded, encode(booster));
    judged.push_back(std::move(encoded));
  }
  const json content = {{"ranker", std::move(ranker)},
                        {"validity", std::move(validity)},
                        {"judged", std::move(judged)},
                        {"source", to_string(source_)},
                        {"fit", to_json(fit_)},
                        {"base", base_ ? to_json(*base_) : json(nullptr)},
                        {"prior", to_json(quality_.prior)},
                        {"fitted", to_json(quality_.fitted)},
                        {"without_trees", to_json(quality_.without_trees)},
                        {"learned", to_json(quality_.learned)},
                        {"samples", quality_.samples},
                        {"failures", quality_.failures},
                        {"note", quality_.note}};
  const std::vector<uint8_t> bytes = json::to_cbor(content);
  const std::string payload(bytes.begin(), bytes.end());
  return write_file(path, model_bytes(kind_of_file(), payload));
}

Result<CostModel> CostModel::load(const std::string& path, CostModelOptions options) {
  TW_TRY(const std::string file, read_file(path));
  TW_TRY(const std::string_view payload, content_of(path, file));
  CostModel model(std::move(options));
  // The hash holds, so the content is what save() wrote; what throws here was written by other
  // code.
  try {
    const json content = json::from_cbor(payload);
    TW_TRY(model.ranker_, decode(content.at("ranker")));
    TW_TRY(model.validity_, decode(content.at("validity")));
    for (const json& bytes : content.at("judged")) {
      TW_TRY(auto booster, decode(bytes));
      if (booster) model.judged_.push_back(std::move(*booster));
    }
    model.fit_ = fit_from(content.at("fit"));
    if (!content.at("base").is_null()) model.base_ = fit_from(content.at("base"));
    for (const Source source : {Source::Fitted, Source::Learned})
      if (content.at("source") == to_string(source)) model.source_ = source;
    if (!model.ranker_ && model.source_ == Source::Learned) model.source_ = Source::Prior;
    model.quality_ = {quality_from(content.at("prior")),
                      quality_from(content.at("fitted")),
                      quality_from(content.at("without_trees")),
                      quality_from(content.at("learned")),
                      content.at("samples"),
                      content.at("failures"),
                      content.at("note"),
                      {}};
  } catch (const json::exception& error) {
    return fail(ErrorCode::Invalid,
                fmt::format("[load cost model] {}: {}; delete it", path, error.what()));
  }
  return model;
}

}  // namespace tw::cost_model
