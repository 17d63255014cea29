#include "net/loop.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <system_error>

#include "base/check.h"
#include "net/poller.h"

namespace leat::net {
namespace {

constexpr size_t kEventsPerTurn = 64;
constexpr uint64_t kWakeKey = 0;
constexpr Duration kBusyPoll = std::chrono::milliseconds(5);
constexpr Duration kMaxBusyPoll = std::chrono::milliseconds(500);
constexpr uint32_t kMaxSkippedPolls = 255;

Time MonotonicNow() {
  return MonotonicClock().Now();
}

uint32_t Interest(bool read, bool write) {
  return (read ? uint32_t{EPOLLIN} : 0u) | (write ? uint32_t{EPOLLOUT} : 0u);
}

uint64_t SlotKey(uint32_t slot, uint32_t generation) {
  return uint64_t{generation} << 32 | slot;
}
uint32_t SlotOf(uint64_t key) {
  return static_cast<uint32_t>(key);
}
uint32_t GenerationOf(uint64_t key) {
  return static_cast<uint32_t>(key >> 32);
}

}  // namespace

Loop::Impl::Impl()
    : epoll(epoll_create1(EPOLL_CLOEXEC)),
      wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      waited_until(MonotonicNow()) {
  if (epoll < 0 || wake < 0)
    throw std::system_error(errno, std::generic_category(), "no more files can be opened (ulimit -n)");
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kWakeKey}};
  LEAT_CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, wake, &event) == 0);
}

Loop::Impl::~Impl() {
  close(wake);
  close(epoll);
}

uint64_t Loop::Impl::Watch(int fd, bool read, bool write, Watcher* watcher) {
  uint32_t at = static_cast<uint32_t>(slots.size());
  if (free_slots.empty()) {
    slots.emplace_back();
  } else {
    at = free_slots.back();
    free_slots.pop_back();
  }
  Slot& slot = slots[at];
  slot.watcher = watcher;
  slot.fd = fd;
  const uint64_t key = SlotKey(at, slot.generation);
  epoll_event event{.events = Interest(read, write), .data = {.u64 = key}};
  LEAT_CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
  return key;
}

void Loop::Impl::Rewatch(uint64_t key, bool read, bool write) {
  epoll_event event{.events = Interest(read, write), .data = {.u64 = key}};
  LEAT_CHECK(epoll_ctl(epoll, EPOLL_CTL_MOD, slots[SlotOf(key)].fd, &event) == 0);
}

void Loop::Impl::Unwatch(uint64_t key) {
  Slot& slot = slots[SlotOf(key)];
  LEAT_CHECK(slot.generation == GenerationOf(key));
  epoll_ctl(epoll, EPOLL_CTL_DEL, slot.fd, nullptr);
  slot.watcher = nullptr;
  slot.fd = -1;
  if (++slot.generation == 0) slot.generation = 1;
  free_slots.push_back(SlotOf(key));
}

void Loop::Impl::Post(std::function<void()> work) {
  bool first = false;
  {
    std::lock_guard lock(mutex);
    first = posted.empty();
    posted.push_back(std::move(work));
  }
  // On its own thread the loop checks posted work before it waits again.
  if (first && thread.load() != std::this_thread::get_id()) Wake();
}

void Loop::Impl::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const auto n = write(wake, &one, sizeof(one));
}

void Loop::Impl::RunPosted() {
  std::vector<std::function<void()>> work;
  {
    std::lock_guard lock(mutex);
    work.swap(posted);
  }
  for (auto& run : work) {
    run();
    run = nullptr;  // destroys captured objects in order, too
  }
}

// Runs timers due at `now`. Timers that they add are later.
void Loop::Impl::RunTimers(Time now) {
  while (!timers.empty() && timers.begin()->first.first <= now) {
    const auto timer = timers.extract(timers.begin());
    timer_times.erase(timer.key().second);
    timer.mapped()();
  }
}

void Loop::Impl::Remove(Pollable* one) {
  if (polling) {
    std::ranges::replace(polled, one, nullptr);
  } else {
    std::erase(polled, one);
  }
}

// Returns false if none of them had work.
bool Loop::Impl::PollAll() {
  if (polled.empty()) return false;
  bool any = false;
  polling = true;
  for (size_t i = 0; i < polled.size(); ++i) {  // it may grow
    if (polled[i] != nullptr && polled[i]->Poll()) any = true;
  }
  polling = false;
  std::erase(polled, nullptr);
  return any;
}

// The time that the loop may sleep: at most `wait`.
Duration Loop::Impl::Wait(Duration wait) {
  {
    std::lock_guard lock(mutex);
    if (!posted.empty()) return {};
  }
  if (!timers.empty()) wait = std::min(wait, timers.begin()->first.first - MonotonicNow());
  return std::max(wait, Duration::zero());
}

