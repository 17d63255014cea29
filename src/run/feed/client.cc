#include "run/feed/client.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <random>

#include "base/log.h"
#include "run/feed/server.h"
#include "storage/checkpoint/file.h"
#include "stream/files.h"

namespace leat::feed {
namespace {

class RemoteSource final : public stream::Source {
 public:
  explicit RemoteSource(std::shared_ptr<Client> client) : client_(std::move(client)) {}

  Result<std::vector<stream::PartitionRange>> Ranges() override {
    LEAT_RETURN_IF_ERROR(
        client_->Call({.kind = RequestKind::kRanges, .marks = marks_}, &reply_, &payload_, kRangesDeadline));
    if (reply_.ranges.empty()) return Status(Code::kDataLoss, "a feed's stream has no partitions");
    LEAT_RETURN_IF_ERROR(TakeReported());
    return std::move(reply_.ranges);
  }
  void WantMarks(uint32_t partition, const stream::LabelMark& last, uint64_t room) override {
    if (marks_.size() <= partition) marks_.resize(partition + size_t{1});
    marks_[partition] = {last, room};
  }

  Status Read(uint32_t partition, uint64_t begin, uint64_t end, stream::RecordBatch* out) override {
    out->Restart(partition, begin);
    Status status;
    for (uint64_t at = begin; at < end && status.ok();) status = ReadSome(partition, begin, end, &at, out);
    if (!status.ok()) out->Restart(partition, begin);
    out->data.resize(out->offsets.back());
    out->data.resize(out->offsets.back() + stream::RecordBatch::kPadding);
    return status;
  }

  Status Pin(const std::string& owner, uint32_t partition, uint64_t offset) override {
    return Do({.kind = RequestKind::kPin, .partition = partition, .begin = offset, .name = owner});
  }
  Status Sync(uint32_t partition, uint64_t end) override {
    return Do({.kind = RequestKind::kSync, .partition = partition, .end = end});
  }
  Status Advance(uint32_t partition, uint64_t end) override {
    return Do({.kind = RequestKind::kAdvance, .partition = partition, .end = end});
  }
  Status CommitOffsets(const std::string& group, std::span<const uint64_t> offsets) override {
    return Do({.kind = RequestKind::kCommit, .name = group, .offsets = {offsets.begin(), offsets.end()}});
  }
  Result<uint64_t> Fingerprint(uint32_t partition, uint64_t offset) override {
    LEAT_RETURN_IF_ERROR(Do({.kind = RequestKind::kFingerprint, .partition = partition, .end = offset}));
    return reply_.fingerprint;
  }
  Status Unpin(const std::string& owner) override { return Do({.kind = RequestKind::kUnpin, .name = owner}); }

 private:
  // Notes the last mark of each partition, from which the next request goes on.
  Status TakeReported() {
    for (const auto& range : reply_.ranges) {
      if (range.marks.empty()) continue;
      const KnownMarks known = range.partition < marks_.size() ? marks_[range.partition] : KnownMarks();
      if (range.marks.size() > known.room || !Follows(range.marks.front(), known.last))
        return {Code::kDataLoss,
                "a feed's marks do not follow those before, or are more than were asked for"};
    }
    for (const auto& range : reply_.ranges) {
      if (range.marks.empty()) continue;
      KnownMarks& known = marks_[range.partition];
      known = {range.marks.back(), known.room - range.marks.size()};
    }
    return {};
  }

  Status Do(Request request) { return client_->Call(std::move(request), &reply_, &payload_); }

  Status ReadSome(uint32_t partition, uint64_t begin, uint64_t end, uint64_t* at, stream::RecordBatch* out) {
    LEAT_RETURN_IF_ERROR(Do({.kind = RequestKind::kRecords,
                             .partition = partition,
                             .begin = *at,
                             .end = end,
                             .wanted = out->wanted,
                             .labels_begin = out->labels_begin,
                             .labels_end = out->labels_end}));
    if (reply_.records == 0 || reply_.records > end - *at)
      return Status(Code::kDataLoss, "a feed has sent " + std::to_string(reply_.records) + " of " +
                                         std::to_string(end - *at) + " records");
    LEAT_RETURN_IF_ERROR(DecodeRecords(payload_, reply_.records, out));
    const uint64_t before = *at - begin;
    for (auto& lost : reply_.lost)
      out->lost.push_back({lost.begin + before, lost.end + before, std::move(lost.reason)});
    for (const auto& absent : reply_.absent)
      out->absent.push_back({absent.begin + before, absent.end + before});
    out->expired += reply_.expired;
    *at += reply_.records;
    return Status();
  }

