// SPDX-License-Identifier: Apache-2.0
#include "runtime/model_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/integer.h"
#include "runtime/arena.h"

namespace tw::runtime {
namespace {

tl::unexpected<Error> defect(std::string what) { return fail(ErrorCode::Invalid, std::move(what)); }

/// A variant and the kernels that its steps call.
struct Network {
  const ModelVariant& variant;
  const std::vector<std::vector<ArgumentInfo>>& kernels;  ///< call_buffers() of each
  const std::vector<ModelTensor>& tensors = variant.tensors;
  const std::vector<int>&inputs = variant.inputs, &outputs = variant.outputs;
  const std::vector<ModelStep>& steps = variant.steps;
  const int64_t arena_bytes = variant.arena_bytes;
  /// True for a GPU. Kernels for GPUs load vectors from row-major arrays too, so these arrays must
  /// be aligned.
  const bool is_for_gpu = false;
};

/// The bytes that a tensor occupies in one memory: constants, arena, or one array of the caller's.
struct Extent {
  Place place = Place::Arena;
  int64_t array = 0;  ///< index of the caller's array; 0 for other memory
  int64_t begin = 0, end = 0;

  bool overlaps(const Extent& other) const {
    return place == other.place && array == other.array && begin < other.end && other.begin < end;
  }
};

bool is_callers(const ModelTensor& tensor) {
  return tensor.place == Place::Input || tensor.place == Place::Output;
}

/// Returns the bytes of a tensor in trip `trip`. Requires: check_places() has succeeded.
Extent extent_of(const ModelTensor& tensor, int64_t trip) {
  const int64_t begin = (is_callers(tensor) ? 0 : tensor.at) + tensor.slide.at(trip);
  return {tensor.place, is_callers(tensor) ? tensor.at : 0, begin, begin + tensor.bytes};
}

bool is_index(int index, size_t count) { return index >= 0 && std::cmp_less(index, count); }

const ModelTensor& tensor_at(const Network& model, int index) {
  return model.tensors[static_cast<size_t>(index)];
}

std::string name_of(const Network& model, const ModelStep& step) {
  return fmt::format("step {} '{}'", &step - model.steps.data(), step.name);
}

// Tensors.

Status check_size(const ModelTensor& tensor) {
  for (const int64_t extent : tensor.shape)
    if (extent < 0)
      return defect(
          fmt::format("tensor '{}' has the extent {}: expected 0 or more", tensor.name, extent));
  const auto elements = checked_product(tensor.shape);
  const auto logical = elements ? checked_mul(*elements, size_bytes(tensor.dtype)) : std::nullopt;
  if (!logical)
    return defect(fmt::format("tensor '{}' has a size that does not fit 64 bits", tensor.name));
  // Constants that only preparations read are not stored.
  if (tensor.place == Place::Constant && tensor.bytes == 0) return {};
  if (tensor.layout.empty() ? tensor.bytes != *logical : tensor.bytes < *logical)
    return defect(fmt::format("tensor '{}' has {} bytes, its shape needs {}", tensor.name,
                              tensor.bytes, *logical));
  return {};
}

/// Checks the tensors of the caller's arrays: each is row-major, has the place `place`, and `at` is
/// its position in `ports`.
Status check_ports(const Network& model, const std::vector<int>& ports, Place place) {
  const char* const what = place == Place::Input ? "input" : "output";
  for (size_t number = 0; number < ports.size(); ++number) {
    if (!is_index(ports[number], model.tensors.size()))
      return defect(fmt::format("{} {} is tensor {}: expected 0 to {}", what, number, ports[number],
                                std::ssize(model.tensors) - 1));
    const ModelTensor& tensor = tensor_at(model, ports[number]);
    if (tensor.place != place || std::cmp_not_equal(tensor.at, number))
      return defect(
          fmt::format("{} {} is tensor '{}', which lies elsewhere", what, number, tensor.name));
    if (tensor.slide != Slide())
      return defect(fmt::format("{} '{}' moves in its array", what, tensor.name));
    if (!tensor.layout.empty())
      return defect(fmt::format("{} '{}' is stored as '{}': callers give row-major arrays", what,
                                tensor.name, tensor.layout));
  }
  return {};
}

/// True if the tensor, which begins `offset` bytes after `at`, begins at a multiple of the
/// alignment and lies inside of `bytes` bytes. False if `offset` is nullopt, because its
/// computation overflowed.
bool is_inside(const ModelTensor& tensor, int64_t at, std::optional<int64_t> offset,
               int64_t alignment, int64_t bytes) {
  const auto begin = offset ? checked_add(at, *offset) : std::nullopt;
  const auto end = begin ? checked_add(*begin, tensor.bytes) : std::nullopt;
  return end && *begin >= 0 && *begin % alignment == 0 && *end <= bytes;
}

/// Checks the place of a tensor in all trips. A tensor moves by the same distance in each trip. So
/// it is enough to check that it lies inside of the memory in the first and in the last trip, and
/// that it is aligned in the first two trips.
Status check_inside(const Network& model, const ModelTensor& tensor, int64_t at, int64_t trips,
                    int64_t bytes) {
  const bool may_be_anywhere =
      tensor.slide != Slide() && tensor.layout.empty() && !model.is_for_gpu;
  const int64_t alignment = may_be_anywhere ? size_bytes(tensor.dtype) : arena_alignment;
  const auto& [begin, advance, period] = tensor.slide;
  const int64_t places = period > 0 ? std::min(period, trips) : trips;
  const auto moved = [&](int64_t steps) -> std::optional<int64_t> {
    const auto distance = checked_mul(advance, steps);
    return distance ? checked_add(begin, *distance) : std::nullopt;
  };
  if (period >= 0 && is_inside(tensor, at, begin, alignment, bytes) &&
      (places < 2 || (is_inside(tensor, at, moved(1), alignment, bytes) &&
                      is_inside(tensor, at, moved(places - 1), alignment, bytes))))
    return {};
  const std::string slide =
      tensor.slide == Slide()
          ? ""
          : fmt::format(", moved by {} + {} a trip in {} trips", begin, advance, trips);
  return defect(
      fmt::format("tensor '{}' has {} bytes at {}{}: expected a multiple of {}, inside of {} bytes",
                  tensor.name, tensor.bytes, at, slide, alignment, bytes));
}

/// Checks a tensor in one of the caller's arrays. The tensor fills the whole array, unless it moves
/// (Slide) within the array.
Status check_in_port(const ModelTensor& tensor, int64_t trips, const Network& model,
                     const std::vector<int>& ports) {
  if (tensor.at < 0 || std::cmp_greater_equal(tensor.at, ports.size()))
    return defect(fmt::format("tensor '{}' is in array {} of the caller's: expected 0 to {}",
                              tensor.name, tensor.at, std::ssize(ports) - 1));
  const ModelTensor& whole = tensor_at(model, ports[static_cast<size_t>(tensor.at)]);
  if (tensor.slide != Slide()) return check_inside(model, tensor, 0, trips, whole.bytes);
  if (tensor.bytes == whole.bytes) return {};
  return defect(fmt::format("tensor '{}' has {} bytes and lies in the array of '{}', which has {}",
                            tensor.name, tensor.bytes, whole.name, whole.bytes));
}

Status check_place(const ModelTensor& tensor, int64_t trips, const Network& model,
                   int64_t constant_bytes) {
  switch (tensor.place) {
    case Place::Input:
      return check_in_port(tensor, trips, model, model.inputs);
    case Place::Output:
      return check_in_port(tensor, trips, model, model.outputs);
    case Place::Constant:
      return check_inside(model, tensor, tensor.at, trips, constant_bytes);
    case Place::Arena:
      return check_inside(model, tensor, tensor.at, trips, model.arena_bytes);
  }
  return defect(fmt::format("tensor '{}' has no place", tensor.name));
}

/// Returns for each tensor the largest number of trips of a loop that uses it; 1 for a tensor that
/// no loop uses. Requires: check_loops() has succeeded.
std::vector<int64_t> trips_of_tensors(const Network& model) {
  std::vector<int64_t> trips(model.tensors.size(), 1);
  for (const ModelLoop& loop : model.variant.loops)
    for (int i = 0; i < loop.count; ++i)
      for (const int tensor : model.steps[static_cast<size_t>(loop.first + i)].arguments) {
        if (!is_index(tensor, trips.size())) continue;
        int64_t& most = trips[static_cast<size_t>(tensor)];
        most = std::max(most, loop.trips);
      }
  return trips;
}

Status check_ports(const Network& model) {
  for (const ModelTensor& tensor : model.tensors) TW_RETURN_IF_ERROR(check_size(tensor));
  TW_RETURN_IF_ERROR(check_ports(model, model.inputs, Place::Input));
  return check_ports(model, model.outputs, Place::Output);
}

Status check_places(const Network& model, int64_t constant_bytes) {
  const std::vector<int64_t> trips = trips_of_tensors(model);
  for (size_t i = 0; i < model.tensors.size(); ++i)
    TW_RETURN_IF_ERROR(check_place(model.tensors[i], trips[i], model, constant_bytes));
  return {};
}

// Loops.

Status check_loops(const Network& model) {
  int64_t runs = std::ssize(model.steps);
  int behind = 0;  // index after the last step of the loop before
  for (const ModelLoop& loop : model.variant.loops) {
    const int64_t end = int64_t{loop.first} + loop.count;
    if (loop.first < behind || loop.count < 1 || end > std::ssize(model.steps))
      return defect(
          fmt::format("loop '{}' has {} steps from {} on: expected at least one of {} to "
                      "{}",
                      loop.name, loop.count, loop.first, behind, std::ssize(model.steps) - 1));
    if (loop.trips < 1 || loop.trips > most_step_runs)
      return defect(fmt::format("loop '{}' has {} trips: expected 1 to {}", loop.name, loop.trips,
                                most_step_runs));
    runs += (loop.trips - 1) * loop.count;
    if (runs > most_step_runs)
      return defect(fmt::format("its loops run more than {} steps", most_step_runs));
    behind = static_cast<int>(end);
  }
  return {};
}

// Steps, each by itself.

/// Returns the layout with its letters replaced by A, B and so on, in the order in which they
/// occur. Each kernel chooses its own letters for the dimensions of a tensor. So "NCHW16c" and
/// "ABCD16b" are the same layout: both become "ABCD16b".
std::string pattern_of(std::string_view layout) {
  std::string known, pattern;
  for (const char c : layout) {
    if (!std::isalpha(static_cast<unsigned char>(c))) {
      pattern += c;
      continue;
    }
    const auto upper = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    const size_t number = std::min(known.find(upper), known.size());
    if (number == known.size()) known += upper;
    pattern += static_cast<char>((c == upper ? 'A' : 'a') + static_cast<char>(number));
  }
  return pattern;
}

Status check_argument(const ModelTensor& tensor, const ArgumentInfo& argument,
                      const std::string& step) {
  const int64_t bytes = argument.only_prepares ? 0 : storage_bytes(argument);
  if (tensor.dtype == argument.dtype && tensor.shape == argument.shape && tensor.bytes == bytes &&
      pattern_of(tensor.layout) == pattern_of(argument.layout))
    return {};
  const auto show = [](DType dtype, const std::vector<int64_t>& shape, std::string_view layout,
                       int64_t stored) {
    return fmt::format("{}[{}]{}{} of {} bytes", to_string(dtype), fmt::join(shape, ", "),
                       layout.empty() ? "" : " as ", layout, stored);
  };
  return defect(
      fmt::format("{} gives tensor '{}', {}, for argument '{}' of its kernel, {}", step,
                  tensor.name, show(tensor.dtype, tensor.shape, tensor.layout, tensor.bytes),
                  argument.name, show(argument.dtype, argument.shape, argument.layout, bytes)));
}

const std::vector<ArgumentInfo>& arguments_of(const Network& model, const ModelStep& step) {
  return model.kernels[static_cast<size_t>(step.kernel)];
}

/// Checks that each output of the step lies in memory that may be written.
Status check_outputs(const Network& model, const ModelStep& step) {
  const std::vector<ArgumentInfo>& arguments = arguments_of(model, step);
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].is_output) continue;
    const ModelTensor& output = tensor_at(model, step.arguments[i]);
    if (output.place == Place::Input || output.place == Place::Constant)
      return defect(fmt::format("{} writes tensor '{}', which is {}", name_of(model, step),
                                output.name,
                                output.place == Place::Input ? "an input" : "a constant"));
  }
  return {};
}

