#include "control/client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/channel_arguments.h>

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <set>
#include <thread>

#include "control/convert.h"
#include "control/rpc.h"
#include "net/address.h"
#include "net/handshake/handshake.h"
#include "net/loop.h"
#include "net/tls/tls_pump.h"

namespace leat::control {
namespace {

// Pause between attempts to connect; doubles up to the maximum.
constexpr Duration kFirstPause = std::chrono::milliseconds(20);
constexpr Duration kMaxPause = std::chrono::milliseconds(500);

// Replies follow Refusal in the order of their requests.
bool Answers(const protocol::ControlReply& reply, const protocol::ControlRequest& request) {
  static_assert(std::variant_size_v<protocol::ControlReply> ==
                std::variant_size_v<protocol::ControlRequest> + 1);
  static_assert(std::is_same_v<std::variant_alternative_t<1, protocol::ControlReply>, protocol::JoinReply>);
  static_assert(std::is_same_v<std::variant_alternative_t<6, protocol::ControlReply>, protocol::AdminReply>);
  return reply.index() == request.index() + 1;
}

// Another attempt to connect would fail in the same way.
bool Final(const Status& status) {
  return status.code() == Code::kPermissionDenied || status.code() == Code::kFailedPrecondition;
}

std::string InSeconds(Duration d) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g s", Seconds(d));
  return text;
}

// Runs the TLS of one connection.
class TlsThread {
 public:
  TlsThread() = default;
  ~TlsThread() {
    loop_.Stop();
    if (thread_.joinable()) thread_.join();
  }
  TlsThread(const TlsThread&) = delete;
  TlsThread& operator=(const TlsThread&) = delete;

  // Returns the inside.
  Result<net::Descriptor> Start(net::AuthenticatedSocket authenticated) {
    LEAT_ASSIGN_OR_RETURN(pump_, net::MakeTlsPump(loop_, std::move(authenticated), [] {}));
    net::Descriptor inside = pump_->TakeInside();
    thread_ = std::thread([this] { loop_.Run(); });
    return inside;
  }

 private:
  net::Loop loop_;
  std::unique_ptr<net::TlsPump> pump_;
  std::thread thread_;
};

// An authenticated socket, or the inside of a TLS connection, and gRPC on it.
struct AuthenticatedChannel {
  AuthenticatedChannel(net::Descriptor authenticated, std::unique_ptr<TlsThread> its_tls)
      : tls(std::move(its_tls)), socket(authenticated.get()) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
    arguments.SetMaxSendMessageSize(kMaxMessageBytes);
    channel = grpc::CreateCustomInsecureChannelFromFd("coordinator", authenticated.Release(), arguments);
  }
  // True while the other end has not closed the connection. gRPC checks that only during a call.
  bool open() const {
    pollfd ends{.fd = socket, .events = POLLRDHUP, .revents = 0};
    return poll(&ends, 1, 0) == 0;
  }

  std::unique_ptr<TlsThread> tls;  // null: no TLS
  int socket;                      // owned by the channel, which keeps it open
  std::shared_ptr<grpc::Channel> channel;
};

class Client final : public ControlClient {
 public:
  Client(const std::string& address, const std::string& token, std::shared_ptr<net::TlsIdentity> tls)
      : address_(address), token_(token), tls_(std::move(tls)), at_(net::ParseAddress(address)) {}

  Result<protocol::ControlReply> Call(const protocol::ControlRequest& request, Duration deadline) override {
    if (!at_.ok()) return at_.status();
    const std::string bytes = Serialize(request);
    if (bytes.size() > kMaxMessageBytes) {
      return Status(Code::kResourceExhausted, "a control request has " + std::to_string(bytes.size()) +
                                                  " bytes, at most " + std::to_string(kMaxMessageBytes));
    }
    grpc::ByteBuffer answer;
    LEAT_RETURN_IF_ERROR(Exchange(bytes, deadline, &answer));
    std::string reply_bytes;
    if (!FromBuffer(answer, &reply_bytes)) {
      return Status(Code::kDataLoss, "the reply of " + address_ + " is not a readable gRPC message");
    }
    auto reply = ParseReply(reply_bytes);
    if (!reply.ok()) return reply.status().With(address_);
    if (const auto* refusal = std::get_if<protocol::Refusal>(&*reply)) return refusal->status;
    if (!Answers(*reply, request)) {
      return Status(Code::kInvalidArgument, address_ + " answered request " +
                                                std::to_string(request.index()) + " with reply " +
                                                std::to_string(reply->index()));
    }
    return reply;
  }

  void Abort() override {
    std::lock_guard lock(mutex_);
    aborted_ = true;
    for (auto* context : under_way_) context->TryCancel();
    for (auto* loop : connecting_) loop->Stop();
  }

