// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/jobs.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

/// A message contains a status as text, as records do.
template <>
struct nlohmann::adl_serializer<tw::db::TrialStatus> {
  static void to_json(json& value, tw::db::TrialStatus status) {
    value = std::string(tw::db::to_string(status));
  }
  static void from_json(const json& value, tw::db::TrialStatus& status) {
    const auto known = tw::db::parse_trial_status(value.get<std::string>());
    if (!known) throw std::invalid_argument("unknown status");
    status = *known;
  }
};

namespace tw::tuner {

using nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(KernelSource, workload, schedule)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BuildJob, target, kernels, packs, otherwise)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BuildOutcome, artifact, status, reason, installation, code,
                                   otherwise, blameless, build_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BuildReply, outcomes, seconds, toolchain)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PrepareJob, workload, reference, threads, on_device)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PrepareReply, error, reference_error, reference_ns)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MeasureJob, artifact, incumbent_ns, incumbent, verify_only,
                                   stretches, pause_s, patience_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MeasureReply, status, reason, samples_ns, latency_ns, low_ns,
                                   high_ns, verified_error, noise, incumbent_pace, incumbent_fault,
                                   faulty_incumbent, peak_gflops, blameless)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CompareJob, a, b, rounds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CompareReply, error, ratio, low, high, noise_floor, winner)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PeakJob, threads)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PeakReply, error, gflops)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DescribeReply, error, name, multiprocessors, l2_bytes,
                                   memory_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CalibrateJob, target, machine, budget_ns)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CalibrateReply, error, machine)

// DescribeJob has no members.
void to_json(json& value, const DescribeJob&) { value = json::object(); }
void from_json(const json&, DescribeJob&) {}

namespace {

std::string to_bytes(const json& value) {
  const std::vector<uint8_t> bytes = json::to_cbor(value);
  return std::string(bytes.begin(), bytes.end());
}

/// Ok if the message has the protocol of this program, otherwise Environment. A message without a
/// protocol has protocol 1.
Status check_protocol(const json& message) {
  const auto version = message.value("protocol", int64_t{1});
  if (version == worker_protocol) return {};
  return fail(ErrorCode::Environment,
              fmt::format("[worker] a message of protocol {}, and this program speaks {}: the "
                          "worker is of another version; install the same program whole",
                          version, worker_protocol));
}

template <typename T>
std::string reply_bytes(const T& reply) {
  return to_bytes({{"protocol", worker_protocol}, {"reply", reply}});
}

template <typename T>
Status from_bytes(std::string_view bytes, T& value) {
  try {
    const json message = json::from_cbor(bytes);
    TW_RETURN_IF_ERROR(check_protocol(message));
    value = message.at("reply").get<T>();
    return {};
  } catch (const std::exception& e) {
    return fail(ErrorCode::Invalid, fmt::format("[worker] a reply that is none: {}", e.what()));
  }
}

template <size_t I = 0>
Result<Job> decode_as(size_t kind, const json& body) {
  if constexpr (I == std::variant_size_v<Job>) {
    return fail(ErrorCode::Invalid, fmt::format("[worker] there is no job of kind {}", kind));
  } else {
    if (kind != I) return decode_as<I + 1>(kind, body);
    return Job(body.get<std::variant_alternative_t<I, Job>>());
  }
}

}  // namespace

MeasureReply blameless_loss(std::string reason) {
  MeasureReply reply{db::TrialStatus::Lost, std::move(reason)};
  reply.blameless = true;
  return reply;
}

std::string encode(const Job& job) {
  return std::visit(
      [&](const auto& j) {
        return to_bytes({{"protocol", worker_protocol}, {"kind", job.index()}, {"body", j}});
      },
      job);
}

Result<Job> decode_job(std::string_view bytes) {
  try {
    const json value = json::from_cbor(bytes);
    TW_RETURN_IF_ERROR(check_protocol(value));
    return decode_as(value.at("kind").get<size_t>(), value.at("body"));
  } catch (const std::exception& e) {
    return fail(ErrorCode::Invalid, fmt::format("[worker] a job that is none: {}", e.what()));
  }
}

std::string encode(const BuildReply& reply) { return reply_bytes(reply); }
std::string encode(const PrepareReply& reply) { return reply_bytes(reply); }
std::string encode(const MeasureReply& reply) { return reply_bytes(reply); }
std::string encode(const CompareReply& reply) { return reply_bytes(reply); }
std::string encode(const PeakReply& reply) { return reply_bytes(reply); }
std::string encode(const DescribeReply& reply) { return reply_bytes(reply); }
std::string encode(const CalibrateReply& reply) { return reply_bytes(reply); }
Status decode(std::string_view bytes, BuildReply& reply) { return from_bytes(bytes, reply); }
Status decode(std::string_view bytes, PrepareReply& reply) { return from_bytes(bytes, reply); }
Status decode(std::string_view bytes, MeasureReply& reply) { return from_bytes(bytes, reply); }
Status decode(std::string_view bytes, CompareReply& reply) { return from_bytes(bytes, reply); }
Status decode(std::string_view bytes, PeakReply& reply) { return from_bytes(bytes, reply); }
Status decode(std::string_view bytes, DescribeReply& reply) { return from_bytes(bytes, reply); }
Status decode(std::string_view bytes, CalibrateReply& reply) { return from_bytes(bytes, reply); }

}  // namespace tw::tuner
