// The slices of a job as a server makes them: sizes, rules, memory and initial values. It has no slice
// itself.
//
// Invariant: only `start` changes, once the coordinator has said where partitions start. What peers and files
// deliver is checked by Fits. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "protocol/messages_control.h"
#include "protocol/slices/server/slice_rules.h"

namespace leat::protocol {

class JobSlices {
 public:
  explicit JobSlices(ServerConfig config);
  JobSlices(const JobSlices&) = delete;  // the concerns of a server refer to it

  const ServerConfig& config() const { return config_; }
  bool stepped() const { return config_.strategy.stepped(); }
  size_t size() const { return config_.table.slices.size(); }
  const SliceRule& RuleOf(SliceId id) const { return rules_[config_.table.slices[id.value].variable]; }
  uint64_t ElementsOf(SliceId id) const { return config_.table.slices[id.value].elements(); }
  // The bytes of a slice's values and slots; none: the job has no such slice.
  std::optional<uint64_t> BytesOf(SliceId id) const;
  // Where each partition starts, for newly initialized slices; empty: not known yet.
  const std::vector<Position>& start() const { return start_; }
  void SetStart(const std::vector<Position>& start);
  // kDataLoss if the job has no such slice.
  Status Fits(const Slice& slice) const;

  Buffer NewMemory(uint64_t bytes) const {
    return config_.allocate ? config_.allocate(bytes) : Buffer(bytes);
  }
  void MoveToNewMemory(Slice* slice) const;  // other owners of the old memory keep it unchanged
  std::shared_ptr<Slice> Make(const SliceOrder& order) const;  // with initial values
  Slice InMemory(SliceId id, Buffer memory) const;             // a slice of the job in this memory

 private:
  const ServerConfig config_;
  std::vector<SliceRule> rules_;  // by variable
  std::vector<Position> start_;
};

}  // namespace leat::protocol
