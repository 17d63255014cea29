// A single thread with one completion queue serves all calls, because control messages are small and
// infrequent.
#include "net/rpc/server.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_posix.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/threads/thread.h"
#include "net/address.h"
#include "net/rpc/codec.h"
#include "net/rpc/rpc.h"
#include "net/security/refusal_log.h"

namespace leat::control {
namespace {

// Time for pending replies, and for notifying connected peers, when the server stops. Peers without a call in
// progress do not react, so a longer wait gains nothing.
constexpr auto kStopGrace = std::chrono::milliseconds(300);
constexpr auto kFarewell = std::chrono::milliseconds(100);
// A role makes one call at a time.
constexpr ServerLimits kLimits{.name = "control",
                               .idle_ms = 120'000,
                               .calls_per_connection = 8,
                               .message_bytes = kMaxMessageBytes,
                               .memory = 64 << 20};

class Exchange;

// The log of requests that certificates do not allow. Thread-safe.
class DeniedRequests {
 public:
  void Add(const std::string& listener, const std::string& peer, const protocol::ControlRequest& request,
           const Status& why) {
    std::lock_guard lock(mutex_);
    log_.Add(clock_.Now(), listener, peer, Describe(request) + ": " + why.message());
  }

 private:
  const MonotonicClock clock_;
  std::mutex mutex_;
  net::RefusalLog log_{"requests"};
};

// State shared by the calls and the server, which may be destroyed first. `mutex` guards everything here and
// in the calls.
struct Core {
  std::mutex mutex;
  bool open = true;  // new operations may start
  ControlServer::Handler handler;
  net::CertificateRoles roles;  // roles of the peers that make the calls
  std::string address;          // address of the listener
  std::shared_ptr<DeniedRequests> denied;
  // Addresses by the name that gRPC gives to a connection. A name is used again after its connection's end.
  std::map<std::string, std::string> peers;
  grpc::AsyncGenericService service;
  std::unique_ptr<grpc::ServerCompletionQueue> queue;
  // calls with a pending operation or handler
  std::unordered_map<Exchange*, std::shared_ptr<Exchange>> calls;
  std::condition_variable fewer;  // notified when calls end while not open
};

// A call, from the moment it can be accepted until it is answered. It has at most one pending operation,
// whose tag is the call itself; `core->calls` keeps it alive.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  explicit Exchange(std::shared_ptr<Core> core) : core_(std::move(core)), rpc_(std::make_unique<Rpc>()) {}

  // Waits for the next call. The mutex is held.
  static void Accept(const std::shared_ptr<Core>& core) {
    auto call = std::make_shared<Exchange>(core);
    core->calls.emplace(call.get(), call);
    core->service.RequestCall(&call->rpc_->context, &call->rpc_->stream, core->queue.get(), core->queue.get(),
                              call.get());
  }

