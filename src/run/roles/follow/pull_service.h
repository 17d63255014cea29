// Answers those that follow the parameters of an all-reduce job, on the port of one of its members: with a
// copy of the values as of the last step. The copy is made when values are asked for that have not been
// copied yet, and exists only while somebody follows. Steps go on while it is being sent. Loop's thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "net/frames/frame.h"
#include "net/same_host/shared_memory.h"
#include "protocol/allreduce/group_member.h"
#include "protocol/parameters.h"
#include "train/collective/port.h"

namespace leat::roles {

class PullService final : private collective::Channel::Owner {
 public:
  // All of them outlive the service.
  PullService(collective::Port& port, const protocol::Parameters& parameters,
              const protocol::GroupMember& machine)
      : port_(port), parameters_(parameters), machine_(machine) {
    port_.ExpectFollowers([this](std::unique_ptr<collective::Channel> channel) {
      channel->owner = this;
      subscribers_.emplace_back().channel = std::move(channel);
    });
  }
  ~PullService() { port_.ExpectFollowers(nullptr); }

 private:
  // Each may have copies that are being sent; one that does not read them must not need more memory.
  static constexpr size_t kMaxSubscribers = 64;
  static constexpr size_t kMaxCopies = 3;

  struct Subscriber {
    std::unique_ptr<collective::Channel> channel;
    protocol::PushRequest request;
    std::shared_ptr<uint32_t> unsent = std::make_shared<uint32_t>(0);  // replies
  };
  struct Copy {
    Buffer memory;
    protocol::MemberValues values;
  };

  Result<std::vector<std::span<std::byte>>> OnHeader(collective::Channel& channel, uint8_t type,
                                                     ByteView header, uint64_t payload_bytes) override {
    const auto subscriber = Find(channel);
    if (subscribers_.size() > kMaxSubscribers)
      return Status(Code::kResourceExhausted, "a member answers at most " + std::to_string(kMaxSubscribers) +
                                                  " that follow its parameters");
    if (type != static_cast<uint8_t>(wire::FrameType::kPush) || payload_bytes != 0)
      return Status(Code::kDataLoss,
                    "unexpected frame type " + std::to_string(type) + " of one that follows");
    if (*subscriber->unsent > 1)
      return Status(Code::kResourceExhausted, "it has not read the last replies, and pulls again");
    LEAT_ASSIGN_OR_RETURN(subscriber->request, fields::Decode<protocol::PushRequest>(header, "push"));
    LEAT_RETURN_IF_ERROR(protocol::CheckPull(subscriber->request, parameters_.table().slices.size()));
    return std::vector<std::span<std::byte>>{};
  }

  void OnMessage(collective::Channel& channel) override {
    const auto subscriber = Find(channel);
    const auto values = machine_.values();
    auto reply = protocol::AnswerPull(subscriber->request, machine_.view(), values);
    Buffer copy;
    if (std::ranges::any_of(reply.slices, &protocol::SliceReply::values)) {
      copy = CopyOf(*values);
      if (copy.size() == 0) reply = protocol::AnswerPull(subscriber->request, machine_.view(), std::nullopt);
    }
    std::vector<ByteView> payload;
    for (const protocol::SliceReply& slice : reply.slices) {
      if (!slice.values) continue;
      const auto span = parameters_.values(slice.slice);
      const auto begin = static_cast<size_t>(span.data() - parameters_.all_values().data()) * sizeof(float);
      const ByteView bytes = copy.bytes().subspan(begin, span.size_bytes());
      if (!payload.empty() && payload.back().data() + payload.back().size() == bytes.data()) {
        payload.back() = {payload.back().data(), payload.back().size() + bytes.size()};
      } else {
        payload.push_back(bytes);
      }
    }
    ++*subscriber->unsent;
    channel.connection->Send(static_cast<uint8_t>(wire::FrameType::kPushReply), fields::Encode(reply),
                             std::move(payload),
                             [copy, unsent = subscriber->unsent](const Status&) { --*unsent; });
  }

  void OnClosed(collective::Channel& channel, const Status& /*why*/) override {
    subscribers_.erase(Find(channel));
    if (subscribers_.empty()) copies_.clear();
  }

  std::list<Subscriber>::iterator Find(const collective::Channel& channel) {
    return std::ranges::find_if(subscribers_,
                                [&](const Subscriber& f) { return f.channel.get() == &channel; });
  }

  // The memory with these values, laid out as Parameters::all_values; empty: all copies are being sent.
  Buffer CopyOf(const protocol::MemberValues& values) {
    const auto found = std::ranges::find(copies_, values, &Copy::values);
    if (found != copies_.end()) return found->memory;
    auto room = std::ranges::find_if(copies_, [](const Copy& copy) { return !copy.memory.shared(); });
    if (room == copies_.end()) {
      if (copies_.size() == kMaxCopies) return {};
      room =
          copies_.insert(copies_.end(), {net::MakeSharedBuffer(parameters_.all_values().size_bytes()), {}});
    }
    room->values = values;
    std::memcpy(room->memory.data(), parameters_.all_values().data(), room->memory.size());
    return room->memory;
  }

  collective::Port& port_;
  const protocol::Parameters& parameters_;
  const protocol::GroupMember& machine_;
  std::list<Subscriber> subscribers_;
  std::vector<Copy> copies_;
};

}  // namespace leat::roles