  std::shared_ptr<Client> client_;
  std::vector<KnownMarks> marks_;  // by partition; empty until they are asked for
  Reply reply_;
  Bytes payload_;
};

// A failure of this host's disk: another feed would not help.
Status OfDisk(const Status& status) {
  return status.ok() ? status : Status(Code::kPermissionDenied, status.message());
}

Status FetchInto(const std::string& path, Client& client, const std::string& identity) {
  LEAT_ASSIGN_OR_RETURN(const stream::FileIdentity wanted, stream::ParseIdentity(identity));
  if (wanted.bytes > kMaxAssetBytes)
    return Status(Code::kResourceExhausted, "an asset of " + std::to_string(wanted.bytes) + " bytes");
  auto file = checkpoint::File::Open(path, O_WRONLY | O_CREAT | O_TRUNC);
  LEAT_RETURN_IF_ERROR(OfDisk(file.status()));
  Reply reply;
  Bytes payload;
  for (uint64_t at = 0; at < wanted.bytes;) {
    const uint64_t end = std::min(wanted.bytes, at + Server::kMaxAssetBytes);
    LEAT_RETURN_IF_ERROR(client.Call({.kind = RequestKind::kAsset, .begin = at, .end = end, .name = identity},
                                     &reply, &payload));
    if (payload.size() != end - at)
      return Status(Code::kDataLoss, "a feed has sent " + std::to_string(payload.size()) + " of " +
                                         std::to_string(end - at) + " bytes");
    LEAT_RETURN_IF_ERROR(OfDisk(file->Write(payload)));
    at = end;
  }
  LEAT_ASSIGN_OR_RETURN(const stream::FileIdentity got, stream::IdentifyFile(path));
  if (got != wanted) return Status(Code::kDataLoss, "what a feed has sent is not the file " + identity);
  return OfDisk(file->Sync());
}

}  // namespace

Status Client::Call(Request request, Reply* reply, Bytes* payload, std::optional<Duration> deadline,
                    ByteView sent) {
  const Time until = loop_.Now() + deadline.value_or(options_.deadline);
  request.content = options_.content;
  while (true) {
    Status status = Attempt(request, sent, until);
    // A feed with other contents is as good as none.
    if (status.ok() && reply_.status.code() == Code::kStale) status = reply_.status;
    if (aborted_) return Status(Code::kAborted, "reading from a feed was aborted");
    if (status.ok()) {
      if (!last_warning_.empty()) spdlog::info("feed {} answers", address_);
      last_warning_.clear();
      backoff_ = options_.first_backoff;
      options_.counts->bytes += payload_.size();
      *reply = std::move(reply_);
      payload->swap(payload_);
      return reply->status;
    }
    ++options_.counts->retries;
    if (!address_.empty()) status = status.With("feed " + address_);
    if (status.message() != last_warning_) spdlog::warn("{}; trying again", status.message());
    last_warning_ = status.message();
    connection_.reset();
    address_.clear();
    if (addresses_.empty()) BackOff(until);
    if (loop_.Now() >= until)
      return Status(Code::kUnavailable, "no feed has answered in time; the last: " + status.message());
  }
}

Status Client::Attempt(const Request& request, ByteView sent, Time until) {
  if (connection_ == nullptr || closed_) LEAT_RETURN_IF_ERROR(Connect(until));
  Request numbered = request;
  numbered.sequence = ++sequence_;
  std::vector<ByteView> parts;
  if (!sent.empty()) {
    numbered.checksum = Checksum(sent, sequence_);
    parts.push_back(sent);
  }
  answered_ = false;
  connection_->Send(static_cast<uint8_t>(FrameType::kRequest), fields::Encode(numbered), std::move(parts));
  const Time answer_by = std::min(until, loop_.Now() + options_.reply_timeout);
  LEAT_RETURN_IF_ERROR(Await(answer_by, [this] { return answered_ || closed_; }));
  if (!answered_) return *closed_;
  if (Checksum(payload_, sequence_) != reply_.checksum)
    return Status(Code::kDataLoss, "a reply has a wrong checksum");
  return Status();
}

Status Client::Connect(Time until) {
  connection_.reset();
  closed_.reset();
  if (transport_ == nullptr) transport_ = options_.make_transport(loop_);
  LEAT_RETURN_IF_ERROR(NextAddress());
  std::optional<Status> done;
  auto outcome = std::make_shared<std::optional<Result<std::unique_ptr<net::Connection>>>>();
  transport_->Connect(address_, this, std::min(options_.connect_timeout, until - loop_.Now()),
                      [outcome](Result<std::unique_ptr<net::Connection>> connected) {
                        outcome->emplace(std::move(connected));
                      });
  const Duration grace = std::chrono::seconds(1);  // the transport has the deadline
  LEAT_RETURN_IF_ERROR(Await(until + grace, [&] { return outcome->has_value(); }));
  if (!(*outcome)->ok()) return (*outcome)->status();
  connection_ = std::move(**outcome).value();
  return Status();
}

Status Client::NextAddress() {
  if (addresses_.empty()) {
    LEAT_ASSIGN_OR_RETURN(addresses_, options_.find_feeds());
    if (addresses_.empty()) return Status(Code::kUnavailable, "the job has no feed");
    // Clients spread over the feeds.
    std::random_device random;
    std::ranges::shuffle(addresses_, random);
  }
  address_ = std::move(addresses_.back());
  addresses_.pop_back();
  return Status();
}

void Client::BackOff(Time until) {
  const Time wait_until = std::min(until, loop_.Now() + backoff_);
  backoff_ = std::min(2 * backoff_, options_.max_backoff);
  (void)Await(wait_until, [] { return false; });
}

Status Client::Await(Time until, const std::function<bool()>& condition) {
  constexpr Duration kMaxWait = std::chrono::milliseconds(50);  // until an abort is seen
  while (!condition()) {
    const Time now = loop_.Now();
    if (aborted_) return Status(Code::kAborted, "aborted");
    if (now >= until) return Status(Code::kDeadlineExceeded, "no reply in time");
    loop_.RunOnce(std::min(until - now, kMaxWait));
  }
  return Status();
}

Result<std::vector<std::span<std::byte>>> Client::OnHeader(net::Connection&, uint8_t type, ByteView header,
                                                           uint64_t payload_bytes) {
  if (type != static_cast<uint8_t>(FrameType::kReply))
    return Status(Code::kDataLoss, "unexpected frame type " + std::to_string(type));
  if (payload_bytes > kMaxPayload)
    return Status(Code::kDataLoss, "a reply of " + std::to_string(payload_bytes) + " bytes");
  LEAT_ASSIGN_OR_RETURN(reply_, fields::Decode<Reply>(header, "reply of a feed"));
  if (answered_ || reply_.sequence != sequence_)
    return Status(Code::kDataLoss, "a reply to no request: " + std::to_string(reply_.sequence));
  payload_.resize(payload_bytes);
  return std::vector<std::span<std::byte>>{payload_};
}

std::unique_ptr<stream::Source> MakeRemoteSource(std::shared_ptr<Client> client) {
  return std::make_unique<RemoteSource>(std::move(client));
}

Result<std::string> Describe(Client& client) {
  Reply reply;
  Bytes payload;
  LEAT_RETURN_IF_ERROR(client.Call({.kind = RequestKind::kDescribe}, &reply, &payload));
  return std::string(AsText(payload));
}

Status FetchAsset(Client& client, const std::string& identity, const std::string& path) {
  const std::string partial = path + ".tmp";
  Status fetched = FetchInto(partial, client, identity);
  if (fetched.ok() && ::rename(partial.c_str(), path.c_str()) != 0)
    fetched = OfDisk(checkpoint::SystemError(partial, "rename", errno));
  if (!fetched.ok()) ::unlink(partial.c_str());
  return fetched;
}

}  // namespace leat::feed
