// SPDX-License-Identifier: Apache-2.0
#pragma once
// The connection of a run to a farm: one process, the client, which hands jobs to the farm's
// members and their replies back. It is python/tilewright/farm.py, over Dask.distributed; tests
// have one of their own. Jobs may be queued: replies come in any order.
//
//   TW_TRY(const auto link, FarmLink::open(client, environment));
//   TW_TRY(const uint64_t number, link->send({.resources = {"device"}, .limit_s = 30}, job));
//   TW_TRY(const FarmReply reply, link->wait(number, deadline));
//
// A message is a frame (processes/frame.h) of 4 bytes, least significant first, which give the
// length of a header in JSON, the header, and bytes that only the two ends read. The client says
// first who the members are, {"members": [{"address": "tcp://...", "resources": ["device", ...]}]}.
// A request is
// {"id": 7, "kind": "measure", "resources": [...], "limit_s": 30}, and {"cancel": 7} takes it back;
// a reply is {"id": 7, "member": "tcp://..."} with the member's bytes, or, where a member was lost
// with the job more often than is borne, or was stopped at the limit, has the reason as "fault".
// Where there is no farm any more, the client says {"lost": "why"} and ends.
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
  std::string kind = "measure";             ///< or "build": a member has a station of each kind
  std::vector<std::string> resources = {};  ///< of a member that the job takes one each
  double limit_s = 60;                      ///< after which the member's station is stopped
};

/// The failure of one job, after which the farm can do others.
struct FarmFault {
  std::string reason;
  /// The reply does not decode, which says nothing about the candidates of the job.
  bool is_garbled = false;
};

class FarmLink {
 public:
  /// `client` is the command line of the client. Environment where it cannot be started, TryLater
  /// where the farm cannot be reached.
  static Result<std::unique_ptr<FarmLink>> open(std::vector<std::string> client,
                                                const Environment& environment);

  /// The members at the time when the client was last started.
  const std::vector<FarmMember>& members() const { return members_; }

  /// Hands a job over and returns its number at once. TryLater where the farm is lost; Invalid for
  /// a job that is larger than a frame.
  Result<uint64_t> send(const FarmTicket& ticket, const FarmJob& job);
  /// Waits for the reply to a job. TryLater where the farm is lost, and ever after; Interrupted
  /// where the deadline is cancelled, which loses all jobs under way.
  Result<tl::expected<FarmReply, FarmFault>> wait(uint64_t number, const Deadline& deadline);
  /// Takes a job back: its reply is not waited for.
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
  Cancellation user_;  ///< of the user's interrupts alone, for waits until the client greets
  bool has_greeted_ = false;
  std::vector<FarmMember> members_;
  uint64_t next_ = 1;
  std::map<uint64_t, tl::expected<FarmReply, FarmFault>> arrived_;
  std::set<uint64_t> under_way_;
  std::optional<Error> lost_;
};

}  // namespace tw::tuner