/// Checks that in this trip no output of the step shares memory with another argument.
Status check_apart(const Network& model, const ModelStep& step, int64_t trip) {
  const std::vector<ArgumentInfo>& arguments = arguments_of(model, step);
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].is_output) continue;
    const ModelTensor& output = tensor_at(model, step.arguments[i]);
    for (size_t j = 0; j < arguments.size(); ++j) {
      const ModelTensor& other = tensor_at(model, step.arguments[j]);
      if (i != j && extent_of(output, trip).overlaps(extent_of(other, trip)))
        return defect(fmt::format("{} writes tensor '{}', which overlaps its argument '{}'",
                                  name_of(model, step), output.name, other.name));
    }
  }
  return {};
}

Status check_step(const Network& model, const ModelStep& step) {
  const std::string name = name_of(model, step);
  if (!is_index(step.kernel, model.kernels.size()))
    return defect(fmt::format("{} calls kernel {}: expected 0 to {}", name, step.kernel,
                              std::ssize(model.kernels) - 1));
  if (step.threads < 0 || !std::isfinite(step.predicted_ns) || step.predicted_ns < 0)
    return defect(fmt::format("{} has {} threads and {} ns: expected 0 or more", name, step.threads,
                              step.predicted_ns));
  const std::vector<ArgumentInfo>& arguments = arguments_of(model, step);
  if (step.arguments.size() != arguments.size())
    return defect(fmt::format("{} gives {} tensors, its kernel has {} arguments", name,
                              step.arguments.size(), arguments.size()));
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!is_index(step.arguments[i], model.tensors.size()))
      return defect(fmt::format("{} gives tensor {}: expected 0 to {}", name, step.arguments[i],
                                std::ssize(model.tensors) - 1));
    TW_RETURN_IF_ERROR(check_argument(tensor_at(model, step.arguments[i]), arguments[i], name));
  }
  return check_outputs(model, step);
}

