// The metrics of members, from what their heartbeats report. Pure.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "observe/prometheus/families.h"
#include "protocol/messages_control.h"

namespace leat::observe {

// What a heartbeat says, as far as it is exported.
class MemberFigures {
 public:
  // Takes the figures of a heartbeat, which replace those of the one before. Other requests change nothing.
  void Take(const protocol::ControlRequest& heartbeat);
  void AddTo(Families* families) const;

 private:
  std::vector<std::pair<const Metric*, double>> values_;
  bool server_ = false;  // has what follows
  std::vector<uint64_t> staleness_ = {};
  double staleness_sum_ = 0;
};

std::vector<Metric> WorkerMetrics();
std::vector<Metric> GroupMemberMetrics();  // of workers in jobs without servers, besides those of workers
std::vector<Metric> ServerMetrics();
std::vector<Metric> FeedMetrics();
std::vector<Metric> FollowMetrics();
std::vector<Metric> BotsMetrics();

}  // namespace leat::observe
