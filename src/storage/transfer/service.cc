#include "storage/transfer/service.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "base/path/paths.h"
#include "base/threads/thread.h"
#include "net/frames/frame.h"
#include "net/frames/messages.h"

namespace leat::transfer {

using wire::TransferOp;
using wire::TransferReply;
using wire::TransferRequest;

namespace {

constexpr size_t kMaxUploads = 4096;  // per folder
// The disk writes while more bytes arrive, so that a commit has little to wait for. Bytes that are this far
// behind the newest are waited for, so that the memory of the system does not fill with them.
constexpr uint64_t kFlushBytes = 4 << 20;
constexpr uint64_t kMaxDirtyBytes = 32 << 20;

std::string Temporary(const std::string& name) {
  return name + ".tmp";
}

}  // namespace

void UploadFiles::Accept(uint64_t folder, std::string directory, uint64_t max_bytes) {
  folders_[folder] = {std::move(directory), max_bytes, {}};
}

void UploadFiles::Stop(uint64_t folder) {
  folders_.erase(folder);
}

Result<UploadFiles::Folder*> UploadFiles::Find(uint64_t folder) {
  const auto found = folders_.find(folder);
  if (found == folders_.end())
    return Status(Code::kNotFound, "folder " + std::to_string(folder) + " accepts no uploads");
  return &found->second;
}

Result<UploadFiles::Upload*> UploadFiles::Find(uint64_t folder, const std::string& name) {
  LEAT_ASSIGN_OR_RETURN(Folder * in, Find(folder));
  const auto found = in->uploads.find(name);
  if (found == in->uploads.end())
    return Status(Code::kFailedPrecondition, "an upload that has not been opened");
  return &found->second;
}

Result<uint64_t> UploadFiles::Open(uint64_t folder, const std::string& name, uint64_t bytes,
                                   uint64_t checksum) {
  LEAT_ASSIGN_OR_RETURN(Folder * in, Find(folder));
  if (!IsPlainName(Temporary(name))) return Status(Code::kInvalidArgument, "an upload with an invalid name");
  uint64_t others = 0;
  for (const auto& [other, upload] : in->uploads) {
    if (other != name) others += upload.bytes;
  }
  if (bytes > in->max_bytes || others > in->max_bytes - bytes) {
    return Status(Code::kInvalidArgument, "an upload of " + std::to_string(bytes) +
                                              " bytes to a folder with " + std::to_string(others) +
                                              " bytes, at most " + std::to_string(in->max_bytes) +
                                              " are accepted");
  }
  if (const auto found = in->uploads.find(name); found != in->uploads.end()) {
    const Upload& known = found->second;
    if (known.bytes == bytes && known.checksum == checksum) return known.arrived;
    if (known.committed) return Status(Code::kInvalidArgument, "an upload of a file that is complete");
    in->uploads.erase(found);
  }
  if (in->uploads.size() >= kMaxUploads) return Status(Code::kInvalidArgument, "too many uploads");
  LEAT_ASSIGN_OR_RETURN(checkpoint::File file,
                        checkpoint::File::Open(in->directory + "/" + Temporary(name),
                                               O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW));
  Upload& upload = in->uploads.emplace(name, Upload(std::move(file))).first->second;
  upload.bytes = bytes;
  upload.checksum = checksum;
  return uint64_t{0};
}

Result<uint64_t> UploadFiles::Write(uint64_t folder, const std::string& name, uint64_t offset,
                                    ByteView bytes) {
  LEAT_ASSIGN_OR_RETURN(Upload * upload, Find(folder, name));
  if (offset > upload->bytes || bytes.size() > upload->bytes - offset) {
    return Status(Code::kInvalidArgument, "bytes " + std::to_string(offset) + " to " +
                                              std::to_string(offset + bytes.size()) + " of a file of " +
                                              std::to_string(upload->bytes));
  }
  if (offset > upload->arrived) {
    return Status(Code::kFailedPrecondition, "bytes from " + std::to_string(offset) + " on, " +
                                                 std::to_string(upload->arrived) + " have arrived");
  }
  const uint64_t known = upload->arrived - offset;
  if (known >= bytes.size()) return upload->arrived;
  bytes = bytes.subspan(known);
  LEAT_RETURN_IF_ERROR(upload->file.WriteAt(upload->arrived, bytes));
  upload->running.Add(bytes);
  upload->arrived += bytes.size();
  if (upload->arrived - upload->started >= kFlushBytes) {
    // A hint: the sync of the commit reports failures.
    (void)sync_file_range(upload->file.fd(), static_cast<off_t>(upload->started),
                          static_cast<off_t>(upload->arrived - upload->started), SYNC_FILE_RANGE_WRITE);
    upload->started = upload->arrived;
    if (upload->arrived > kMaxDirtyBytes) {
      (void)sync_file_range(upload->file.fd(), 0, static_cast<off_t>(upload->arrived - kMaxDirtyBytes),
                            SYNC_FILE_RANGE_WAIT_BEFORE);
    }
  }
  return upload->arrived;
}

Status UploadFiles::Finish(const std::string& directory, const std::string& name, Upload* upload) {
  if (upload->running.value() != upload->checksum) {
    return Status(Code::kDataLoss, "the " + std::to_string(upload->bytes) +
                                       " bytes that have arrived do not match the checksum of the upload");
  }
  LEAT_RETURN_IF_ERROR(upload->file.Sync());
  return checkpoint::RenameSynced(directory, Temporary(name), name);
}

Result<uint64_t> UploadFiles::Commit(uint64_t folder, const std::string& name) {
  LEAT_ASSIGN_OR_RETURN(Upload * upload, Find(folder, name));
  if (upload->arrived != upload->bytes) {
    return Status(Code::kFailedPrecondition, "the commit of an upload of which " +
                                                 std::to_string(upload->arrived) + " of " +
                                                 std::to_string(upload->bytes) + " bytes have arrived");
  }
  if (upload->committed) return upload->bytes;
  Folder& in = folders_.at(folder);
  if (Status done = Finish(in.directory, name, upload); !done.ok()) {
    // After a failed sync the contents of the disk are unknown.
    unlink((in.directory + "/" + Temporary(name)).c_str());
    in.uploads.erase(name);
    return done;
  }
  upload->committed = true;
  return upload->bytes;
}

// Connection of a peer. Requests are answered in order, each before the next is read.
class Service::Session final : public net::Receiver {
 public:
  Session(Service& service, std::unique_ptr<net::Connection> connection)
      : service_(service), connection_(std::move(connection)) {}