Status check_kernels(const ModelFile& model) {
  TW_TRY(const Target of_model, parse_target(model.target));
  for (const Artifact& kernel : model.kernels) {
    TW_RETURN_IF_ERROR(check_info(kernel.info));
    TW_TRY(const Target target, parse_target(kernel.info.target));
    // Kernels for processors may be for different targets. When they are loaded, the features of
    // each target are compared with those of the machine.
    const bool is_for_gpus = target.is_gpu() || of_model.is_gpu();
    if (is_for_gpus && target.architecture != of_model.architecture)
      return defect(fmt::format("kernel '{}' is for {}, the network for {}", kernel.info.workload,
                                kernel.info.target, model.target));
  }
  return {};
}

// The order of steps.

/// Records which tensor each part of the memory holds, while check_order() follows the runs of
/// steps.
class Contents {
 public:
  explicit Contents(const Network& model)
      : model_(model), written_(model.tensors.size()), read_as_(model.tensors.size()) {
    for (const ModelStep& step : model.steps)
      for (size_t i = 0; i < step.arguments.size(); ++i)
        if (arguments_of(model, step)[i].is_output)
          ++written_[static_cast<size_t>(step.arguments[i])];
    for (const int input : model.inputs) {
      ++written_[static_cast<size_t>(input)];
      write(input, 0);
    }
  }

