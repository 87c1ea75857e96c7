// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "codegen/abi.h"
#include "tuner/measure/packing.h"

namespace tw::tuner {
namespace {

/// Conditions of a run of a kernel that must make no difference to its outputs.
struct Conditions {
  Align align;
  Poison poison;
  int threads = 1;
  bool backwards = false;  ///< tasks in reverse order, on one thread
};

// Bytes of the stack that are overwritten before a run. They are more than a task may use, so that
// a variable that a kernel does not initialise is never zero by chance.
constexpr size_t scribbled_bytes = codegen::max_stack_bytes + (64 << 10);

[[gnu::noinline]] void scribble_stack(Poison pattern) {
  std::array<volatile uint16_t, scribbled_bytes / 2> frame;
  for (volatile uint16_t& word : frame) word = static_cast<uint16_t>(pattern);
}

// Limits of the packed inputs that are kept. The limit of bytes is twice what a batch of candidates
// with different layouts needs for the largest layers of ResNet-50. The limit of buffers leaves
// room for the kernels' own buffers in the table of live buffers (processes/guarded_buffer.cpp).
constexpr size_t most_packed_bytes = size_t{256} << 20, most_packed_buffers = 256;

Result<dsl::Arrays> run_once(const runtime::Kernel& kernel, const dsl::Workload& workload,
                             const dsl::Arrays& inputs, const Conditions& conditions,
                             PackedInputs& packed, runtime::ThreadPool& pool) {
  TW_TRY(KernelBuffers buffers,
         KernelBuffers::make(kernel, workload, inputs, {.align = conditions.align}, &packed));
  TW_RETURN_IF_ERROR(
      buffers.prepare(kernel, conditions.poison, pool, conditions.threads, conditions.backwards));
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

Result<std::shared_ptr<GuardedBuffer>> made(size_t bytes, const BufferOptions& options) {
  TW_TRY(GuardedBuffer buffer, GuardedBuffer::make(bytes, options));
  return std::make_shared<GuardedBuffer>(std::move(buffer));
}

Result<std::shared_ptr<GuardedBuffer>> packed_buffer(const dsl::Array& array,
                                                     const dsl::Layout& layout,
                                                     const BufferOptions& options) {
  TW_TRY(auto buffer, made(packed_bytes(layout, array), options));
  pack(layout, array, buffer->data());
  TW_RETURN_IF_ERROR(buffer->make_read_only());
  return buffer;
}

/// True if a call on row-major arrays runs code that Kernel::run() does not run: packing kernels or
/// a preparation. Kernels of trials are compiled without packing kernels, so they cannot be called
/// on row-major arrays if one of their arguments has another layout.
bool has_calls(const runtime::Kernel& kernel) {
  const auto& arguments = kernel.info().arguments;
  const bool lacks_packs = std::ranges::any_of(arguments, [](const runtime::ArgumentInfo& a) {
    return a.pack.empty() && !a.layout.empty();
  });
  const bool has_packs = std::ranges::any_of(
      arguments, [](const runtime::ArgumentInfo& a) { return !a.pack.empty(); });
  return !lacks_packs && (has_packs || kernel.info().preparation);
}

/// Calls the kernel as users do. This runs the kernel's own packing code, which no other run here
/// uses.
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

bool same_bytes(const dsl::Arrays& a, const dsl::Arrays& b) {
  for (const auto& [name, array] : a)
    if (array.data != b.at(name).data) return false;
  return true;
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
                                          BufferOptions options, PackedInputs* packed,
                                          SharedInputs shared_inputs) {
  KernelBuffers result;
  const auto is_shared = [&](const std::string& input) {
    return packed != nullptr &&
           (shared_inputs == SharedInputs::All || workload.compute.find_input(input)->constant);
  };
  const auto& arguments = kernel.info().arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    // The buffer ends at the guard, with no bytes in between: kernels only need the alignment of an
    // element.
    if (options.align == Align::End)
      options.alignment = static_cast<size_t>(size_bytes(arguments[i].dtype));
    const std::string& name = arguments[i].name;
    TW_TRY(dsl::Layout layout, layout_of(arguments[i], workload));
    std::shared_ptr<GuardedBuffer> own;
    std::shared_ptr<const GuardedBuffer> shared;
    if (arguments[i].is_output) {
      TW_TRY(own, made(static_cast<size_t>(runtime::storage_bytes(arguments[i])), options));
    } else if (is_shared(name)) {
      TW_TRY(shared, packed->get(inputs.at(name), layout, arguments[i].layout, options));
    } else {
      TW_TRY(own, packed_buffer(inputs.at(name), layout, options));
    }
    result.layouts_.push_back(std::move(layout));
    result.buffers_.push_back(own ? own : shared);
    result.own_.push_back(std::move(own));
  }
  if (!kernel.info().preparation) return result;
  for (const runtime::ArgumentInfo& buffer : kernel.info().preparation->buffers) {
    if (options.align == Align::End)
      options.alignment = static_cast<size_t>(size_bytes(buffer.dtype));
    TW_TRY(result.prepared_.emplace_back(),
           made(static_cast<size_t>(runtime::storage_bytes(buffer)), options));
  }
  return result;
}

std::vector<void*> KernelBuffers::pointers() const {
  std::vector<void*> pointers;
  for (const auto& buffer : buffers_) pointers.push_back(buffer->data());
  for (const auto& buffer : prepared_) pointers.push_back(buffer->data());
  return pointers;
}

std::vector<Bytes> KernelBuffers::prepared() const {
  std::vector<Bytes> bytes;
  for (const auto& buffer : prepared_) bytes.push_back({buffer->data(), buffer->size()});
  return bytes;
}

Status KernelBuffers::prepare(const runtime::Kernel& kernel, Poison poison,
                              runtime::ThreadPool& pool, int threads, bool backwards) {
  for (const auto& buffer : prepared_) buffer->poison(poison);
  const std::vector<void*> all = pointers();
  TW_RETURN_IF_ERROR(backwards ? kernel.prepare_backwards(all)
                               : kernel.prepare(all, pool, threads));
  for (const auto& buffer : prepared_) {
    if (buffer->check() != Slack::Intact)
      return fail(ErrorCode::Invalid, "its preparation wrote outside of a buffer");
    TW_RETURN_IF_ERROR(buffer->make_read_only());
  }
  return {};
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

Result<Roles> roles_of(const runtime::Kernel& kernel, const dsl::Workload& workload,
                       KernelBuffers& buffers) {
  Roles roles;
  const auto& arguments = kernel.info().arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].is_output || arguments[i].only_prepares) continue;
    if (workload.compute.find_input(arguments[i].name)->constant) {
      roles.constants.push_back(buffers.bytes(i));
      continue;
    }
    TW_RETURN_IF_ERROR(buffers.make_writable(i));
    roles.activations.push_back(buffers.bytes(i));
  }
  for (const Bytes& bytes : buffers.prepared()) roles.constants.push_back(bytes);
  return roles;
}

