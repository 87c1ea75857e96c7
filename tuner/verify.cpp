// SPDX-License-Identifier: Apache-2.0
#include "tuner/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "base/integer.h"
#include "codegen/abi.h"

namespace tw::tuner {
namespace {

Verdict rejected(db::TrialStatus status, std::string reason) {
  return {status, std::move(reason), 0};
}

/// One run of a kernel: the conditions that must make no difference.
struct Conditions {
  Align align;
  Poison poison;
  int threads = 1;
  bool backwards = false;  ///< the tasks, on one thread
};

// More than a task may have on its stack, so that what it does not initialise is never zero by
// luck.
constexpr size_t scribbled_bytes = codegen::max_stack_bytes + (64 << 10);

[[gnu::noinline]] void scribble_stack(Poison pattern) {
  std::array<volatile uint16_t, scribbled_bytes / 2> frame;
  for (volatile uint16_t& word : frame) word = static_cast<uint16_t>(pattern);
}

// What the layouts of one batch of the largest layers of ResNet-50 need, twice; and few enough that
// the buffers of kernels find room beside them in the table of live ones.
constexpr size_t most_packed_bytes = size_t{256} << 20, most_packed_buffers = 256;

Result<dsl::Arrays> run_once(const runtime::Kernel& kernel, const dsl::Workload& workload,
                             const dsl::Arrays& inputs, const Conditions& conditions,
                             PackedInputs& packed, runtime::ThreadPool& pool) {
  TW_TRY(KernelBuffers buffers,
         KernelBuffers::make(kernel, workload, inputs, {.align = conditions.align}, &packed));
  buffers.poison_outputs(kernel, conditions.poison);
  TW_TRY(GuardedBuffer scratch,
         GuardedBuffer::make(static_cast<size_t>(kernel.info().scratch_bytes),
                             {.align = conditions.align}));
  scratch.poison(conditions.poison);
  scribble_stack(conditions.poison);
  const std::vector<void*> pointers = buffers.pointers();
  TW_RETURN_IF_ERROR(conditions.backwards
                         ? kernel.run_backwards(pointers, scratch.data())
                         : kernel.run_on(pointers, scratch.data(), pool, conditions.threads));
  if (scratch.check() != Slack::Intact)
    return fail(ErrorCode::Invalid, "it wrote outside of its scratch memory");
  return buffers.outputs(kernel);
}

/// Calls visit(storage position, logical position or -1) for each element of the storage, in order.
template <typename Visit>
void for_each_element(const dsl::Layout& layout, const std::vector<int64_t>& shape,
                      const Visit& visit) {
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
  // Along the innermost part everything moves by one step: that is the loop that has to be fast.
  const int64_t run = extents.back();
  const auto inner = static_cast<size_t>(parts.back().dim);
  const int64_t inner_stride = step.back() * stride[inner];
  for (int64_t first = 0; first < elements; first += run) {
    int64_t logical = 0;
    int64_t inside = ceil_div(std::max<int64_t>(shape[inner] - at[inner], 0), step.back());
    for (size_t d = 0; d < shape.size(); ++d) {
      if (d != inner && at[d] >= shape[d]) inside = 0;
      logical += at[d] * stride[d];
    }
    inside = std::min(inside, run);
    for (int64_t i = 0; i < inside; ++i) visit(first + i, logical + i * inner_stride);
    for (int64_t i = inside; i < run; ++i) visit(first + i, -1);
    for (size_t p = parts.size() - 1; p > 0; --p) {
      const auto d = static_cast<size_t>(parts[p - 1].dim);
      at[d] += step[p - 1];
      if (++index[p - 1] < extents[p - 1]) break;
      at[d] -= step[p - 1] * extents[p - 1];
      index[p - 1] = 0;
    }
  }
}

/// Calls copy(size) with the element's size as a constant, so that copying one is one instruction.
template <typename Copy>
void with_size(DType type, const Copy& copy) {
  switch (size_bytes(type)) {
    case 1:
      return copy(std::integral_constant<size_t, 1>());
    case 2:
      return copy(std::integral_constant<size_t, 2>());
    case 4:
      return copy(std::integral_constant<size_t, 4>());
    default:
      TW_CHECK(size_bytes(type) == 8);
      return copy(std::integral_constant<size_t, 8>());
  }
}

void pack(const dsl::Layout& layout, const dsl::Array& logical, std::byte* storage) {
  if (layout.is_row_major()) {
    std::memcpy(storage, logical.data.data(), logical.data.size());
    return;
  }
  with_size(logical.type, [&](auto size) {
    for_each_element(layout, logical.shape, [&](int64_t to, int64_t from) {
      std::byte* element = storage + static_cast<size_t>(to) * size;
      if (from < 0) {
        std::memset(element, 0, size);
      } else {
        std::memcpy(element, logical.data.data() + static_cast<size_t>(from) * size, size);
      }
    });
  });
}

void unpack(const dsl::Layout& layout, const std::byte* storage, dsl::Array& logical) {
  if (layout.is_row_major()) {
    std::memcpy(logical.data.data(), storage, logical.data.size());
    return;
  }
  with_size(logical.type, [&](auto size) {
    for_each_element(layout, logical.shape, [&](int64_t from, int64_t to) {
      if (to < 0) return;
      std::memcpy(logical.data.data() + static_cast<size_t>(to) * size,
                  storage + static_cast<size_t>(from) * size, size);
    });
  });
}

Result<std::shared_ptr<GuardedBuffer>> made(size_t bytes, const BufferOptions& options) {
  TW_TRY(GuardedBuffer buffer, GuardedBuffer::make(bytes, options));
  return std::make_shared<GuardedBuffer>(std::move(buffer));
}

Result<std::shared_ptr<GuardedBuffer>> packed_buffer(const dsl::Array& array,
                                                     const dsl::Layout& layout,
                                                     const BufferOptions& options) {
  int64_t elements = 1;
  for (const int64_t extent : layout.storage_shape(array.shape)) elements *= extent;
  TW_TRY(auto buffer, made(static_cast<size_t>(elements * size_bytes(array.type)), options));
  pack(layout, array, buffer->data());
  TW_RETURN_IF_ERROR(buffer->make_read_only());
  return buffer;
}

bool same_bytes(const dsl::Arrays& a, const dsl::Arrays& b) {
  for (const auto& [name, array] : a)
    if (array.data != b.at(name).data) return false;
  return true;
}

double worst_error(const dsl::Arrays& got, const dsl::Arrays& expected) {
  double worst = 0;
  for (const auto& [name, array] : expected)
    worst = std::max(worst, relative_error(got.at(name), array));
  return worst;
}

bool has_packs(const runtime::Kernel& kernel) {
  const auto& arguments = kernel.info().arguments;
  return std::any_of(arguments.begin(), arguments.end(),
                     [](const runtime::ArgumentInfo& a) { return !a.pack.empty(); });
}

/// By the kernel's own packing, which nothing else here uses.
Result<dsl::Arrays> call_on_arrays(const runtime::Kernel& kernel, const dsl::Workload& workload,
                                   dsl::Arrays arrays, runtime::ThreadPool& pool, int threads) {
  std::vector<runtime::Buffer> buffers;
  dsl::Arrays outputs;
  for (const runtime::ArgumentInfo& argument : kernel.info().arguments) {
    if (argument.is_output) {
      TW_TRY(outputs[argument.name], dsl::Array::make(argument.dtype, argument.shape));
    }
    dsl::Array& array = (argument.is_output ? outputs : arrays).at(argument.name);
    buffers.push_back({array.data.data(), array.type, array.shape});
  }
  TW_CHECK(buffers.size() == workload.compute.inputs.size() + workload.compute.outputs.size());
  TW_RETURN_IF_ERROR(kernel.call(buffers, pool, threads));
  return outputs;
}

}  // namespace

Result<std::shared_ptr<const GuardedBuffer>> PackedInputs::get(const dsl::Array& array,
                                                               const dsl::Layout& layout,
                                                               const std::string& layout_text,
                                                               const BufferOptions& options) {
  const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) {
    return e.array == &array && e.layout == layout_text && e.options == options;
  });
  if (known != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, known);
    return known->buffer;
  }
  TW_TRY(std::shared_ptr<GuardedBuffer> buffer, packed_buffer(array, layout, options));
  entries_.push_front({&array, layout_text, options, buffer});
  size_t bytes = 0, count = 0;
  std::erase_if(entries_, [&](const Entry& e) {
    bytes += e.buffer->size();
    return ++count > 1 && (bytes > most_packed_bytes || count > most_packed_buffers);
  });
  return buffer;
}

