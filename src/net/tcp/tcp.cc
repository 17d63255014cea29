// The tcp transport. Who is let in, and how one gets in, is door.cc's; what is said then is stream.cc's.
#include <map>
#include <utility>

#include "net/door.h"
#include "net/tcp/stream.h"
#include "net/transport.h"

namespace leat::net {
namespace {

// What a stream reads ahead: a small message fits, prefix and header included, and so does the processor's
// cache.
constexpr size_t kStagingBytes = 64 << 10;

class TcpTransport final : public Transport {
 public:
  TcpTransport(Loop& loop, TransportOptions options)
      : shared_(std::make_shared<Shared>(loop, std::move(options))) {
    shared_->staging.resize(kStagingBytes);
  }

  Result<std::unique_ptr<Listener>> Listen(const std::string& address, Accept accept) override {
    return OpenDoor(shared_, address, [shared = shared_, accept = std::move(accept)](Admitted admitted) {
      ++shared->accepted;
      const auto stream = MakeStream(shared, std::move(admitted), [shared] { --shared->accepted; });
      Receiver* receiver = accept(stream->MakeConnection());
      if (receiver == nullptr) return stream->End({Code::kAborted, "turned away"});
      stream->Start(receiver);
    });
  }

  void Connect(const std::string& address, Receiver* receiver, Duration deadline,
               std::function<void(Result<std::unique_ptr<Connection>>)> done) override {
    const uint64_t number = ++last_dial_;
    dials_[number] = Dial(shared_, address, deadline,
                          [this, number, receiver, done = std::move(done)](Result<Admitted> admitted) {
                            dials_.erase(number);
                            if (!admitted.ok()) return done(admitted.status());
                            const auto stream = MakeStream(shared_, std::move(*admitted), nullptr);
                            auto connection = stream->MakeConnection();
                            stream->Start(receiver);
                            done(std::move(connection));
                          });
  }

 private:
  static std::shared_ptr<Stream> MakeStream(const std::shared_ptr<Shared>& shared, Admitted admitted,
                                            std::function<void()> on_end) {
    return std::make_shared<Stream>(shared, admitted.socket.Release(), std::move(admitted.peer),
                                    std::move(on_end));
  }

  std::shared_ptr<Shared> shared_;
  uint64_t last_dial_ = 0;
  std::map<uint64_t, std::shared_ptr<void>> dials_;  // under way, by number
};

}  // namespace

std::unique_ptr<Transport> MakeTcpTransport(Loop& loop, TransportOptions options) {
  return std::make_unique<TcpTransport>(loop, std::move(options));
}

}  // namespace leat::net