  // The pending operation has completed. The mutex is not held.
  void OnEvent(bool ok) {
    std::unique_lock lock(core_->mutex);
    const auto self = shared_from_this();
    if (!core_->open || state_ == State::kFinish || (state_ == State::kAccept && !ok)) {
      core_->calls.erase(this);
      if (!core_->open) core_->fewer.notify_one();
      return;
    }
    if (state_ == State::kAccept) {
      Accept(core_);
      Admit();
      return;
    }
    // kRead
    if (!ok) return Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "a call without a message"));
    Bytes bytes;
    const bool readable = FromBuffer(rpc_->message, &bytes);
    rpc_->message.Clear();
    if (!readable) {
      return Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the message cannot be decompressed"));
    }
    state_ = State::kHandle;
    lock.unlock();
    auto request = ParseRequest(bytes);
    if (!request.ok()) return Answer(protocol::Refusal{request.status()});
    if (Status allowed = CheckPermission(core_->roles, *request); !allowed.ok()) {
      core_->denied->Add(core_->address, Peer(), *request, allowed);
      return Answer(protocol::Refusal{std::move(allowed)});
    }
    core_->handler(std::move(request).value(), [self](protocol::ControlReply reply) { self->Answer(reply); });
  }

  // The mutex is not held.
  void Answer(const protocol::ControlReply& reply) {
    Bytes bytes = Serialize(reply);
    if (bytes.size() > kMaxMessageBytes) {
      bytes = Serialize(protocol::Refusal{
          Status(Code::kResourceExhausted, "the reply has " + std::to_string(bytes.size()) +
                                               " bytes, at most " + std::to_string(kMaxMessageBytes))});
    }
    std::lock_guard lock(core_->mutex);
    if (!core_->open || state_ != State::kHandle) return;
    state_ = State::kFinish;
    rpc_->stream.WriteAndFinish(ToBuffer(bytes), grpc::WriteOptions(), grpc::Status::OK, this);
  }

  // The address of the peer. The mutex is not held.
  std::string Peer() const {
    std::lock_guard lock(core_->mutex);
    if (rpc_ == nullptr) return "a peer that has gone";
    const auto at = core_->peers.find(rpc_->context.peer());
    return at == core_->peers.end() ? rpc_->context.peer() : at->second;
  }

  // The mutex is held.
  bool answering() const { return state_ == State::kFinish; }

  // Drops a call that waits for its handler; its peer sees it cancelled. The mutex is held.
  bool Cancel() {
    if (state_ != State::kHandle) return false;
    rpc_->context.TryCancel();
    rpc_.reset();
    return true;
  }

 private:
  enum class State { kAccept, kRead, kHandle, kFinish };

  struct Rpc {
    grpc::GenericServerContext context;
    grpc::GenericServerAsyncReaderWriter stream{&context};
    grpc::ByteBuffer message;
  };

  // Metadata has arrived, the message has not been read yet.
  void Admit() {
    if (rpc_->context.method() != kMethod) {
      return Finish(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "no such method"));
    }
    state_ = State::kRead;
    rpc_->stream.Read(&rpc_->message, this);
  }

  void Finish(const grpc::Status& status) {
    state_ = State::kFinish;
    rpc_->stream.Finish(status, this);
  }

  const std::shared_ptr<Core> core_;
  State state_ = State::kAccept;
  std::unique_ptr<Rpc> rpc_;
};

// gRPC for the peers whose certificates name the same roles. A call therefore has the roles of its
// connection.
class RoleServer {
 public:
  RoleServer(ControlServer::Handler handler, net::CertificateRoles roles, std::string address,
             std::shared_ptr<DeniedRequests> denied)
      : core_(std::make_shared<Core>()) {
    core_->handler = std::move(handler);
    core_->roles = roles;
    core_->address = std::move(address);
    core_->denied = std::move(denied);
  }
  RoleServer(const RoleServer&) = delete;
  RoleServer& operator=(const RoleServer&) = delete;

  Status Start() {
    grpc::ServerBuilder builder;
    Configure(kLimits, &builder);
    builder.SetMaxSendMessageSize(kMaxMessageBytes);
    builder.RegisterAsyncGenericService(&core_->service);
    core_->queue = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return Status(Code::kInternal, "gRPC cannot serve");
    {
      std::lock_guard lock(core_->mutex);
      Exchange::Accept(core_);
    }
    thread_ = StartThread([this] { Serve(); });
    return {};
  }
  // `peer`: its address.
  void Adopt(net::Descriptor socket, const std::string& peer) {
    {
      std::lock_guard lock(core_->mutex);
      core_->peers["fd:" + std::to_string(socket.get())] = peer;
    }
    grpc::AddInsecureChannelFromFd(server_.get(), socket.Release());
  }

  // Sends replies already given and cancels waiting calls.
  ~RoleServer() {
    {
      std::unique_lock lock(core_->mutex);
      core_->open = false;
      std::erase_if(core_->calls, [](const auto& call) { return call.second->Cancel(); });
      core_->fewer.wait_for(lock, kStopGrace, [this] {
        return std::ranges::none_of(core_->calls, [](const auto& call) { return call.second->answering(); });
      });
    }
    if (server_ != nullptr) server_->Shutdown(After(kFarewell));
    if (core_->queue != nullptr) core_->queue->Shutdown();
    if (thread_.joinable()) {
      thread_.join();
    } else if (core_->queue != nullptr) {
      Serve();
    }
  }

