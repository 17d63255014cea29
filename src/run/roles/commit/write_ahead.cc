#include "run/roles/commit/write_ahead.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <variant>

namespace leat::roles {

Status WriteAhead(stream::Source& source, checkpoint::Store& store,
                  std::span<const protocol::JournalRecord> records) {
  std::map<uint32_t, uint64_t> ends;  // by partition
  const auto add = [&ends](uint32_t partition, uint64_t end) {
    ends[partition] = std::max(ends[partition], end);
  };
  for (const auto& record : records) {
    if (const auto* made = std::get_if<protocol::CutsMade>(&record)) {
      for (const auto& cut : made->cuts) add(cut.partition, cut.end);
    } else if (const auto* round = std::get_if<protocol::RoundMade>(&record)) {
      for (const auto& lane : round->lanes) add(lane.cut.partition, lane.cut.end);
    } else if (const auto* marked = std::get_if<protocol::LabelsMarked>(&record)) {
      for (const auto& mark : marked->marks) add(marked->partition, mark.events);
    }
  }
  for (const auto& [partition, end] : ends) LEAT_RETURN_IF_ERROR(source.Sync(partition, end));
  return store.AppendJournal(records);
}

}  // namespace leat::roles
