// The content of a journal, sorted by concern, as the next coordinator needs it. Pure functions.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "protocol/leases/leases.h"
#include "protocol/records/journal.h"

namespace leat::protocol {

// Lists are in the order of the journal.
struct RestoredJournal {
  IdsReserved ids;  // the highest of all records
  // The members that have not left, as recorded last.
  std::map<NodeId, MemberJoined> members;
  std::vector<SliceAssignment> places;
  std::optional<GroupNamed> group;  // the last one
  std::optional<StreamStart> start;
  RestoredWork work;
  std::optional<PassesPlanned> passes;
  std::vector<RateRaised> rates;
  std::vector<LanesSet> lanes;
  std::vector<LabelsMarked> labels;
  std::optional<PublishersGrouped> publishers;
  std::optional<ScaleSet> scale;
  uint64_t last_checkpoint = 0;
};

RestoredJournal ReadJournal(std::vector<JournalRecord> records);

}  // namespace leat::protocol
