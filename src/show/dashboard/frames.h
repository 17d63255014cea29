// Content of the page, as JSON. The page is part of the program, so both always have the same version.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "show/history/job_monitor.h"

namespace leat::observe {

// {"t": [...], "series": {name: [...]}, "members": {"worker 0": {figure: [...]}}}; unknown values are null.
std::string HistoryJson(const std::vector<Sample>& samples);

// [{"number", "time", "kind", "member", "node", "text"}, ...]
std::string EventsJson(const std::vector<Event>& events);

// {"number", "time", "live", "status", "sample", "verdicts", "facts"}; without a status: {"live"}.
std::string FrameJson(const JobMonitor& monitor);

// Makes each frame once, for all who look. Thread-safe.
class Frames {
 public:
  explicit Frames(std::shared_ptr<const JobMonitor> monitor) : monitor_(std::move(monitor)) {}
  struct Frame {
    uint64_t number = 0;
    std::string json;
  };
  std::shared_ptr<const Frame> Latest();

 private:
  const std::shared_ptr<const JobMonitor> monitor_;
  std::mutex mutex_;
  std::shared_ptr<const Frame> last_;
  bool closed_ = false;  // when it was made
};

}  // namespace leat::observe
