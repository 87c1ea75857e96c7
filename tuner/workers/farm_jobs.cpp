// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/farm_jobs.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "codegen/abi.h"
#include "tuner/workers/device.h"

namespace tw::tuner {
namespace {

using Json = nlohmann::json;

Json as_binary(std::string_view bytes) {
  return Json::binary(std::vector<uint8_t>(bytes.begin(), bytes.end()));
}

std::string from_binary(const Json& value) {
  const auto& bytes = value.get_binary();
  return {bytes.begin(), bytes.end()};
}

Json as_binaries(const std::vector<std::string>& all) {
  Json list = Json::array();
  for (const std::string& bytes : all) list.push_back(as_binary(bytes));
  return list;
}

std::vector<std::string> from_binaries(const Json& list) {
  std::vector<std::string> all;
  for (const Json& bytes : list) all.push_back(from_binary(bytes));
  return all;
}

std::string farm_bytes(const Json& value) {
  const std::vector<uint8_t> bytes = Json::to_cbor(value);
  return {bytes.begin(), bytes.end()};
}

/// Decodes the bytes and returns the result of `read`. Fails with Invalid if the bytes do not
/// decode or `read` throws.
template <typename Read>
auto read_farm_message(std::string_view bytes, const Read& read) -> decltype(read(Json())) {
  try {
    return read(Json::from_cbor(bytes));
  } catch (const std::exception& e) {
    return fail(ErrorCode::Invalid, fmt::format("[farm] a message that is none: {}", e.what()));
  }
}

/// Returns the ErrorCode with this number. Internal for an unknown number, because programs use the
/// code as their exit code.
ErrorCode code_of(int64_t number) {
  for (const ErrorCode code : {ErrorCode::Usage, ErrorCode::Unsupported, ErrorCode::Database,
                               ErrorCode::Invalid, ErrorCode::NoCandidate, ErrorCode::Environment,
                               ErrorCode::NotCompiled, ErrorCode::TryLater, ErrorCode::Interrupted})
    if (static_cast<int64_t>(code) == number) return code;
  return ErrorCode::Internal;
}

}  // namespace

FarmDescription describe(const Target& target, const std::string& program_version) {
  return {.target = target.to_string(),
          .machine = to_string(target.machine),
          .device = device_text(target),
          .cpu = target.cpu,
          .processor = host_target().to_string(),
          .program_version = program_version,
          .codegen_abi = codegen::codegen_abi};
}

std::string farm_version() { return fmt::format("{}.{}", farm_protocol, codegen::codegen_abi); }

std::string version_resource() { return "version:" + farm_version(); }

Result<Target> described_target(const FarmDescription& description) {
  if (description.codegen_abi != codegen::codegen_abi || description.protocol != farm_protocol)
    return fail(ErrorCode::Environment,
                fmt::format("[farm] a member runs tilewright {} with protocol {} and kernels of "
                            "version {}, and this program has {} and {}: install the same program "
                            "on both",
                            description.program_version, description.protocol,
                            description.codegen_abi, farm_protocol, codegen::codegen_abi));
  TW_TRY(Target target, parse_target(description.target));
  TW_TRY(target.machine, parse_machine(description.machine));
  target.cpu = description.cpu;
  target.device = description.device;
  return target;
}

std::string device_resource(const Target& target) {
  return "device:" + short_hash(device_text(target) + "\n" + farm_version());
}

std::string encode(const FarmJob& job) {
  return farm_bytes({{"protocol", job.protocol},
                     {"target", job.target},
                     {"processor", job.processor},
                     {"threads", job.threads},
                     {"timeout_s", job.timeout_s},
                     {"is_reference", job.is_reference},
                     {"prepared", as_binary(encode(Job(job.prepared)))},
                     {"kernels", as_binaries(job.kernels)},
                     {"job", as_binary(encode(job.job))}});
}

Result<FarmJob> decode_farm_job(std::string_view bytes) {
  return read_farm_message(bytes, [](const Json& value) -> Result<FarmJob> {
    FarmJob job;
    job.protocol = value.at("protocol").get<int64_t>();
    if (job.protocol != farm_protocol)
      return fail(ErrorCode::Environment,
                  fmt::format("[farm] a job of protocol {}, and this member speaks {}: install the "
                              "same program on both",
                              job.protocol, farm_protocol));
    job.target = value.at("target").get<std::string>();
    job.processor = value.at("processor").get<std::string>();
    job.threads = value.at("threads").get<int64_t>();
    job.timeout_s = value.at("timeout_s").get<double>();
    job.is_reference = value.at("is_reference").get<bool>();
    job.kernels = from_binaries(value.at("kernels"));
    TW_TRY(const Job prepared, decode_job(from_binary(value.at("prepared"))));
    if (!std::holds_alternative<PrepareJob>(prepared))
      return fail(ErrorCode::Invalid, "[farm] a job that is prepared by none");
    job.prepared = std::get<PrepareJob>(prepared);
    TW_TRY(job.job, decode_job(from_binary(value.at("job"))));
    return job;
  });
}

std::string encode(const FarmReply& reply) {
  Json value = {{"reply", as_binary(reply.reply)},
                {"kernels", as_binaries(reply.kernels)},
                {"host", reply.host}};
  if (reply.error)
    value["error"] = {{"code", static_cast<int64_t>(reply.error->code)},
                      {"message", reply.error->message}};
  return farm_bytes(value);
}

Result<FarmReply> decode_farm_reply(std::string_view bytes) {
  return read_farm_message(bytes, [](const Json& value) -> Result<FarmReply> {
    FarmReply reply;
    reply.reply = from_binary(value.at("reply"));
    reply.kernels = from_binaries(value.at("kernels"));
    reply.host = value.at("host").get<std::string>();
    if (const auto error = value.find("error"); error != value.end())
      reply.error =
          Error{code_of(error->at("code").get<int64_t>()), error->at("message").get<std::string>()};
    return reply;
  });
}

std::string encode(const FarmDescription& d) {
  return farm_bytes({{"target", d.target},
                     {"machine", d.machine},
                     {"device", d.device},
                     {"cpu", d.cpu},
                     {"processor", d.processor},
                     {"program_version", d.program_version},
                     {"codegen_abi", d.codegen_abi},
                     {"protocol", d.protocol}});
}

Result<FarmDescription> decode_farm_description(std::string_view bytes) {
  return read_farm_message(bytes, [](const Json& value) -> Result<FarmDescription> {
    return FarmDescription{.target = value.at("target").get<std::string>(),
                           .machine = value.at("machine").get<std::string>(),
                           .device = value.at("device").get<std::string>(),
                           .cpu = value.at("cpu").get<std::string>(),
                           .processor = value.at("processor").get<std::string>(),
                           .program_version = value.at("program_version").get<std::string>(),
                           .codegen_abi = value.at("codegen_abi").get<int64_t>(),
                           .protocol = value.value("protocol", int64_t{1})};
  });
}

}  // namespace tw::tuner
