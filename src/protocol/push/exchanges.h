// A worker's requests to servers, until they are answered or the view makes them obsolete: when they are
// repeated (Retries), and what is known of the slices by their answers (SliceVersions).
//
// Invariants: exchanges are ordered by server, one for each; open() of them are part of the current pull or
// push and not answered. `first` to `end` are the indices of the server's slices in the newest view. A
// request that a sender may still hold is never changed, but copied. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "protocol/actions.h"
#include "protocol/messages_control.h"
#include "protocol/messages_data.h"

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

// Waiting times of requests to servers, and which servers fail.
//
// Invariant: a server is listed only while its requests fail or its host is silent; an answer removes it. The
// worker's pauses are random, from one sequence that its node seeds. Not thread-safe.
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
  void OnLate(Time now, NodeId server) {
    Failure& failure = failing_[server];
    failure = {.since = now, .silent = failure.silent};
    ++count_;
  }
  void OnAnswered(NodeId server) {
    if (!failing_.empty()) failing_.erase(server);
  }
  // Nothing comes from the server's host, or something comes again.
  void OnSilence(NodeId server, bool silent);
  void DropAbsent(const View& view) {
    std::erase_if(failing_, [&](const auto& entry) { return !view.Find(entry.first); });
  }

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

// A worker's knowledge of the job's slices: which of their values are in its memory, and, in stepped
// strategies, which versions their servers have reported.
//
// Slices have an index: by server, then id, so that those of one reply are adjacent. Slices without a server
// come last. Invariants: `known` holds each slice once, at its index; while lacking() is false, all values in
// memory are of their slices' current incarnations. Not thread-safe.
class SliceVersions {
 public:
  // A version of one incarnation of a slice.
  struct Seen {
    Incarnation incarnation;
    uint64_t version = 0;
  };

  SliceVersions(size_t slices, bool stepped);

  size_t size() const { return known_.size(); }
  uint32_t IndexOf(SliceId slice) const { return index_of_[slice.value]; }
  // The slices' new indices, by slice, and their incarnations as of the view that has caused them.
  void Arrange(const View& view, std::vector<uint32_t> index_of);
  Incarnation incarnation(uint32_t index) const { return incarnations_[index]; }  // as of the view

  // ---- values in memory
  // By index: the slice, and which of its values are in memory.
  const std::vector<SliceRef>& known() const { return known_; }
  std::vector<SliceRef> KnownBySlice() const;
  bool Lacks(uint32_t index) const { return known_[index].incarnation != incarnations_[index]; }
  bool LacksAny() const;
  uint64_t LowestKnown() const;
  // Some slices may lack values of their current incarnation.
  bool lacking() const { return lacking_; }
  void SetLacking(bool lacking) { lacking_ = lacking; }
  void Take(uint32_t index, const SliceRef& values) { known_[index] = values; }
  void Forget(uint32_t index) {
    known_[index] = {known_[index].slice, {}, 0};
    lacking_ = true;
  }
  void ForgetAll() {
    for (uint32_t index = 0; index < known_.size(); ++index) Forget(index);
  }

  // ---- stepped: versions on the servers
  bool stepped() const { return !seen_.empty(); }
  void See(uint32_t index, Incarnation incarnation, uint64_t version) {
    Seen& seen = seen_[index];
    if (seen.incarnation != incarnation) seen = {incarnation, 0};
    seen.version = std::max(seen.version, version);
    range_.reset();
  }
  const std::vector<Seen>& seen() const { return seen_; }
  // The newest version reported of the current incarnation; 0: none.
  uint64_t SeenAt(uint32_t index) const {
    return seen_[index].incarnation == incarnations_[index] ? seen_[index].version : 0;
  }
  uint64_t SeenOf(SliceId slice) const { return SeenAt(IndexOf(slice)); }
  // The lowest and the highest of them.
  const std::pair<uint64_t, uint64_t>& SeenRange();
  // Every slice has completed the steps before this one, as a server's answer has shown.
  uint64_t settled() const { return settled_; }
  void Settle(uint64_t step) { settled_ = std::max(settled_, step); }
  // The slices are restored: their steps are repeated.
  void Unsettle() { settled_ = 0; }

 private:
  std::vector<SliceRef> known_;
  std::vector<Seen> seen_;          // stepped, by index: the newest version reported by its server
  std::vector<uint32_t> index_of_;  // by slice
  uint64_t settled_ = 0;
  bool lacking_ = true;
  std::vector<Incarnation> incarnations_;               // by index
  std::optional<std::pair<uint64_t, uint64_t>> range_;  // SeenRange, if it has been computed
};

