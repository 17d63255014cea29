// The internals of a Loop, for transports: readiness of file descriptors. Loop's thread only, except Post.
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

// Notified while its descriptor is ready (level-triggered). OnReady may unwatch and destroy this and other
// watchers.
class Watcher {
 public:
  // An error or hang-up sets both flags.
  virtual void OnReady(bool readable, bool writable) = 0;

 protected:
  ~Watcher() = default;
};

// A source of events without a descriptor, such as memory that another process writes. The loop polls it in
// every iteration and asks it before sleeping. Poll may remove it from the loop.
class Pollable {
 public:
  // Does a bounded amount of work; false if there was none.
  virtual bool Poll() = 0;
  // Called before the loop sleeps: the longest time it may sleep. Zero if there is work to do. After a result
  // above zero, a watched descriptor of this source must become ready in time.
  virtual Duration MaxSleep() = 0;

 protected:
  ~Pollable() = default;
};
constexpr Duration kForever = std::chrono::hours(24);

struct Loop::Impl {
  Impl();
  ~Impl();

  // The caller keeps ownership of the descriptor and unwatches it before closing it. Returns a key, never 0.
  uint64_t Watch(int fd, bool read, bool write, Watcher* watcher);
  void Rewatch(uint64_t key, bool read, bool write);
  void Unwatch(uint64_t key);

  void Add(Pollable* one) { polled.push_back(one); }
  void Remove(Pollable* one);

  // More bytes are expected within microseconds, as in the middle of a large message. The loop polls until
  // then instead of sleeping, because a wakeup costs both sides more than the transfer. It yields the core to
  // other threads.
  void KeepPolling(Time until) { poll_until = std::max(poll_until, until); }

  void Post(std::function<void()> work);
  void RunOnce(Duration wait);
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
    uint32_t generation = 1;  // generation of the slot; events for an earlier one are dropped
  };

  int epoll = -1;
  int wake = -1;  // eventfd
  std::vector<Slot> slots;
  std::vector<uint32_t> free_slots;

  std::map<std::pair<Time, uint64_t>, std::function<void()>> timers;  // by time and handle
  std::map<uint64_t, Time> timer_times;
  uint64_t last_timer = 0;

  std::vector<Pollable*> polled;  // null: removed during PollAll
  bool polling = false;
  Time poll_until{};

  Time waited_until;  // end of the last wait, polling or asleep
  int busy_polls = 0;
  bool busy_poll_begun = false;
  Time busy_poll_end{};        // equals the busy time before this wait
  uint32_t polls_to_skip = 0;  // busy polls to skip after an unsuccessful one
  uint32_t polls_skipped = 0;  // skipped so far

  std::atomic<std::thread::id> thread;
  std::atomic<bool> stopped{false};
  std::mutex mutex;
  std::vector<std::function<void()>> posted;  // guarded by mutex
};

}  // namespace leat::net
