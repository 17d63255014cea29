// A feed: serves a stream and files to peers that do not have them. With TLS, only peers with the certificate
// of a worker or coordinator may read the stream, and only a coordinator may change it; all may read the
// files.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "net/loop.h"
#include "net/transport.h"
#include "run/feed/messages.h"
#include "stream/source.h"

namespace leat::feed {

// A file that is sent as it is.
struct Asset {
  std::string path;
  std::string identity;  // names it in requests
};

struct Contents {
  uint64_t id = 0;  // requests for other contents are refused; 0: not compared
  // Opens the stream, at the first request that needs it. Its failure is the reply; the next request tries
  // again.
  std::function<Result<std::unique_ptr<stream::Source>>()> open;
  std::vector<Asset> assets;
  std::string description;  // for a coordinator that does not have the contents
  // Takes scores, for the predictions of the partitions that are published here. Empty: there are none.
  std::function<Status(std::vector<protocol::RunScores>)> on_scores;
};

// Loop's thread only; a read blocks the loop, which should have no other work.
class Server {
 public:
  // A reply has about as many bytes of records, or one record.
  static constexpr uint64_t kReplyBytes = 4 << 20;
  static constexpr uint64_t kMaxAssetBytes = 4 << 20;   // per request
  static constexpr uint64_t kMaxScoreBytes = 64 << 20;  // per request

  explicit Server(Contents contents);
  ~Server();

  // For net::Transport::Listen.
  net::Receiver* Adopt(std::unique_ptr<net::Connection> connection);
  // Thread-safe.
  uint64_t requests() const { return requests_; }
  uint64_t bytes_sent() const { return bytes_sent_; }
  uint64_t connections() const { return connections_; }  // open ones

 private:
  class Session;

  Status Serve(const Request& request, ByteView sent, Reply* reply, Bytes* payload);
  Status TakeScores(const Request& request, ByteView sent) const;
  static Status FindRanges(const Request& request, stream::Source& source, Reply* reply);
  Status ReadRecords(const Request& request, Reply* reply, Bytes* payload);
  Status ReadAsset(const Request& request, Bytes* payload);
  Status ReadFile(const Request& request, Bytes* payload) const;

  Contents contents_;
  std::unique_ptr<stream::Source> source_;
  stream::RecordBatch records_;
  std::string last_warning_;
  uint64_t record_bytes_ = 1 << 16;  // average size of the last records
  std::atomic<uint64_t> requests_{0};
  std::atomic<uint64_t> bytes_sent_{0};
  std::atomic<uint64_t> connections_{0};
  std::unordered_map<Session*, std::unique_ptr<Session>> sessions_;
};

// A feed on a thread of its own.
class ServerThread {
 public:
  // Listens on `address`; port 0: any free port. The errors of net::Transport::Listen.
  static Result<std::unique_ptr<ServerThread>> Start(const std::string& address,
                                                     net::TransportOptions transport, Contents contents);
  // Closes all connections, once the request in progress has been answered.
  ~ServerThread() {
    loop_.Stop();
    if (thread_.joinable()) thread_.join();
  }

  const std::string& address() const { return listener_->address(); }  // with the chosen port
  const Server& server() const { return server_; }                     // its counts

 private:
  explicit ServerThread(Contents contents) : server_(std::move(contents)) {}

  net::Loop loop_;
  Server server_;
  std::unique_ptr<net::Transport> transport_;
  std::unique_ptr<net::Listener> listener_;
  std::thread thread_;
};

}  // namespace leat::feed
