// Calls to feeds, with deadlines and retries (a feed that is lost is replaced by the next), and a stream that
// is read by such calls.
//
// Not thread-safe, except Abort. A call blocks the calling thread, which drives the sockets.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "net/loop.h"
#include "net/transport.h"
#include "run/feed/messages.h"
#include "stream/source.h"

namespace leat::feed {

// Counts over all clients of a role; read from any thread.
struct Counts {
  std::atomic<uint64_t> bytes{0};    // bytes of received payloads
  std::atomic<uint64_t> retries{0};  // failed attempts
};

struct ClientOptions {
  // Called once, in the thread of the first call.
  std::function<std::unique_ptr<net::Transport>(net::Loop&)> make_transport;
  // The addresses of the feeds, at present. May block for a few seconds.
  std::function<Result<std::vector<std::string>>()> find_feeds;
  uint64_t content = 0;  // as Request::content
  Duration connect_timeout = std::chrono::seconds(3);
  Duration reply_timeout = std::chrono::seconds(15);  // a feed may open large files first
  // For a whole call; it may take several attempts.
  Duration deadline = std::chrono::seconds(60);
  Duration first_backoff = std::chrono::milliseconds(50);
  Duration max_backoff = std::chrono::seconds(2);
  std::shared_ptr<Counts> counts = std::make_shared<Counts>();
};

class Client final : private net::Receiver {
 public:
  static constexpr uint64_t kMaxPayload = uint64_t{1} << 30;

  explicit Client(ClientOptions options) : options_(std::move(options)), backoff_(options_.first_backoff) {}
  ~Client() override = default;

  // Sends the request until a feed has answered it, and checks the payload against its checksum. Returns the
  // reply's status, or kUnavailable with the last reason after the deadline. Requests may arrive twice.
  // `deadline`: none, that of the options. `sent`: the request's own payload.
  Status Call(Request request, Reply* reply, Bytes* payload, std::optional<Duration> deadline = {},
              ByteView sent = {});
  const Counts& counts() const { return *options_.counts; }
  // Makes current and later calls return kAborted. Thread-safe.
  void Abort() { aborted_ = true; }

 private:
  Status Attempt(const Request& request, ByteView sent, Time until);
  Status Connect(Time until);
  // Runs the loop until the condition holds.
  Status Await(Time until, const std::function<bool()>& condition);
  Status NextAddress();
  void BackOff(Time until);

  Result<std::vector<std::span<std::byte>>> OnHeader(net::Connection& connection, uint8_t type,
                                                     ByteView header, uint64_t payload_bytes) override;
  void OnMessage(net::Connection& /*connection*/) override { answered_ = true; }
  void OnClosed(net::Connection& /*connection*/, const Status& why) override {
    closed_ = why.ok() ? Status(Code::kUnavailable, "closed") : why;
  }

  const ClientOptions options_;
  std::atomic<bool> aborted_{false};
  net::Loop loop_;
  std::unique_ptr<net::Transport> transport_;
  std::unique_ptr<net::Connection> connection_;
  std::string address_;                 // address of the connection, or the next one to try
  std::vector<std::string> addresses_;  // addresses to try in this round
  Duration backoff_;
  uint64_t sequence_ = 0;
  bool answered_ = false;
  std::optional<Status> closed_;
  Reply reply_;
  Bytes payload_;
  std::string last_warning_;
};

// The errors are those of the feed's source, and kUnavailable if no feed answers. Ranges is tried for
// `kRangesDeadline` only: it is called often.
inline constexpr Duration kRangesDeadline = std::chrono::seconds(5);
std::unique_ptr<stream::Source> MakeRemoteSource(std::shared_ptr<Client> client);

// Contents::description.
Result<std::string> Describe(Client& client);

// Writes the file with this identity, "BYTES:HASH", to `path`: first beside it, and with its name once it is
// whole and its hash is right. Files of more than `kMaxAssetBytes` are refused.
inline constexpr uint64_t kMaxAssetBytes = uint64_t{1} << 32;
Status FetchAsset(Client& client, const std::string& identity, const std::string& path);

}  // namespace leat::feed
