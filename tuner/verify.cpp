// SPDX-License-Identifier: Apache-2.0
#include "tuner/verify.h"

#include <fmt/format.h>

#include <cstring>

namespace tw::tuner {
namespace {

Verdict rejected(db::TrialStatus status, std::string reason) { return {status, std::move(reason), 0}; }

Result<dsl::Arrays> run_once(const runtime::Kernel& kernel, const dsl::Arrays& inputs, Align align,
                             Poison poison, runtime::ThreadPool& pool, int threads) {
  TW_TRY(KernelBuffers buffers, KernelBuffers::make(kernel, inputs, {.align = align}, pool));
  buffers.poison_outputs(kernel, poison);
  TW_RETURN_IF_ERROR(kernel.run(buffers.pointers(), pool, threads));
  return buffers.outputs(kernel, pool);
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

Result<KernelBuffers> KernelBuffers::make(const runtime::Kernel& kernel, const dsl::Arrays& inputs,
                                          const BufferOptions& options, runtime::ThreadPool& pool) {
  KernelBuffers result;
  const auto& arguments = kernel.info().arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto bytes = static_cast<size_t>(runtime::storage_bytes(arguments[i]));
    TW_TRY(GuardedBuffer buffer, GuardedBuffer::make(bytes, options));
    if (!arguments[i].is_output) {
      const dsl::Array& logical = inputs.at(arguments[i].name);
      TW_RETURN_IF_ERROR(kernel.pack(static_cast<int>(i), logical.data.data(), buffer.data(), pool, 1));
      TW_RETURN_IF_ERROR(buffer.make_read_only());
    }
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

Result<dsl::Arrays> KernelBuffers::outputs(const runtime::Kernel& kernel, runtime::ThreadPool& pool) const {
  dsl::Arrays outputs;
  const auto& arguments = kernel.info().arguments;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].check() != Slack::Intact)
      return fail(ErrorCode::Invalid, fmt::format("it wrote outside of '{}'", arguments[i].name));
    if (!arguments[i].is_output) continue;
    TW_TRY(dsl::Array array, dsl::Array::make(arguments[i].dtype, arguments[i].shape));
    TW_RETURN_IF_ERROR(
        kernel.unpack(static_cast<int>(i), buffers_[i].data(), array.data.data(), pool, 1));
    outputs[arguments[i].name] = std::move(array);
  }
  return outputs;
}

Verdict verify(const runtime::Kernel& kernel, const Reference& reference, runtime::ThreadPool& pool,
               int threads) {
  using db::TrialStatus;
  const auto failed = [](const Error& error) {
    const bool strayed = error.code == ErrorCode::Invalid;
    return rejected(strayed ? TrialStatus::Oob : TrialStatus::Crash, error.message);
  };
  const auto integers =
      run_once(kernel, reference.integers.inputs, Align::Begin, Poison::First, pool, threads);
  if (!integers) return failed(integers.error());
  const double allowed = reference.exact ? 0 : reference.tolerance;
  if (const double error = worst_error(*integers, reference.integers.outputs); !(error <= allowed))
    return rejected(TrialStatus::Wrong,
                    fmt::format("differs by {:.3g} of the largest element on integer data", error));

  const auto normal = run_once(kernel, reference.normal.inputs, Align::End, Poison::First, pool, threads);
  if (!normal) return failed(normal.error());
  const double error = worst_error(*normal, reference.normal.outputs);
  if (!(error <= reference.tolerance))
    return rejected(TrialStatus::Wrong, fmt::format("differs by {:.3g} of the largest element, at most "
                                                    "{:.3g} is allowed",
                                                    error, reference.tolerance));
  const auto again = run_once(kernel, reference.normal.inputs, Align::End, Poison::Second, pool, threads);
  if (!again) return failed(again.error());
  if (!same_bytes(*normal, *again))
    return rejected(TrialStatus::Nondeterministic, "two runs on the same data differ");
  return {TrialStatus::Ok, "", error};
}

}  // namespace tw::tuner
