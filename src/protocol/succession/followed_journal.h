// A standby's side of the journal's stream (FollowReply): what it asks for, and the records of what comes.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "protocol/messages_control.h"

namespace leat::protocol {

class FollowedJournal {
 public:
  // `coordinator`: the number of the standby's directory. `term`: the highest that the directory knows; it
  // follows no coordinator of a lower one.
  FollowedJournal(uint64_t coordinator, uint64_t term) : coordinator_(coordinator), term_(term) {}

  FollowRequest MakeRequest(uint64_t checkpoint) const;

  struct Received {
    // The stream has begun anew: `records` replace the whole journal, which is of `term`.
    bool anew = false;
    uint64_t term = 0;
    std::vector<Bytes> records;  // encoded
    std::vector<uint64_t> ends;  // end of each record in the stream
  };
  // The records that are whole now; of a new stream, none before the snapshot is whole. kStale: the
  // coordinator has a lower term. kDataLoss: the reply contradicts itself, or a checksum is wrong; the
  // next request asks for a new stream.
  Result<Received> OnReply(const FollowReply& reply);
  // The records that were returned last are of this stream; else it still receives the snapshot.
  bool began() const { return began_; }
  // Everything that OnReply has returned is on disk.
  void OnSynced() { synced_ = whole_; }
  // The records that were received last are not on disk: they will be asked for again.
  void Restart() { stream_ = 0; }

 private:
  Status TakeFrames(Received* received);

  const uint64_t coordinator_;
  uint64_t term_;
  uint64_t stream_ = 0;
  uint64_t snapshot_ = 0;
  uint64_t received_ = 0, synced_ = 0;
  uint64_t whole_ = 0;  // bytes before it are whole records that were returned
  bool began_ = false;  // the snapshot has been returned
  Bytes rest_;          // received and not returned
};

}  // namespace leat::protocol