 private:
  void Serve() {
    void* tag = nullptr;
    bool ok = false;
    while (core_->queue->Next(&tag, &ok)) static_cast<Exchange*>(tag)->OnEvent(ok);
  }

  std::shared_ptr<Core> core_;
  std::unique_ptr<grpc::Server> server_;
  std::thread thread_;
};

class Server final : public ControlServer {
 public:
  Server(ControlServer::Handler handler, const std::string& token, const ControlServer::Limits& limits,
         std::shared_ptr<net::TlsIdentity> tls, const wire::Port& port)
      : handler_(std::move(handler)),
        sockets_({.token = token,
                  .port = port,
                  .tls = std::move(tls),
                  .max_connections = limits.connections,
                  .max_connections_of_host = limits.connections_of_host}) {}

  Status Listen(const std::string& address) {
    LEAT_ASSIGN_OR_RETURN(const net::HostPort at, net::ParseAddress(address));
    LEAT_ASSIGN_OR_RETURN(auto listener,
                          net::ListenAuthenticated(sockets_.shared(), at.ToString(),
                                                   [this](net::AuthenticatedSocket authenticated) {
                                                     Adopt(std::move(authenticated));
                                                   }));
    // Keeps the given host name, which others may resolve better than this host can.
    address_ = net::HostPort{at.host, net::ParseAddress(listener->address())->port}.ToString();
    if (sockets_.shared()->options.tls == nullptr) {
      LEAT_RETURN_IF_ERROR(ServerFor(net::CertificateRoles::All()).status());
    }
    sockets_.Start(std::move(listener));
    return {};
  }

  ~Server() override {
    if (!sockets_.StopListening()) return;
    std::vector<std::thread> ends;
    ends.reserve(servers_.size());
    for (auto& [roles, server] : servers_) {
      try {
        ends.push_back(StartThread([&server] { server.reset(); }));
      } catch (const std::exception&) {  // ending one after another takes longer
        server.reset();
      }
    }
    for (auto& end : ends) end.join();
  }

  const std::string& address() const override { return address_; }

 private:
  // The functions below run on the thread of the sockets.

  // The server for peers with these roles.
  Result<RoleServer*> ServerFor(net::CertificateRoles roles) {
    auto& server = servers_[roles];
    if (server == nullptr) {
      auto made = std::make_unique<RoleServer>(handler_, roles, address_, denied_);
      LEAT_RETURN_IF_ERROR(made->Start());
      server = std::move(made);
    }
    return server.get();
  }

  void Adopt(net::AuthenticatedSocket authenticated) {
    const bool tls = authenticated.tls != nullptr;
    const auto server = ServerFor(tls ? authenticated.tls->peer_roles() : net::CertificateRoles::All());
    if (!server.ok()) return;
    const std::string peer = authenticated.peer;
    if (auto socket = sockets_.Adopt(std::move(authenticated)); socket.ok())
      (*server)->Adopt(std::move(*socket), peer);
  }

  const ControlServer::Handler handler_;
  const std::shared_ptr<DeniedRequests> denied_ = std::make_shared<DeniedRequests>();
  ServerSockets sockets_;
  std::map<net::CertificateRoles, std::unique_ptr<RoleServer>> servers_;
  std::string address_;
};

}  // namespace

Result<std::unique_ptr<ControlServer>> ControlServer::Start(const std::string& address,
                                                            const std::string& token, Handler handler,
                                                            const Limits& limits,
                                                            std::shared_ptr<net::TlsIdentity> tls,
                                                            const wire::Port& port) {
  QuietGrpc();
  auto server = std::make_unique<Server>(std::move(handler), token, limits, std::move(tls), port);
  LEAT_RETURN_IF_ERROR(server->Listen(address));
  return std::unique_ptr<ControlServer>(std::move(server));
}

}  // namespace leat::control