Result<KernelBuffers> KernelBuffers::make(const runtime::Kernel& kernel,
                                          const dsl::Workload& workload, const dsl::Arrays& inputs,
                                          BufferOptions options, PackedInputs* packed) {
  KernelBuffers result;
  const auto& arguments = kernel.info().arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    // Nothing lies between the last element and the guard: kernels need no more than its alignment.
    if (options.align == Align::End)
      options.alignment = static_cast<size_t>(size_bytes(arguments[i].dtype));
    const std::string& name = arguments[i].name;
    dsl::Layout layout = dsl::Layout::row_major(static_cast<int>(arguments[i].shape.size()));
    if (!arguments[i].layout.empty()) {
      TW_TRY(layout, dsl::Layout::parse(arguments[i].layout, workload.compute.letters_of(name)));
    }
    std::shared_ptr<GuardedBuffer> own;
    std::shared_ptr<const GuardedBuffer> shared;
    if (arguments[i].is_output) {
      TW_TRY(own, made(static_cast<size_t>(runtime::storage_bytes(arguments[i])), options));
    } else if (packed) {
      TW_TRY(shared, packed->get(inputs.at(name), layout, arguments[i].layout, options));
    } else {
      TW_TRY(own, packed_buffer(inputs.at(name), layout, options));
    }
    result.layouts_.push_back(std::move(layout));
    result.buffers_.push_back(own ? own : shared);
    result.own_.push_back(std::move(own));
  }
  return result;
}

