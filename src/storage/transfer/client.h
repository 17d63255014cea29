// Reads files from a service and uploads files to it. Calls block in the calling thread, which drives the
// connection; a connection stays open between calls. A broken connection is made again, and the transfer
// continues where it was. Not thread-safe, except Abort.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "net/frames/messages.h"
#include "net/loop.h"
#include "net/transport.h"
#include "storage/transfer/service.h"

namespace leat::transfer {

struct TransferLimits {
  uint32_t chunk_bytes = wire::kMaxTransferBytes;
  uint32_t window = 4;  // requests without a reply; the memory of an upload is this many chunks
  // A connection without a reply for this long is replaced.
  Duration reply_timeout = std::chrono::seconds(30);
  // The transfer fails after this long without progress, however many connections it has tried …
  Duration patience = std::chrono::seconds(60);
  // … and after this long in any case.
  Duration deadline = std::chrono::hours(1);
  Duration first_backoff = std::chrono::milliseconds(50);
  Duration longest_backoff = std::chrono::seconds(2);
};

// The client's side of one transfer, without sockets: which request comes next, which reply is valid, and
// where the transfer continues after a broken connection. Time, replies and lost connections come in as
// arguments. Pure; not thread-safe.
class TransferMachine {
 public:
  // kRead: the bytes [begin, end) of a published file; an empty range asks for its size. kOpenUpload: the
  // upload of a whole file, begin = 0.
  struct Work {
    wire::TransferOp op = wire::TransferOp::kRead;
    std::string name;
    uint64_t folder = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t checksum = 0;  // checksum of an uploaded file
  };
  struct Step {
    enum class Kind {
      kConnect,  // then OnConnected or OnLost
      kSend,     // `request`; the payload of a write are the file's bytes from `offset` on
      kDrop,     // close the connection, without OnLost
      kWait,     // until an event, at most until `until`
      kFinish,   // with `status`
    };
    Kind kind = Kind::kWait;
    wire::TransferRequest request;
    Time until{};
    Status status;
  };

  TransferMachine(Work work, TransferLimits limits, Time now);

  // The next step to take. Ask again after each step.
  Step Next(Time now);
  void OnConnected(Time now);
  // The connection has ended, or none could be made.
  void OnLost(Time now, Status why);
  // The header of a reply. Returns the offset in the file of its payload, or kDataLoss for a reply that must
  // not come; the connection is then useless.
  Result<uint64_t> OnReplyHeader(const wire::TransferReply& reply, uint64_t payload_bytes) const;
  // The whole reply, after OnReplyHeader has accepted its header.
  void OnReply(Time now, const wire::TransferReply& reply);
  // Ends the transfer.
  void Fail(Status why);

  // Requests without a reply. If there are any at the end, the connection is useless.
  size_t outstanding() const { return outstanding_.size(); }
  uint64_t file_bytes() const { return file_bytes_; }  // known once a read has finished
  uint32_t connections_lost() const { return connections_lost_; }

 private:
  enum class Link { kNone, kConnecting, kUp };

  bool upload() const { return work_.op == wire::TransferOp::kOpenUpload; }
  bool NextRequest(wire::TransferRequest* request);
  bool NextUploadRequest(wire::TransferRequest* request);
  void Restart();

  const Work work_;
  const TransferLimits limits_;
  const Time began_;
  Link link_ = Link::kNone;
  std::deque<wire::TransferRequest> outstanding_;  // in order, as are their replies
  uint64_t sequence_ = 0;
  bool opened_ = false;  // upload: on this connection
  bool asked_ = false;   // a read of an empty range has been sent
  uint64_t next_;        // offset of the next chunk to ask for or to send
  uint64_t done_;        // everything before it is done
  uint64_t file_bytes_ = 0;
  Time progress_;
  Time last_reply_;  // or the sending of the oldest request without one
  Time retry_at_;
  uint32_t failures_ = 0;  // since the last progress
  uint32_t connections_lost_ = 0;
  Status useless_;  // why the connection is to be dropped
  Status last_error_;
  bool finished_ = false;
  Status outcome_;
};

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
  net::Places OnHeader(net::Connection& connection, uint8_t type, ByteView header,
                       uint64_t payload_bytes) override;
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
