// Serves published files to peers and accepts uploads from them, on a thread of its own.
//
// A peer names files by the names under which they were published: the service never opens a path that a peer
// names. All messages are checked; a peer that violates the protocol loses its connection. Per connection,
// the service holds at most Options::most_replies chunks that the peer has not read, and one that arrives.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "net/transport.h"
#include "transfer/content.h"

namespace leat::transfer {

// Makes a transport on the loop's thread. Its port must be wire::TransferPort().
using MakeTransport = std::function<std::unique_ptr<net::Transport>(net::Loop&)>;

class Service {
 public:
  struct Options {
    std::string listen = "127.0.0.1:0";
    MakeTransport make_transport;
    uint32_t most_replies = 16;
  };

  // Errors are those of net::Transport::Listen.
  static Result<std::unique_ptr<Service>> Start(Options options);
  // Closes all connections.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  const std::string& address() const;  // with the chosen port

  // The functions below are thread-safe. A request that arrives after one of them returns sees its effect.
  //
  // Replaces what has this name.
  void Publish(const std::string& name, std::shared_ptr<const Content> content);
  void Withdraw(const std::string& name);
  // UploadFiles::Accept and Stop. May wait for a write to the disk.
  void AcceptUploads(uint64_t folder, const std::string& directory, uint64_t max_bytes);
  void StopUploads(uint64_t folder);

 private:
  struct Impl;
  explicit Service(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace leat::transfer