std::vector<void*> KernelBuffers::pointers() const {
  std::vector<void*> pointers;
  for (const auto& buffer : buffers_) pointers.push_back(buffer->data());
  return pointers;
}

void KernelBuffers::poison_outputs(const runtime::Kernel& kernel, Poison pattern) {
  for (size_t i = 0; i < buffers_.size(); ++i)
    if (kernel.info().arguments[i].is_output) own_[i]->poison(pattern);
}

Result<dsl::Arrays> KernelBuffers::outputs(const runtime::Kernel& kernel) const {
  dsl::Arrays outputs;
  const auto& arguments = kernel.info().arguments;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i]->check() != Slack::Intact)
      return fail(ErrorCode::Invalid, fmt::format("it wrote outside of '{}'", arguments[i].name));
    if (!arguments[i].is_output) continue;
    TW_TRY(dsl::Array array, dsl::Array::make(arguments[i].dtype, arguments[i].shape));
    unpack(layouts_[i], buffers_[i]->data(), array);
    outputs[arguments[i].name] = std::move(array);
  }
  return outputs;
}

bool keeps_arrays(const dsl::Workload& workload) { return workload.op == "expr"; }

Result<Conversions> Conversions::of(const runtime::Kernel& kernel, const dsl::Workload& workload,
                                    const dsl::Arrays& inputs, KernelBuffers& buffers) {
  Conversions result;
  if (!keeps_arrays(workload)) return result;
  const auto& arguments = kernel.info().arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].pack.empty()) continue;
    if (arguments[i].is_output) {
      TW_TRY(dsl::Array array, dsl::Array::make(arguments[i].dtype, arguments[i].shape));
      result.outputs_.emplace_back(static_cast<int>(i), std::move(array));
    } else if (!workload.compute.find_input(arguments[i].name)->constant) {
      TW_RETURN_IF_ERROR(buffers.make_writable(i));
      result.inputs_.emplace_back(static_cast<int>(i), &inputs.at(arguments[i].name));
    }
  }
  return result;
}

Status Conversions::call(const runtime::Kernel& kernel, std::span<void* const> storage,
                         runtime::ThreadPool& pool, int threads) {
  for (const auto& [argument, array] : inputs_)
    TW_RETURN_IF_ERROR(kernel.pack(argument, array->data.data(),
                                   storage[static_cast<size_t>(argument)], pool, threads));
  TW_RETURN_IF_ERROR(kernel.run(storage, pool, threads));
  for (auto& [argument, array] : outputs_)
    TW_RETURN_IF_ERROR(kernel.unpack(argument, storage[static_cast<size_t>(argument)],
                                     array.data.data(), pool, threads));
  return {};
}

Verdict compare(const dsl::Arrays& outputs, const Reference& reference) {
  const double error = worst_error(outputs, reference.normal.outputs);
  if (error <= reference.tolerance) return {db::TrialStatus::Ok, "", error};
  return rejected(db::TrialStatus::Wrong,
                  fmt::format("differs by {:.3g} of the largest element, at most "
                              "{:.3g} is allowed",
                              error, reference.tolerance));
}

Verdict verify(const runtime::Kernel& kernel, const dsl::Workload& workload,
               const Reference& reference, PackedInputs& packed, runtime::ThreadPool& pool,
               int threads) {
  using db::TrialStatus;
  const auto failed = [](const Error& error) {
    const bool strayed = error.code == ErrorCode::Invalid;
    return rejected(strayed ? TrialStatus::Oob : TrialStatus::Crash, error.message);
  };
  const auto run = [&](const Fill& fill, const Conditions& conditions) {
    return run_once(kernel, workload, fill.inputs, conditions, packed, pool);
  };
  const auto integers = run(reference.integers, {Align::Begin, Poison::Least, 1});
  if (!integers) return failed(integers.error());
  const double allowed = reference.exact ? 0 : reference.tolerance;
  if (const double error = worst_error(*integers, reference.integers.outputs); !(error <= allowed))
    return rejected(TrialStatus::Wrong,
                    fmt::format("differs by {:.3g} of the largest element on integer data", error));

  const auto normal = run(reference.normal, {Align::End, Poison::First, threads});
  if (!normal) return failed(normal.error());
  const Verdict verdict = compare(*normal, reference);
  if (verdict.status != TrialStatus::Ok) return verdict;
  const auto again = run(reference.normal, {Align::End, Poison::Most, 1, true});
  if (!again) return failed(again.error());
  if (!same_bytes(*normal, *again))
    return rejected(TrialStatus::Nondeterministic, "two runs on the same data differ");
  if (!has_packs(kernel)) return verdict;
  const auto called = call_on_arrays(kernel, workload, reference.normal.inputs, pool, threads);
  if (!called) return failed(called.error());
  return compare(*called, reference);
}

}  // namespace tw::tuner
