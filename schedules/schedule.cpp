// SPDX-License-Identifier: Apache-2.0
#include "schedules/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "schedules/loop_names.h"
#include "schedules/lowering/lower.h"
#include "schedules/nest.h"

namespace tw::schedules {

Schedule::Schedule(dsl::Compute compute)
    : compute_(std::make_shared<const dsl::Compute>(std::move(compute))),
      nest_(std::make_shared<Nest>(default_nest(*compute_))) {}

Schedule Schedule::then(Step step) const {
  Schedule next = *this;
  next.add(std::move(step));
  return next;
}

Schedule Schedule::then(const std::vector<Step>& steps) const {
  Schedule next = *this;
  for (const Step& step : steps) next.add(step);
  return next;
}

void Schedule::add(Step step) {
  if (error_) return;
  if (nest_.use_count() > 1) nest_ = std::make_shared<Nest>(*nest_);
  if (has_own_names(*nest_)) step = with_derived_names(*nest_, std::move(step));
  if (const Status status = schedules::apply(*nest_, step); !status) {
    error_ = status.error();
  } else {
    forget_own_names(step);
    steps_.push_back(std::move(step));
  }
}

// Checks that each step has a method whose parameters are the step's fields in order.
template <typename S, typename... T>
std::tuple<T...> types_of(const std::tuple<Field<S, T>...>&);
template <typename... T>
std::tuple<T...> types_of(Schedule (Schedule::*)(T...) const);
#define X(Type, method) \
  static_assert(        \
      std::is_same_v<decltype(types_of(Type::fields())), decltype(types_of(&Schedule::method))>);
TW_STEPS(X)
#undef X

Result<Program> Schedule::program(const Limits& limits) const {
  if (error_) return tl::unexpected<Error>(*error_);
  return lower(*nest_, limits);
}

std::string Schedule::to_string() const {
  std::string text(schedule_version);
  for (const Step& step : steps_) text += "\n" + schedules::to_string(step);
  return text;
}

std::string Schedule::hash() const { return short_hash(to_string()); }

namespace {

/// The words of one step, and the column of each word, counted from 1.
struct Sentence {
  int line = 1;
  std::vector<std::string> words;
  std::vector<int> columns;
  int end_column = 1;  ///< column behind the last word

