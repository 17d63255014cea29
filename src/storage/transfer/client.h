// Reads files from a service and uploads files to it. Calls block in the calling thread, which drives the
// connection; a connection stays open between calls. A broken connection is made again, and the transfer
// continues where it was. Not thread-safe, except Abort.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "net/loop.h"
#include "net/transport.h"
#include "storage/transfer/service.h"
#include "storage/transfer/transfer_machine.h"

namespace leat::transfer {

// Errors of all calls: those of the service (kNotFound for a name that is not published), kDataLoss for a
// range that the file does not have, kPermissionDenied for another token, kDeadlineExceeded after
// TransferLimits::patience or deadline, kAborted after Abort. They begin with the service's address.
class Client final : private net::Receiver {
 public:
  Client(std::string address, const MakeTransport& make_transport, TransferLimits limits = {});
  ~Client() override;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // The size of a published file.
  Result<uint64_t> Size(const std::string& name);
  // Fills `out` with the bytes from `offset` on. Chunks arrive in `out` directly; their checksums are
  // verified. `out` is undefined after an error.
  Status Read(const std::string& name, uint64_t offset, std::span<std::byte> out);

  struct Upload {
    uint64_t folder = 0;
    std::string name;  // a plain file name
    uint64_t bytes = 0;
    uint64_t checksum = 0;  // checksum of the whole file
    // Reads a part of the file. Called again for the same part after a broken connection.
    std::function<Status(uint64_t offset, std::span<std::byte> out)> read;
  };
  // Ok: the file is on the service's disk, under its name. Holds TransferLimits::window chunks in memory.
  Status Send(const Upload& upload);

  // Thread-safe. The current call, and all later ones, return kAborted.
  void Abort();
  const std::string& address() const { return address_; }
  // Connections that have ended or could not be made, in all calls.
  uint64_t connections_lost() const { return connections_lost_; }

 private:
  Result<std::vector<std::span<std::byte>>> OnHeader(net::Connection& connection, uint8_t type,
                                                     ByteView header, uint64_t payload_bytes) override;
  void OnMessage(net::Connection& connection) override;
  void OnClosed(net::Connection& connection, const Status& why) override;

  Status Run(TransferMachine::Work work, std::span<std::byte> out, const Upload* upload,
             uint64_t* file_bytes);
  Status Drive(TransferMachine& machine, const Upload* upload);
  void Connect(TransferMachine& machine);
  void Lost(const Status& why);
  Status Transmit(const wire::TransferRequest& request, const Upload* upload);

  const std::string address_;
  const MakeTransport make_transport_;
  const TransferLimits limits_;
  std::atomic<bool> aborted_{false};
  uint64_t connections_lost_ = 0;
  net::Loop loop_;
  std::unique_ptr<net::Transport> transport_;
  std::unique_ptr<net::Connection> connection_;
  bool connecting_ = false;
  // State of the current call.
  TransferMachine* machine_ = nullptr;
  std::span<std::byte> out_;
  uint64_t out_begin_ = 0;  // offset in the file of out_
  wire::TransferReply reply_;
  std::span<const std::byte> arrived_;  // its payload
};

}  // namespace leat::transfer
