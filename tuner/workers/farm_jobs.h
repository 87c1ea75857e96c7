// SPDX-License-Identifier: Apache-2.0
#pragma once
// Messages between a tuning run and the stations of a farm (station.h). They are plain values,
// encoded as CBOR. The processes in between forward the bytes without decoding them.
//
// A job is self-contained: it carries the workload, the reference, and the bytes of every kernel
// that it names. So any member with a suitable device can do the job, whatever the member did
// before. If a member is lost, another member does the job.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "tuner/workers/jobs.h"

namespace tw::tuner {

/// Version of the messages. It is raised when these messages or the meaning of jobs change, and
/// whenever worker_protocol is raised. Members and tuners must have the same version.
inline constexpr int64_t farm_protocol = 6;

/// Returns the versions that members and tuners must share, as text: "6.5" for protocol 6 and
/// kernel ABI version 5.
std::string farm_version();

struct FarmJob {
  int64_t protocol = farm_protocol;
  std::string target = {};     ///< text of the target; empty: the target of the member's device
  std::string processor = {};  ///< text of the target of the measuring machine's processor
  int64_t threads = 1;
  double timeout_s = 10;      ///< time limit for verifying and measuring one candidate
  bool is_reference = false;  ///< for a BuildJob: as BuildRequest::is_reference
  /// State that the runner must have before the job (Runner::prepare()). An empty workload means
  /// that no preparation is needed.
  PrepareJob prepared = {};
  std::vector<std::string> kernels = {};  ///< bytes of the kernels that the job names
  Job job = DescribeJob{};
};

struct FarmReply {
  std::optional<Error> error = {};  ///< the reason if the job has no reply
  /// The encoded reply to the job, such as encode(MeasureReply); for DescribeJob, an encoded
  /// FarmDescription.
  std::string reply = {};
  std::vector<std::string> kernels = {};  ///< bytes of the kernels that a BuildJob built
  std::string host = {};    ///< hash of the name of the member's machine; for provenance only
  std::string member = {};  ///< address of the member; set by the client, not part of the message
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
/// Returns the target of the member's device. Fails with Environment if the member's protocol or
/// kernel ABI version differs from this program's, and with Invalid if the texts do not parse.
Result<Target> described_target(const FarmDescription& description);

/// Returns the name of the resource by which jobs are sent to members with one kind of device:
/// "device:" and a hash of device_text() and the version. All members with the same device_text()
/// and version offer this resource.
std::string device_resource(const Target& target);
/// Returns the resource that names the version of a member, such as "version:6.5".
std::string version_resource();

std::string encode(const FarmJob& job);
std::string encode(const FarmReply& reply);
std::string encode(const FarmDescription& description);
/// Decode messages. Fail with Invalid if the bytes are no such message. decode_farm_job() fails
/// with Environment if the message has another protocol.
Result<FarmJob> decode_farm_job(std::string_view bytes);
Result<FarmReply> decode_farm_reply(std::string_view bytes);
Result<FarmDescription> decode_farm_description(std::string_view bytes);

}  // namespace tw::tuner
