// SPDX-License-Identifier: Apache-2.0
#include "tools/web/history_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "base/text.h"
#include "db/exchange/t4.h"
#include "db/trust.h"
#include "tools/reports/report.h"

namespace tw::tools::web {
namespace {

constexpr double width_px = 960, height_px = 340;
constexpr double left = 74, right = 14, top = 12, bottom = 44;
constexpr double label_px = 80;  // width of a label with a date, and some space
// Longest pause within a burst, which is a period with many trials. All longer pauses are drawn
// equally short.
constexpr int64_t longest_pause_ms = 3'600'000;
constexpr double share_of_pauses = 0.25;  // part of the width that pauses get
// Trials that take more than this many times as long as the best trial are not drawn. Otherwise all
// other trials would lie close together.
constexpr double most_times_slower = 30;
// Latencies outside of this range cannot be times of kernels; trials with such latencies are not
// drawn.
constexpr double least_latency_ns = 1e-3, most_latency_ns = 1e15;
constexpr size_t most_dots = 3000;
// The year 2100; later times come from wrong clocks.
constexpr int64_t latest_ms = 4'102'444'800'000;

bool is_drawn(const db::TrialSummary& trial) {
  const bool is_timed =
      trial.status == db::TrialStatus::Ok || trial.status == db::TrialStatus::Hopeless ||
      trial.status == db::TrialStatus::Duplicate || trial.status == db::TrialStatus::Unstable;
  return is_timed && trial.latency_ns >= least_latency_ns && trial.latency_ns <= most_latency_ns &&
         trial.created_ms > 0 && trial.created_ms < latest_ms;
}

/// True if the trial is believed, so that its schedule can be the answer
/// (db::TrialSummary::counted_ns).
bool can_lead(const db::TrialSummary& trial) { return trial.counted_ns > 0; }

bool is_undisturbed(const db::TrialSummary& trial) {
  return trial.status == db::TrialStatus::Ok && trial.doubt == db::Doubt::None;
}

std::vector<size_t> leads_of(const std::vector<db::TrialSummary>& trials) {
  std::vector<size_t> leads;
  for (size_t i = 0; i < trials.size(); ++i)
    if (can_lead(trials[i]) &&
        (leads.empty() || trials[i].counted_ns < trials[leads.back()].counted_ns))
      leads.push_back(i);
  return leads;
}

/// A period in which trials followed each other without a long pause, and its range x0 to x1 in the
/// picture.
struct Burst {
  int64_t begin_ms, end_ms;
  int64_t trials = 0;
  double x0 = 0, x1 = 0;
};

std::vector<Burst> bursts_of(std::span<const Series> series) {
  std::vector<int64_t> times;
  for (const Series& s : series)
    for (const db::TrialSummary& trial : s.trials) times.push_back(trial.created_ms);
  std::ranges::sort(times);
  std::vector<Burst> bursts;
  for (const int64_t ms : times) {
    if (bursts.empty() || ms - bursts.back().end_ms > longest_pause_ms) bursts.push_back({ms, ms});
    bursts.back().end_ms = ms;
    ++bursts.back().trials;
  }
  return bursts;
}

/// Sets the ranges of the bursts, from left to right. The width of a burst is proportional to the
/// square root of its number of trials. All pauses between bursts are equally wide.
void place(std::vector<Burst>& bursts) {
  double weight = 0;
  const auto weight_of = [](const Burst& b) { return std::sqrt(static_cast<double>(b.trials)); };
  for (const Burst& burst : bursts) weight += weight_of(burst);
  const double room = width_px - left - right;
  const double pause = share_of_pauses * room / static_cast<double>(bursts.size());
  double x = left + pause / 2;
  for (Burst& burst : bursts) {
    burst.x0 = x;
    burst.x1 = x + (1 - share_of_pauses) * room * weight_of(burst) / weight;
    x = burst.x1 + pause;
  }
}

/// The scales of the chart: the range of latencies that is drawn, and the conversion of times and
/// latencies to coordinates in the picture.
class Frame {
 public:
  explicit Frame(std::span<const Series> series) : bursts_(bursts_of(series)) {
    place(bursts_);
    least_ns_ = least_latency(series, true);
    if (std::isinf(least_ns_)) least_ns_ = least_latency(series, false);  // no trial is believed
    for (const Series& s : series)
      for (const db::TrialSummary& trial : s.trials)
        if (trial.latency_ns <= most_times_slower * least_ns_)
          most_ns_ = std::max(most_ns_, trial.latency_ns);
    least_ns_ /= 1.15;
    most_ns_ = std::max(most_ns_ * 1.15, 1.5 * least_ns_);
  }

