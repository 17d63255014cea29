#include "protocol/succession/electorate.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "protocol/guards.h"

namespace leat::protocol {

void Electorate::OnRecord(uint64_t position, const JournalRecord& record) {
  if (const auto* named = std::get_if<JournalAgreed>(&record)) {
    Version next{position, {named->electors.begin(), named->electors.end()}};
    if (next.nodes.empty()) return;
    // The one before was agreed when this record was written.
    versions_.erase(versions_.begin(), std::prev(versions_.end()));
    if (next.nodes == versions_.back().nodes) return;
    if (Empty()) versions_.clear();
    versions_.push_back(std::move(next));
  } else if (const auto* member = std::get_if<MemberJoined>(&record)) {
    if (member->member.role == role_) joined_.insert(member->member.node);
  } else if (const auto* left = std::get_if<MembersLeft>(&record)) {
    for (const NodeId node : left->nodes) joined_.erase(node);
  } else {
    placed_ =
        placed_ || std::holds_alternative<SlicesPlaced>(record) || std::holds_alternative<GroupNamed>(record);
  }
}

void Electorate::OnAgreed(uint64_t position) {
  if (versions_.back().position <= position) versions_.erase(versions_.begin(), std::prev(versions_.end()));
}

void Electorate::OnAgreedElectors(const std::vector<NodeId>& electors) {
  if (std::ranges::equal(versions_.back().nodes, electors)) OnAgreed(versions_.back().position);
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

bool Electorate::Contains(NodeId node) const {
  return std::ranges::any_of(versions_,
                             [node](const Version& version) { return version.nodes.contains(node); });
}

std::vector<NodeId> Electorate::agreed() const {
  return {versions_.front().nodes.begin(), versions_.front().nodes.end()};
}

std::vector<NodeId> Electorate::newest() const {
  return {versions_.back().nodes.begin(), versions_.back().nodes.end()};
}

}  // namespace leat::protocol
