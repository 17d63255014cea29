// A service that publishes content, bytes that can be read at any offset, and takes uploads. Reads never
// block on a peer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/bytes.h"
#include "base/status.h"
#include "net/loop.h"
#include "net/transport.h"
#include "storage/checkpoint/file.h"
#include "storage/checkpoint/shard.h"

namespace leat::transfer {

// The receiving side of uploads: files that arrive in chunks, in order, and continue where they ended after a
// broken connection. Everything that a peer names is checked. Thread-compatible. Calls block on the disk.
//
// While a file arrives it is "<name>.tmp". A commit checks it, syncs it and renames it to "<name>", durably.
// All errors but kFailedPrecondition are final for an upload.
class UploadFiles {
 public:
  // Accepts files for `folder` into an existing directory, of at most `max_bytes` together.
  void Accept(uint64_t folder, std::string directory, uint64_t max_bytes);
  // Forgets the folder and its unfinished uploads; later requests for it return kNotFound. Files stay.
  void Stop(uint64_t folder);

  // Returns the bytes that have arrived of this file. Begins again if its size or checksum is another one
  // than before; kInvalidArgument if such a file is committed already, or for an invalid name or size.
  Result<uint64_t> Open(uint64_t folder, const std::string& name, uint64_t bytes, uint64_t checksum);
  // Appends; returns the bytes that have arrived. Bytes that arrived before are not written again.
  // kFailedPrecondition for bytes behind a gap, or of a file that is not open.
  Result<uint64_t> Write(uint64_t folder, const std::string& name, uint64_t offset, ByteView bytes);
  // kFailedPrecondition if bytes are missing. kDataLoss if the checksum differs: the upload then begins
  // again. Can be repeated. Returns the file's size.
  Result<uint64_t> Commit(uint64_t folder, const std::string& name);

 private:
  struct Upload {
    explicit Upload(checkpoint::File its_file) : file(std::move(its_file)) {}
    checkpoint::File file;
    uint64_t bytes = 0;
    uint64_t checksum = 0;
    uint64_t arrived = 0;
    uint64_t started = 0;  // writing to the disk has been started for the bytes before this
    checkpoint::RunningChecksum running;
    bool committed = false;
  };
  struct Folder {
    std::string directory;
    uint64_t max_bytes = 0;
    std::map<std::string, Upload> uploads;
  };

  Result<Folder*> Find(uint64_t folder);
  Result<Upload*> Find(uint64_t folder, const std::string& name);
  static Status Finish(const std::string& directory, const std::string& name, Upload* upload);

  std::map<uint64_t, Folder> folders_;
};

// Content that is published. Thread-safe.
using Content = checkpoint::ShardSource;

// Makes a transport for the loop. Its port must be wire::TransferPort().
using MakeTransport = std::function<std::unique_ptr<net::Transport>(net::Loop&)>;

// Serves published files to peers and accepts uploads from them, on a thread of its own.
//
// A peer names files by the names under which they were published: the service never opens a path that a peer
// names. All messages are checked; a peer that violates the protocol loses its connection. Per connection,
// the service holds at most Options::most_replies chunks that the peer has not read, and one that arrives.
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
