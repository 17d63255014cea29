#include "protocol/succession/replication.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "protocol/guards.h"

namespace leat::protocol {

namespace {

constexpr uint64_t kHeadBytes = sizeof(uint32_t) + sizeof(uint64_t);
constexpr uint32_t kMaxRecord = 17 << 20;  // a little more than a journal takes

}  // namespace

void JournalReplication::AppendFrame(ByteView record, Bytes* out) {
  ByteWriter frame;
  frame.Put(static_cast<uint32_t>(record.size()));
  frame.Put(Checksum(record));
  frame.PutRaw(record);
  const ByteView bytes = frame.view();
  out->insert(out->end(), bytes.begin(), bytes.end());
}

JournalReplication::JournalReplication(ReplicationConfig config, Electorate electorate)
    : config_(config), electorate_(std::move(electorate)), founded_(!config.elected) {
  set_ = {.term = config_.term, .epoch = 0, .coordinators = {config_.coordinator}};
  electorate_.Rebase();
  if (config_.marked) marker_ = 0;
  if (founded_) {
    electorate_.OnAgreed(0);
  } else {
    next_ = {.term = config_.term, .epoch = 1, .coordinators = {config_.coordinator}};
  }
}

// ---- the journal

uint64_t JournalReplication::Append(Time now, std::span<const JournalRecord> records,
                                    std::span<const Bytes> encoded) {
  for (const Bytes& bytes : encoded) AppendFrame(bytes, &log_);
  if (encoded.empty()) AppendFrame({}, &log_);
  end_ = log_begin_ + log_.size();
  for (const JournalRecord& record : records) {
    const std::vector<NodeId> before = electorate_.newest();
    electorate_.OnRecord(end_, record);
    if (!std::holds_alternative<JournalAgreed>(record)) continue;
    marker_ = end_;
    marker_under_way_ = false;
    marker_repeated_ = electorate_.newest() == before;
  }
  Update(now);
  return end_;
}

// The next electors, in order. An even number is never better than one less or one more: an elector that has
// gone stays for the odd number, because its process may only have been paused, and then goes on voting.
std::vector<NodeId> JournalReplication::NextElectors() const {
  const std::vector<NodeId> before = electorate_.newest();
  const auto was = [&before](NodeId node) { return std::ranges::binary_search(before, node); };
  std::vector<NodeId> next;
  for (const NodeId node : electorate_.joined()) {
    // A process that does not know that it is a member could elect nobody.
    if (was(node) || heard_.contains(node)) next.push_back(node);
  }
  if (next.empty()) return before;
  if (next.size() % 2 == 0) {
    const auto gone =
        std::ranges::find_if(before, [this](NodeId node) { return !electorate_.joined().contains(node); });
    if (gone != before.end()) {
      next.insert(std::ranges::upper_bound(next, *gone), *gone);
    } else {
      const auto added = std::ranges::find_if_not(next.rbegin(), next.rend(), was);
      next.erase(added == next.rend() ? next.end() - 1 : std::next(added).base());
    }
  }
  return next;
}

std::optional<JournalAgreed> JournalReplication::TakeMarker() {
  if (marker_under_way_ || !founded_ || !electorate_.Settled()) return std::nullopt;
  const std::vector<NodeId> before = electorate_.newest();
  JournalAgreed marker{NextElectors()};
  if (marker.electors.empty() || (marker.electors == before && marker_repeated_)) return std::nullopt;
  // The former one is agreed, which others learn before the next one.
  if (marker_ && !marker_repeated_) marker.electors = before;
  if (!marker_) {
    const bool near =
        std::ranges::any_of(followers_, [this](const auto& entry) { return Near(entry.second); });
    const bool all =
        std::ranges::all_of(electorate_.joined(), [this](NodeId node) { return heard_.contains(node); });
    if (!near || !all || !electorate_.placed()) return std::nullopt;
  }
  marker_under_way_ = true;
  return marker;
}

// ---- standbys

Status JournalReplication::OnFollow(Time now, uint64_t call, const FollowRequest& request) {
  if (request.coordinator == config_.coordinator || request.coordinator == 0) {
    return {Code::kFailedPrecondition,
            "the standby's directory is a copy of the coordinator's; give it one of its own"};
  }
  if (SameRun(request.term, config_.term) && request.term > config_.term) {
    replaced_by_ = std::max(replaced_by_.value_or(0), request.term);
    return {Code::kStale, "this coordinator was replaced"};
  }
  auto at = followers_.find(request.coordinator);
  if (at == followers_.end()) {
    if (followers_.size() >= config_.max_followers) {
      return {Code::kResourceExhausted,
              std::to_string(followers_.size()) + " standbys follow the coordinator already"};
    }
    at = followers_.emplace(request.coordinator, Follower()).first;
    at->second.heard = now;
  }
  Follower& follower = at->second;
  const bool known =
      request.term == config_.term && request.stream == follower.stream && follower.stream != 0;
  const bool coming = request.stream == 0 && follower.stream != 0 && !follower.snapshot;
  const bool needed = set_.Contains(request.coordinator) || (next_ && next_->Contains(request.coordinator));
  if (!known && !coming) {
    // A required standby that restarts its copy keeps its old deadline.
    const Time heard = needed ? follower.heard : now;
    Dismiss(&follower);
    follower = Follower{.stream = ++streams_, .needed_checkpoint = newest_checkpoint_, .heard = heard};
    snapshot_wanted_ = true;
  } else if (!known) {
    if (!needed) follower.heard = now;
  } else if (request.received > follower.end(end_) || request.synced > request.received ||
             request.received < follower.received) {
    return {Code::kInvalidArgument, "follow: received is " + std::to_string(request.received) +
                                        ", synced is " + std::to_string(request.synced) +
                                        " of a stream with " + std::to_string(follower.end(end_)) + " bytes"};
  } else {
    const bool further = request.received > follower.received || request.synced > follower.synced;
    if (further || request.synced >= follower.sent) follower.heard = now;
    follower.received = request.received;
    follower.synced = std::max(follower.synced, request.synced);
  }
  follower.checkpoint = request.checkpoint;
  Dismiss(&follower);
  follower.call = call;
  follower.called = now;
  Update(now);
  return {};
}

// Answers a call that the standby does not wait for any more, or whose stream has ended.
void JournalReplication::Dismiss(Follower* follower) {
  if (follower->call)
    replies_.emplace_back(*std::exchange(follower->call, std::nullopt), FollowReply{.term = config_.term});
}

void JournalReplication::OnSnapshot(Time now, Bytes frames) {
  if (frames.empty()) AppendFrame({}, &frames);
  const auto snapshot = std::make_shared<const Bytes>(std::move(frames));
  for (auto& [number, follower] : followers_) {
    if (follower.snapshot) continue;
    follower.snapshot = snapshot;
    follower.begin = end_;
    follower.heard = now;
  }
  Update(now);
}

bool JournalReplication::HaveCheckpoint(uint64_t id) const {
  return std::ranges::all_of(followers_, [id](const auto& entry) { return entry.second.checkpoint >= id; });
}

void JournalReplication::OnDropped(uint64_t oldest_kept, std::vector<Position> watermark) {
  oldest_kept_ = oldest_kept;
  watermark_ = std::move(watermark);
  for (auto& [number, follower] : followers_) follower.changed = true;
}

// It lacks little of the journal, and has a checkpoint from which its journal reaches on.
bool JournalReplication::Near(const Follower& follower) const {
  return follower.snapshot && follower.synced >= follower.snapshot->size() &&
         end_ - follower.position() <= FollowReply::kMaxBytes &&
         follower.checkpoint >= follower.needed_checkpoint;
}

void JournalReplication::Answer(Time now, uint64_t number, Follower* follower) {
  if (!follower->call) return;
  const uint64_t end = follower->end(end_);
  const bool due = follower->changed || follower->received < end || now - follower->called >= config_.poll;
  if (!follower->snapshot || !due) return;
  FollowReply reply{.term = config_.term,
                    .stream = follower->stream,
                    .snapshot = follower->snapshot->size(),
                    .offset = follower->received,
                    .checkpoint = newest_checkpoint_,
                    .oldest_kept = oldest_kept_,
                    .watermark = watermark_};
  const auto take = [&](const Bytes& from, uint64_t offset) {
    const uint64_t count =
        std::min<uint64_t>(from.size() - offset, FollowReply::kMaxBytes - reply.bytes.size());
    const auto first = from.begin() + static_cast<std::ptrdiff_t>(offset);
    reply.bytes.insert(reply.bytes.end(), first, first + static_cast<std::ptrdiff_t>(count));
  };
  const uint64_t size = follower->snapshot->size();
  if (follower->received < size) take(*follower->snapshot, follower->received);
  if (const uint64_t next = follower->received + reply.bytes.size(); next >= size)
    take(log_, follower->begin + (next - size) - log_begin_);
  follower->sent = follower->received + reply.bytes.size();
  if (agreed_ >= follower->begin) reply.agreed = size + (agreed_ - follower->begin);
  reply.electable = set_.Contains(number);
  reply.in_set = reply.electable || (next_ && next_->Contains(number));
  follower->changed = false;
  replies_.emplace_back(*std::exchange(follower->call, std::nullopt), std::move(reply));
}

// ---- the set

std::vector<uint64_t> JournalReplication::Required() const {
  std::vector<uint64_t> required = set_.coordinators;
  if (next_) required.insert(required.end(), next_->coordinators.begin(), next_->coordinators.end());
  for (const auto& [number, follower] : followers_) {
    if (follower.joining) required.push_back(number);
  }
  std::erase(required, config_.coordinator);
  return required;
}

void JournalReplication::Agree() {
  if (!founded_) return;
  uint64_t least = end_;
  for (const uint64_t number : Required()) {
    const auto at = followers_.find(number);
    least = std::min(least, at == followers_.end() ? 0 : at->second.position());
  }
  agreed_ = guards::Agreed(least == end_) ? end_ : std::max(agreed_, least);
  electorate_.OnAgreed(agreed_);
}

void JournalReplication::Propose(Time now) {
  if (next_ || !founded_) return;
  CoordinatorSet wanted{.term = config_.term, .epoch = set_.epoch + 1, .coordinators = {config_.coordinator}};
  for (const auto& [number, follower] : followers_) {
    const bool stays = set_.Contains(number) && !Silent(now, follower);
    const bool comes = follower.joining && follower.position() >= std::max(agreed_, *marker_);
    if (stays || comes) wanted.coordinators.push_back(number);
  }
  std::ranges::sort(wanted.coordinators);
  if (wanted.coordinators == set_.coordinators) return;
  next_ = std::move(wanted);
  for (auto& [number, follower] : followers_) follower.changed = true;
}

void JournalReplication::Commit() {
  if (!next_) return;
  const auto knows = [this](NodeId node) {
    const auto at = accepted_.find(node);
    return at != accepted_.end() && at->second >= next_->epoch;
  };
  if (!electorate_.Majority(knows)) return;
  set_ = *std::exchange(next_, std::nullopt);
  founded_ = true;
  for (auto& [number, follower] : followers_) follower.changed = true;
}

void JournalReplication::Update(Time now) {
  if (replaced_by_) return;
  Commit();
  const bool marked = founded_ && marker_ && *marker_ <= agreed_ && !electorate_.Empty();
  for (auto& [number, follower] : followers_) {
    follower.joining = marked && !set_.Contains(number) && !(next_ && next_->Contains(number)) &&
                       !Silent(now, follower) && Near(follower);
  }
  Agree();
  Propose(now);
  std::erase_if(accepted_, [this](const auto& entry) { return !Counts(entry.first); });
  std::erase_if(heard_, [this](NodeId node) { return !Counts(node); });
  ForgetFollowers(now);
  for (auto& [number, follower] : followers_) Answer(now, number, &follower);
  Trim();
}

// Drops standbys outside the set that are silent or too far behind.
void JournalReplication::ForgetFollowers(Time now) {
  const std::vector<uint64_t> required = Required();
  for (auto at = followers_.begin(); at != followers_.end();) {
    Follower& follower = at->second;
    const bool behind =
        follower.snapshot && end_ - std::max(follower.begin, follower.position()) > config_.max_behind;
    if (std::ranges::count(required, at->first) > 0 || (!behind && !Silent(now, follower))) {
      ++at;
      continue;
    }
    Dismiss(&follower);
    at = followers_.erase(at);
  }
}

// Keeps what standbys have not received.
void JournalReplication::Trim() {
  uint64_t least = end_;
  for (const auto& [number, follower] : followers_) {
    if (!follower.snapshot) continue;  // its stream goes on at the end, as it will be then
    const uint64_t size = follower.snapshot->size();
    least = std::min(least, follower.begin + (follower.received > size ? follower.received - size : 0));
  }
  constexpr uint64_t kLeast = 64 << 10;  // not for every record
  if (least - log_begin_ < std::max<uint64_t>(kLeast, log_.size() / 2) && least != end_) return;
  log_.erase(log_.begin(), log_.begin() + static_cast<std::ptrdiff_t>(least - log_begin_));
  log_begin_ = least;
}

// ---- electors

void JournalReplication::OnElector(Time now, NodeId node, const ElectorState& state) {
  if (SameRun(state.promised, config_.term) && state.promised > config_.term) {
    replaced_by_ = std::max(replaced_by_.value_or(0), state.promised);
    return;
  }
  if (!Counts(node)) return;
  heard_.insert(node);
  if (state.set_term != config_.term) return;
  uint64_t& accepted = accepted_[node];
  if (state.set_epoch <= accepted) return;
  accepted = state.set_epoch;
  Update(now);
}

std::optional<CoordinatorSet> JournalReplication::SetFor(const ElectorState& state) const {
  const CoordinatorSet& newest = next_ ? *next_ : set_;
  const CoordinatorSet known{.term = state.set_term, .epoch = state.set_epoch, .coordinators = {}};
  if (newest.epoch == 0 || !newest.NewerThan(known)) return std::nullopt;
  return newest;
}

void JournalReplication::OnTimer(Time now) {
  // While this process did not run, nobody could be heard.
  const Duration away = last_timer_ ? now - *last_timer_ : Duration::zero();
  if (away > config_.silence / 4) {
    for (auto& [number, follower] : followers_) follower.heard = std::min(now, follower.heard + away);
  }
  last_timer_ = now;
  Update(now);
}

std::string JournalReplication::WaitsFor() const {
  if (AllAgreed() && founded_) return "";
  if (next_) return "a majority of the members to learn which coordinators have the journal";
  return "a standby to write the journal";
}

FollowRequest FollowedJournal::MakeRequest(uint64_t checkpoint) const {
  FollowRequest request{.coordinator = coordinator_, .term = term_, .checkpoint = checkpoint};
  if (stream_ == 0) return request;
  request.stream = stream_;
  request.received = received_;
  request.synced = synced_;
  return request;
}

Result<FollowedJournal::Received> FollowedJournal::OnReply(const FollowReply& reply) {
  if (term_ != 0 && (!SameRun(reply.term, term_) || reply.term < term_)) {
    return Status(Code::kStale, "the coordinator is of term " + std::to_string(NumberOf(reply.term)) +
                                    ", the directory knows term " + std::to_string(NumberOf(term_)));
  }
  if (reply.term != term_ || reply.stream != stream_ || stream_ == 0) {
    term_ = reply.term;
    stream_ = reply.stream;
    snapshot_ = reply.snapshot;
    received_ = synced_ = whole_ = 0;
    began_ = false;
    rest_.clear();
  }
  if (stream_ == 0 || reply.offset != received_ || reply.snapshot != snapshot_) {
    stream_ = 0;
    return Status(Code::kDataLoss, "the journal's stream has a gap at byte " + std::to_string(received_));
  }
  rest_.insert(rest_.end(), reply.bytes.begin(), reply.bytes.end());
  received_ += reply.bytes.size();
  Received received{.anew = false, .term = term_, .records = {}, .ends = {}};
  if (!began_ && received_ < snapshot_) return received;
  received.anew = !std::exchange(began_, true);
  if (const Status good = TakeFrames(&received); !good.ok()) {
    stream_ = 0;
    return good;
  }
  return received;
}

Status FollowedJournal::TakeFrames(Received* received) {
  uint64_t at = 0;
  while (rest_.size() - at >= kHeadBytes) {
    ByteReader in(ByteView(rest_).subspan(at));
    const auto length = in.Get<uint32_t>();
    const auto checksum = in.Get<uint64_t>();
    if (length > kMaxRecord) return {Code::kDataLoss, "a record of " + std::to_string(length) + " bytes"};
    if (in.remaining() < length) break;
    const ByteView record = in.GetRaw(length);
    if (Checksum(record) != checksum) {
      return {Code::kDataLoss,
              "the record at byte " + std::to_string(whole_ + at) + " of the journal's stream is damaged"};
    }
    at += kHeadBytes + length;
    if (length == 0) continue;
    received->records.emplace_back(record.begin(), record.end());
    received->ends.push_back(whole_ + at);
  }
  rest_.erase(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(at));
  whole_ += at;
  return {};
}

}  // namespace leat::protocol
