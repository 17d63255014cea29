// The members of the job as a server knows them: who may push, and who only pulls values (subscribers: the
// role kServe).
//
// Invariants: a request is taken from members of the view, and from those with a newer view, which have
// joined after this one was made; a subscriber changes nothing. Not thread-safe: lookups are cached.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "protocol/guards.h"
#include "protocol/messages_control.h"
#include "protocol/messages_data.h"

namespace leat::protocol {

class ServerView {
 public:
  void Take(const Shared<View>& newer) {
    view_ = newer;
    members_.clear();
    subscribers_.clear();
    for (const Member& member : view_->members) {
      members_.push_back(member.node);
      if (member.role == Role::kServe) subscribers_.push_back(member.node);
    }
    std::ranges::sort(members_);
    std::ranges::sort(subscribers_);
    none_missing_ =
        !members_.empty() && members_.back().value - members_.front().value + 1 == members_.size();
    last_member_.reset();
  }
  const View& view() const { return *view_; }

  // A subscriber gets the values that it lacks, and changes nothing.
  bool IsSubscriber(NodeId member) const {
    return !subscribers_.empty() && std::ranges::binary_search(subscribers_, member);
  }
  // A subscriber asks for more than values. It is answered as if it was no member.
  bool Refuses(const PushHeader& request) const {
    if (!IsSubscriber(request.worker)) return false;
    return request.disposition != Disposition::kPull || request.step_lane || request.version_wanted > 0 ||
           request.exact;
  }
  bool NotInView(const PushHeader& request) {
    if (Refuses(request)) return true;
    // A worker with a newer view has joined after ours was made.
    return request.generation <= view_->generation && request.worker != last_member_ &&
           !InView(request.worker);
  }

 private:
  bool InView(NodeId worker) {
    const bool there = none_missing_ ? members_.front() <= worker && worker <= members_.back()
                                     : std::ranges::binary_search(members_, worker);
    if (!guards::IsMember(there)) return false;
    last_member_ = worker;
    return true;
  }

  Shared<View> view_ = View();
  std::vector<NodeId> members_;        // ordered
  std::vector<NodeId> subscribers_;    // ordered
  bool none_missing_ = false;          // members are contiguous
  std::optional<NodeId> last_member_;  // the last one found: every slice of a push asks for the same
};

}  // namespace leat::protocol