// A request to one server, repeated until it is answered or the view makes it obsolete. Sized to one cache
// line, because a simulator has tens of thousands of them.
struct alignas(64) Exchange {
  NodeId server;
  std::shared_ptr<PushRequest> request;
  Time sent{0};
  Time at{0};                      // in flight: when to give up; else when to send again
  const Member* member = nullptr;  // the server in the view; null: not there
  uint32_t first = 0, end = 0;     // indices of its slices
  bool contacted = false;          // there may be a connection to it
  bool open = false;               // part of the current pull or push, and not answered
  bool in_flight = false;          // open: it is sent, and its reply is awaited
  // The reply waits for a version.
  bool waits() const { return request->want_values && request->version_wanted > 0; }
};

class Exchanges {
 public:
  // Slices of requests that a newer view has made obsolete.
  struct Dropped {
    std::vector<SliceRef> untaken;  // a push has them, and they are live on another server
    bool any_lost = false;          // there were others
  };

  // The arguments outlive it.
  Exchanges(SliceVersions& versions, Retries& retries, WorkerOutbox& outbox)
      : versions_(versions), retries_(retries), outbox_(outbox) {}
  void OnJoined(NodeId node) { node_ = node; }

  // ---- the view
  const View& view() const { return *view_; }
  bool ready() const { return ready_; }  // the view is, and contains the slices of the table
  // Gives up exchanges that the newer view makes obsolete. To be called before SetView.
  Dropped DropObsolete(const View& newer);
  // Makes an exchange for each server with slices, in addition to open ones, and arranges the slices.
  void SetView(const Shared<View>& newer);

  // ---- the next requests
  std::vector<Exchange>& all() { return exchanges_; }
  const std::vector<Exchange>& all() const { return exchanges_; }
  size_t open() const { return open_; }
  Exchange& With(NodeId server);
  // Starts a request without slices.
  PushRequest& Open(Exchange* exchange, Disposition disposition);
  void AddSlice(Exchange* exchange, uint32_t index, uint64_t version, Disposition disposition);
  // Adds pulls of the slices for which `wanted` is true, by index.
  template <class Wanted>
  void AddPulls(const Wanted& wanted) {
    for (Exchange& exchange : exchanges_) {
      for (uint32_t index = exchange.first; index < exchange.end; ++index) {
        if (wanted(index)) AddSlice(&exchange, index, 0, Disposition::kPull);
      }
    }
  }
  // Sends the open requests as a new pull or push.
  void SendOpen(Time now);

  // ---- answers
  uint64_t first_sequence() const { return first_sequence_; }  // first one in the current pull or push
  // Usually all servers are asked at once, in order, so the sequence gives the index. Null if it does not.
  const Exchange* Asked(NodeId server, uint64_t sequence) const;
  // The exchange in flight that this answers, or null.
  Exchange* Find(NodeId server, uint64_t sequence);
  // True if no other one is open.
  bool Close(Exchange* exchange) {
    exchange->open = false;
    retries_.OnAnswered(exchange->server);
    return --open_ == 0;
  }
  void OnFailed(Time now, Exchange* exchange) {
    RepeatAfter(now, exchange, retries_.OnFailed(now, exchange->server));
  }
  // Repeats requests that timed out, or are due. A worker that leaves does not send again.
  void RepeatLate(Time now, bool leaving);
  Time next_timer() const;
  // Failing servers with an open request.
  std::vector<NodeId> Unreachable(Time now) const;

  // ---- the end
  // The earliest time at which the open requests may be given up, because they have had time to arrive. None
  // if a reply will come without waiting for others; one that leaves also gives up servers that it does not
  // reach.
  std::optional<Time> InterruptibleFrom(bool leaving) const;
  // Whether the open requests have arrived is unknown then, and so are the values that they would return.
  void GiveUp();
  void Stop();

 private:
  static PushRequest& Fresh(Exchange* exchange);
  static PushRequest& Own(Exchange* exchange);
  std::vector<Exchange>::iterator PositionOf(NodeId server);
  void Send(Time now, Exchange* exchange);
  void RepeatAfter(Time now, Exchange* exchange, Duration pause) {
    exchange->in_flight = false;
    exchange->at = now + pause;
    outbox_.view_wanted = true;
  }
  void DropConnection(Exchange* exchange) {
    exchange->contacted = false;
    outbox_.actions.emplace_back(Disconnect{exchange->server});
  }

  std::vector<Exchange> exchanges_;  // exchanges of an earlier pull or push are not open
  size_t open_ = 0;
  uint64_t first_sequence_ = 0;
  SliceVersions& versions_;
  Retries& retries_;
  WorkerOutbox& outbox_;
  bool ready_ = false;
  uint64_t last_sequence_ = 0;
  NodeId node_;
  Shared<View> view_ = View();
};

}  // namespace leat::protocol