  net::Places OnHeader(net::Connection&, uint8_t type, ByteView header, uint64_t payload_bytes) override {
    if (type != wire::FrameType::kTransferRequest)
      return Status(Code::kDataLoss, "unexpected frame type " + std::to_string(type) + " at a file service");
    LEAT_ASSIGN_OR_RETURN(request_, fields::Decode<TransferRequest>(header, "request to a file service"));
    if (payload_bytes != wire::PayloadBytes(request_)) {
      return Status(Code::kDataLoss, "payload has " + std::to_string(payload_bytes) +
                                         " bytes; its request names " +
                                         std::to_string(wire::PayloadBytes(request_)));
    }
    if (*unread_ >= service_.most_replies_)
      return Status(Code::kResourceExhausted, "more requests than replies that the peer reads");
    if (payload_bytes == 0) return net::Spans();
    arriving_.resize(payload_bytes);
    return net::Spans{arriving_};
  }

  void OnMessage(net::Connection& connection) override {
    TransferReply reply;
    const auto payload = std::make_shared<Bytes>();
    Result<uint64_t> position = request_.op == TransferOp::kRead ? Read(payload.get()) : Upload();
    if (position.ok()) {
      reply.position = *position;
      if (!payload->empty()) reply.checksum = Checksum(*payload);
    } else {
      reply.status = position.status();
      payload->clear();
    }
    reply.sequence = request_.sequence;
    std::vector<ByteView> pieces;
    if (!payload->empty()) pieces.push_back(*payload);
    ++*unread_;
    connection.Send(wire::FrameType::kTransferReply, fields::Encode(reply), std::move(pieces),
                    [payload, unread = unread_](const Status&) { --*unread; });
  }

  void OnClosed(net::Connection&, const Status&) override { service_.sessions_.erase(this); }

 private:
  Result<uint64_t> Read(Bytes* payload) {
    const auto content = Published();
    if (content == nullptr) return Status(Code::kNotFound, "is not published");
    const uint64_t size = content->size();
    if (request_.offset < size) {
      payload->resize(std::min(request_.bytes, size - request_.offset));
      LEAT_RETURN_IF_ERROR(content->ReadAt(request_.offset, *payload));
    }
    return size;
  }

  std::shared_ptr<const Content> Published() {
    const std::lock_guard lock(service_.mutex_);
    const auto found = service_.contents_.find(request_.name);
    return found == service_.contents_.end() ? nullptr : found->second;
  }

  Result<uint64_t> Upload() {
    const TransferRequest& r = request_;
    if (r.op == TransferOp::kWrite && Checksum(arriving_) != r.checksum)
      return Status(Code::kDataLoss, "a chunk does not match its checksum");
    const std::lock_guard lock(service_.uploads_mutex_);
    UploadFiles& uploads = service_.uploads_;
    if (r.op == TransferOp::kOpenUpload) return uploads.Open(r.folder, r.name, r.bytes, r.checksum);
    if (r.op == TransferOp::kWrite) return uploads.Write(r.folder, r.name, r.offset, arriving_);
    return uploads.Commit(r.folder, r.name);
  }

  Service& service_;
  std::unique_ptr<net::Connection> connection_;
  TransferRequest request_;
  Bytes arriving_;
  // Replies that are not sent; a transport may keep its callbacks for longer than the connection.
  std::shared_ptr<uint32_t> unread_ = std::make_shared<uint32_t>(0);
};

Result<std::unique_ptr<Service>> Service::Start(const Options& options) {
  std::unique_ptr<Service> service(new Service(options.most_replies));
  service->transport_ = options.make_transport(service->loop_);
  const auto accept = [owner = service.get()](std::unique_ptr<net::Connection> connection) {
    auto session = std::make_unique<Session>(*owner, std::move(connection));
    Session* const receiver = session.get();
    owner->sessions_.emplace(receiver, std::move(session));
    return receiver;
  };
  LEAT_ASSIGN_OR_RETURN(service->listener_, service->transport_->Listen(options.listen, accept));
  service->thread_ = StartThread([loop = &service->loop_] { loop->Run(); });
  return service;
}

Service::Service(uint32_t most_replies) : most_replies_(most_replies) {}

Service::~Service() {
  loop_.Stop();
  if (thread_.joinable()) thread_.join();
}

void Service::Publish(const std::string& name, std::shared_ptr<const Content> content) {
  const std::lock_guard lock(mutex_);
  contents_[name] = std::move(content);
}

void Service::Withdraw(const std::string& name) {
  const std::lock_guard lock(mutex_);
  contents_.erase(name);
}

void Service::AcceptUploads(uint64_t folder, const std::string& directory, uint64_t max_bytes) {
  const std::lock_guard lock(uploads_mutex_);
  uploads_.Accept(folder, directory, max_bytes);
}

void Service::StopUploads(uint64_t folder) {
  const std::lock_guard lock(uploads_mutex_);
  uploads_.Stop(folder);
}

}  // namespace leat::transfer
