// The client's side of one transfer, without sockets: which request comes next, which reply is valid, and
// where the transfer continues after a broken connection. Time, replies and lost connections come in as
// arguments. Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "net/frames/messages.h"

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

}  // namespace leat::transfer
