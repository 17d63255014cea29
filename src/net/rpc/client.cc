#include "net/rpc/client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/channel_arguments.h>

#include <poll.h>

#include <algorithm>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "base/text.h"
#include "base/threads/thread.h"
#include "net/address.h"
#include "net/handshake/handshake.h"
#include "net/loop.h"
#include "net/rpc/codec.h"
#include "net/rpc/rpc.h"
#include "net/tls/tls_pump.h"

namespace leat::control {
namespace {

// Pause between attempts to connect; doubles up to the maximum. Up to half of it at random is left out, so
// that the members of a job do not come back all at once.
constexpr Duration kFirstPause = std::chrono::milliseconds(20);
constexpr Duration kMaxPause = std::chrono::milliseconds(250);
// Time limit of one attempt if there are other addresses: a stopped coordinator accepts connections.
constexpr Duration kAttempt = std::chrono::seconds(2);

constexpr size_t kMaxAddresses = 32;

// Replies follow Refusal in the order of their requests; the last one answers heartbeats, too.
bool Answers(const protocol::ControlReply& reply, const protocol::ControlRequest& request) {
  static_assert(std::variant_size_v<protocol::ControlReply> ==
                std::variant_size_v<protocol::ControlRequest> + 2);
  static_assert(std::is_same_v<std::variant_alternative_t<1, protocol::ControlReply>, protocol::JoinReply>);
  static_assert(std::is_same_v<std::variant_alternative_t<6, protocol::ControlReply>, protocol::AdminReply>);
  static_assert(
      std::is_same_v<std::variant_alternative_t<11, protocol::ControlReply>, protocol::FollowReply>);
  static_assert(
      std::is_same_v<std::variant_alternative_t<13, protocol::ControlReply>, protocol::TimelineReply>);
  static_assert(std::is_same_v<std::variant_alternative_t<15, protocol::ControlReply>, protocol::PoolReply>);
  if (std::holds_alternative<protocol::Candidacy>(reply)) return protocol::ElectorOf(request) != nullptr;
  return reply.index() == request.index() + 1;
}

// Another attempt to connect would fail in the same way.
bool Final(const Status& status) {
  return status.code() == Code::kPermissionDenied || status.code() == Code::kFailedPrecondition;
}

// "a:1,b:2". The first one that is no address is the error.
Result<std::vector<std::string>> Split(const std::string& addresses) {
  std::vector<std::string> all;
  for (size_t begin = 0; begin <= addresses.size();) {
    const size_t end = std::min(addresses.find(',', begin), addresses.size());
    all.push_back(addresses.substr(begin, end - begin));
    LEAT_RETURN_IF_ERROR(net::ParseAddress(all.back()).status());
    begin = end + 1;
  }
  return all;
}

std::string InSeconds(Duration d) {
  return Formatted("%.3g s", Seconds(d));
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
    LEAT_ASSIGN_OR_RETURN(net::TlsPump made, net::MakeTlsPump(loop_, std::move(authenticated), [] {}));
    pump_ = std::move(made.pump);
    thread_ = StartThread([this] { loop_.Run(); });
    return std::move(made.inside);
  }

 private:
  net::Loop loop_;
  std::shared_ptr<void> pump_;
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
  Client(const std::string& addresses, const std::string& token, std::shared_ptr<net::TlsIdentity> tls,
         const wire::Port& port)
      : text_(addresses),
        token_(token),
        tls_(std::move(tls)),
        port_(port),
        addresses_(Split(addresses)),
        random_(std::random_device{}()) {}

