// SPDX-License-Identifier: Apache-2.0
#pragma once
// Connects a run to a farm by a client process, which hands jobs to the members of the farm and
// returns their replies. The client is python/tilewright/farm.py, over Dask.distributed; tests use
// a client of their own. Several jobs may be under way at once, and their replies come in any
// order.
//
//   TW_TRY(const auto link, FarmLink::open(client, environment));
//   TW_TRY(const uint64_t number, link->send({.resources = {"device"}, .limit_s = 30}, job));
//   TW_TRY(const FarmReply reply, link->wait(number, deadline));
//
// A message is a frame (processes/frame.h) whose payload has three parts: the length of a JSON
// header in 4 bytes, least significant byte first; the header; bytes that the client forwards
// unread. The first message of the client lists the members: {"members": [{"address": "tcp://...",
// "resources": ["device", ...]}]}. A request has the header {"id": 7, "kind": "measure",
// "resources": [...], "limit_s": 30}, and {"cancel": 7} cancels it. A reply has the header {"id":
// 7, "member": "tcp://..."} and the member's bytes. If the job was stopped at its limit, or if too
// many members were lost while they did it, the header of the reply has the reason as "fault", and
// no bytes follow. If the farm is lost, the client sends {"lost": "why"} and exits.
//
// Belongs to one thread.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "tuner/processes/deadline.h"
#include "tuner/processes/process.h"
#include "tuner/workers/environment.h"
#include "tuner/workers/farm_jobs.h"

namespace tw::tuner {

struct FarmMember {
  std::string address;
  std::set<std::string> resources;  ///< "device", "device:0123456789abcdef", "build", labels

  bool has(const std::string& resource) const { return resources.contains(resource); }
};

/// Requirements and time limit of a job.
struct FarmTicket {
  std::string kind = "measure";  ///< "measure" or "build"; a member has a station for each kind
  /// Resources that the member must offer, such as "device". While the job runs, it holds one unit
  /// of each.
  std::vector<std::string> resources = {};
  double limit_s = 60;  ///< after this time the member's station is stopped
};

/// The failure of one job. The farm can still do others.
struct FarmFault {
  std::string reason;
  /// True if the reply does not decode. The candidates of the job are then not at fault.
  bool is_garbled = false;
};

class FarmLink {
 public:
  /// Starts the client by its command line and connects to the farm. Fails with Environment if the
  /// client cannot be started, and with TryLater if the farm cannot be reached.
  static Result<std::unique_ptr<FarmLink>> open(std::vector<std::string> client,
                                                const Environment& environment);

  /// The members of the farm when the client was last started.
  const std::vector<FarmMember>& members() const { return members_; }

  /// Sends a job and returns its number at once, without waiting for the reply. Fails with TryLater
  /// if the farm is lost, and with Invalid if the job is larger than a frame.
  Result<uint64_t> send(const FarmTicket& ticket, const FarmJob& job);
  /// Waits for the reply to a job, and returns the reply or the fault of the job. Fails with
  /// TryLater if the farm is lost; all later calls then fail too. Fails with Interrupted if the
  /// deadline is cancelled, which loses all jobs under way.
  Result<tl::expected<FarmReply, FarmFault>> wait(uint64_t number, const Deadline& deadline);
  /// Cancels a job. Do not call wait() for a cancelled job.
  void cancel(uint64_t number);
  /// The reason why the farm was lost; nullopt if it was not.
  const std::optional<Error>& lost() const { return lost_; }

 private:
  struct Message;

  FarmLink(Process process, Cancellation user)
      : process_(std::move(process)), user_(std::move(user)) {}
  Status greet(const Deadline& deadline);
  Result<Message> receive(const Deadline& deadline);
  tl::unexpected<Error> lose(const std::string& why);
  tl::unexpected<Error> end(const Died& died);

  Process process_;
  Cancellation user_;  ///< stops for user interrupts only; for the wait until the client is ready
  bool has_greeted_ = false;
  std::vector<FarmMember> members_;
  uint64_t next_ = 1;
  std::map<uint64_t, tl::expected<FarmReply, FarmFault>> arrived_;
  std::set<uint64_t> under_way_;
  std::optional<Error> lost_;
};

}  // namespace tw::tuner