  bool shows(double ns) const { return ns >= least_ns_ && ns <= most_ns_; }
  /// Returns the x coordinate of a time. Requires: a trial was made at this time.
  double x(int64_t ms) const {
    const auto after = std::ranges::upper_bound(bursts_, ms, {}, &Burst::begin_ms);
    const Burst& burst = *std::prev(after);
    const auto span_ms = static_cast<double>(std::max<int64_t>(burst.end_ms - burst.begin_ms, 1));
    const double share = static_cast<double>(ms - burst.begin_ms) / span_ms;
    return burst.x0 + share * (burst.x1 - burst.x0);
  }
  double y(double ns) const {
    const double share = std::log(ns / least_ns_) / std::log(most_ns_ / least_ns_);
    return height_px - bottom - share * (height_px - top - bottom);
  }
  const std::vector<Burst>& bursts() const { return bursts_; }
  double least_ns() const { return least_ns_; }
  double most_ns() const { return most_ns_; }

 private:
  static double least_latency(std::span<const Series> series, bool only_believed) {
    double least = INFINITY;
    for (const Series& s : series)
      for (const db::TrialSummary& trial : s.trials)
        if (!only_believed || can_lead(trial)) least = std::min(least, trial.latency_ns);
    return least;
  }

  std::vector<Burst> bursts_;
  double least_ns_ = 0, most_ns_ = 0;
};

std::string px(double position) { return fmt::format("{:.1f}", position); }

/// Returns the latencies at which grid lines are drawn: 1, 2 and 5 times each power of ten. If
/// fewer than three of these are in the range, multiples between them are used too; if these are
/// still fewer than three, three values spread over the range.
std::vector<double> ticks_between(double least, double most) {
  for (const std::vector<double>& steps :
       {std::vector<double>{1, 2, 5}, {1, 1.5, 2, 3, 4, 5, 6, 8}}) {
    std::vector<double> ticks;
    for (double power = std::pow(10, std::floor(std::log10(least))); power < most; power *= 10)
      for (const double step : steps)
        if (step * power >= least && step * power <= most) ticks.push_back(step * power);
    if (ticks.size() >= 3) return ticks;
  }
  return {least * 1.15, std::sqrt(least * most), most / 1.15};
}

Html grid(const Frame& frame) {
  Html lines;
  for (const double ns : ticks_between(frame.least_ns(), frame.most_ns())) {
    const std::string y = px(frame.y(ns));
    lines += html("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", px(left),
                  px(width_px - right), y, y);
    lines += html("<text class=\"tick right\" x=\"{}\" y=\"{}\">{}</text>", px(left - 8),
                  px(frame.y(ns) + 4), time_text(ns));
  }
  return lines;
}

// Possible distances between time labels, in seconds.
constexpr std::array<int64_t, 18> label_steps_s = {
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400};

/// Returns the distance in ms between the time labels of a burst: the smallest of label_steps_s at
/// which labels do not overlap. 0 if even the largest is too small.
int64_t label_step_ms(const Burst& burst) {
  const auto span_ms = static_cast<double>(burst.end_ms - burst.begin_ms);
  for (const int64_t step_s : label_steps_s)
    if (1000.0 * static_cast<double>(step_s) * (burst.x1 - burst.x0) >= label_px * span_ms)
      return 1000 * step_s;
  return 0;
}

Html tick_line(double position) {
  const std::string x = px(position);
  return html("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", x, x, px(top),
              px(height_px - bottom + 4));
}

Html tick_text(double position, double below, std::string_view text) {
  return html("<text class=\"tick\" x=\"{}\" y=\"{}\">{}</text>", px(position),
              px(height_px - bottom + below), std::string(text));
}

/// Returns labels with times of day, at equal distances between the first and the last trial of a
/// burst.
Html labels_within(const Frame& frame, const Burst& burst) {
  Html labels;
  const int64_t step_ms = label_step_ms(burst);
  if (step_ms == 0 || burst.end_ms == burst.begin_ms) return labels;
  const size_t characters = step_ms < 60'000 ? 8 : 5;  // with or without seconds
  for (int64_t ms = (burst.begin_ms / step_ms + 1) * step_ms; ms <= burst.end_ms; ms += step_ms) {
    const double x = frame.x(ms);
    if (x < burst.x0 + 0.75 * label_px || x > width_px - right - label_px / 2) continue;
    labels += tick_line(x);
    labels += tick_text(x - 4, 18, moment(ms).substr(11, characters));
  }
  return labels;
}

/// Returns the time axis. A burst is labelled with the day on which it began and, below that, with
/// the time. If there is space, labels within the burst show more times. A burst has no label if
/// the label of the burst before it needs the space.
Html time_axis(const Frame& frame) {
  Html axis;
  double next_x = 0;
  for (const Burst& burst : frame.bursts()) {
    const std::string begin = moment(burst.begin_ms);
    axis += tick_line(burst.x0 - 4);
    if (burst.x0 < next_x || begin.size() < 16) continue;
    axis += tick_text(burst.x0 - 4, 18, begin.substr(0, 10));
    axis += tick_text(burst.x0 - 4, 33, begin.substr(11, 5));
    axis += labels_within(frame, burst);
    next_x = std::max(burst.x0 + label_px, burst.x1);
  }
  return axis;
}

std::string colour_of(size_t series) { return fmt::format("s{}", std::min(series, most_colours)); }

std::string describe_trial(const db::TrialSummary& trial, const Series& series) {
  const std::string status = trial.status ? show_status(*trial.status) : "unknown status";
  const bool is_doubted = trial.doubt != db::Doubt::None && trial.doubt != db::Doubt::NotTimed;
  const std::string counting = time_text(trial.counted_ns), latency = time_text(trial.latency_ns);
  const bool counts_otherwise = trial.counted_ns > 0 && counting != latency;
  return fmt::format("{}{}{}, {}{}{}; {}; session {}; {}", latency,
                     counts_otherwise ? ", counts as " : "", counts_otherwise ? counting : "",
                     status, is_doubted ? ", " : "", is_doubted ? db::to_string(trial.doubt) : "",
                     series.name, trial.session, moment(trial.created_ms));
}

Html dot(const Frame& frame, const db::TrialSummary& trial, const Series& series, bool is_lead,
         std::string_view colour) {
  const char* kind = is_lead ? "lead" : is_undisturbed(trial) ? "trial" : "doubt";
  const Html circle =
      html("<circle class=\"{} {}\" cx=\"{}\" cy=\"{}\" r=\"{}\"><title>{}</title></circle>", kind,
           colour, px(frame.x(trial.created_ms)),
           px(frame.y(is_lead ? trial.counted_ns : trial.latency_ns)), is_lead ? "4.5" : "2.5",
           one_line(describe_trial(trial, series)));
  if (!is_lead) return circle;
  return html("<a href=\"/records/{}\">{}</a>", trial.hash, circle);
}

/// Returns the line of the best latency so far: a staircase that ends at the right edge of the
/// chart.
Html staircase(const Frame& frame, const Series& series, std::string_view colour) {
  std::string path;
  for (const size_t lead : series.leads) {
    const db::TrialSummary& trial = series.trials[lead];
    const std::string x = px(frame.x(trial.created_ms)), y = px(frame.y(trial.counted_ns));
    if (!frame.shows(trial.counted_ns)) continue;
    path += path.empty() ? fmt::format("M{} {}", x, y) : fmt::format("H{}V{}", x, y);
  }
  if (path.empty()) return {};
  return html("<path class=\"best {}\" d=\"{}\"/>", colour, path + "H" + px(width_px - right));
}

struct Dots {
  Html markup;
  size_t shown = 0, slower = 0, thinned = 0;
};

Dots dots_of(const Frame& frame, std::span<const Series> series) {
  size_t all = 0;
  for (const Series& s : series) all += s.trials.size();
  const size_t every = all / most_dots + 1;
  Dots dots;
  Html leads;
  for (size_t n = 0; n < series.size(); ++n) {
    const std::vector<size_t>& lead = series[n].leads;
    for (size_t i = 0; i < series[n].trials.size(); ++i) {
      const db::TrialSummary& trial = series[n].trials[i];
      const bool is_lead = std::ranges::binary_search(lead, i);
      if (!frame.shows(is_lead ? trial.counted_ns : trial.latency_ns)) {
        ++dots.slower;
      } else if (!is_lead && i % every != 0) {
        ++dots.thinned;
      } else {
        ++dots.shown;
        (is_lead ? leads : dots.markup) += dot(frame, trial, series[n], is_lead, colour_of(n));
      }
    }
  }
  dots.markup += leads;  // drawn last, so that they lie above the other dots
  return dots;
}

Html legend(std::span<const Series> series) {
  Html entries;
  for (size_t n = 0; n < std::min(series.size(), most_colours); ++n)
    entries += html("<li><span class=\"key {}\"></span>{}</li>", colour_of(n),
                    one_line(series[n].name, 100));
  if (series.size() > most_colours)
    entries += html("<li><span class=\"key {}\"></span>{} more</li>", colour_of(most_colours),
                    series.size() - most_colours);
  return html("<ul class=\"legend\">{}</ul>", entries);
}

std::string caption(const Dots& dots) {
  std::string text =
      "Latency of each timed trial, by the time at which it was made (UTC); lines: the best so "
      "far, by what counts for each schedule: the median of its trials that are believed. Hollow: "
      "pruned, disturbed or not believed. Pauses of more than an hour are drawn short.";
  if (dots.slower > 0)
    text += fmt::format(" {} far from the others: not drawn.",
                        counted(static_cast<int64_t>(dots.slower), "trial"));
  if (dots.thinned > 0) text += fmt::format(" Of the others {} are left out.", dots.thinned);
  return text;
}

}  // namespace

namespace {

/// Adds the target to the names of those series that would otherwise have equal names.
void tell_apart(std::vector<Series>& series) {
  std::map<std::string, int> counts;
  for (const Series& s : series) ++counts[s.name];
  for (Series& s : series)
    if (counts[s.name] > 1) s.name += ", " + s.trials.front().target;
}

}  // namespace

std::vector<Series> series_of(std::span<const db::TrialSummary> trials) {
  std::map<std::tuple<std::string, std::string, int64_t>, Series> known;
  for (const db::TrialSummary& trial : trials) {
    if (!is_drawn(trial)) continue;
    const std::string model(db::model_of(trial.device));
    Series& series = known[{model, trial.target, trial.threads}];
    if (series.name.empty())
      series.name = fmt::format("{}, {}", model, counted(trial.threads, "thread"));
    series.trials.push_back(trial);
  }
  std::vector<Series> sorted;
  for (auto& [key, series] : known) {
    std::ranges::stable_sort(series.trials, {}, &db::TrialSummary::created_ms);
    series.leads = leads_of(series.trials);
    sorted.push_back(std::move(series));
  }
  std::ranges::stable_sort(sorted, std::ranges::greater(),
                           [](const Series& s) { return s.trials.size(); });
  tell_apart(sorted);
  return sorted;
}

Html history_chart(std::span<const Series> series) {
  if (series.empty()) return {};
  const Frame frame(series);
  Html lines;
  for (size_t n = 0; n < std::min(series.size(), most_colours); ++n)
    lines += staircase(frame, series[n], colour_of(n));
  const Dots dots = dots_of(frame, series);
  return html(
      "<figure class=\"chart\"><svg viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"Latency over time\">{}{}{}{}</svg>{}<figcaption>{}</figcaption></figure>",
      static_cast<int>(width_px), static_cast<int>(height_px), grid(frame), time_axis(frame), lines,
      dots.markup, legend(series), caption(dots));
}

std::string moment(int64_t milliseconds) {
  if (milliseconds <= 0 || milliseconds >= latest_ms) return "-";
  std::string text = db::utc_text(milliseconds).substr(0, 19);
  text[10] = ' ';
  return text;
}

}  // namespace tw::tools::web
