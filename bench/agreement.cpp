// SPDX-License-Identifier: Apache-2.0
#include "bench/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/integer.h"
#include "base/random.h"
#include "dsl/rounding.h"
#include "tuner/measure/reference.h"

namespace tw::bench {
namespace {

/// Criterion by which two values count as equal.
struct Measure {
  double scale = 1;         ///< largest absolute output
  double tolerance = 0;     ///< relative to `scale`
  bool rounded = false;     ///< true for integers that are rounded from floats
  double own_rounding = 0;  ///< error, relative to `scale`, that the peer's own rounding may add

  double error(double got, double expected) const {
    if (got == expected || (std::isnan(got) && std::isnan(expected))) return 0;
    const double difference = std::fabs(got - expected);
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    return difference / scale;
  }
  double allowed() const { return rounded ? 1 / scale : tolerance; }
};

Measure measure_of(const dsl::Workload& workload, const dsl::Array& expected) {
  Measure measure;
  measure.tolerance = tuner::tolerance_of(workload);
  measure.rounded = !is_float(expected.type) && measure.tolerance > 0;
  measure.scale = std::numeric_limits<double>::min();
  for (int64_t i = 0; i < expected.size(); ++i)
    if (const double value = std::fabs(expected.get_float(i)); std::isfinite(value))
      measure.scale = std::max(measure.scale, value);
  return measure;
}

/// An output of both contenders.
struct Compared {
  std::string name;
  std::vector<int64_t> shape;
  const dsl::Array& ours;
  const dsl::Array& peer;
};

std::vector<int64_t> indices_of(int64_t position, const std::vector<int64_t>& shape) {
  std::vector<int64_t> indices(shape.size());
  for (size_t d = shape.size(); d-- > 0; position /= shape[d]) indices[d] = position % shape[d];
  return indices;
}

tl::unexpected<Error> disagreement(const std::string& output, std::string_view who, double error,
                                   double allowed) {
  return fail(ErrorCode::Invalid,
              fmt::format("[bench] '{}': {} by {:.2g} of its largest element, at most {:.2g} is "
                          "allowed: not timed",
                          output, who, error, allowed));
}

/// Compares random elements of an output of both contenders with the interpreter. Raises the
/// tolerance to the error that rounding causes in the declared loops, if this error is larger.
Status check_samples(dsl::RoundingAnalysis& definition, const Compared& output, Measure& measure,
                     int samples, Random& random, Agreement& agreement) {
  const auto& [name, shape, ours, peer] = output;
  for (int i = 0; i < samples; ++i) {
    const int64_t position = random.below(ours.size());
    TW_TRY(const dsl::Rounded exact, definition.at(name, indices_of(position, shape)));
    agreement.ours = std::max(agreement.ours, measure.error(ours.get_float(position), exact.value));
    agreement.peer = std::max(agreement.peer, measure.error(peer.get_float(position), exact.value));
    measure.tolerance = std::max(measure.tolerance, exact.rounding / measure.scale);
  }
  if (agreement.ours > measure.allowed())
    return disagreement(name, "our kernel is wrong", agreement.ours, measure.allowed());
  const double allowed = measure.allowed() + measure.own_rounding;
  if (agreement.peer > allowed)
    return disagreement(name, "the peer is wrong", agreement.peer, allowed);
  return {};
}

Status check_all(const Compared& output, const Measure& measure, Agreement& agreement) {
  const auto& [name, shape, ours, peer] = output;
  int64_t differing = 0;
  for (int64_t i = 0; i < ours.size(); ++i) {
    const double error = measure.error(ours.get_float(i), peer.get_float(i));
    if (error > 0) ++differing;
    agreement.apart = std::max(agreement.apart, error);
  }
  const double both = measure.rounded ? measure.allowed() : 2 * measure.allowed();
  const double allowed = both + measure.own_rounding;
  if (agreement.apart > allowed)
    return disagreement(name, "our kernel and the peer differ", agreement.apart, allowed);
  if (measure.rounded && differing > 1 + ours.size() / 10'000)
    return fail(ErrorCode::Invalid,
                fmt::format("[bench] '{}': {} of {} elements differ by one: not timed", name,
                            differing, ours.size()));
  return {};
}

}  // namespace

Result<Agreement> check_agreement(const dsl::Workload& workload, const dsl::Arrays& inputs,
                                  const dsl::Arrays& ours, const dsl::Arrays& peer, int samples,
                                  uint64_t seed, double own_rounding) {
  Agreement agreement;
  Random random(seed);
  TW_TRY(auto definition, dsl::RoundingAnalysis::make(workload.compute, inputs));
  for (const std::string& name : workload.compute.outputs) {
    const auto mine = ours.find(name), theirs = peer.find(name);
    if (mine == ours.end() || theirs == peer.end() ||
        mine->second.size() != theirs->second.size() ||
        checked_product(workload.compute.shape_of(name)) != mine->second.size())
      return fail(ErrorCode::Invalid,
                  fmt::format("[bench] '{}': one side has no such output, or of another size: not "
                              "timed",
                              name));
    Measure measure = measure_of(workload, theirs->second);
    measure.own_rounding = own_rounding;
    const Compared output{name, workload.compute.shape_of(name), mine->second, theirs->second};
    TW_RETURN_IF_ERROR(check_samples(definition, output, measure, samples, random, agreement));
    TW_RETURN_IF_ERROR(check_all(output, measure, agreement));
  }
  return agreement;
}

}  // namespace tw::bench
