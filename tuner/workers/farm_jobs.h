// SPDX-License-Identifier: Apache-2.0
#pragma once
// Messages between a tuning run and the stations of a farm (station.h): plain values, encoded as
// CBOR. The processes in between forward the bytes and do not decode them.
//
// A job is whole in itself: it carries the workload, the reference and the bytes of every kernel
// that it names. So any member with such a device can do it, whatever it did before, and a job that
// was lost with its member is done by another.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "tuner/workers/jobs.h"

namespace tw::tuner {

/// Raised when the messages or the meaning of jobs change, with worker_protocol: members and tuners
/// must agree.
inline constexpr int64_t farm_protocol = 5;

/// The versions that members and tuners must share, as text: "5.5" for protocol 5 and kernels of
/// version 5.
std::string farm_version();

struct FarmJob {
  int64_t protocol = farm_protocol;
  std::string target = {};     ///< text; empty: that of the member's device
  std::string processor = {};  ///< text of the target of the measuring machine's processor
  int64_t threads = 1;
  double timeout_s = 10;      ///< for one candidate to be verified and measured
  bool is_reference = false;  ///< of a BuildJob: as BuildRequest::is_reference
  /// Preparation of the runner before the job (Runner::prepare()); none if the workload is empty.
  PrepareJob prepared = {};
  std::vector<std::string> kernels = {};  ///< bytes of the kernels that the job names
  Job job = DescribeJob{};
};

struct FarmReply {
  std::optional<Error> error = {};  ///< why there is no reply
  std::string reply =
      {};  ///< as encode() of the reply to the job; of DescribeJob a FarmDescription
  std::vector<std::string> kernels = {};  ///< bytes of the kernels that a BuildJob made
  std::string host = {};    ///< hash of the name of the member's machine: provenance only
  std::string member = {};  ///< address of the member, from the client; not in the message
};

/// Description of the device that a member measures on, and of its processor and program.
struct FarmDescription {
  std::string target, machine, device;  ///< texts of Target and Machine, and device_text()
  std::string cpu;                      ///< Target::cpu
  std::string processor;                ///< text of the target of the member's processor
  std::string program_version;
  int64_t codegen_abi = 0;
  int64_t protocol = farm_protocol;
};
FarmDescription describe(const Target& target, const std::string& program_version);
/// The target as the member has it. Environment where the member's protocol or version of kernels
/// differs from this program's; Invalid where the texts do not parse.
Result<Target> described_target(const FarmDescription& description);

/// The resource that members with the same device, as records name it, and the same version offer:
/// "device:" and a hash of both.
std::string device_resource(const Target& target);
/// The resource that names the version of a member: "version:5.5".
std::string version_resource();

std::string encode(const FarmJob& job);
std::string encode(const FarmReply& reply);
std::string encode(const FarmDescription& description);
/// Invalid when the bytes are no such message.
Result<FarmJob> decode_farm_job(std::string_view bytes);
Result<FarmReply> decode_farm_reply(std::string_view bytes);
Result<FarmDescription> decode_farm_description(std::string_view bytes);

}  // namespace tw::tuner
