// SPDX-License-Identifier: Apache-2.0
#include "tuner/verify.h"

#include <fmt/format.h>

#include <cstring>

namespace tw::tuner {
namespace {

Verdict rejected(db::TrialStatus status, std::string reason) { return {status, std::move(reason), 0}; }

Result<dsl::Arrays> run_once(const runtime::Kernel& kernel, const dsl::Workload& workload,
                             const dsl::Arrays& inputs, Align align, Poison poison,
                             runtime::ThreadPool& pool, int threads) {
  TW_TRY(KernelBuffers buffers, KernelBuffers::make(kernel, workload, inputs, {.align = align}));
  buffers.poison_outputs(kernel, poison);
  TW_RETURN_IF_ERROR(kernel.run(buffers.pointers(), pool, threads));
  return buffers.outputs(kernel);
}

/// Calls visit(storage position, logical position or -1) for each element of the storage, in order.
template <typename Visit>
void for_each_element(const dsl::Layout& layout, const std::vector<int64_t>& shape, const Visit& visit) {
  const std::vector<int64_t> extents = layout.storage_shape(shape);
  const auto& parts = layout.parts();
  std::vector<int64_t> step(parts.size()), index(parts.size(), 0), at(shape.size(), 0);
  std::vector<int64_t> stride(shape.size(), 1), scale(shape.size(), 1);
  for (size_t d = shape.size(); d > 1; --d) stride[d - 2] = stride[d - 1] * shape[d - 1];
  for (size_t p = parts.size(); p > 0; --p) {
    const auto d = static_cast<size_t>(parts[p - 1].dim);
    step[p - 1] = scale[d];
    if (parts[p - 1].factor > 0) scale[d] *= parts[p - 1].factor;
  }
  int64_t elements = 1;
  for (const int64_t extent : extents) elements *= extent;
  for (int64_t position = 0; position < elements; ++position) {
    int64_t logical = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (at[d] >= shape[d]) logical = -1;
      if (logical >= 0) logical += at[d] * stride[d];
    }
    visit(position, logical);
    for (size_t p = parts.size(); p > 0; --p) {
      const auto d = static_cast<size_t>(parts[p - 1].dim);
      at[d] += step[p - 1];
      if (++index[p - 1] < extents[p - 1]) break;
      at[d] -= step[p - 1] * extents[p - 1];
      index[p - 1] = 0;
    }
  }
}

void pack(const dsl::Layout& layout, const dsl::Array& logical, std::byte* storage) {
  if (layout.is_row_major()) {
    std::memcpy(storage, logical.data.data(), logical.data.size());
    return;
  }
  const auto size = static_cast<size_t>(size_bytes(logical.type));
  for_each_element(layout, logical.shape, [&](int64_t to, int64_t from) {
    std::byte* element = storage + static_cast<size_t>(to) * size;
    if (from < 0) {
      std::memset(element, 0, size);
    } else {
      std::memcpy(element, logical.data.data() + static_cast<size_t>(from) * size, size);
    }
  });
}

void unpack(const dsl::Layout& layout, const std::byte* storage, dsl::Array& logical) {
  if (layout.is_row_major()) {
    std::memcpy(logical.data.data(), storage, logical.data.size());
    return;
  }
  const auto size = static_cast<size_t>(size_bytes(logical.type));
  for_each_element(layout, logical.shape, [&](int64_t from, int64_t to) {
    if (to < 0) return;
    std::memcpy(logical.data.data() + static_cast<size_t>(to) * size,
                storage + static_cast<size_t>(from) * size, size);
  });
}

bool same_bytes(const dsl::Arrays& a, const dsl::Arrays& b) {
  for (const auto& [name, array] : a)
    if (array.data != b.at(name).data) return false;
  return true;
}

double worst_error(const dsl::Arrays& got, const dsl::Arrays& expected) {
  double worst = 0;
  for (const auto& [name, array] : expected) worst = std::max(worst, relative_error(got.at(name), array));
  return worst;
}

}  // namespace