  Status check_written_once() const {
    for (size_t i = 0; i < written_.size(); ++i)
      if (written_[i] > 1)
        return defect(
            fmt::format("tensor '{}' is written by {} steps", model_.tensors[i].name, written_[i]));
    return {};
  }

  void write(int tensor, int64_t trip) {
    const Extent extent = extent_of(tensor_at(model_, tensor), trip);
    if (extent.begin == extent.end) return;
    auto at = contents_.lower_bound(key_of(extent));
    if (at != contents_.begin() && std::prev(at)->second.extent.overlaps(extent)) --at;
    while (at != contents_.end() && at->second.extent.overlaps(extent)) at = contents_.erase(at);
    contents_.emplace(key_of(extent), Content{tensor, extent});
  }

  /// Checks that the memory of a tensor has the right content when a step reads the tensor. A
  /// tensor that no step writes is an alias: it stands for the tensors that fill exactly its place
  /// when it is first read. These tensors must still be there at later reads. After a reshape this
  /// is one tensor, after a concatenation several tensors side by side. An alias that moves in a
  /// loop stands for other tensors in each trip, and may be a slice of a larger tensor.
  Status read(int index, int64_t trip, std::string_view reader) {
    const ModelTensor& tensor = tensor_at(model_, index);
    const Extent extent = extent_of(tensor, trip);
    if (tensor.place == Place::Constant || extent.begin == extent.end) return {};
    const std::vector<int> found = tensors_in(extent, tensor.slide != Slide());
    if (found.empty())
      return defect(fmt::format(
          "{} reads tensor '{}', which no step has written or another one has overwritten", reader,
          tensor.name));
    const bool is_written = written_[static_cast<size_t>(index)] > 0;
    std::vector<int>& known = read_as_[static_cast<size_t>(index)];
    if (known.empty() || (tensor.slide.advance != 0 && !is_written))
      known = is_written ? std::vector<int>{index} : found;
    for (size_t i = 0; i < found.size(); ++i) {
      const ModelTensor& other = tensor_at(model_, found[i]);
      if (i < known.size() && known[i] == found[i] && other.dtype == tensor.dtype) continue;
      return defect(fmt::format("{} reads tensor '{}' where '{}' lies by then", reader, tensor.name,
                                other.name));
    }
    return {};
  }