  Result<protocol::ControlReply> Call(const protocol::ControlRequest& request, Duration deadline) override {
    {
      std::lock_guard lock(mutex_);
      if (!addresses_.ok()) return addresses_.status();
    }
    const Bytes bytes = Serialize(request);
    if (bytes.size() > kMaxMessageBytes) {
      return Status(Code::kResourceExhausted, "a control request has " + std::to_string(bytes.size()) +
                                                  " bytes, at most " + std::to_string(kMaxMessageBytes));
    }
    grpc::ByteBuffer answer;
    LEAT_RETURN_IF_ERROR(Exchange(bytes, deadline, &answer));
    Bytes reply_bytes;
    if (!FromBuffer(answer, &reply_bytes)) {
      return Status(Code::kDataLoss, "the reply of " + address() + " is not a readable gRPC message");
    }
    auto reply = ParseReply(reply_bytes);
    if (!reply.ok()) return reply.status().With(address());
    if (const auto* refusal = std::get_if<protocol::Refusal>(&*reply)) {
      if (refusal->status.code() == Code::kUnavailable) GoOn();
      return refusal->status;
    }
    if (!Answers(*reply, request)) {
      return Status(Code::kInvalidArgument, address() + " answered request " +
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

  void AbortUnsent(bool abort) override {
    std::lock_guard lock(mutex_);
    abort_unsent_ = abort;
    if (!abort) return;
    for (auto* loop : connecting_) loop->Stop();
  }

  void AddAddresses(const std::vector<std::string>& addresses) override {
    std::lock_guard lock(mutex_);
    for (const std::string& address : addresses) {
      const bool room = addresses_.ok() && addresses_->size() < kMaxAddresses;
      if (!room || std::ranges::count(*addresses_, address) > 0 || !net::ParseAddress(address).ok()) continue;
      const uint32_t reached = turn_ % static_cast<uint32_t>(addresses_->size());
      addresses_->push_back(address);
      turn_ = reached;
    }
  }

  std::vector<std::string> addresses() const override {
    std::lock_guard lock(mutex_);
    return addresses_.ok() ? *addresses_ : std::vector<std::string>();
  }

  std::string address() const override {
    std::lock_guard lock(mutex_);
    return addresses_.ok() ? (*addresses_)[turn_ % addresses_->size()] : std::string();
  }

 private:
  Status Exchange(ByteView bytes, Duration deadline, grpc::ByteBuffer* answer) {
    const Time until = clock_.Now() + deadline;
    LEAT_ASSIGN_OR_RETURN(const std::shared_ptr<AuthenticatedChannel> authenticated_channel,
                          Connected(until, deadline));
    const std::string at = address();
    grpc::ClientContext context;
    context.set_deadline(After(until - clock_.Now()));
    {
      std::lock_guard lock(mutex_);
      if (aborted_ || abort_unsent_) return Aborted();
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
      if (!status.ok() && authenticated_channel_ == authenticated_channel) {
        authenticated_channel_.reset();
        ++turn_;
      }
    }
    queue.Shutdown();
    while (queue.Next(&tag, &ok)) {
    }
    if (status.ok()) return {};
    return aborted ? Aborted() : Explain(at, status, deadline);
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
      if (aborted_ || abort_unsent_) return Aborted();
      connecting_.insert(&loop);
    }
    auto socket = Connect(loop, until);
    const std::string at = address();
    std::lock_guard lock(mutex_);
    connecting_.erase(&loop);
    if (aborted_ || abort_unsent_) return Aborted();
    if (socket.status().code() == Code::kPermissionDenied) {
      return Status(Code::kPermissionDenied, at + ": the token is not this job's");
    }
    if (Final(socket.status())) return socket.status();
    if (!socket.ok()) {
      const bool full = socket.status().code() == Code::kResourceExhausted;
      const bool broken = socket.status().code() == Code::kDataLoss;  // it does not keep to the protocol
      return Status(Code::kUnavailable, text_ + " could not be reached within " + InSeconds(deadline) +
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
  Result<net::AuthenticatedSocket> Connect(net::Loop& loop, Time until) {
    const auto shared = std::make_shared<net::TransportContext>(
        loop, net::TransportOptions{.token = token_, .port = port_, .tls = tls_});
    Result<net::AuthenticatedSocket> socket = Status(Code::kUnavailable, "not connected");
    std::shared_ptr<void> dial;
    Duration pause = kFirstPause;
    uint32_t last = 0;
    const std::function<void()> attempt = [&] {
      const Attempt next = NextAttempt();
      last = next.number;
      const Duration left = until - clock_.Now();
      dial = net::ConnectAuthenticated(
          shared, next.address, next.others ? std::min(left, kAttempt) : left,
          [&, next](Result<net::AuthenticatedSocket> authenticated) {
            socket = std::move(authenticated);
            if (socket.ok() || (!next.others && Final(socket.status()))) return loop.Stop();
            Failed(next.number);
            loop.After(FromSeconds(Seconds(pause) * next.pause), attempt);
            pause = std::min(2 * pause, kMaxPause);
          },
          next.round);
    };
    loop.After(until - clock_.Now(), [&] { loop.Stop(); });
    attempt();
    loop.Run();
    // The last one may not have been answered at all. The next call begins with another address.
    if (!socket.ok()) Failed(last);
    return socket;
  }

  struct Attempt {
    uint32_t number = 0;
    std::string address;
    bool others = false;  // there are other addresses
    uint32_t round = 0;   // all addresses have been tried so often
    double pause = 1;     // the part of the pause that is made after it
  };
  Attempt NextAttempt() {
    std::lock_guard lock(mutex_);
    const auto count = static_cast<uint32_t>(addresses_->size());
    return {turn_, net::ParseAddress((*addresses_)[turn_ % count])->ToString(), count > 1, turn_ / count,
            1 - 0.5 * random_.Uniform()};
  }
  // Another call may have failed at the same address.
  void Failed(uint32_t turn) {
    std::lock_guard lock(mutex_);
    if (turn_ == turn) ++turn_;
  }

  // A standby has answered: the next call is made at another address.
  void GoOn() {
    std::lock_guard lock(mutex_);
    if (!addresses_.ok() || addresses_->size() < 2) return;
    authenticated_channel_.reset();
    ++turn_;
  }

  Status Aborted() const { return Status(Code::kAborted, "calls to the coordinator were aborted"); }

  static Status Explain(const std::string& at, const grpc::Status& status, Duration deadline) {
    const Code code = FromGrpc(status.error_code());
    if (code != Code::kDeadlineExceeded) return Status(code, at + ": " + status.error_message());
    return Status(Code::kDeadlineExceeded, at + " did not answer within " + InSeconds(deadline));
  }

  const std::string text_;  // all addresses
  const std::string token_;
  const std::shared_ptr<net::TlsIdentity> tls_;
  const wire::Port port_;
  const MonotonicClock clock_;
  mutable std::mutex mutex_;
  Result<std::vector<std::string>> addresses_;  // valid, or the error in Make's addresses
  Rng random_;                                  // randomness of the pauses
  uint32_t turn_ = 0;  // the next attempt is made at number turn_ % size of the addresses
  bool aborted_ = false;
  bool abort_unsent_ = false;
  std::shared_ptr<AuthenticatedChannel> authenticated_channel_;  // null: the next call connects
  std::set<grpc::ClientContext*> under_way_;
  std::set<net::Loop*> connecting_;
};

}  // namespace

std::unique_ptr<ControlClient> ControlClient::Make(const std::string& addresses, const std::string& token,
                                                   std::shared_ptr<net::TlsIdentity> tls,
                                                   const wire::Port& port) {
  QuietGrpc();
  return std::make_unique<Client>(addresses, token, std::move(tls), port);
}

}  // namespace leat::control
