#include "protocol/members/server_view.h"

#include "protocol/guards.h"

namespace leat::protocol {

void ServerView::Take(const Shared<View>& newer) {
  view_ = newer;
  members_.clear();
  subscribers_.clear();
  for (const Member& member : view_->members) {
    members_.push_back(member.node);
    if (member.role == Role::kServe) subscribers_.push_back(member.node);
  }
  std::sort(members_.begin(), members_.end());
  std::sort(subscribers_.begin(), subscribers_.end());
  none_missing_ = !members_.empty() && members_.back().value - members_.front().value + 1 == members_.size();
  last_member_.reset();
}

bool ServerView::InView(NodeId worker) {
  const bool there = none_missing_ ? members_.front() <= worker && worker <= members_.back()
                                   : std::binary_search(members_.begin(), members_.end(), worker);
  if (!guards::IsMember(there)) return false;
  last_member_ = worker;
  return true;
}

}  // namespace leat::protocol