 private:
  struct Content {
    int tensor = 0;
    Extent extent;
  };
  using Key = std::tuple<Place, int64_t, int64_t>;
  static Key key_of(const Extent& extent) { return {extent.place, extent.array, extent.begin}; }

  /// Returns the tensors that fill the extent side by side; empty if the extent holds anything
  /// else. For a slice, the first tensor may begin before the extent and the last tensor may end
  /// after it.
  std::vector<int> tensors_in(const Extent& extent, bool is_slice) const {
    std::vector<int> tensors;
    auto at = contents_.upper_bound(key_of(extent));
    if (at == contents_.begin()) return {};
    --at;
    int64_t filled = at->second.extent.begin;
    if (filled != extent.begin && !is_slice) return {};
    for (; at != contents_.end() && filled < extent.end; ++at) {
      const Extent& next = at->second.extent;
      if (!next.overlaps(extent) || next.begin != filled) break;
      tensors.push_back(at->second.tensor);
      filled = next.end;
    }
    const bool is_filled = is_slice ? filled >= extent.end : filled == extent.end;
    return is_filled ? tensors : std::vector<int>();
  }

  const Network& model_;
  // Number of steps that write each tensor; an input counts as written once.
  std::vector<int> written_;
  std::vector<std::vector<int>> read_as_;  // the tensors that the first read of each tensor found
  std::map<Key, Content> contents_;  // the tensors in memory, by their begin; they do not overlap
};

/// Checks that each run of a step reads the right tensors, by following all runs of steps in the
/// order of a call.
Status check_order(const Network& model) {
  Contents memory(model);
  TW_RETURN_IF_ERROR(memory.check_written_once());
  std::vector<std::string> names;
  for (const ModelStep& step : model.steps) names.push_back(name_of(model, step));
  const auto run = [&](size_t number, int64_t trip) -> Status {
    const ModelStep& step = model.steps[number];
    const std::vector<ArgumentInfo>& arguments = arguments_of(model, step);
    TW_RETURN_IF_ERROR(check_apart(model, step, trip));
    for (size_t i = 0; i < arguments.size(); ++i)
      if (!arguments[i].is_output)
        TW_RETURN_IF_ERROR(memory.read(step.arguments[i], trip, names[number]));
    for (size_t i = 0; i < arguments.size(); ++i)
      if (arguments[i].is_output) memory.write(step.arguments[i], trip);
    return {};
  };
  TW_RETURN_IF_ERROR(for_each_run(model.variant, run));
  for (const int output : model.outputs) TW_RETURN_IF_ERROR(memory.read(output, 0, "the caller"));
  return {};
}

// Steps side by side.

/// Checks that each loop is outside of the band or wholly in one of its chains. Requires:
/// check_loops() has succeeded.
Status check_loops_in(const Network& model, const ModelBand& band, const std::string& name) {
  Status checked;
  for_each_chain(band, [&](size_t chain, size_t first, size_t end) {
    // Start with the first loop that ends after the chain's first step. Only this loop can begin
    // before the chain.
    const std::vector<ModelLoop>& loops = model.variant.loops;
    auto loop = std::ranges::partition_point(loops, [&](const ModelLoop& before) {
      return std::cmp_less_equal(before.first + before.count, first);
    });
    for (; checked && loop != loops.end() && std::cmp_less(loop->first, end); ++loop)
      if (std::cmp_less(loop->first, first) || std::cmp_greater(loop->first + loop->count, end))
        checked =
            defect(fmt::format("chain {} of {} has a part of loop '{}'", chain, name, loop->name));
  });
  return checked;
}

