// SPDX-License-Identifier: Apache-2.0
#include "tools/reports/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <system_error>
#include <vector>

#include "base/text.h"
#include "tools/reports/report.h"
#include "tools/standard_streams.h"

namespace tw::tools {
namespace {

/// Returns the name of the present task and the number of finished tasks: "conv1 (3/20 done): ".
/// Empty if there is only one task or the task has no name.
std::string task_text(const tuner::Progress& p) {
  if (p.tasks == 1 || p.name.empty()) return "";
  return fmt::format("{} ({}/{} done): ", p.name, p.finished, p.tasks);
}

/// The forms of the line, the longest first. Each form leaves out more than the form before it,
/// except that WithoutGain has the number of trials again, which Shortest leaves out.
enum class Form {
  Whole,
  WithoutModel,
  WithoutStatuses,
  WithoutSpeed,
  WithoutTrials,
  WithoutGain,
  Shortest
};

std::string best_text(const tuner::Progress& p, Form form) {
  if (!p.preparing.empty()) return p.preparing;
  if (p.best_ns <= 0)
    return p.untuned_ns > 0 ? "untuned " + time_text(p.untuned_ns) : "getting ready";
  const double speed = gflops(p.flops, p.best_ns);
  const bool is_short = form >= Form::WithoutSpeed;
  std::string text = "best " + time_text(p.best_ns);
  // A kernel with less than one operation per byte is bound by memory on every machine.
  const bool is_memory_bound = p.flops < p.bytes;
  if (!is_short)
    text += is_memory_bound ? fmt::format(", {:.1f} GB/s", p.bytes / p.best_ns)
                            : fmt::format(", {:.1f} GFLOP/s", speed);
  if (!is_memory_bound && p.peak_gflops > 0)
    text += fmt::format(", {:.0f} % of peak", 100 * speed / p.peak_gflops);
  if (p.untuned_ns > 0 && !is_short)
    text += fmt::format(", {:.1f}x untuned", p.untuned_ns / p.best_ns);
  return text;
}

std::string trials_text(const tuner::Progress& p, Form form) {
  int64_t total = 0;
  for (const auto& [status, count] : p.trials) total += count;
  std::string text = counted(total, "trial");
  if (form >= Form::WithoutStatuses) return text;
  if (total > 0) text += fmt::format(" ({})", show_counts(p.trials));
  if (p.known_trials > 0) text += fmt::format(", {} known", p.known_trials);
  return text;
}

/// Returns a text about the gain that is expected of more trials. Empty if no gain is known, as at
/// the end of a run.
std::string gain_text(const tuner::Progress& p, double left_s) {
  if (!p.next_gain) return "";
  return fmt::format("expected gain of the {}: {}", left_s < 60 ? "rest" : "next minute",
                     show_share(*p.next_gain));
}

/// Returns the first `columns` characters of a UTF-8 text. Longer lines are cut because a terminal
/// would wrap them, and a wrapped line cannot be redrawn.
std::string cut(const std::string& text, size_t columns) {
  size_t seen = 0, end = 0;
  while (end < text.size()) {
    const bool starts = (static_cast<unsigned char>(text[end]) & 0xc0) != 0x80;
    if (starts && ++seen > columns) break;
    ++end;
  }
  return text.substr(0, end);
}

/// Returns a text about the time left, such as "12 s left". After the budget is spent, the text
/// names the work for which the run still waits. Empty if there is no budget.
std::string left_text(const tuner::Progress& p, double left_s) {
  if (p.budget_s <= 0) return "";
  if (left_s > 0) return fmt::format("{:.0f} s left", left_s);
  return p.finishing.empty() ? "finishing" : "finishing: " + p.finishing;
}

std::string text_of(const tuner::Progress& p, Form form) {
  std::vector<std::string> parts = {task_text(p) + best_text(p, form)};
  const double left_s = std::max(0.0, p.budget_s - p.elapsed_s);
  if (const std::string left = left_text(p, left_s); !left.empty()) parts.push_back(left);
  const std::string gain = form < Form::WithoutGain ? gain_text(p, left_s) : "";
  if (!gain.empty()) parts.push_back(gain);
  if (p.preparing.empty() && form != Form::WithoutTrials && form != Form::Shortest)
    parts.push_back(trials_text(p, form));
  if (!p.model.empty() && form < Form::WithoutModel) parts.push_back("model " + p.model);
  return join(parts, " | ");
}

}  // namespace

std::string progress_text(const tuner::Progress& p, int columns) {
  std::string text;
  for (const Form form :
       {Form::Whole, Form::WithoutModel, Form::WithoutStatuses, Form::WithoutSpeed,
        Form::WithoutTrials, Form::WithoutGain, Form::Shortest}) {
    text = text_of(p, form);
    if (columns <= 0 || width(text) <= static_cast<size_t>(columns)) break;
  }
  return text;
}

ProgressDisplay::ProgressDisplay(const Surroundings& here, std::string title)
    : here_(&here), title_(std::move(title)), updated_ns_(here.environment.clock()) {
  print_error(title_ + "\n");
  // The new thread inherits the blocked signals. So signals are delivered to the main thread and
  // interrupt its waits.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  try {
    ticker_ = std::thread([this] { tick(); });
  } catch (const std::system_error&) {
    // No thread can be started. Then update() draws the lines.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ProgressDisplay::~ProgressDisplay() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  if (ticker_.joinable()) ticker_.join();
  if (progress_.best_ns > 0 || !progress_.name.empty()) draw();  // the state at the end
  if (drawn_ && here_->errors_are_terminal) print_error("\n");
}

void ProgressDisplay::update(const tuner::Progress& progress) {
  const std::lock_guard lock(mutex_);
  progress_ = progress;
  updated_ns_ = here_->environment.clock();
  if (!ticker_.joinable()) draw();
}

void ProgressDisplay::tick() {
  const auto pause = std::chrono::milliseconds(here_->errors_are_terminal ? 500 : 5000);
  std::unique_lock lock(mutex_);
  while (!stopping_.wait_for(lock, pause, [this] { return stop_; })) draw();
}

void ProgressDisplay::draw() {
  tuner::Progress now = progress_;
  if (!stop_) now.elapsed_s += static_cast<double>(here_->environment.clock() - updated_ns_) * 1e-9;
  if (here_->errors_are_terminal) {
    const int columns = std::max(20, here_->columns - 1);
    print_error(
        fmt::format("\r{}\033[K", cut(progress_text(now, columns), static_cast<size_t>(columns))));
  } else {
    print_error(fmt::format("  {}\n", progress_text(now)));
  }
  drawn_ = true;
}

}  // namespace tw::tools
