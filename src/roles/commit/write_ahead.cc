#include "roles/commit/write_ahead.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <variant>

namespace leat::roles {

Status WriteAhead(stream::Source& source, checkpoint::Store& store,
                  std::span<const protocol::JournalRecord> records) {
  std::map<uint32_t, uint64_t> ends;  // by partition
  const auto add = [&](const protocol::Cut& cut) {
    ends[cut.partition] = std::max(ends[cut.partition], cut.end);
  };
  for (const auto& record : records) {
    if (const auto* made = std::get_if<protocol::CutsMade>(&record)) {
      for (const auto& cut : made->cuts) add(cut);
    } else if (const auto* round = std::get_if<protocol::RoundMade>(&record)) {
      for (const auto& lane : round->lanes) add(lane.cut);
    }
  }
  for (const auto& [partition, end] : ends) LEAT_RETURN_IF_ERROR(source.Sync(partition, end));
  return store.AppendJournal(records);
}

}  // namespace leat::roles