Status check_bands(const Network& model) {
  const int64_t steps = std::ssize(model.steps);
  int64_t behind = 0;  // index after the last step of the band before
  for (const ModelBand& band : model.variant.bands) {
    const std::string name = fmt::format("band {}", &band - model.variant.bands.data());
    if (band.chains.size() < 2 || band.chains.size() > most_chains)
      return defect(
          fmt::format("{} has {} chains: expected 2 to {}", name, band.chains.size(), most_chains));
    int64_t end = band.first;
    for (const int count : band.chains) {
      if (count < 1)
        return defect(fmt::format("{} has a chain of {} steps: expected 1 or more", name, count));
      end += count;
    }
    if (band.first < behind || end > steps)
      return defect(fmt::format("{} has {} steps from {} on: expected some of {} to {}", name,
                                end - band.first, band.first, behind, steps - 1));
    TW_RETURN_IF_ERROR(check_loops_in(model, band, name));
    behind = end;
  }
  return {};
}

/// An argument of a step in a chain, and the range of bytes that it occupies in any trip.
struct ChainAccess {
  Extent extent;
  size_t chain = 0;
  int argument = 0;
  bool writes = false;
};

/// Returns the range from the lowest to the highest byte that a tensor occupies in any of `trips`
/// trips.
Extent extent_in_trips(const ModelTensor& tensor, int64_t trips) {
  const int64_t period = tensor.slide.period;
  const Extent first = extent_of(tensor, 0),
               last = extent_of(tensor, (period > 0 ? std::min(period, trips) : trips) - 1);
  return {first.place, first.array, std::min(first.begin, last.begin),
          std::max(first.end, last.end)};
}

/// Returns the accesses of all chains of the band, sorted by memory and by first byte. Accesses to
/// constants are left out, because no step writes constants.
std::vector<ChainAccess> accesses_of(const Network& model, const ModelBand& band,
                                     const std::vector<int64_t>& trips) {
  std::vector<ChainAccess> accesses;
  for_each_chain(band, [&](size_t chain, size_t first, size_t end) {
    for (size_t number = first; number < end; ++number) {
      const ModelStep& step = model.steps[number];
      for (size_t i = 0; i < step.arguments.size(); ++i) {
        const int argument = step.arguments[i];
        const Extent extent =
            extent_in_trips(tensor_at(model, argument), trips[static_cast<size_t>(argument)]);
        if (extent.place == Place::Constant || extent.begin == extent.end) continue;
        accesses.push_back({extent, chain, argument, arguments_of(model, step)[i].is_output});
      }
    }
  });
  std::ranges::sort(accesses, {}, [](const ChainAccess& access) {
    return std::tuple(access.extent.place, access.extent.array, access.extent.begin, access.chain,
                      access.argument, access.writes);
  });
  return accesses;
}

/// Keeps two of the accesses added so far: the one with the highest end, and the one with the
/// highest end among the accesses of other chains.
class Furthest {
 public:
  void add(const ChainAccess& access) {
    if (first_ == nullptr || first_->chain == access.chain) {
      if (first_ == nullptr || access.extent.end > first_->extent.end) first_ = &access;
    } else if (access.extent.end > first_->extent.end) {
      second_ = std::exchange(first_, &access);
    } else if (second_ == nullptr || access.extent.end > second_->extent.end) {
      second_ = &access;
    }
  }
  /// Returns the access with the highest end among those of chains other than `chain`; null if
  /// there is none.
  const ChainAccess* of_others(size_t chain) const {
    return first_ != nullptr && first_->chain == chain ? second_ : first_;
  }

 private:
  const ChainAccess *first_ = nullptr, *second_ = nullptr;
};

