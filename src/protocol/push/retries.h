// Waiting times of requests to servers, and which servers fail.
//
// Invariant: a server is listed only while its requests fail or its host is silent; an answer removes it. The
// worker's pauses are random, from one sequence that its node seeds. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "protocol/messages_control.h"

namespace leat::protocol {

struct RetryTimes {
  Duration reply_timeout = std::chrono::seconds(10);  // for a server's reply, before the request is repeated
  // After a request to a server has failed it is repeated in retry_interval; after each further failure in a
  // row, in twice as long, up to max_retry_interval, and half as long again at most, at random.
  Duration retry_interval = std::chrono::milliseconds(50);
  Duration max_retry_interval = std::chrono::milliseconds(250);
  // After a conflict, nothing new starts for retry_interval; after each further one in a row, for twice as
  // long, up to this. Half as long again at most, at random, so that workers do not return together.
  Duration max_conflict_pause = std::chrono::seconds(2);
  // A server whose requests have failed for this long, again and again, is reported as unreachable. Failures
  // further apart than the gap are not one.
  Duration unreachable_after = std::chrono::seconds(2);
  Duration failure_gap = std::chrono::seconds(7);
};

class Retries {
 public:
  explicit Retries(const RetryTimes& times) : times_(times) {}
  const RetryTimes& times() const { return times_; }
  void OnJoined(NodeId node) { rng_ = Rng(node.value); }

  // A random pause after `earlier` attempts in a row: the doubled retry_interval, up to `longest`.
  Duration BackOff(uint32_t earlier, Duration longest);

  // A request has failed. Returns when to repeat it, from now.
  Duration OnFailed(Time now, NodeId server);
  // A reply does not come in time, which is the first failure of a row.
  void OnLate(Time now, NodeId server);
  void OnAnswered(NodeId server) {
    if (!failing_.empty()) failing_.erase(server);
  }
  // Nothing comes from the server's host, or something comes again.
  void OnSilence(NodeId server, bool silent);
  void DropAbsent(const View& view);

  // Servers whose hosts are silent, or whose requests failed again after unreachable_after, and not long ago.
  std::vector<NodeId> Unreachable(Time now) const;
  uint64_t count() const { return count_; }  // requests that failed or were not answered in time

 private:
  // A reply that does not come says nothing, since a step may take any time.
  struct Failure {
    Time since = Time::max();  // or since a reply has been late; max(): only silent
    Time last = Time::min();
    uint32_t in_a_row = 0;
    bool silent = false;  // nothing comes from its host
  };

  const RetryTimes times_;
  std::map<NodeId, Failure> failing_;
  uint64_t count_ = 0;
  Rng rng_{0};
};

}  // namespace leat::protocol
