#include "protocol/succession/followed_journal.h"

#include <string>
#include <utility>

namespace leat::protocol {
namespace {

constexpr uint64_t kHeadBytes = sizeof(uint32_t) + sizeof(uint64_t);
constexpr uint32_t kMaxRecord = 17 << 20;  // a little more than a journal takes

}  // namespace

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
