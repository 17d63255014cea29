// The inside of a Loop, for transports: readiness of file descriptors. Loop's thread only, except Post.
#pragma once

#include <sys/epoll.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "net/loop.h"

namespace leat::net {

// Told when its descriptor is ready, again and again until it has taken or given enough (level-triggered).
// May unwatch and destroy itself and others from within.
class Watcher {
 public:
  // An error or a hang-up of the peer counts as both.
  virtual void OnReady(bool readable, bool writable) = 0;

 protected:
  ~Watcher() = default;
};

// What comes without a descriptor that says so, as in memory that another process writes to: it is looked at
// in every turn of the loop, and asked before the loop sleeps. May be taken from the loop from within.
class Pollable {
 public:
  // Does what there is to do, for a bounded time; false when there was nothing.
  virtual bool Poll() = 0;
  // The loop is about to sleep: for how long may it? Zero: there is something to do after all. Whoever says
  // more than zero has seen to it that a descriptor of its own becomes ready in time.
  virtual Duration MaxSleep() = 0;

 protected:
  ~Pollable() = default;
};
constexpr Duration kForever = std::chrono::hours(24);

struct Loop::Impl {
  Impl();
  ~Impl();

  // The descriptor stays the caller's and is unwatched before it is closed. Returns a key, never 0.
  uint64_t Watch(int fd, bool read, bool write, Watcher* watcher);
  void Rewatch(uint64_t key, bool read, bool write);
  void Unwatch(uint64_t key);

  void Add(Pollable* one) { polled.push_back(one); }
  void Remove(Pollable* one);

  // More is expected within microseconds, as in the middle of a large message: until then the loop looks
  // again and again rather than sleep, which would cost it, and the peer that has to wake it, more time than
  // the bytes take. Others that want the processor get it.
  void KeepPolling(Time until) { poll_until = std::max(poll_until, until); }

  void Post(std::function<void()> work);
  bool RunOnce(Duration wait);
  void RunPosted();
  void RunTimers(Time now);
  Duration Wait(Duration wait);
  bool PollAll();
  int Poll(std::span<epoll_event> events, Duration wait);
  Time BusyPollUntil(Time now);
  void Wake();

  struct Slot {
    Watcher* watcher = nullptr;
    int fd = -1;
    uint32_t generation = 1;  // of the slot: an event for an earlier one is dropped
  };

  int epoll = -1;
  int wake = -1;  // eventfd
  std::vector<Slot> slots;
  std::vector<uint32_t> free_slots;

  std::map<std::pair<Time, uint64_t>, std::function<void()>> timers;  // by when and handle
  std::map<uint64_t, Time> timer_times;
  uint64_t last_timer = 0;

  std::vector<Pollable*> polled;  // null: removed while they were being looked at
  bool polling = false;
  Time poll_until{};

  Time waited_until;  // when it last ceased to wait, awake or asleep
  int busy_polls = 0;
  bool busy_poll_begun = false;
  Time busy_poll_end{};        // of one as long as the loop had not waited before
  uint32_t polls_to_skip = 0;  // vigils to leave out after one that was in vain
  uint32_t polls_skipped = 0;  // of them, so far

  std::atomic<std::thread::id> thread;
  std::atomic<bool> stopped{false};
  std::mutex mutex;
  std::vector<std::function<void()>> posted;  // guarded by mutex
};

}  // namespace leat::net
