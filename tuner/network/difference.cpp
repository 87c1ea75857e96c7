// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/difference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tw::tuner {
namespace {

double number_at(const dsl::Array& array, int64_t i) {
  return is_float(array.type) ? array.get_float(i) : static_cast<double>(array.get_int(i));
}

double difference_of(double value, double expected) {
  if (value == expected || (std::isnan(value) && std::isnan(expected))) return 0;
  const double difference = std::abs(value - expected);
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

}  // namespace

double largest_difference(const std::vector<dsl::Array>& outputs,
                          const std::vector<dsl::Array>& expected) {
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    double difference = 0, largest = 0;
    for (int64_t j = 0; j < expected[i].size(); ++j) {
      const double value = number_at(expected[i], j);
      difference = std::max(difference, difference_of(number_at(outputs[i], j), value));
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    }
    if (difference > 0) worst = std::max(worst, difference / largest);
  }
  return worst;
}

}  // namespace tw::tuner
