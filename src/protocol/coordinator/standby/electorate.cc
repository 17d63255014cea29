#include "protocol/coordinator/standby/electorate.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "protocol/guards.h"

namespace leat::protocol {

bool Electorate::OnRecord(uint64_t position, const JournalRecord& record) {
  placed_ =
      placed_ || std::holds_alternative<SlicesPlaced>(record) || std::holds_alternative<GroupNamed>(record);
  if (const auto* marker = std::get_if<JournalAgreed>(&record)) {
    const std::set<NodeId> electors(marker->electors.begin(), marker->electors.end());
    const auto at = std::find_if(versions_.rbegin(), versions_.rend(),
                                 [&](const Version& version) { return version.nodes == electors; });
    if (at != versions_.rend()) {
      versions_.erase(versions_.begin(), std::prev(at.base()));
    } else {
      // What came between was dropped from the journal.
      versions_ = {{0, electors}, versions_.back()};
    }
    return false;
  }
  std::set<NodeId> nodes = versions_.back().nodes;
  if (const auto* joined = std::get_if<MemberJoined>(&record)) {
    if (joined->member.role != role_) return false;
    nodes.insert(joined->member.node);
  } else if (const auto* left = std::get_if<MembersLeft>(&record)) {
    for (const NodeId node : left->nodes) nodes.erase(node);
  }
  if (nodes == versions_.back().nodes) return false;
  versions_.push_back({position, std::move(nodes)});
  return true;
}

void Electorate::OnAgreed(uint64_t position) {
  const auto later = std::ranges::upper_bound(versions_, position, {}, &Version::position);
  if (later - versions_.begin() > 1) versions_.erase(versions_.begin(), std::prev(later));
}

void Electorate::Collapse() {
  versions_.erase(versions_.begin(), std::prev(versions_.end()));
  versions_.front().position = 0;
}

void Electorate::Rebase() {
  for (Version& version : versions_) version.position = 0;
}

bool Electorate::Majority(const std::function<bool(NodeId)>& has) const {
  return std::ranges::all_of(versions_, [&](const Version& version) {
    const auto votes = static_cast<size_t>(std::ranges::count_if(version.nodes, has));
    return !version.nodes.empty() && guards::Majority(votes, version.nodes.size());
  });
}

bool Electorate::Empty() const {
  return std::ranges::any_of(versions_, [](const Version& version) { return version.nodes.empty(); });
}

bool Electorate::Contains(NodeId node) const {
  return std::ranges::any_of(versions_,
                             [node](const Version& version) { return version.nodes.contains(node); });
}

std::vector<NodeId> Electorate::agreed() const {
  return {versions_.front().nodes.begin(), versions_.front().nodes.end()};
}

}  // namespace leat::protocol
