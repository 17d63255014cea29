// The tcp transport. handshake.cc authenticates sockets, stream.cc exchanges messages.
#include "net/transports.h"

#include <map>
#include <utility>

#include "net/address.h"
#include "net/handshake/handshake.h"
#include "net/tcp/stream.h"
#include "net/transport.h"

namespace leat::net {
namespace {

// The read buffer of streams: it holds a small message with prefix and header, and fits into the cache.
constexpr size_t kStagingBytes = 64 << 10;

class TcpTransport final : public Transport {
 public:
  TcpTransport(Loop& loop, TransportOptions options)
      : shared_(std::make_shared<TransportContext>(loop, std::move(options))) {
    shared_->staging.resize(kStagingBytes);
  }

  Result<std::unique_ptr<Listener>> Listen(const std::string& address, Accept accept) override {
    return ListenAuthenticated(
        shared_, address, [shared = shared_, accept = std::move(accept)](AuthenticatedSocket authenticated) {
          const std::string host(HostOf(authenticated.peer));
          shared->Accepted(host);
          const auto stream =
              MakeStream(shared, std::move(authenticated), [shared, host] { shared->Ended(host); });
          Receiver* receiver = accept(stream->MakeConnection());
          if (receiver == nullptr) return stream->End({Code::kAborted, "turned away"});
          stream->Start(receiver);
        });
  }

  void Connect(const std::string& address, Receiver* receiver, Duration deadline,
               std::function<void(Result<std::unique_ptr<Connection>>)> done) override {
    const uint64_t number = ++last_dial_;
    dials_[number] = ConnectAuthenticated(
        shared_, address, deadline,
        [this, number, receiver, done = std::move(done)](Result<AuthenticatedSocket> authenticated) {
          dials_.erase(number);
          if (!authenticated.ok()) return done(authenticated.status());
          const auto stream = MakeStream(shared_, std::move(*authenticated), nullptr);
          auto connection = stream->MakeConnection();
          stream->Start(receiver);
          stream->WatchForSilence();
          done(std::move(connection));
        });
  }

 private:
  static std::shared_ptr<Stream> MakeStream(const std::shared_ptr<TransportContext>& shared,
                                            AuthenticatedSocket authenticated, std::function<void()> on_end) {
    return std::make_shared<Stream>(shared, std::move(authenticated), std::move(on_end));
  }

  std::shared_ptr<TransportContext> shared_;
  uint64_t last_dial_ = 0;
  std::map<uint64_t, std::shared_ptr<void>> dials_;  // attempts in progress, by number
};

}  // namespace

std::unique_ptr<Transport> MakeTcpTransport(Loop& loop, TransportOptions options) {
  return std::make_unique<TcpTransport>(loop, std::move(options));
}

}  // namespace leat::net