  int column_of(size_t word) const { return word < columns.size() ? columns[word] : end_column; }
};

/// Splits the text into sentences, which end at line ends and at `;`. Comments are left out.
std::vector<Sentence> sentences_of(std::string_view text) {
  constexpr std::string_view blank = " \t\r";
  std::vector<Sentence> sentences;
  Sentence current;
  const auto finish = [&] {
    if (!current.words.empty()) sentences.push_back(std::exchange(current, {}));
  };
  int number = 0;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    ++number;
    for (size_t i = 0; i < line.size() && line[i] != '#';) {
      if (line[i] == ';') finish();
      if (line[i] == ';' || blank.find(line[i]) != std::string_view::npos) {
        ++i;
        continue;
      }
      const size_t behind = std::min(line.find_first_of(" \t\r;#", i), line.size());
      current.line = number;
      current.words.emplace_back(line.substr(i, behind - i));
      current.columns.push_back(static_cast<int>(i) + 1);
      current.end_column = static_cast<int>(behind) + 1;
      i = behind;
    }
    finish();
    begin = end + 1;
  }
  return sentences;
}

/// The error of a text that is not a schedule, and its position.
struct Misreading {
  Error error;
  int line = 1, column = 1;
};

tl::unexpected<Misreading> misreading(Error error, const Sentence& sentence, size_t word) {
  return tl::unexpected<Misreading>(
      Misreading{std::move(error), sentence.line, sentence.column_of(word)});
}

tl::expected<std::vector<Step>, Misreading> steps_of(const std::vector<Sentence>& sentences) {
  const std::string version = sentences.empty() ? "" : join(sentences[0].words, " ");
  if (version != schedule_version)
    return misreading({ErrorCode::Invalid,
                       fmt::format("[schedule] the text begins with '{}', expected the version "
                                   "'{}'",
                                   version.substr(0, 40), schedule_version)},
                      sentences.empty() ? Sentence() : sentences[0], 0);
  std::vector<Step> steps;
  for (size_t i = 1; i < sentences.size(); ++i) {
    auto step = parse_step(sentences[i].words);
    if (!step) return misreading(std::move(step.error().error), sentences[i], step.error().word);
    steps.push_back(std::move(*step));
  }
  return steps;
}

tl::expected<Schedule, Misreading> schedule_of(const dsl::Compute& compute, std::string_view text) {
  const std::vector<Sentence> sentences = sentences_of(text);
  auto steps = steps_of(sentences);
  if (!steps) return tl::unexpected<Misreading>(std::move(steps.error()));
  Schedule schedule(compute);
  for (size_t i = 0; i < steps->size(); ++i) {
    schedule.add((*steps)[i]);
    if (!schedule.error()) continue;
    // The nest of a failed step must not be used, so the steps before it are applied again.
    const std::vector<Step> done(steps->begin(), steps->begin() + static_cast<ptrdiff_t>(i));
    const Schedule before = Schedule(compute).then(done);
    return misreading(*schedule.error(), sentences[i + 1],
                      word_at_fault(before.nest(), (*steps)[i]));
  }
  return schedule;
}

/// "[split] why\n  loops" becomes "[split] gemm.tw1, line 3, column 9: why; loops".
tl::unexpected<Error> located(Misreading misreading, std::string_view source) {
  std::string message = first_lines(misreading.error.message, 2);
  const size_t tag = message.find("] ");
  message.insert(
      tag == std::string::npos ? 0 : tag + 2,
      fmt::format("{}, line {}, column {}: ", source, misreading.line, misreading.column));
  return fail(misreading.error.code, std::move(message));
}

/// Returns the text of the steps of these kinds, separated by commas.
template <typename... Kinds>
std::string text_of(const std::vector<Step>& steps) {
  std::vector<std::string> texts;
  for (const Step& step : steps)
    if ((std::holds_alternative<Kinds>(step) || ...)) texts.push_back(to_string(step));
  return join(texts, ", ");
}

}  // namespace

Result<Schedule> parse_schedule(const dsl::Compute& compute, std::string_view text) {
  auto schedule = schedule_of(compute, text);
  if (!schedule) return tl::unexpected<Error>(std::move(schedule.error().error));
  return std::move(*schedule);
}

Result<Schedule> read_schedule(const dsl::Compute& compute, std::string_view text,
                               std::string_view source) {
  auto schedule = schedule_of(compute, text);
  if (!schedule) return located(std::move(schedule.error()), source);
  return std::move(*schedule);
}

std::string algorithm_text(const std::vector<Step>& steps) { return text_of<Winograd>(steps); }

std::string rewriting_text(const std::vector<Step>& steps) {
  return text_of<Winograd, PackFactors, PadFactors>(steps);
}

Result<std::vector<Step>> read_steps(std::string_view text, std::string_view source) {
  auto steps = steps_of(sentences_of(text));
  if (!steps) return located(std::move(steps.error()), source);
  return std::move(*steps);
}

std::string algorithm_text(std::string_view schedule) {
  const auto steps = read_steps(schedule, "schedule");
  return steps ? algorithm_text(*steps) : "";
}

std::string rewriting_text(std::string_view schedule) {
  const auto steps = read_steps(schedule, "schedule");
  return steps ? rewriting_text(*steps) : "";
}

std::string algorithm_name(std::string_view schedule) {
  std::vector<std::string> tiles;
  bool is_packed = false, is_padded = false;
  if (const auto steps = read_steps(schedule, "schedule"))
    for (const Step& step : *steps) {
      if (const auto* winograd = std::get_if<Winograd>(&step))
        tiles.push_back(std::to_string(winograd->tile));
      is_packed = is_packed || std::holds_alternative<PackFactors>(step);
      is_padded = is_padded || std::holds_alternative<PadFactors>(step);
    }
  if (!tiles.empty()) return "winograd " + join(tiles, " x ");
  return is_packed ? "packed" : is_padded ? "padded" : "direct";
}

}  // namespace tw::schedules
