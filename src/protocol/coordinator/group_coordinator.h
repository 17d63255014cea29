// The coordinator's side of all-reduce: who makes steps together, one group after the other, and from which
// step each goes on (replica.h says what is said).
//
// A group is named anew when a member is lost or has failed, and when others wait to be taken in. None makes
// a step before all of its members have left every earlier one and hold the step that it starts from. So a
// step that only some members of the former group have made is either adopted by all, or known to nobody any
// more; and as who is not heard of comes back as somebody new, who holds nothing, no two histories ever meet.
//
// Where workers reduce by MPI there is one group for the whole job: MPI takes nobody out and nobody in. It
// waits for all of its members however long, and whoever is lost, leaves or fails ends it for all.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "protocol/messages_control.h"

namespace leat::protocol {

struct GroupCoordinatorConfig {
  uint32_t workers = 1;  // the first group waits for so many, but no longer than first_wait
  Duration first_wait = std::chrono::seconds(10);
  Duration join_wait =
      std::chrono::milliseconds(300);  // so that those who come together are taken in together
  // Groups in a row that have failed without a step, before the job is given up; pauses between them double.
  uint32_t max_failures = 8;
  Duration first_pause = std::chrono::milliseconds(50);
  // MPI's: of exactly `workers` members, whose index is their rank. When one of them is lost without a word,
  // the others leave or fail at once, as mpirun has them do: so long it is waited for who is to be named.
  bool mpi = false;
  Duration mpi_silence = std::chrono::seconds(6);
};

class GroupCoordinator {
 public:
  enum class Phase : uint8_t {
    kNone,       // no members, or not all that are waited for
    kGathering,  // not all members have said what they hold
    kSyncing,    // not all hold the step that the group starts from
    kRunning,
  };

  explicit GroupCoordinator(const GroupCoordinatorConfig& config) : config_(config) {}

  void Join(Time now, const Member& member);
  // `left`: it has said so.
  void Remove(Time now, NodeId node, bool left = false);
  void Report(Time now, NodeId node, const MemberReport& report);
  // The newest durable checkpoint is of this step: no group starts from an earlier one, or goes on from one.
  void SetSource(Time now, uint64_t step);
  // What follows from these, and from time. True when a group was named or decided: Current() has changed.
  bool Step(Time now, const std::function<uint64_t()>& next_id);

  Phase phase() const { return phase_; }
  // Without orders: where `from_source()`, the newest checkpoint's are to be added.
  const std::optional<Group>& current() const { return group_; }
  bool from_source() const { return from_source_; }
  bool Has(NodeId node) const;  // in the current group
  // The least that any member holds; null unless running.
  const MemberReport* Least() const;
  // The most steps in a row that were not finite, as any member has it; null when nobody has any.
  const MemberReport* Rejected() const;
  // Why there is no point in naming any more groups.
  const Status& failure() const { return failure_; }

 private:
  struct Waiting {
    Member member;
    Time since{0};
  };
  struct InGroup {
    std::optional<MemberReport> report;  // the last one under the group's id
  };

  struct Ending {
    Time due{0};
    std::string why;
  };

  bool Due(Time now) const;
  void EndMpi(Time due, const Member& member, const std::string& what);
  void Name(uint64_t id);
  bool Decide();

  GroupCoordinatorConfig config_;
  std::map<NodeId, Waiting> members_;  // of the job, in the group or not
  std::optional<Time> first_since_;
  std::optional<Group> group_;
  std::map<NodeId, InGroup> in_group_;
  Phase phase_ = Phase::kNone;
  bool from_source_ = false;
  uint64_t source_ = 0;
  bool anew_ = false;          // a member is gone: another group as soon as can be
  std::optional<Time> again_;  // a member has failed: another group then
  std::string why_;
  uint32_t failures_ = 0;
  uint64_t best_ = 0;             // the highest step that all members of a group have held
  std::optional<Ending> ending_;  // of MPI's group
  Status failure_;
};

}  // namespace leat::protocol
