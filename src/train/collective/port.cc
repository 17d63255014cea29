#include "train/collective/port.h"

#include <algorithm>
#include <utility>

#include "base/fields/codec.h"
#include "base/fields/description.h"
#include "net/frames/frame.h"
#include "protocol/allreduce/reduction.h"
#include "protocol/allreduce/training_state.h"
#include "protocol/messages_data.h"

namespace leat::collective {

// ---- messages

Status Check(const AbortMessage& message) {
  return message.why.ok() ? Status(Code::kDataLoss, "why is no error") : Status();
}

wire::Port MemberPort() {
  // The state that a member sends the others is in no frame of its own (train/step/step_reducer.h). Pushes
  // are those of followers.
  return {
      wire::PortKind::kMember,
      fields::HashOf<Greet, PieceHeader, BucketHeader, Alive, AbortMessage, protocol::TrainingState::Header,
                     protocol::PartitionLedger, protocol::PushRequest, protocol::PushReply>()};
}

// ---- the port

using protocol::CallVerdict;
using protocol::JudgeCall;

net::Receiver* Port::Adopt(std::unique_ptr<net::Connection> connection) {
  if (callers_.size() >= kMaxWaiting) callers_.pop_front();
  auto& caller = callers_.emplace_back();
  caller.channel = std::make_unique<Channel>(static_cast<Channel::Owner*>(this));
  caller.channel->connection = std::move(connection);
  return caller.channel.get();
}

void Port::Expect(uint64_t group, Take take) {
  group_ = group;
  take_ = std::move(take);
  std::list<Caller> here;
  for (auto at = callers_.begin(); at != callers_.end();) {
    const auto caller = at++;
    if (!caller->greeted) continue;
    const CallVerdict verdict = JudgeCall(caller->greet.group, group_);
    if (verdict == CallVerdict::kAccept) here.splice(here.end(), callers_, caller);
    if (verdict == CallVerdict::kReject) callers_.erase(caller);
  }
  for (auto& caller : here) take_(caller.greet, std::move(caller.channel));
}

void Port::Forget(uint64_t group) {
  if (group == group_) take_ = nullptr;
}

std::list<Port::Caller>::iterator Port::Find(const Channel& channel) {
  return std::ranges::find_if(callers_, [&](const Caller& c) { return c.channel.get() == &channel; });
}

net::Places Port::OnHeader(Channel& channel, uint8_t type, ByteView header, uint64_t payload_bytes) {
  const auto caller = Find(channel);
  if (!caller->greeted && type == wire::FrameType::kPush) return OnFollower(caller, header, payload_bytes);
  // A greeting member waits for an answer.
  if (caller->greeted || type != static_cast<uint8_t>(MessageType::kGreet) || payload_bytes != 0)
    return Status(Code::kDataLoss, "the first message is not a greeting of a group");
  if (!channel.connection->peer_roles().Has(net::CertificateRole::kWorker))
    return Status(Code::kPermissionDenied, "only workers may join a group");
  LEAT_ASSIGN_OR_RETURN(caller->greet, fields::Decode<Greet>(header, "greeting"));
  return net::Spans{};
}

net::Places Port::OnFollower(std::list<Caller>::iterator caller, ByteView header, uint64_t payload_bytes) {
  Channel& channel = *caller->channel;
  if (!channel.connection->peer_roles().Has(net::CertificateRole::kServe))
    return Status(Code::kPermissionDenied, "only a serve member may follow the parameters");
  if (take_follower_ == nullptr)
    return Status(Code::kUnavailable, "this process has no parameters to follow");
  auto taken = std::move(caller->channel);
  callers_.erase(caller);
  take_follower_(std::move(taken));
  return channel.owner->OnHeader(channel, wire::FrameType::kPush, header, payload_bytes);
}

void Port::OnMessage(Channel& channel) {
  const auto caller = Find(channel);
  caller->greeted = true;
  const CallVerdict verdict = JudgeCall(caller->greet.group, group_);
  if (verdict == CallVerdict::kKeep) return;
  const Greet greet = caller->greet;
  auto taken = std::move(caller->channel);
  callers_.erase(caller);
  if (verdict == CallVerdict::kAccept && take_ != nullptr) take_(greet, std::move(taken));
}

void Port::OnClosed(Channel& channel, const Status& /*why*/) {
  callers_.erase(Find(channel));
}

}  // namespace leat::collective

namespace leat {
LEAT_CODECS(protocol::Greet, collective::PieceHeader, collective::BucketHeader, collective::Alive,
            collective::AbortMessage);
}
