// A job's past and present, for those who look at it while it runs. Written by one thread, read by several.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "show/history/history.h"
#include "show/history/records.h"

namespace leat::observe {

// Thread-safe.
class JobMonitor {
 public:
  struct Present {
    uint64_t number = 0;        // number of the status since the start; 0: there is none yet
    report::JobStatus trimmed;  // the part that is shown and stored
    Reading reading;
    Sample sample;
    bool live = true;  // false: it is old, and no further one is expected
  };

  // ---- Writer's thread
  // Sets the job's past: before the first status, or instead of statuses.
  void Load(History history, StoredStatus last);
  // Returns the records to store for it.
  std::vector<Record> OnStatus(double time_s, report::JobStatus status);
  // Whether the job goes on, for a writer who only reads of it. A status says that it does.
  void SetLive(bool live);
  // No further status will come.
  void Close();

  // ---- Viewers' threads
  std::shared_ptr<const Present> present() const;  // never null
  bool closed() const;
  std::vector<Sample> Query(double from_s, double to_s, size_t points) const;
  std::vector<Event> EventsAfter(uint64_t number, size_t limit) const;
  double begin_s() const;
  double end_s() const;

  // Calls `f` with the history, while nobody changes it.
  template <class F>
  auto With(const F& f) const {
    std::lock_guard lock(mutex_);
    return f(history_);
  }

 private:
  mutable std::mutex mutex_;
  History history_;
  Sampler sampler_;
  // Added to all times: the clock of the host may be behind that of a former coordinator's.
  double shift_s_ = 0;
  std::shared_ptr<const Present> present_ = std::make_shared<const Present>();
  bool closed_ = false;
};

}  // namespace leat::observe