Result<Conversions> Conversions::of(const runtime::Kernel& kernel, const dsl::Workload& workload,
                                    const dsl::Arrays& inputs, KernelBuffers& buffers) {
  Conversions result;
  if (!keeps_arrays(workload)) return result;
  const auto& arguments = kernel.info().arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].pack.empty() || workload.layouts.contains(arguments[i].name)) continue;
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

Verdict verify(const runtime::Kernel& kernel, const dsl::Workload& workload,
               const Reference& reference, PackedInputs& packed, runtime::ThreadPool& pool,
               int threads) {
  using db::TrialStatus;
  const auto outputs_of = [](Result<dsl::Arrays> outputs) -> Outputs {
    if (outputs) return std::move(*outputs);
    const bool strayed = outputs.error().code == ErrorCode::Invalid;
    return rejected(strayed ? TrialStatus::Oob : TrialStatus::Crash, outputs.error().message);
  };
  const auto run = [&](const Fill& fill, const Conditions& conditions) {
    return outputs_of(run_once(kernel, workload, fill.inputs, conditions, packed, pool));
  };
  dsl::Arrays left;  // outputs of the last run
  const auto run_pass = [&](Pass pass) {
    Outputs outputs = run(fill_of(reference, pass),
                          pass == Pass::Normal ? Conditions{Align::End, Poison::First, threads}
                                               : Conditions{Align::Begin, Poison::Least, 1});
    if (!outputs) return outputs.error();
    left = std::move(*outputs);
    return compare(reference, pass, left);
  };
  const auto repeat = [&]() -> Repeated {
    const Outputs again = run(reference.normal, {Align::End, Poison::Most, 1, true});
    if (!again) return tl::unexpected(again.error());
    return same_bytes(left, *again);
  };
  const Verdict verdict = judge(kernel.info().schedule, run_pass, repeat);
  if (verdict.status != TrialStatus::Ok || !has_calls(kernel)) return verdict;
  const Outputs called =
      outputs_of(call_on_arrays(kernel, workload, reference.normal.inputs, pool, threads));
  return called ? compare(reference, Pass::Normal, *called) : called.error();
}

}  // namespace tw::tuner