/// Checks that no chain writes memory that another chain of the band reads or writes.
Status check_side_by_side(const Network& model, const ModelBand& band,
                          const std::vector<int64_t>& trips) {
  const std::vector<ChainAccess> accesses = accesses_of(model, band, trips);
  Furthest all, writes;
  for (size_t i = 0; i < accesses.size(); ++i) {
    const ChainAccess& access = accesses[i];
    const auto memory = [](const Extent& extent) { return std::pair(extent.place, extent.array); };
    if (i > 0 && memory(access.extent) != memory(accesses[i - 1].extent)) all = writes = {};
    const ChainAccess* const other = (access.writes ? all : writes).of_others(access.chain);
    if (other != nullptr && other->extent.overlaps(access.extent))
      return defect(
          fmt::format("chains {} and {} of band {} run side by side, and one writes "
                      "tensor '{}', which overlaps tensor '{}' of the other",
                      std::min(access.chain, other->chain), std::max(access.chain, other->chain),
                      &band - model.variant.bands.data(),
                      tensor_at(model, (access.writes ? access : *other).argument).name,
                      tensor_at(model, (access.writes ? *other : access).argument).name));
    all.add(access);
    if (access.writes) writes.add(access);
  }
  return {};
}

Status check_variant(const Network& model, int64_t constant_bytes) {
  if (model.arena_bytes < 0 || model.arena_bytes > most_memory_bytes)
    return defect(fmt::format("it has an arena of {} bytes: expected 0 to {}", model.arena_bytes,
                              most_memory_bytes));
  TW_RETURN_IF_ERROR(check_ports(model));
  TW_RETURN_IF_ERROR(check_loops(model));
  TW_RETURN_IF_ERROR(check_places(model, constant_bytes));
  for (const ModelStep& step : model.steps) TW_RETURN_IF_ERROR(check_step(model, step));
  TW_RETURN_IF_ERROR(check_bands(model));
  const std::vector<int64_t> trips = trips_of_tensors(model);
  for (const ModelBand& band : model.variant.bands)
    TW_RETURN_IF_ERROR(check_side_by_side(model, band, trips));
  return check_order(model);
}

// Variants beside each other.

/// True if the inputs and outputs of both variants have the same names and types, in the same
/// order. Shapes may differ.
bool have_like_ports(const ModelVariant& a, const ModelVariant& b) {
  const auto are_alike = [&](int in_a, int in_b) {
    const ModelTensor& tensor = a.tensors[static_cast<size_t>(in_a)];
    const ModelTensor& other = b.tensors[static_cast<size_t>(in_b)];
    return tensor.name == other.name && tensor.dtype == other.dtype;
  };
  return std::ranges::equal(a.inputs, b.inputs, are_alike) &&
         std::ranges::equal(a.outputs, b.outputs, are_alike);
}

/// Checks that the variants agree in names and types of inputs and outputs, and differ in the
/// shapes of inputs. Requires: check_variant() has accepted each variant.
Status check_distinct(const std::vector<ModelVariant>& variants) {
  std::map<std::vector<std::vector<int64_t>>, size_t> numbers;
  for (size_t number = 0; number < variants.size(); ++number) {
    const ModelVariant& variant = variants[number];
    if (!have_like_ports(variants.front(), variant))
      return defect(fmt::format("variant {} has other inputs or outputs than variant 0", number));
    std::vector<std::vector<int64_t>> shapes;
    for (const int input : variant.inputs)
      shapes.push_back(variant.tensors[static_cast<size_t>(input)].shape);
    const auto [known, is_new] = numbers.emplace(std::move(shapes), number);
    if (!is_new)
      return defect(fmt::format("variants {} and {} are for inputs of the same shapes, {}",
                                known->second, number, show_inputs(variant)));
  }
  return {};
}

}  // namespace

Status find_defect(const ModelFile& model, int64_t constant_bytes) {
  TW_TRY(const Target target, parse_target(model.target));
  if (model.threads < 1)
    return defect(fmt::format("it has {} threads: expected 1 or more", model.threads));
  if (model.variants.empty()) return defect("it has no variant");
  TW_RETURN_IF_ERROR(check_kernels(model));
  std::vector<std::vector<ArgumentInfo>> kernels;
  for (const Artifact& kernel : model.kernels) kernels.push_back(call_buffers(kernel.info));
  for (size_t number = 0; number < model.variants.size(); ++number) {
    const ModelVariant& variant = model.variants[number];
    const Status safe = check_variant(
        {.variant = variant, .kernels = kernels, .is_for_gpu = target.is_gpu()}, constant_bytes);
    if (safe || model.variants.size() == 1) {
      TW_RETURN_IF_ERROR(safe);
      continue;
    }
    return defect(fmt::format("variant {}: {}", number, safe.error().message));
  }
  return check_distinct(model.variants);
}

}  // namespace tw::runtime
