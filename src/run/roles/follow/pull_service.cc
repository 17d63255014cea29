#include "run/roles/follow/pull_service.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "net/frames/frame.h"
#include "net/same_host/shared_memory.h"

namespace leat::roles {

PullService::PullService(collective::Port& port, const protocol::Parameters& parameters,
                         std::function<std::optional<protocol::MemberValues>()> values,
                         std::function<const protocol::View&()> view)
    : port_(port), parameters_(parameters), values_(std::move(values)), view_(std::move(view)) {
  port_.ExpectFollowers([this](std::unique_ptr<collective::Channel> channel) { Adopt(std::move(channel)); });
}

PullService::~PullService() {
  port_.ExpectFollowers(nullptr);
}

void PullService::Adopt(std::unique_ptr<collective::Channel> channel) {
  channel->owner = this;
  subscribers_.emplace_back().channel = std::move(channel);
}

std::list<PullService::Subscriber>::iterator PullService::Find(const collective::Channel& channel) {
  return std::ranges::find_if(subscribers_, [&](const Subscriber& f) { return f.channel.get() == &channel; });
}

Result<std::vector<std::span<std::byte>>> PullService::OnHeader(collective::Channel& channel, uint8_t type,
                                                                ByteView header, uint64_t payload_bytes) {
  const auto subscriber = Find(channel);
  if (subscribers_.size() > kMaxSubscribers)
    return Status(Code::kResourceExhausted, "a member answers at most " + std::to_string(kMaxSubscribers) +
                                                " that follow its parameters");
  if (type != static_cast<uint8_t>(wire::FrameType::kPush) || payload_bytes != 0)
    return Status(Code::kDataLoss, "unexpected frame type " + std::to_string(type) + " of one that follows");
  if (*subscriber->unsent > 1)
    return Status(Code::kResourceExhausted, "it has not read the last replies, and pulls again");
  LEAT_ASSIGN_OR_RETURN(subscriber->request, fields::Decode<protocol::PushRequest>(header, "push"));
  LEAT_RETURN_IF_ERROR(protocol::CheckPull(subscriber->request, parameters_.table().slices.size()));
  return std::vector<std::span<std::byte>>{};
}

void PullService::OnMessage(collective::Channel& channel) {
  const auto subscriber = Find(channel);
  const auto values = values_();
  auto reply = protocol::AnswerPull(subscriber->request, view_(), values);
  Buffer copy;
  if (std::ranges::any_of(reply.slices, &protocol::SliceReply::values)) {
    copy = CopyOf(*values);
    if (copy.size() == 0) reply = protocol::AnswerPull(subscriber->request, view_(), std::nullopt);
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

void PullService::OnClosed(collective::Channel& channel, const Status& /*why*/) {
  subscribers_.erase(Find(channel));
  if (subscribers_.empty()) copies_.clear();
}

Buffer PullService::CopyOf(const protocol::MemberValues& values) {
  const auto found = std::ranges::find(copies_, values, &Copy::values);
  if (found != copies_.end()) return found->memory;
  auto room = std::ranges::find_if(copies_, [](const Copy& copy) { return !copy.memory.shared(); });
  if (room == copies_.end()) {
    if (copies_.size() == kMaxCopies) return {};
    room = copies_.insert(copies_.end(), {net::MakeSharedBuffer(parameters_.all_values().size_bytes()), {}});
  }
  room->values = values;
  std::memcpy(room->memory.data(), parameters_.all_values().data(), room->memory.size());
  return room->memory;
}

}  // namespace leat::roles
