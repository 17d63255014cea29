#include "train/collective/process_group.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace leat::collective {

using Loss = protocol::PeerConnections::Loss;

namespace {

constexpr Duration kRedial = std::chrono::milliseconds(20);
// A peer that ends the group sends the reason on its control connection before it closes both. Its silence
// counts as death only after this time.
constexpr Duration kLastWord = std::chrono::milliseconds(300);

size_t Index(ChannelKind kind) {
  return static_cast<size_t>(kind);
}

}  // namespace

ProcessGroup::ProcessGroup(net::Loop& loop, net::Transport& transport, Port& port,
                           ProcessGroupOptions options, User* user)
    : loop_(loop),
      transport_(transport),
      port_(port),
      options_(std::move(options)),
      user_(user),
      connections_(options_.group, members(), options_.rank, 2) {
  form_until_ = loop_.Now() + options_.form_deadline;
  for (const uint32_t peer : connections_.Peers()) pairs_.emplace_back().peer = peer;
  if (pairs_.empty()) {
    loop_.Post([this, here = here_] {
      if (*here && formed()) user_->OnFormed();
    });
    return;
  }
  timer_ = loop_.After(options_.form_deadline, [this] {
    timer_ = 0;
    const uint32_t missing = *connections_.Missing();
    StopUnreachable(
        {Code::kDeadlineExceeded, "group " + std::to_string(options_.group) +
                                      " was not formed in time: " + Name(missing) + " does not answer"},
        missing);
  });
  for (const uint32_t peer : connections_.Calls()) {
    Dial(peer, ChannelKind::kData);
    Dial(peer, ChannelKind::kControl);
  }
  loop_.Post([this, here = here_] {
    if (!*here || !Forming()) return;
    port_.Expect(options_.group, [this](const Greet& greet, std::unique_ptr<Channel> channel) {
      Take(greet, std::move(channel));
    });
  });
}

ProcessGroup::~ProcessGroup() {
  *here_ = false;
  port_.Forget(options_.group);
  loop_.Cancel(timer_);
}

std::string ProcessGroup::Name(uint32_t rank) const {
  return "rank " + std::to_string(rank) + " (" + options_.addresses[rank] + ")";
}

ProcessGroup::Pair* ProcessGroup::PairWith(uint32_t peer) {
  const auto at = std::ranges::find(pairs_, peer, &Pair::peer);
  return at == pairs_.end() ? nullptr : &*at;
}

std::pair<ProcessGroup::Pair*, ChannelKind> ProcessGroup::Find(const Channel& channel) {
  for (auto& pair : pairs_) {
    for (const auto kind : {ChannelKind::kData, ChannelKind::kControl}) {
      if (pair.channels[Index(kind)].get() == &channel) return {&pair, kind};
    }
  }
  return {nullptr, ChannelKind::kData};
}

// ---- forming

// Retries, because a peer that has just started may not listen yet.
void ProcessGroup::Dial(uint32_t peer, ChannelKind kind) {
  auto& channel = PairWith(peer)->channels[Index(kind)];
  channel = std::make_unique<Channel>(static_cast<Channel::Owner*>(this));
  const Duration left = std::max(form_until_ - loop_.Now(), Duration(1));
  transport_.Connect(options_.addresses[peer], channel.get(), left,
                     [this, here = here_, peer, kind](Result<std::unique_ptr<net::Connection>> connection) {
                       if (!*here || !Forming()) return;
                       if (connection.ok()) {
                         Channel& mine = *PairWith(peer)->channels[Index(kind)];
                         mine.connection = std::move(*connection);
                         mine.Send(MessageType::kGreet, fields::Encode(connections_.MyGreet(kind)));
                       } else if (connection.status().code() == Code::kUnavailable) {
                         loop_.After(kRedial, [this, here, peer, kind] {
                           if (*here && Forming()) Dial(peer, kind);
                         });
                       } else if (connection.status().code() == Code::kDeadlineExceeded) {
                         StopUnreachable(connection.status().With(Name(peer)), peer);
                       } else {
                         Stop(connection.status().With(Name(peer)), peer);
                       }
                     });
}

void ProcessGroup::Take(const Greet& greet, std::unique_ptr<Channel> channel) {
  if (!connections_.Accept(greet)) return;
  channel->owner = this;
  channel->Send(MessageType::kGreet, fields::Encode(connections_.MyGreet(greet.kind)));
  PairWith(greet.rank)->channels[Index(greet.kind)] = std::move(channel);
  if (formed()) Formed();
}

void ProcessGroup::Formed() {
  loop_.Cancel(std::exchange(timer_, 0));
  user_->OnFormed();
}

// ---- messages

void ProcessGroup::SendPiece(uint32_t peer, Bytes header, ByteView payload, net::Done done) {
  LEAT_CHECK(formed());
  PairWith(peer)->channels[0]->connection->Send(static_cast<uint8_t>(MessageType::kPiece), std::move(header),
                                                {payload}, std::move(done));
}