// Returns `now` if polling is not worthwhile.
Time Loop::Impl::BusyPollUntil(Time now) {
  if (busy_polls == 0) return now;
  if (!std::exchange(busy_poll_begun, true)) busy_poll_end = now + std::min(now - waited_until, kMaxBusyPoll);
  if (polls_skipped < polls_to_skip) {
    ++polls_skipped;
    return now;
  }
  polls_skipped = 0;
  return std::max(now + kBusyPoll, busy_poll_end);
}

int Loop::Impl::Poll(std::span<epoll_event> events, Duration wait) {
  const int size = static_cast<int>(events.size());
  if (PollAll()) wait = {};
  wait = Wait(wait);
  if (wait > Duration::zero()) {
    const Time begin = MonotonicNow();
    const Time busy_poll = BusyPollUntil(begin),
               until = std::min(std::max(poll_until, busy_poll), begin + wait);
    Time now = begin;
    for (; now < until; now = MonotonicNow()) {
      const bool any = PollAll();
      const int count = epoll_wait(epoll, events.data(), size, 0);
      if (any || count != 0) {
        if (busy_poll > begin) polls_to_skip = 0;
        waited_until = now;
        return count;
      }
      sched_yield();
    }
    if (busy_poll > begin && now >= busy_poll)
      polls_to_skip = std::min(2 * polls_to_skip + 1, kMaxSkippedPolls);
    wait = Wait(begin + wait - now);  // the remaining time
  }
  for (Pollable* one : polled) {
    if (wait > Duration::zero()) wait = std::min(wait, one->MaxSleep());
  }
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
  const int count = epoll_wait(epoll, events.data(), size, static_cast<int>(std::min<int64_t>(ms, INT_MAX)));
  if (ms > 0) waited_until = MonotonicNow();
  return count;
}

void Loop::Impl::RunOnce(Duration wait) {
  thread = std::this_thread::get_id();
  std::array<epoll_event, kEventsPerTurn> events;
  const int count = Poll(events, wait);
  // Sockets before timers: after a pause, a process must see what has arrived before it sees that a deadline
  // has passed.
  for (int i = 0; i < count; ++i) {
    const uint64_t key = events[static_cast<size_t>(i)].data.u64;
    if (key == kWakeKey) {
      uint64_t ignored;
      [[maybe_unused]] const auto n = read(wake, &ignored, sizeof(ignored));
      continue;
    }
    const Slot& slot = slots[SlotOf(key)];
    if (slot.watcher == nullptr || slot.generation != GenerationOf(key)) continue;
    const uint32_t ready = events[static_cast<size_t>(i)].events;
    const bool broken = (ready & (EPOLLERR | EPOLLHUP)) != 0;
    slot.watcher->OnReady(broken || (ready & EPOLLIN) != 0, broken || (ready & EPOLLOUT) != 0);
  }
  RunPosted();
  if (!timers.empty()) RunTimers(MonotonicNow());
}

Loop::Loop() : impl_(std::make_unique<Impl>()) {}
Loop::~Loop() = default;

void Loop::Post(std::function<void()> work) {
  impl_->Post(std::move(work));
}

uint64_t Loop::After(Duration delay, std::function<void()> work) {
  const uint64_t handle = ++impl_->last_timer;
  const Time when = MonotonicNow() + std::max(delay, Duration::zero());
  impl_->timers.emplace(std::pair(when, handle), std::move(work));
  impl_->timer_times.emplace(handle, when);
  return handle;
}

void Loop::Cancel(uint64_t timer) {
  const auto at = impl_->timer_times.find(timer);
  if (at == impl_->timer_times.end()) return;
  // Destroyed last: captured objects may call the loop.
  auto work = impl_->timers.extract(std::pair(at->second, timer));
  impl_->timer_times.erase(at);
}

Loop::BusyPoll::BusyPoll(Loop& loop) : loop_(loop) {
  if (loop_.impl_->busy_polls++ == 0) loop_.impl_->busy_poll_begun = false;
}
Loop::BusyPoll::~BusyPoll() {
  --loop_.impl_->busy_polls;
}

void Loop::Run() {
  while (RunOnce(std::chrono::hours(1))) {
  }
}

bool Loop::RunOnce(Duration wait) {
  if (impl_->stopped) return false;
  impl_->RunOnce(wait);
  return !impl_->stopped;
}

void Loop::RunUntil(const std::function<bool()>& done, Time deadline) {
  for (Time now = Now(); now < deadline && !done(); now = Now()) impl_->RunOnce(deadline - now);
}

void Loop::Stop() {
  impl_->stopped = true;
  impl_->Wake();
}

bool Loop::OnItsThread() const {
  return impl_->thread.load() == std::this_thread::get_id();
}

Time Loop::Now() const {
  return MonotonicNow();
}

}  // namespace leat::net
