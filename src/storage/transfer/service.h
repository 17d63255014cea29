// A service that publishes content: bytes that can be read at any offset. Reads never block on a peer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/status.h"
#include "net/loop.h"
#include "net/transport.h"
#include "storage/checkpoint/shard.h"
#include "storage/transfer/upload_files.h"

namespace leat::transfer {

// Serves published files to peers and accepts uploads from them, on a thread of its own.
//
// A peer names files by the names under which they were published: the service never opens a path that a peer
// names. All messages are checked; a peer that violates the protocol loses its connection. Per connection,
// the service holds at most Options::most_replies chunks that the peer has not read, and one that arrives.

// Content that is published. Thread-safe.
using Content = checkpoint::ShardSource;

// Makes a transport for the loop. Its port must be wire::TransferPort().
using MakeTransport = std::function<std::unique_ptr<net::Transport>(net::Loop&)>;

class Service {
 public:
  struct Options {
    std::string listen = "127.0.0.1:0";
    MakeTransport make_transport;
    uint32_t most_replies = 16;
  };

  // Errors are those of net::Transport::Listen.
  static Result<std::unique_ptr<Service>> Start(const Options& options);
  // Closes all connections.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  const std::string& address() const { return listener_->address(); }  // with the chosen port

  // The functions below are thread-safe. A request that arrives after one of them returns sees its effect.
  //
  // Replaces the content of this name.
  void Publish(const std::string& name, std::shared_ptr<const Content> content);
  void Withdraw(const std::string& name);
  // UploadFiles::Accept and Stop. May wait for a write to the disk.
  void AcceptUploads(uint64_t folder, const std::string& directory, uint64_t max_bytes);
  void StopUploads(uint64_t folder);

 private:
  class Session;
  explicit Service(uint32_t most_replies);

  const uint32_t most_replies_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Content>> contents_;  // guarded by mutex_
  std::mutex uploads_mutex_;
  UploadFiles uploads_;  // guarded by uploads_mutex_
  net::Loop loop_;
  std::unique_ptr<net::Transport> transport_;
  std::unique_ptr<net::Listener> listener_;
  std::map<Session*, std::unique_ptr<Session>> sessions_;  // used by the loop's thread
  std::thread thread_;
};

}  // namespace leat::transfer
