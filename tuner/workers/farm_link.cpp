// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/farm_link.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"

namespace tw::tuner {
namespace {

// Longest time until the client has sent its first message. It starts Python and imports Dask in
// half a second, and tries for ten seconds to connect.
constexpr double greeting_s = 60;
constexpr size_t header_length_bytes = 4;

std::string packed(const nlohmann::json& header, std::string_view body) {
  const std::string text = header.dump();
  std::string message;
  message.reserve(header_length_bytes + text.size() + body.size());
  for (size_t i = 0; i < header_length_bytes; ++i)
    message += static_cast<char>(text.size() >> (8 * i) & 0xff);
  message += text;
  message += body;
  return message;
}

/// Returns the text under `name` in the object; empty if there is none.
std::string text_at(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// Returns the last line that a client printed, which says why it ended.
std::string last_words(std::string_view tail) {
  const std::vector<std::string> lines = split(trim(tail), '\n');
  return lines.empty() || lines.back().empty() ? "it gave no reason" : lines.back();
}

}  // namespace

struct FarmLink::Message {
  nlohmann::json header;
  std::string body;

  static Result<Message> parse(std::string_view bytes) {
    size_t length = 0;
    for (size_t i = 0; i < header_length_bytes && i < bytes.size(); ++i)
      length |= size_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    if (bytes.size() < header_length_bytes || length > bytes.size() - header_length_bytes)
      return fail(ErrorCode::Invalid, "[farm] the client sent a message without a header");
    Message message{
        nlohmann::json::parse(bytes.substr(header_length_bytes, length), nullptr, false),
        std::string(bytes.substr(header_length_bytes + length))};
    if (!message.header.is_object())
      return fail(ErrorCode::Invalid, "[farm] the client sent a header that is no object");
    return message;
  }

  std::string text(const char* name) const { return text_at(header, name); }
  uint64_t number() const {
    const auto found = header.find("id");
    return found != header.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
  }
};

Result<std::unique_ptr<FarmLink>> FarmLink::open(std::vector<std::string> client,
                                                 const Environment& environment) {
  TW_TRY(Process process, Process::start({.argv = std::move(client)}, environment.clock));
  const Cancellation user(environment.interrupts, environment.clock);
  std::unique_ptr<FarmLink> link(new FarmLink(std::move(process), user));
  TW_RETURN_IF_ERROR(link->greet(user.deadline(greeting_s, Needed::No)));
  return link;
}

Status FarmLink::greet(const Deadline& deadline) {
  TW_TRY(const Message greeting, receive(deadline));
  const auto members = greeting.header.find("members");
  if (members == greeting.header.end() || !members->is_array())
    return lose("its client did not say who the members are");
  has_greeted_ = true;
  members_.clear();
  for (const nlohmann::json& entry : *members) {
    const auto resources = entry.find("resources");
    if (resources == entry.end()) continue;
    FarmMember member{text_at(entry, "address"), {}};
    for (const nlohmann::json& resource : *resources)
      if (resource.is_string()) member.resources.insert(resource.get<std::string>());
    members_.push_back(std::move(member));
  }
  return {};
}

tl::unexpected<Error> FarmLink::lose(const std::string& why) {
  process_.kill();
  lost_ = Error{ErrorCode::TryLater,
                fmt::format("[farm] {}; what was measured is stored: try again when the farm is "
                            "there, and the run goes on",
                            why)};
  return tl::unexpected<Error>(*lost_);
}

Result<FarmLink::Message> FarmLink::receive(const Deadline& deadline) {
  if (lost_) return tl::unexpected<Error>(*lost_);
  const Outcome outcome = process_.receive(deadline);
  if (std::holds_alternative<Cancelled>(outcome))
    return fail(ErrorCode::Interrupted, "[farm] interrupted while a job was on the farm");
  if (std::holds_alternative<TimedOut>(outcome))
    return lose("no member answered in time: others may be using the device");
  if (const auto* died = std::get_if<Died>(&outcome)) return end(*died);
  if (const auto* garbled = std::get_if<Garbled>(&outcome)) return lose(garbled->message);
  auto message = Message::parse(std::get<Reply>(outcome).bytes);
  if (!message) return lose(message.error().message);
  if (const std::string why = message->text("lost"); !why.empty()) return lose(why);
  return message;
}

/// Ends the link, because the client has ended. If the client ended before its first message, it
/// cannot run on this machine, so the error is not TryLater.
tl::unexpected<Error> FarmLink::end(const Died& died) {
  const std::string why = "its client ended: " + last_words(died.tail);
  if (has_greeted_ || died.exit_code == static_cast<int>(ErrorCode::TryLater)) return lose(why);
  constexpr std::string_view program = "tilewright: ";
  const std::string line = last_words(died.tail);
  if (died.exit_code == static_cast<int>(ErrorCode::Usage) && line.starts_with(program)) {
    lost_ = Error{ErrorCode::Usage, line.substr(program.size())};
    return tl::unexpected<Error>(*lost_);
  }
  lost_ = Error{ErrorCode::Environment,
                fmt::format("[farm] {}; --python has to name a Python with the package tilewright "
                            "and Dask, as ./tw does",
                            why)};
  return tl::unexpected<Error>(*lost_);
}

Result<uint64_t> FarmLink::send(const FarmTicket& ticket, const FarmJob& job) {
  if (lost_) return tl::unexpected<Error>(*lost_);
  if (!process_.running()) {
    // An interrupt ended the client. Nobody waits for its jobs any more.
    under_way_.clear();
    TW_RETURN_IF_ERROR(process_.restart());
    TW_RETURN_IF_ERROR(greet(user_.deadline(greeting_s, Needed::ForResult)));
  }
  const uint64_t number = next_++;
  const nlohmann::json header = {{"id", number},
                                 {"kind", ticket.kind},
                                 {"resources", ticket.resources},
                                 {"limit_s", ticket.limit_s}};
  TW_RETURN_IF_ERROR(process_.send(packed(header, encode(job))));
  under_way_.insert(number);
  return number;
}

Result<tl::expected<FarmReply, FarmFault>> FarmLink::wait(uint64_t number,
                                                          const Deadline& deadline) {
  while (!arrived_.contains(number)) {
    if (lost_) return tl::unexpected<Error>(*lost_);
    if (!under_way_.contains(number) || !process_.running())
      return fail(ErrorCode::Interrupted, "[farm] interrupted while a job was on the farm");
    TW_TRY(const Message message, receive(deadline));
    if (under_way_.erase(message.number()) == 0) continue;  // cancel() was called
    if (const std::string fault = message.text("fault"); !fault.empty()) {
      arrived_.emplace(message.number(), tl::unexpected(FarmFault{fault}));
      continue;
    }
    auto reply = decode_farm_reply(message.body);
    const std::string member = message.text("member");
    if (!reply) {
      arrived_.emplace(
          message.number(),
          tl::unexpected(FarmFault{"a member at " + member + ": " + reply.error().message, true}));
      continue;
    }
    reply->member = member;
    arrived_.emplace(message.number(), std::move(*reply));
  }
  auto found = arrived_.extract(number);
  return std::move(found.mapped());
}

void FarmLink::cancel(uint64_t number) {
  arrived_.erase(number);
  if (under_way_.erase(number) == 0 || !process_.running()) return;
  // An error is ignored, because wait() drops the reply to a cancelled job anyway.
  (void)process_.send(packed({{"cancel", number}}, ""));
}

}  // namespace tw::tuner