void ProcessGroup::SendControl(uint32_t peer, MessageType type, Bytes header) {
  Pair* pair = PairWith(peer);
  if (pair == nullptr || pair->channels[1] == nullptr || !connections_.greeted(peer, ChannelKind::kControl))
    return;
  pair->channels[1]->Send(type, std::move(header));
}

void ProcessGroup::HoldView(uint32_t peer) {
  PairWith(peer)->channels[0]->connection->HoldView();
}

void ProcessGroup::ReleaseView(uint32_t peer) {
  Pair* pair = PairWith(peer);
  if (pair->channels[0] != nullptr) pair->channels[0]->connection->ReleaseViews(1);
}

net::Places ProcessGroup::OnHeader(Channel& channel, uint8_t type, ByteView header, uint64_t payload_bytes) {
  const auto [pair, kind] = Find(channel);
  const bool greeting = type == static_cast<uint8_t>(MessageType::kGreet);
  if (pair == nullptr || greeting == connections_.greeted(pair->peer, kind))
    return Status(Code::kDataLoss, "an unexpected message on this channel");
  if (greeting) {
    LEAT_ASSIGN_OR_RETURN(const Greet greet, fields::Decode<Greet>(header, "greeting"));
    if (!connections_.Answers(pair->peer, greet) || greet.kind != kind || payload_bytes != 0)
      return Status(Code::kDataLoss, "a greeting of another group or rank");
  } else if (kind == ChannelKind::kData) {
    if (type != static_cast<uint8_t>(MessageType::kPiece))
      return Status(Code::kDataLoss, "not a piece of a bucket");
    // Other members may complete the group earlier; which bucket a message belongs to is checked later.
    if (!connections_.running()) return Status(Code::kAborted, "stopped");
    return user_->OnPieceHeader(pair->peer, header, payload_bytes);
  } else if (payload_bytes != 0) {
    return Status(Code::kDataLoss, "a control message with a payload");
  }
  control_ = static_cast<MessageType>(type);
  control_header_.assign(header.begin(), header.end());
  return net::Spans{};
}

bool ProcessGroup::OnView(Channel& channel, ByteView payload) {
  const auto [pair, kind] = Find(channel);
  return kind == ChannelKind::kData && user_->OnPieceView(pair->peer, payload);
}

void ProcessGroup::OnMessage(Channel& channel) {
  const auto [pair, kind] = Find(channel);
  const uint32_t peer = pair->peer;
  if (!connections_.greeted(peer, kind)) {
    connections_.Answered(peer, kind);
    if (formed()) Formed();
    return;
  }
  if (kind == ChannelKind::kData) return user_->OnPiece(peer);
  const Bytes header = std::exchange(control_header_, {});
  if (control_ != MessageType::kAbort) return user_->OnControl(peer, control_, header);
  const auto word = fields::Decode<AbortMessage>(header, "end of a group");
  if (!word.ok()) return Stop(word.status().With(Name(peer)), peer);
  Stop(word->why, word->lost < members() ? std::optional<uint32_t>(word->lost) : std::nullopt);
}

// ---- the end

void ProcessGroup::OnSilence(Channel& channel, bool silent) {
  const auto [pair, kind] = Find(channel);
  if (pair == nullptr || !silent) return;
  StopUnreachable(
      {Code::kUnavailable, Name(pair->peer) + " gives no sign of life, and neither does its host"},
      pair->peer);
}

void ProcessGroup::OnClosed(Channel& channel, const Status& why) {
  const auto [pair, kind] = Find(channel);
  if (pair == nullptr) return;
  const uint32_t peer = pair->peer;
  pair->channels[Index(kind)] = nullptr;
  const Loss loss = connections_.Closed(peer, kind);
  if (loss == Loss::kNone) return;
  const Status status(Code::kUnavailable, Name(peer) + " is lost: " + why.message());
  if (loss == Loss::kPeer) return StopUnreachable(status, peer);
  // Whether that peer is the one that failed will be known soon.
  suspicion_ = status;
  Halt();
  loop_.Cancel(timer_);
  timer_ = loop_.After(kLastWord, [this, peer] {
    timer_ = 0;
    StopUnreachable(suspicion_, peer);
  });
}

void ProcessGroup::Halt() {
  if (!connections_.Stop()) return;
  port_.Forget(options_.group);
  for (auto& pair : pairs_) pair.channels[0] = nullptr;
  user_->OnStopped();
}

void ProcessGroup::StopUnreachable(Status why, uint32_t peer) {
  if (connections_.phase() != protocol::PeerConnections::Phase::kEnded) unreachable_ = peer;
  Stop(std::move(why), peer);
}

void ProcessGroup::Stop(Status why, std::optional<uint32_t> lost) {
  Halt();
  if (!connections_.End()) return;
  loop_.Cancel(std::exchange(timer_, 0));
  lost_ = lost;
  const AbortMessage word{why, lost.value_or(AbortMessage::kNobody)};
  for (auto& pair : pairs_) SendControl(pair.peer, MessageType::kAbort, fields::Encode(word));
  loop_.Post([this, here = here_, why = std::move(why)] {
    if (*here) user_->OnEnded(why);
  });
}

}  // namespace leat::collective
