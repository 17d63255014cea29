#include "transfer/service.h"

#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "threads/thread.h"
#include "transfer/upload_files.h"
#include "wire/frame.h"
#include "wire/transfer.h"

namespace leat::transfer {
namespace {

using wire::TransferOp;
using wire::TransferReply;
using wire::TransferRequest;

// What the service has, for its own thread and those of its owner.
class Files {
 public:
  void Publish(const std::string& name, std::shared_ptr<const Content> content) {
    std::lock_guard lock(mutex_);
    contents_[name] = std::move(content);
  }
  void Withdraw(const std::string& name) {
    std::lock_guard lock(mutex_);
    contents_.erase(name);
  }
  std::shared_ptr<const Content> Find(const std::string& name) {
    std::lock_guard lock(mutex_);
    const auto found = contents_.find(name);
    return found == contents_.end() ? nullptr : found->second;
  }
  template <class Use>
  auto WithUploads(const Use& use) {
    std::lock_guard lock(uploads_mutex_);
    return use(uploads_);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Content>> contents_;  // guarded by mutex_
  std::mutex uploads_mutex_;
  UploadFiles uploads_;  // guarded by uploads_mutex_
};

// One peer. Requests are answered in order, each before the next is read.
class Session final : public net::Receiver {
 public:
  Session(Files& files, uint32_t most_replies, std::unique_ptr<net::Connection> connection,
          std::function<void(Session*)> ended)
      : files_(files),
        most_replies_(most_replies),
        connection_(std::move(connection)),
        ended_(std::move(ended)) {}

  Result<std::vector<std::span<std::byte>>> OnHeader(net::Connection&, uint8_t type, ByteView header,
                                                     uint64_t payload_bytes) override {
    if (type != static_cast<uint8_t>(wire::FrameType::kTransferRequest))
      return Status(Code::kDataLoss, "unexpected frame type " + std::to_string(type) + " at a file service");
    LEAT_ASSIGN_OR_RETURN(request_, fields::Decode<TransferRequest>(header, "request to a file service"));
    if (payload_bytes != wire::PayloadBytes(request_)) {
      return Status(Code::kDataLoss, "payload has " + std::to_string(payload_bytes) +
                                         " bytes; its request names " +
                                         std::to_string(wire::PayloadBytes(request_)));
    }
    if (*unread_ >= most_replies_)
      return Status(Code::kResourceExhausted, "more requests than replies that the peer reads");
    if (payload_bytes == 0) return std::vector<std::span<std::byte>>();
    arriving_.resize(payload_bytes);
    return std::vector<std::span<std::byte>>{arriving_};
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
    connection.Send(static_cast<uint8_t>(wire::FrameType::kTransferReply), fields::Encode(reply),
                    std::move(pieces), [payload, unread = unread_](const Status&) { --*unread; });
  }

  void OnClosed(net::Connection&, const Status&) override { ended_(this); }

 private:
  Result<uint64_t> Read(Bytes* payload) {
    const auto content = files_.Find(request_.name);
    if (content == nullptr) return Status(Code::kNotFound, "is not published");
    const uint64_t size = content->size();
    if (request_.offset < size) {
      payload->resize(std::min(request_.bytes, size - request_.offset));
      LEAT_RETURN_IF_ERROR(content->ReadAt(request_.offset, *payload));
    }
    return size;
  }

  Result<uint64_t> Upload() {
    const TransferRequest& r = request_;
    if (r.op == TransferOp::kWrite && Checksum(arriving_) != r.checksum)
      return Status(Code::kDataLoss, "a chunk does not match its checksum");
    return files_.WithUploads([&](UploadFiles& uploads) {
      if (r.op == TransferOp::kOpenUpload) return uploads.Open(r.folder, r.name, r.bytes, r.checksum);
      if (r.op == TransferOp::kWrite) return uploads.Write(r.folder, r.name, r.offset, arriving_);
      return uploads.Commit(r.folder, r.name);
    });
  }

  Files& files_;
  const uint32_t most_replies_;
  std::unique_ptr<net::Connection> connection_;
  std::function<void(Session*)> ended_;
  TransferRequest request_;
  Bytes arriving_;
  // Replies that are not sent; a transport may keep its callbacks for longer than the connection.
  std::shared_ptr<uint32_t> unread_ = std::make_shared<uint32_t>(0);
};

}  // namespace

struct Service::Impl {
  explicit Impl(Options its_options) : options(std::move(its_options)) {}

  void Run(std::promise<Result<std::string>> started) {
    const auto transport = options.make_transport(loop);
    std::map<Session*, std::unique_ptr<Session>> sessions;
    auto listener = transport->Listen(options.listen, [&](std::unique_ptr<net::Connection> connection) {
      auto session = std::make_unique<Session>(files, options.most_replies, std::move(connection),
                                               [&](Session* ended) { sessions.erase(ended); });
      Session* const receiver = session.get();
      sessions.emplace(receiver, std::move(session));
      return receiver;
    });
    if (!listener.ok()) return started.set_value(listener.status());
    started.set_value((*listener)->address());
    loop.Run();
    listener->reset();
    sessions.clear();
  }

  const Options options;
  Files files;
  std::string address;
  net::Loop loop;
  std::thread thread;
};

Result<std::unique_ptr<Service>> Service::Start(Options options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  std::promise<Result<std::string>> started;
  auto address = started.get_future();
  impl->thread = StartThread(
      [impl = impl.get(), started = std::move(started)]() mutable { impl->Run(std::move(started)); });
  Result<std::string> listening = address.get();
  if (listening.ok()) impl->address = *listening;
  std::unique_ptr<Service> service(new Service(std::move(impl)));
  if (!listening.ok()) return listening.status();
  return service;
}

Service::Service(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Service::~Service() {
  impl_->loop.Stop();
  impl_->thread.join();
}

const std::string& Service::address() const {
  return impl_->address;
}

void Service::Publish(const std::string& name, std::shared_ptr<const Content> content) {
  impl_->files.Publish(name, std::move(content));
}

void Service::Withdraw(const std::string& name) {
  impl_->files.Withdraw(name);
}

void Service::AcceptUploads(uint64_t folder, const std::string& directory, uint64_t max_bytes) {
  impl_->files.WithUploads([&](UploadFiles& uploads) { uploads.Accept(folder, directory, max_bytes); });
}

void Service::StopUploads(uint64_t folder) {
  impl_->files.WithUploads([&](UploadFiles& uploads) { uploads.Stop(folder); });
}

}  // namespace leat::transfer
