// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/reference.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "dsl/random_inputs.h"
#include "dsl/rounding.h"
#include "schedules/schedule.h"
#include "tuner/processes/sandbox.h"

namespace tw::tuner {
namespace {

/// True if every operation gives an exact result on integers that are small enough.
bool is_exact(const dsl::Compute& compute) {
  bool exact = true;
  for (const dsl::Stage& stage : compute.stages)
    dsl::for_each(stage.body, [&](const dsl::Expr& e) {
      const dsl::Unary* u = e.as<dsl::Unary>();
      if (u && u->op != dsl::UnaryOp::Neg && u->op != dsl::UnaryOp::Not &&
          u->op != dsl::UnaryOp::Abs && u->op != dsl::UnaryOp::Floor &&
          u->op != dsl::UnaryOp::Round)
        exact = false;
      const dsl::Binary* b = e.as<dsl::Binary>();
      if (b && (b->op == dsl::BinaryOp::Div || b->op == dsl::BinaryOp::Pow) && is_float(e.type()))
        exact = false;
      const dsl::Const* c = e.as<dsl::Const>();
      if (c && is_float(c->type) && std::isfinite(c->float_value) &&
          c->float_value != std::floor(c->float_value))
        exact = false;
      if (is_narrow_float(e.type())) exact = false;
    });
  return exact;
}

/// Returns the bytes of inputs and outputs together, in the layouts of the workload. The sum is a
/// double because it may exceed 64 bits.
double array_bytes(const dsl::Workload& workload) {
  const dsl::Compute& compute = workload.compute;
  const auto bytes = [&](const std::string& tensor) {
    std::vector<int64_t> shape = compute.shape_of(tensor);
    if (const auto asked = workload.layouts.find(tensor); asked != workload.layouts.end())
      if (const auto layout = dsl::parse_layout(compute, tensor, asked->second))
        shape = layout->storage_shape(shape);
    double product = size_bytes(compute.type_of(tensor));
    for (const int64_t extent : shape) product *= static_cast<double>(extent);
    return product;
  };
  double sum = 0;
  for (const dsl::Input& input : compute.inputs) sum += bytes(input.name);
  for (const std::string& name : compute.outputs) sum += bytes(name);
  return sum;
}

/// Returns the memory that a worker may use, in bytes. A worker that runs kernels on the processor
/// also obeys ProcessLimits::address_space_bytes.
int64_t worker_memory_bytes(const Target& target) {
  const int64_t physical = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  return target.is_gpu() ? physical : std::min(physical, ProcessLimits().address_space_bytes);
}

/// Returns the float type with the fewest digits among the types in which the stages compute;
/// nullopt if they compute only in integers.
std::optional<DType> coarsest_float(const dsl::Compute& compute) {
  std::optional<DType> coarsest;
  for (const dsl::Stage& stage : compute.stages)
    dsl::for_each(stage.body, [&](const dsl::Expr& e) {
      if (is_float(e.type()) &&
          (!coarsest || dsl::unit_roundoff(e.type()) > dsl::unit_roundoff(*coarsest)))
        coarsest = e.type();
    });
  return coarsest;
}

bool uses(const dsl::Compute& compute, DType type) {
  bool used = std::ranges::any_of(compute.inputs,
                                  [&](const dsl::Input& input) { return input.type == type; });
  for (const dsl::Stage& stage : compute.stages)
    dsl::for_each(stage.body, [&](const dsl::Expr& e) { used |= e.type() == type; });
  return used;
}

/// Fills an array with numbers from N(0, 1). Integers of up to 16 bits are drawn from all values of
/// their type instead, because errors such as overflow and saturation show only for large values.
void fill_real(dsl::Array& array, Random& random) {
  const DType type = array.type;
  if (is_float(type) || type == Bool || size_bytes(type) > 2) return fill_normal(array, random);
  const auto [least, largest] = integer_limits(type);
  for (int64_t i = 0; i < array.size(); ++i)
    array.set_int(i, least + random.below(largest - least + 1));
}

Result<dsl::Arrays> call_once(const runtime::Kernel& kernel, const dsl::Arrays& inputs,
                              runtime::ThreadPool& pool) {
  dsl::Arrays outputs;
  std::vector<runtime::Buffer> buffers;
  for (const runtime::ArgumentInfo& argument : kernel.info().arguments) {
    if (argument.is_output) {
      TW_TRY(dsl::Array array, dsl::Array::make(argument.dtype, argument.shape));
      outputs[argument.name] = std::move(array);
    }
    const dsl::Array& array =
        argument.is_output ? outputs.at(argument.name) : inputs.at(argument.name);
    buffers.push_back(
        {const_cast<std::byte*>(array.data.data()), argument.dtype, argument.shape, {}});
  }
  TW_RETURN_IF_ERROR(kernel.call(buffers, pool, 1));
  return outputs;
}

/// The largest finite |at(i)| for i from 0 to size - 1; 0 if there is none.
template <typename Value>
double largest_of(const Value& at, int64_t size) {
  double largest = 0;
  for (int64_t i = 0; i < size; ++i) {
    const double value = std::fabs(at(i));
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  return largest;
}

double largest(const dsl::Array& array) {
  return largest_of([&](int64_t i) { return array.get_float(i); }, array.size());
}

/// Returns |a - b|. It is 0 for two NaNs and for equal infinities. It is infinite if exactly one is
/// NaN or infinite, or if they are different infinities.
double difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double error = std::fabs(a - b);
  return error <= std::numeric_limits<double>::max() ? error
                                                     : std::numeric_limits<double>::infinity();
}

template <typename Got, typename Expected>
double worst_difference(const Got& got, const Expected& expected, int64_t size,
                        std::optional<double> overflow_at) {
  double worst = 0;
  for (int64_t i = 0; i < size; ++i) {
    double a = got(i);
    const double b = expected(i);
    if (a == b) continue;
    if (overflow_at) {
      if (!std::isfinite(b)) continue;
      if (std::isinf(a)) a = std::copysign(*overflow_at, a);
    }
    const double error = difference(a, b);
    if (error > std::numeric_limits<double>::max()) return error;
    worst = std::max(worst, error);
  }
  return worst / std::max(largest_of(expected, size), std::numeric_limits<double>::min());
}

/// Position of the first element that is not finite; nullopt if all elements are finite.
std::optional<int64_t> position_of_overflow(const dsl::Array& array) {
  for (int64_t i = 0; i < array.size(); ++i)
    if (!std::isfinite(array.get_float(i))) return i;
  return std::nullopt;
}

int64_t position_of_largest(const dsl::Array& array) {
  int64_t position = 0;
  double largest = -1;
  for (int64_t i = 0; i < array.size(); ++i)
    if (const double value = std::fabs(array.get_float(i));
        std::isfinite(value) && value > largest) {
      largest = value;
      position = i;
    }
  return position;
}

std::vector<int64_t> indices_of(int64_t position, const std::vector<int64_t>& shape) {
  std::vector<int64_t> indices(shape.size());
  for (size_t d = shape.size(); d-- > 0; position /= shape[d]) indices[d] = position % shape[d];
  return indices;
}

/// Returns random indices of an element. Each index is moved to an end of its dimension with a
/// probability of a quarter, because padding and tails of splits are there.
std::vector<int64_t> random_indices(const std::vector<int64_t>& shape, Random& random) {
  std::vector<int64_t> indices;
  for (const int64_t extent : shape) {
    const int64_t edge = random.chance(0.5) ? 0 : extent - 1;
    indices.push_back(random.chance(0.25) ? edge : random.below(extent));
  }
  return indices;
}

std::vector<std::vector<int64_t>> samples_of(const dsl::Array& array, int most, Random& random) {
  std::vector<std::vector<int64_t>> samples;
  const bool all = array.size() <= most;
  // The largest element is a sample, because errors grow with the element in most outputs.
  if (!all) samples.push_back(indices_of(position_of_largest(array), array.shape));
  // The first value that is not finite is a sample too, because only the definition shows if it is
  // correct.
  if (const auto position = position_of_overflow(array); position && !all)
    samples.push_back(indices_of(*position, array.shape));
  while (static_cast<int64_t>(samples.size()) < std::min<int64_t>(most, array.size()))
    samples.push_back(all ? indices_of(static_cast<int64_t>(samples.size()), array.shape)
                          : random_indices(array.shape, random));
  return samples;
}

/// Returns the largest finite magnitude among the samples that are compared.
double largest_verified(const std::vector<dsl::Rounded>& samples) {
  double largest = 0;
  for (const dsl::Rounded& sample : samples)
    if (sample.is_verified() && std::isfinite(sample.value))
      largest = std::max(largest, std::fabs(sample.value));
  return largest;
}

// Limit of evaluations for the undefined elements of one fill. The interpreter evaluates about a
// million elements a second, and there are two fills.
constexpr int64_t most_evaluations_of_undefined = 500'000;

/// Returns a flag for each element of an output: true if the element is not compared because it is
/// undefined. Once `definition` has done `most_evaluations` evaluations, all remaining elements
/// have the flag true. Elements are visited in strides of about 0.618 of the size, so that the
/// visited elements are spread evenly at any time.
Result<std::vector<bool>> find_undefined(dsl::RoundingAnalysis& definition, const std::string& name,
                                         const dsl::Array& output, int64_t most_evaluations) {
  const int64_t size = output.size();
  std::vector<bool> left_out(static_cast<size_t>(size), true);
  auto stride = std::max<int64_t>(static_cast<int64_t>(0.618 * static_cast<double>(size)), 1);
  while (std::gcd(stride, size) != 1) ++stride;
  int64_t position = 0;
  for (int64_t n = 0; n < size && definition.evaluations() < most_evaluations; ++n) {
    TW_TRY(const dsl::Rounded element, definition.at(name, indices_of(position, output.shape)));
    left_out[static_cast<size_t>(position)] = element.is_undefined;
    position = (position + stride) % size;
  }
  return left_out;
}

/// Sets `fill.left_out` for the outputs `names`, which have undefined elements.
Status leave_out_undefined(const dsl::Workload& workload, const std::vector<std::string>& names,
                           Fill& fill) {
  if (names.empty()) return {};
  TW_TRY(auto definition, dsl::RoundingAnalysis::make(workload.compute, fill.inputs));
  const auto count = static_cast<int64_t>(names.size());
  for (int64_t i = 0; i < count; ++i) {
    const std::string& name = names[static_cast<size_t>(i)];
    TW_TRY(fill.left_out[name], find_undefined(definition, name, fill.outputs.at(name),
                                               most_evaluations_of_undefined * (i + 1) / count));
  }
  return {};
}

}  // namespace

Status check_fits_memory(const dsl::Workload& workload, const Target& target) {
  constexpr double gibibyte = 1 << 30;
  const double needed = array_bytes(workload);
  const auto available = static_cast<double>(worker_memory_bytes(target));
  if (needed <= available) return {};
  return fail(
      ErrorCode::Environment,
      fmt::format("[tune] the workload is too much for this machine: its arrays take {:.1f} "
                  "GiB of memory, and a worker may use {:.1f}; choose a smaller one",
                  needed / gibibyte, available / gibibyte));
}

Status check_tunable(const dsl::Workload& workload, const Target& target) {
  if (target.is_gpu() && uses(workload.compute, Float64))
    return fail(ErrorCode::Unsupported,
                "[tune] kernels for GPUs do not compute in f64: use f32, or a target that is a "
                "processor");
  TW_RETURN_IF_ERROR(check_fits_memory(workload, target));
  const auto declared = schedules::Schedule(workload.compute).program();
  if (declared) return {};
  return fail(declared.error().code,
              "[tune] the loops as declared are illegal: " + declared.error().message);
}

double tolerance_of(const dsl::Workload& workload) {
  const auto coarsest = coarsest_float(workload.compute);
  if (!coarsest) return 0;
  double tolerance = workload.accuracy == dsl::Accuracy::Strict ? 4e-6 : dsl::error_of_fast;
  // The tolerance for f64 is as many units in the last place as the tolerance for f32.
  if (*coarsest == Float64) tolerance *= dsl::unit_roundoff(Float64) / dsl::unit_roundoff(Float32);
  for (const std::string& output : workload.compute.outputs) {
    const DType type = workload.compute.type_of(output);
    // The least tolerance is 2e-3 for f16 and 1.6e-2 for bf16.
    if (is_narrow_float(type)) tolerance = std::max(tolerance, 4.096 * dsl::unit_roundoff(type));
  }
  return tolerance;
}

double relative_error(const dsl::Array& got, const dsl::Array& expected, bool overflows,
                      const std::vector<bool>* left_out) {
  if (got.data == expected.data) return 0;
  const auto overflow_at = overflows ? std::optional(largest_number(expected.type)) : std::nullopt;
  if (left_out) {
    // An element that is left out counts as NaN in both arrays, and so has no difference.
    const auto compared = [&](const dsl::Array& array) {
      return [&array, left_out](int64_t i) {
        return (*left_out)[static_cast<size_t>(i)] ? std::numeric_limits<double>::quiet_NaN()
                                                   : array.get_float(i);
      };
    };
    return worst_difference(compared(got), compared(expected), expected.size(), overflow_at);
  }
  // This runs for every candidate, so the common type has a loop of its own, which does not check
  // the type of each element.
  if (expected.type == Float32) {
    const auto* a = reinterpret_cast<const float*>(got.data.data());
    const auto* b = reinterpret_cast<const float*>(expected.data.data());
    return worst_difference([a](int64_t i) -> double { return a[i]; },
                            [b](int64_t i) -> double { return b[i]; }, expected.size(),
                            overflow_at);
  }
  return worst_difference([&](int64_t i) { return got.get_float(i); },
                          [&](int64_t i) { return expected.get_float(i); }, expected.size(),
                          overflow_at);
}

Result<std::map<std::string, Compared>> compare_samples(const dsl::Workload& workload,
                                                        const dsl::Arrays& inputs,
                                                        const dsl::Arrays& outputs, Random& random,
                                                        const SampleLimits& limits) {
  TW_TRY(auto definition, dsl::RoundingAnalysis::make(workload.compute, inputs));
  std::map<std::string, Compared> result;
  for (const std::string& name : workload.compute.outputs) {
    const dsl::Array& output = outputs.at(name);
    Compared& compared = result[name];
    std::vector<dsl::Rounded> samples;
    std::vector<double> values;
    for (const auto& indices : samples_of(output, limits.most, random)) {
      if (compared.elements >= limits.least && definition.evaluations() > limits.evaluations) break;
      TW_TRY(const dsl::Rounded expected, definition.at(name, indices));
      ++compared.elements;
      compared.overflows = compared.overflows || expected.overflows;
      compared.has_undefined = compared.has_undefined || expected.is_undefined;
      samples.push_back(expected);
      values.push_back(output.get(indices));
    }
    const double scale =
        std::max(compared.has_undefined ? largest_verified(samples) : largest(output),
                 std::numeric_limits<double>::min());
    double rounding = 0;
    for (size_t i = 0; i < samples.size(); ++i) {
      const dsl::Rounded& expected = samples[i];
      const double error =
          expected.is_verified() ? difference(values[i], expected.value) / scale : 0;
      if (i == 0 || error > compared.error) {
        compared.error = error;
        compared.worst = values[i];
        compared.expected = expected.value;
      }
      if (!expected.is_undefined) rounding = std::max(rounding, expected.rounding);
    }
    compared.is_rounded = rounding > 0 || compared.overflows;
    compared.allowed = std::max(tolerance_of(workload), rounding / scale);
  }
  return result;
}

PlainCall plain_call(runtime::Kernel kernel, runtime::ThreadPool& pool) {
  return [kernel = std::move(kernel), &pool](const dsl::Arrays& inputs) {
    return call_once(kernel, inputs, pool);
  };
}

const std::vector<bool>* left_out_of(const Fill& fill, const std::string& output) {
  const auto found = fill.left_out.find(output);
  return found == fill.left_out.end() ? nullptr : &found->second;
}

Result<Reference> make_reference(const dsl::Workload& workload, const PlainCall& plain,
                                 const Clock& clock) {
  constexpr uint64_t seed = 1;
  Random random(seed);
  Reference reference;
  const bool exact = is_exact(workload.compute);
  const auto ranges = dsl::index_ranges(workload.compute);
  for (const dsl::Input& input : workload.compute.inputs) {
    TW_TRY(dsl::Array integers, dsl::Array::make(input.type, input.shape));
    dsl::Array normal = integers;
    // Indices into tables are small integers on the integer fill too. Some of them point before the
    // table or to its first rows.
    fill_integers(integers, random);
    if (const auto range = ranges.find(input.name); range != ranges.end()) {
      fill_indices(normal, range->second, random);
    } else {
      fill_real(normal, random);
    }
    reference.integers.inputs[input.name] = std::move(integers);
    reference.normal.inputs[input.name] = std::move(normal);
  }
  for (Fill* fill : {&reference.integers, &reference.normal}) {
    const int64_t started = clock();
    TW_TRY(fill->outputs, plain(fill->inputs));
    reference.plain_ns = static_cast<double>(clock() - started);
    TW_TRY(const auto outputs, compare_samples(workload, fill->inputs, fill->outputs, random));
    std::vector<std::string> undefined;
    for (const auto& [name, compared] : outputs) {
      if (!compared.agrees())
        return fail(ErrorCode::Invalid,
                    fmt::format("[verify] the plain kernel differs from the interpreter by {:.3g} "
                                "of the largest element of '{}', at most {:.3g} is allowed",
                                compared.error, name, compared.allowed));
      reference.error = std::max(reference.error, compared.error);
      const bool same_bits = exact && fill == &reference.integers && !compared.is_rounded;
      fill->allowed[name] = same_bits ? 0 : compared.allowed;
      fill->tolerated[name] = compared.allowed;
      if (compared.overflows) fill->overflowing.insert(name);
      if (compared.has_undefined) undefined.push_back(name);
    }
    TW_RETURN_IF_ERROR(leave_out_undefined(workload, undefined, *fill));
  }
  return reference;
}

}  // namespace tw::tuner
