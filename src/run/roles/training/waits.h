// Waiting times of a worker: for input, for servers, and for the other members of its group. Each class adds
// to the progress that the worker reports, which must outlive it. Not thread-safe.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/recorder/recorder.h"
#include "net/loop.h"
#include "protocol/messages_control.h"
#include "run/roles/input/split_loader.h"

namespace leat::roles {

// Counts what a worker reads, and how long it has nothing to train.
class InputFlow {
 public:
  explicit InputFlow(protocol::WorkerProgress* progress) : progress_(progress) {}

  void OnSplit(const PreparedSplit& split) {
    progress_->input_records += split.lease.cut.events();
    progress_->input_bytes += split.bytes;
    progress_->decode_seconds += Seconds(split.decoding);
    progress_->unjoined += split.rows.unjoined;
    progress_->lost_to_retention += split.expired;
  }
  // To be called when the number of splits that can be trained has changed. `busy`: the worker waits for
  // something else.
  void OnReady(Time now, size_t splits, bool busy) {
    progress_->splits_ready = static_cast<uint32_t>(splits);
    const bool starved = splits == 0 && !busy;
    if (starved && !since_) since_ = now;
    if (!starved && since_) {
      progress_->input_wait_seconds += Seconds(now - *since_);
      since_.reset();
    }
  }

  // Adds a wait that is not over to a report.
  void AddRunningWait(Time now, protocol::WorkerProgress* report) const {
    if (since_) report->input_wait_seconds += Seconds(now - *since_);
  }

 private:
  protocol::WorkerProgress* progress_;
  std::optional<Time> since_;  // it has nothing to train
};

// How long a member waits for the others of its group.
class GroupWait {
 public:
  explicit GroupWait(protocol::WorkerProgress* progress) : progress_(progress) {}

  // A reduction begins.
  void Begin(Time now) { since_ = now; }
  // It is over, or the group is left before. Returns when it began; nothing if there is none.
  std::optional<Time> End(Time now) {
    if (since_) progress_->wait_seconds += Seconds(now - *since_);
    return std::exchange(since_, std::nullopt);
  }
  // Adds a wait that is not over to a report.
  void AddRunningWait(Time now, protocol::WorkerProgress* report) const {
    if (since_) report->wait_seconds += Seconds(now - *since_);
  }

 private:
  protocol::WorkerProgress* progress_;
  std::optional<Time> since_;
};

// How long a worker waits for servers. While it waits, its loop polls (net::Loop::BusyPoll).
class ServerWaits {
 public:
  // `track`: where a wait for all servers is recorded.
  ServerWaits(net::Loop& loop, protocol::WorkerProgress* progress, timeline::Track* track)
      : loop_(loop), progress_(progress), track_(track) {}

  bool any() const { return !asked_.empty(); }
  // A server is asked.
  void Begin(NodeId server) {
    if (asked_.empty()) {
      since_ = loop_.Now();
      busy_poll_.emplace(loop_);
    }
    asked_.emplace(server, loop_.Now());
  }
  // It has answered, or will not. `view`: has the number of the server.
  void End(NodeId server, const protocol::View& view) {
    const auto asked = asked_.extract(server);
    if (!asked) return;
    const Time now = loop_.Now();
    if (const protocol::Member* const member = view.Find(server)) Count(*member, now - asked.mapped());
    if (!asked_.empty()) return;
    progress_->wait_seconds += Seconds(now - since_);
    if (track_->on()) track_->Add({.kind = timeline::Kind::kWait, .begin = since_, .end = now});
    busy_poll_.reset();
  }
  void AddRunningWait(Time now, protocol::WorkerProgress* report) const {
    if (any()) report->wait_seconds += Seconds(now - since_);
  }

 private:
  void Count(const protocol::Member& server, Duration wait) {
    auto& waits = progress_->server_waits;
    auto at = std::ranges::lower_bound(waits, server.index, {}, &protocol::ServerWait::ps);
    if (at == waits.end() || at->ps != server.index) at = waits.insert(at, {.ps = server.index});
    at->seconds += Seconds(wait);
  }

  net::Loop& loop_;
  protocol::WorkerProgress* const progress_;
  timeline::Track* const track_;
  std::map<NodeId, Time> asked_;  // servers that have not answered yet, and since when
  Time since_{0};                 // for the first of them
  std::optional<net::Loop::BusyPoll> busy_poll_;
};

}  // namespace leat::roles
