// Keeps a job's history in its directory, and in a monitor for those who look.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "show/history/history_file.h"
#include "show/history/job_monitor.h"

namespace leat::observe {

// Blocks for the disk. Not thread-safe: one thread uses it.
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
  void StoreStatus();
  void OnFailure(const Status& why);

  const std::string directory_;
  const std::shared_ptr<JobMonitor> monitor_;
  std::optional<HistoryWriter> writer_;
  bool replaced_ = false;  // another process has the file
  bool failing_ = false;
  std::optional<double> minute_s_;  // when it last did what it does every minute
};

}  // namespace leat::observe
