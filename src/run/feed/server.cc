#include "run/feed/server.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/files/descriptor.h"
#include "base/log.h"
#include "base/threads/thread.h"
#include "net/transports.h"

namespace leat::feed {

namespace {

// Workers read. Changes of the stream, and the choice of its marks, are the coordinator's.
Status CheckPermission(net::CertificateRoles peer, const Request& request) {
  net::CertificateRoles may = {net::CertificateRole::kCoordinator};
  switch (request.kind) {
    case RequestKind::kAsset:
    case RequestKind::kDescribe:
      return {};
    case RequestKind::kRanges:
      if (request.marks.empty()) may.Add(net::CertificateRole::kWorker);
      break;
    case RequestKind::kRecords:
    case RequestKind::kFingerprint:
    case RequestKind::kScores:
      may.Add(net::CertificateRole::kWorker);
      break;
    case RequestKind::kSync:
    case RequestKind::kAdvance:
    case RequestKind::kPin:
    case RequestKind::kUnpin:
    case RequestKind::kCommit:
      break;
  }
  if (peer.Overlaps(may)) return {};
  return {Code::kPermissionDenied, "the certificate is for the role " + peer.ToString() +
                                       ", this request needs one for " + may.ToString()};
}

}  // namespace

// A peer's connection, with one request at a time.
class Server::Session final : public net::Receiver {
 public:
  Session(Server& server, std::unique_ptr<net::Connection> connection)
      : server_(server), connection_(std::move(connection)) {}

  Result<std::vector<std::span<std::byte>>> OnHeader(net::Connection&, uint8_t type, ByteView header,
                                                     uint64_t payload_bytes) override {
    if (type != static_cast<uint8_t>(FrameType::kRequest))
      return Status(Code::kDataLoss, "a feed takes requests only");
    if (*sending_) return Status(Code::kResourceExhausted, "a second request before the reply to the first");
    LEAT_ASSIGN_OR_RETURN(request_, fields::Decode<Request>(header, "request to a feed"));
    const uint64_t limit = request_.kind == RequestKind::kScores ? kMaxScoreBytes : 0;
    if (payload_bytes > limit)
      return Status(Code::kDataLoss, "a request with a payload of " + std::to_string(payload_bytes) +
                                         " bytes, at most " + std::to_string(limit));
    sent_.resize(payload_bytes);
    if (sent_.empty()) return std::vector<std::span<std::byte>>();
    return std::vector<std::span<std::byte>>{sent_};
  }

  void OnMessage(net::Connection&) override {
    auto payload = std::make_shared<Bytes>();
    ++server_.requests_;
    Reply reply;
    reply.status = CheckPermission(connection_->peer_roles(), request_);
    if (reply.status.ok()) reply.status = server_.Serve(request_, sent_, &reply, payload.get());
    reply.sequence = request_.sequence;
    reply.checksum = Checksum(*payload, request_.sequence);
    server_.bytes_sent_ += payload->size();
    *sending_ = true;
    std::vector<ByteView> parts;
    if (!payload->empty()) parts.emplace_back(*payload);
    connection_->Send(static_cast<uint8_t>(FrameType::kReply), fields::Encode(reply), std::move(parts),
                      [payload, sending = sending_](const Status&) { *sending = false; });
  }

  void OnClosed(net::Connection&, const Status&) override {
    --server_.connections_;
    server_.sessions_.erase(this);
  }

