// A job's past and present, for those who look at it while it runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "show/history/history.h"
#include "show/history/history_file.h"

namespace leat::observe {

// Written by one thread, read by several. Thread-safe.
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
  // Calls `f`, such as a member function, with the history, while nobody changes it.
  template <class F, class... Arguments>
  auto With(const F& f, const Arguments&... arguments) const {
    std::lock_guard lock(mutex_);
    return std::invoke(f, history_, arguments...);
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

// Keeps a job's history in its directory, and in a monitor for those who look. Blocks for the disk. Not
// thread-safe: one thread uses it.
class Recorder {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(1);  // between two calls of OnStatus

  // Continues the history that the directory has, if it can be read. While nothing can be written, which is
  // logged once, there is what the monitor has in memory, and another attempt every minute.
  Recorder(std::string directory, std::shared_ptr<JobMonitor> monitor);

  void OnStatus(double time_s, report::JobStatus status);
  // The last one.
  void Finish(double time_s, report::JobStatus status);

 private:
  void StartFile(const StoredStatus& status);
  void Store(const std::vector<Record>& records);
  StoredStatus LastStatus() const;  // as JSON
  void OnFailure(const Status& why);

  const std::string directory_;
  const std::shared_ptr<JobMonitor> monitor_;
  std::optional<HistoryWriter> writer_;
  bool replaced_ = false;  // another process has the file
  bool failing_ = false;
  std::optional<double> minute_s_;  // when it last did what it does every minute
};

}  // namespace leat::observe