Result<KernelBuffers> KernelBuffers::make(const runtime::Kernel& kernel, const dsl::Workload& workload,
                                          const dsl::Arrays& inputs, const BufferOptions& options) {
  KernelBuffers result;
  const auto& arguments = kernel.info().arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto bytes = static_cast<size_t>(runtime::storage_bytes(arguments[i]));
    TW_TRY(GuardedBuffer buffer, GuardedBuffer::make(bytes, options));
    const std::string& name = arguments[i].name;
    dsl::Layout layout = dsl::Layout::row_major(static_cast<int>(arguments[i].shape.size()));
    if (!arguments[i].layout.empty()) {
      TW_TRY(layout, dsl::Layout::parse(arguments[i].layout, workload.compute.letters_of(name)));
    }
    if (!arguments[i].is_output) {
      pack(layout, inputs.at(name), buffer.data());
      TW_RETURN_IF_ERROR(buffer.make_read_only());
    }
    result.layouts_.push_back(std::move(layout));
    result.buffers_.push_back(std::move(buffer));
  }
  return result;
}

std::vector<void*> KernelBuffers::pointers() const {
  std::vector<void*> pointers;
  for (const GuardedBuffer& buffer : buffers_) pointers.push_back(buffer.data());
  return pointers;
}

void KernelBuffers::poison_outputs(const runtime::Kernel& kernel, Poison pattern) {
  for (size_t i = 0; i < buffers_.size(); ++i)
    if (kernel.info().arguments[i].is_output) buffers_[i].poison(pattern);
}

Result<dsl::Arrays> KernelBuffers::outputs(const runtime::Kernel& kernel) const {
  dsl::Arrays outputs;
  const auto& arguments = kernel.info().arguments;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].check() != Slack::Intact)
      return fail(ErrorCode::Invalid, fmt::format("it wrote outside of '{}'", arguments[i].name));
    if (!arguments[i].is_output) continue;
    TW_TRY(dsl::Array array, dsl::Array::make(arguments[i].dtype, arguments[i].shape));
    unpack(layouts_[i], buffers_[i].data(), array);
    outputs[arguments[i].name] = std::move(array);
  }
  return outputs;
}

Verdict verify(const runtime::Kernel& kernel, const dsl::Workload& workload, const Reference& reference,
               runtime::ThreadPool& pool, int threads) {
  using db::TrialStatus;
  const auto failed = [](const Error& error) {
    const bool strayed = error.code == ErrorCode::Invalid;
    return rejected(strayed ? TrialStatus::Oob : TrialStatus::Crash, error.message);
  };
  const auto integers =
      run_once(kernel, workload, reference.integers.inputs, Align::Begin, Poison::First, pool, threads);
  if (!integers) return failed(integers.error());
  const double allowed = reference.exact ? 0 : reference.tolerance;
  if (const double error = worst_error(*integers, reference.integers.outputs); !(error <= allowed))
    return rejected(TrialStatus::Wrong,
                    fmt::format("differs by {:.3g} of the largest element on integer data", error));

  const auto normal = run_once(kernel, workload, reference.normal.inputs, Align::End, Poison::First, pool, threads);
  if (!normal) return failed(normal.error());
  const double error = worst_error(*normal, reference.normal.outputs);
  if (!(error <= reference.tolerance))
    return rejected(TrialStatus::Wrong, fmt::format("differs by {:.3g} of the largest element, at most "
                                                    "{:.3g} is allowed",
                                                    error, reference.tolerance));
  const auto again = run_once(kernel, workload, reference.normal.inputs, Align::End, Poison::Second, pool, threads);
  if (!again) return failed(again.error());
  if (!same_bytes(*normal, *again))
    return rejected(TrialStatus::Nondeterministic, "two runs on the same data differ");
  return {TrialStatus::Ok, "", error};
}

}  // namespace tw::tuner
