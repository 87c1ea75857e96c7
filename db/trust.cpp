// SPDX-License-Identifier: Apache-2.0
#include "db/trust.h"

#include <fmt/format.h>

namespace tw::db {
namespace {

/// "1.9 times faster", "2.4 times slower"
std::string against(double ratio) {
  return ratio < 1 ? fmt::format("{:.3g} times faster", 1 / ratio)
                   : fmt::format("{:.3g} times slower", ratio);
}

}  // namespace

std::string_view to_string(Doubt doubt) {
  switch (doubt) {
#define X(enumerator, text, is_listed) \
  case Doubt::enumerator:              \
    return text;
    TW_DOUBTS(X)
#undef X
  }
  return "?";
}

bool is_listed(Doubt doubt) {
  switch (doubt) {
#define X(enumerator, text, listed) \
  case Doubt::enumerator:           \
    return listed;
    TW_DOUBTS(X)
#undef X
  }
  return true;
}

std::string describe(const Judgement& judgement) {
  const double ratio = judgement.ratio;
  switch (judgement.doubt) {
    case Doubt::None:
      return "it is believed";
    case Doubt::NotTimed:
      return "its status is not one of a timed kernel with a correct result";
    case Doubt::Disturbed:
      return "it was timed only while something disturbed it, and others were not";
    case Doubt::Refuted:
      return "another trial shows that its schedule is wrong";
    case Doubt::PeakUnknown:
      return "the machine's peak was not measured with it, as it was with other trials";
    case Doubt::PeakDisturbed:
      return fmt::format("the peak measured with it is {:.2f} of that of the other sessions",
                         ratio);
    case Doubt::BeyondPeak:
      return fmt::format("it claims {:.3g} times the peak that was measured with it", ratio);
    case Doubt::BeyondBandwidth:
      return fmt::format("it claims {:.3g} times the bandwidth of the machine", ratio);
    case Doubt::SessionOutvoted:
      return fmt::format(
          "its session is {} than the others with its toolchain on schedules that all "
          "have timed",
          against(ratio));
    case Doubt::Outlier:
      return fmt::format(
          "it is {} than the median of the sessions that timed its schedule with its "
          "toolchain",
          against(ratio));
    case Doubt::Unconfirmed:
      return fmt::format(
          "only one machine timed its schedule, {} than everything that others measured: it has to "
          "be confirmed",
          against(ratio));
    case Doubt::Contradicted:
      return "one session alone says that its schedule is wrong, which other sessions have timed: "
             "a second session has to say so";
  }
  return "?";
}

std::string_view to_string(Likeness likeness) {
  switch (likeness) {
    case Likeness::Exact:
      return "exact";
    case Likeness::SameClass:
      return "same class";
    case Likeness::OtherClass:
      return "warm start";
  }
  return "?";
}

std::string_view model_of(std::string_view device) { return device.substr(0, device.find(';')); }

Likeness likeness_of(std::string_view device, std::string_view asking) {
  if (device == asking) return Likeness::Exact;
  return model_of(device) == model_of(asking) ? Likeness::SameClass : Likeness::OtherClass;
}

}  // namespace tw::db
