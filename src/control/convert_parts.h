// Conversions of parts that several messages contain. Only the convert*.cc files include this.
//
// Put writes a struct into its protobuf message. Take reads it back: `*out` is always a valid value, and
// `check` records the first violation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "control/control.pb.h"
#include "protocol/messages_control.h"

namespace leat::control {

namespace pb = ::leat::control::v1;

// Upper limits per message: far above what a job needs, low enough to be harmless.
struct Limits {
  static constexpr int kMembers = 1 << 16;
  static constexpr int kSlices = 1 << 20;
  static constexpr int kPartitions = 1 << 16;
  static constexpr int kOpenSplits = 1 << 16;  // of one partition
  static constexpr int kLeases = 1 << 16;
  static constexpr int kRounds = 1 << 12;
  static constexpr int kLanes = 1 << 12;  // of one all-reduce round
  static constexpr int kBins = 1 << 16;
  static constexpr int kMoves = 1 << 10;    // of slices, in a heartbeat or reply
  static constexpr int kBatches = 1 << 16;  // scores of batches in a worker's heartbeat
  static constexpr int kCoordinators = 1 << 10;
  static constexpr int kClockSamples = 16;
  static constexpr size_t kSpans = 256 << 10;      // encoded
  static constexpr size_t kGradients = 512 << 10;  // encoded distributions
  static constexpr size_t kName = 1 << 10;         // an address, a host, a version
  static constexpr size_t kPath = 1 << 12;
  static constexpr size_t kText = 1 << 16;      // a message, a dead letter
  static constexpr size_t kScores = 1 << 20;    // encoded counts of scores
  static constexpr size_t kShare = 1 << 16;     // encoded distributions of labels and features
  static constexpr size_t kDocument = 4 << 20;  // a job, a status
};

// Records the first violation.
class Check {
 public:
  // Records "<what> is <value>" if `holds` is false.
  bool That(bool holds, std::string_view what, uint64_t value);
  bool Count(int count, int limit, std::string_view what);
  void Fail(std::string message);
  const Status& status() const { return status_; }

 private:
  Status status_;
};

void TakeText(const std::string& in, size_t limit, std::string_view what, std::string* out, Check* check);
void TakeBytes(const std::string& in, size_t limit, std::string_view what, Bytes* out, Check* check);
void TakeDuration(int64_t nanoseconds, std::string_view what, Duration* out, Check* check);
void TakeSeconds(double seconds, std::string_view what, double* out, Check* check);
void TakeRole(pb::Role in, protocol::Role* out, Check* check);

void Put(const Status& in, pb::Status* out);
void Take(const pb::Status& in, Status* out, Check* check);

void Put(const protocol::Position& in, pb::Position* out);
void Take(const pb::Position& in, protocol::Position* out, Check* check);

void Put(const protocol::Cut& in, pb::Cut* out);
void Take(const pb::Cut& in, protocol::Cut* out, Check* check);

// Some of the runs of a cut, as 64-bit words.
void Put(const protocol::RunSet& in, google::protobuf::RepeatedField<uint64_t>* out);
void Take(const google::protobuf::RepeatedField<uint64_t>& in, const protocol::Cut& cut,
          protocol::RunSet* out, Check* check);

// A cut with some of its runs.
void Put(const protocol::Cut& cut, const protocol::RunSet& runs, pb::Runs* out);
void Take(const pb::Runs& in, protocol::Cut* cut, protocol::RunSet* runs, Check* check);

void Put(const std::vector<protocol::PartitionLedger>& in,
         google::protobuf::RepeatedPtrField<pb::PartitionLedger>* out);
// `first`: the number of the first of them.
void Take(const google::protobuf::RepeatedPtrField<pb::PartitionLedger>& in, uint32_t first,
          std::vector<protocol::PartitionLedger>* out, Check* check);

void Put(const std::vector<protocol::SliceIncarnation>& in,
         google::protobuf::RepeatedPtrField<pb::SliceIncarnation>* out);
void Take(const google::protobuf::RepeatedPtrField<pb::SliceIncarnation>& in,
          std::vector<protocol::SliceIncarnation>* out, Check* check);

void Put(const protocol::ShardReport& in, pb::ShardReport* out);
void Take(const pb::ShardReport& in, protocol::ShardReport* out, Check* check);

void Put(const protocol::RejectedRun& in, pb::RejectedRun* out);
void Take(const pb::RejectedRun& in, protocol::RejectedRun* out, Check* check);

void Put(const std::vector<protocol::SliceOrder>& in,
         google::protobuf::RepeatedPtrField<pb::SliceOrder>* out);
void Take(const google::protobuf::RepeatedPtrField<pb::SliceOrder>& in,
          std::vector<protocol::SliceOrder>* out, Check* check);

void Put(const protocol::MoveOrder& in, pb::MoveOrder* out);
void Take(const pb::MoveOrder& in, protocol::MoveOrder* out, Check* check);

void Put(const std::vector<protocol::ReplicaGroup>& in,
         google::protobuf::RepeatedPtrField<pb::ReplicaGroup>* out);
void Take(const google::protobuf::RepeatedPtrField<pb::ReplicaGroup>& in,
          std::vector<protocol::ReplicaGroup>* out, Check* check);

void Put(const std::vector<protocol::LostReplica>& in,
         google::protobuf::RepeatedPtrField<pb::LostReplica>* out);
void Take(const google::protobuf::RepeatedPtrField<pb::LostReplica>& in,
          std::vector<protocol::LostReplica>* out, Check* check);

void Put(const protocol::MoveReport& in, pb::MoveReport* out);
void Take(const pb::MoveReport& in, protocol::MoveReport* out, Check* check);

void Put(const protocol::CheckpointOrder& in, pb::CheckpointOrder* out);
void Take(const pb::CheckpointOrder& in, protocol::CheckpointOrder* out, Check* check);

// Recordings.
void TakeTime(int64_t nanoseconds, std::string_view what, Time* out, Check* check);
void Put(const protocol::RecordOrder& in, pb::RecordOrder* out);
void Take(const pb::RecordOrder& in, protocol::RecordOrder* out, Check* check);
void Put(const std::vector<protocol::ClockSample>& in,
         google::protobuf::RepeatedPtrField<pb::ClockSample>* out);
void Take(const google::protobuf::RepeatedPtrField<pb::ClockSample>& in,
          std::vector<protocol::ClockSample>* out, Check* check);

void Put(const protocol::CoordinatorSet& in, pb::CoordinatorSet* out);
void Take(const pb::CoordinatorSet& in, protocol::CoordinatorSet* out, Check* check);

void Put(const std::vector<protocol::Position>& in, google::protobuf::RepeatedPtrField<pb::Position>* out);
void Take(const google::protobuf::RepeatedPtrField<pb::Position>& in, std::vector<protocol::Position>* out,
          Check* check);

void Put(const std::vector<protocol::Member>& in, google::protobuf::RepeatedPtrField<pb::Member>* out);
void Take(const google::protobuf::RepeatedPtrField<pb::Member>& in, std::vector<protocol::Member>* out,
          Check* check);

void Put(const protocol::View& in, pb::View* out);
void Take(const pb::View& in, protocol::View* out, Check* check);

inline void Put(const std::vector<uint64_t>& in, google::protobuf::RepeatedField<uint64_t>* out) {
  out->Assign(in.begin(), in.end());
}
inline void Take(const google::protobuf::RepeatedField<uint64_t>& in, int limit, std::string_view what,
                 std::vector<uint64_t>* out, Check* check) {
  if (check->Count(in.size(), limit, what)) out->assign(in.begin(), in.end());
}

}  // namespace leat::control