 private:
  Status Exchange(const std::string& bytes, Duration deadline, grpc::ByteBuffer* answer) {
    const Time until = clock_.Now() + deadline;
    LEAT_ASSIGN_OR_RETURN(const std::shared_ptr<AuthenticatedChannel> authenticated_channel,
                          Connected(until, deadline));
    grpc::ClientContext context;
    context.set_deadline(After(until - clock_.Now()));
    {
      std::lock_guard lock(mutex_);
      if (aborted_) return Aborted();
      under_way_.insert(&context);
    }
    grpc::CompletionQueue queue;
    const auto rpc = grpc::GenericStub(authenticated_channel->channel)
                         .PrepareUnaryCall(&context, kMethod, ToBuffer(bytes), &queue);
    grpc::Status status;
    rpc->StartCall();
    rpc->Finish(answer, &status, this);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    bool aborted = false;
    {
      std::lock_guard lock(mutex_);
      under_way_.erase(&context);
      aborted = aborted_;
      // Whatever the cause, the next call makes a new connection.
      if (!status.ok() && authenticated_channel_ == authenticated_channel) authenticated_channel_.reset();
    }
    queue.Shutdown();
    while (queue.Next(&tag, &ok)) {
    }
    if (status.ok()) return {};
    return aborted ? Aborted() : Explain(status, deadline);
  }

  // Returns the open channel, or makes a new one.
  Result<std::shared_ptr<AuthenticatedChannel>> Connected(Time until, Duration deadline) {
    {
      std::lock_guard lock(mutex_);
      if (authenticated_channel_ != nullptr && authenticated_channel_->open()) return authenticated_channel_;
      authenticated_channel_.reset();
    }
    net::Loop loop;
    {
      std::lock_guard lock(mutex_);
      if (aborted_) return Aborted();
      connecting_.insert(&loop);
    }
    auto socket = Connect(loop, until);
    std::lock_guard lock(mutex_);
    connecting_.erase(&loop);
    if (aborted_) return Aborted();
    if (socket.status().code() == Code::kPermissionDenied) {
      return Status(Code::kPermissionDenied, address_ + ": the token is not this job's");
    }
    if (Final(socket.status())) return socket.status();
    if (!socket.ok()) {
      const bool full = socket.status().code() == Code::kResourceExhausted;
      const bool broken = socket.status().code() == Code::kDataLoss;  // it does not keep to the protocol
      return Status(Code::kUnavailable, address_ + " could not be reached within " + InSeconds(deadline) +
                                            (full     ? ": it has too many connections"
                                             : broken ? ": " + socket.status().message()
                                                      : ""));
    }
    std::unique_ptr<TlsThread> tls;
    net::Descriptor plain;
    if (socket->tls != nullptr) {
      tls = std::make_unique<TlsThread>();
      LEAT_ASSIGN_OR_RETURN(plain, tls->Start(std::move(*socket)));
    } else {
      plain = std::move(socket->socket);
    }
    authenticated_channel_ = std::make_shared<AuthenticatedChannel>(std::move(plain), std::move(tls));
    return authenticated_channel_;
  }

  // Retries until `until`, or until the loop is stopped.
  Result<net::AuthenticatedSocket> Connect(net::Loop& loop, Time until) const {
    const auto shared = std::make_shared<net::TransportContext>(
        loop, net::TransportOptions{.token = token_, .port_kind = wire::PortKind::kControl, .tls = tls_});
    Result<net::AuthenticatedSocket> socket = Status(Code::kUnavailable, "not connected");
    std::shared_ptr<void> dial;
    Duration pause = kFirstPause;
    const std::function<void()> attempt = [&] {
      dial = net::ConnectAuthenticated(shared, at_->ToString(), until - clock_.Now(),
                                       [&](Result<net::AuthenticatedSocket> authenticated) {
                                         socket = std::move(authenticated);
                                         if (socket.ok() || Final(socket.status())) return loop.Stop();
                                         loop.After(pause, attempt);
                                         pause = std::min(2 * pause, kMaxPause);
                                       });
    };
    loop.After(until - clock_.Now(), [&] { loop.Stop(); });
    attempt();
    loop.Run();
    return socket;
  }

  Status Aborted() const { return Status(Code::kAborted, "calls to " + address_ + " were aborted"); }

  Status Explain(const grpc::Status& status, Duration deadline) const {
    const Code code = FromGrpc(status.error_code());
    if (code != Code::kDeadlineExceeded) return Status(code, address_ + ": " + status.error_message());
    return Status(Code::kDeadlineExceeded, address_ + " did not answer within " + InSeconds(deadline));
  }

  const std::string address_;
  const std::string token_;
  const std::shared_ptr<net::TlsIdentity> tls_;
  const Result<net::HostPort> at_;
  const MonotonicClock clock_;
  std::mutex mutex_;
  bool aborted_ = false;
  std::shared_ptr<AuthenticatedChannel> authenticated_channel_;  // null: the next call connects
  std::set<grpc::ClientContext*> under_way_;
  std::set<net::Loop*> connecting_;
};

}  // namespace

std::unique_ptr<ControlClient> ControlClient::Make(const std::string& address, const std::string& token,
                                                   std::shared_ptr<net::TlsIdentity> tls) {
  QuietGrpc();
  return std::make_unique<Client>(address, token, std::move(tls));
}

}  // namespace leat::control