 private:
  Server& server_;
  std::unique_ptr<net::Connection> connection_;
  Request request_;
  Bytes sent_;  // its payload
  std::shared_ptr<bool> sending_ = std::make_shared<bool>(false);
};

Server::Server(Contents contents) : contents_(std::move(contents)) {}

Server::~Server() = default;

net::Receiver* Server::Adopt(std::unique_ptr<net::Connection> connection) {
  auto session = std::make_unique<Session>(*this, std::move(connection));
  Session* const receiver = session.get();
  sessions_[receiver] = std::move(session);
  ++connections_;
  return receiver;
}

Status Server::Serve(const Request& request, ByteView sent, Reply* reply, Bytes* payload) {
  if (request.content != 0 && contents_.id != 0 && request.content != contents_.id)
    return Status(Code::kStale, "this feed serves another job's stream");
  if (request.kind == RequestKind::kAsset) return ReadAsset(request, payload);
  if (request.kind == RequestKind::kScores) return TakeScores(request, sent);
  if (request.kind == RequestKind::kDescribe) {
    const ByteView text = AsBytes(contents_.description);
    payload->assign(text.begin(), text.end());
    return {};
  }
  if (source_ == nullptr) {
    LEAT_ASSIGN_OR_RETURN(source_, contents_.open());
  }
  switch (request.kind) {
    case RequestKind::kRanges:
      return FindRanges(request, *source_, reply);
    case RequestKind::kRecords:
      return ReadRecords(request, reply, payload);
    case RequestKind::kSync:
      return source_->Sync(request.partition, request.end);
    case RequestKind::kAdvance:
      return source_->Advance(request.partition, request.end);
    case RequestKind::kPin:
      return source_->Pin(request.name, request.partition, request.begin);
    case RequestKind::kUnpin:
      return source_->Unpin(request.name);
    case RequestKind::kCommit:
      return source_->CommitOffsets(request.name, request.offsets);
    case RequestKind::kFingerprint: {
      LEAT_ASSIGN_OR_RETURN(reply->fingerprint, source_->Fingerprint(request.partition, request.end));
      return {};
    }
    case RequestKind::kAsset:
    case RequestKind::kDescribe:
    case RequestKind::kScores:
      break;
  }
  return {};
}

// The sender says which marks it has: it may have lost the last reply, and may have asked another feed
// before.
Status Server::FindRanges(const Request& request, stream::Source& source, Reply* reply) {
  for (uint32_t id = 0; id < request.marks.size(); ++id) {
    const KnownMarks& known = request.marks[id];
    source.WantMarks(id, known.last, known.room);
  }
  LEAT_ASSIGN_OR_RETURN(reply->ranges, source.Ranges());
  // Another sender may want those of more partitions.
  for (auto& range : reply->ranges) {
    if (range.partition < request.marks.size()) continue;
    if (!request.marks.empty()) range.sealed = range.sealed && range.begin == range.end;
    range.marks.clear();
  }
  return {};
}

// As many records as are expected to fill a reply.
Status Server::ReadRecords(const Request& request, Reply* reply, Bytes* payload) {
  constexpr uint64_t kMaxRecords = 1 << 16;
  if (request.begin >= request.end)
    return Status(Code::kInvalidArgument,
                  "no records from " + std::to_string(request.begin) + " to " + std::to_string(request.end));
  const uint64_t fit = std::clamp<uint64_t>(kReplyBytes / record_bytes_, 1, kMaxRecords);
  uint64_t count = std::min(request.end - request.begin, fit);
  records_.wanted = request.wanted;
  records_.labels_begin = request.labels_begin;
  records_.labels_end = request.labels_end;
  while (true) {
    LEAT_RETURN_IF_ERROR(source_->Read(request.partition, request.begin, request.begin + count, &records_));
    *payload = EncodeRecords(records_);
    if (count == 1 || payload->size() <= 4 * kReplyBytes) break;
    count /= 2;  // they are larger than those before, or their labels are
  }
  record_bytes_ = std::max<uint64_t>(1, payload->size() / count);
  reply->records = static_cast<uint32_t>(count);
  reply->lost = records_.lost;
  reply->absent = records_.absent;
  reply->expired = records_.expired;
  return Status();
}

Status Server::TakeScores(const Request& request, ByteView sent) const {
  if (!contents_.on_scores) return {Code::kNotFound, "this feed publishes no predictions"};
  if (Checksum(sent, request.sequence) != request.checksum)
    return {Code::kUnavailable, "scores with a wrong checksum"};
  LEAT_ASSIGN_OR_RETURN(Scores scores, fields::Decode<Scores>(sent, "scores"));
  return contents_.on_scores(std::move(scores.runs));
}

Status Server::ReadAsset(const Request& request, Bytes* payload) {
  const Status read = ReadFile(request, payload);
  // Peers try again and again.
  if (!read.ok() && read.message() != last_warning_) spdlog::warn("{}", read.message());
  last_warning_ = read.message();
  return read;
}

Status Server::ReadFile(const Request& request, Bytes* payload) const {
  const auto asset = std::ranges::find(contents_.assets, request.name, &Asset::identity);
  if (asset == contents_.assets.end())
    return Status(Code::kNotFound, "this feed has no file with the identity " + request.name);
  if (request.begin > request.end || request.end - request.begin > kMaxAssetBytes)
    return Status(Code::kInvalidArgument, asset->path + ": too many bytes at once");
  const Descriptor fd(::open(asset->path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return Status(Code::kNotFound, asset->path + ": " + std::strerror(errno));
  payload->resize(request.end - request.begin);
  size_t done = 0;
  while (done < payload->size()) {
    const ssize_t got = ::pread(fd.get(), payload->data() + done, payload->size() - done,
                                static_cast<off_t>(request.begin + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  if (done == payload->size()) return Status();
  payload->clear();
  return Status(Code::kDataLoss, asset->path + ": cannot be read up to byte " + std::to_string(request.end));
}

Result<std::unique_ptr<ServerThread>> ServerThread::Start(const std::string& address,
                                                          net::TransportOptions transport,
                                                          Contents contents) {
  std::unique_ptr<ServerThread> feed(new ServerThread(std::move(contents)));
  transport.port = FeedPort();
  feed->transport_ = net::MakeTcpTransport(feed->loop_, std::move(transport));
  LEAT_ASSIGN_OR_RETURN(feed->listener_,
                        feed->transport_->Listen(address, [server = &feed->server_](auto connection) {
                          return server->Adopt(std::move(connection));
                        }));
  feed->thread_ = StartThread([loop = &feed->loop_] { loop->Run(); });
  return feed;
}

}  // namespace leat::feed
