// The page of a job: its files, answers to questions about the job, its past, and events for those who follow
// it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "show/history/history.h"
#include "show/history/job_monitor.h"
#include "show/http/listener.h"

namespace leat::observe {

// ---- verdicts: answers to the four questions about a job that the page shows at a glance: is it healthy,
// does it learn, does it keep up, and what limits it. Pure.
struct Verdict {
  enum class Level { kNone, kGood, kWarn, kBad } level = Level::kNone;
  std::string headline, why;
  std::string what = {};  // "health", "learning", "pace", "limit"
};
LEAT_ENUM(Verdict::Level, (kNone, "none"), (kGood, "good"), (kWarn, "warn"), (kBad, "bad"));
LEAT_FIELDS(Verdict, (level), (headline), (why), (what));

struct Evidence {
  const Reading& now;
  // Samples of the last kVerdictSpan_s or less, the oldest first; the last one is `now`'s.
  const std::vector<Sample>& recent;
  const std::vector<Event>& events;  // the last ones, the oldest first
  bool live = true;                  // false: nothing has been heard of the job since
};
inline constexpr double kVerdictSpan_s = 600;

std::vector<Verdict> Verdicts(const Evidence& evidence);  // all four, with `what` set
Verdict Health(const Evidence& evidence);
Verdict Learning(const Evidence& evidence);
Verdict Pace(const Evidence& evidence);
Verdict Limit(const Evidence& evidence);

// Content of the page, as JSON. The page is part of the program, so both always have the same version.

// {"t": [...], "series": {name: [...]}, "members": {"worker 0": {figure: [...]}}}; unknown values are null.
std::string HistoryJson(const std::vector<Sample>& samples);

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

// Thread-safe.
class Dashboard {
 public:
  explicit Dashboard(std::shared_ptr<const JobMonitor> monitor);

  // For an HttpListener that this outlives.
  std::vector<HttpRoute> Routes();

  // Blocks until those who follow the job have got its end, for `at_most`. The monitor is closed.
  void Finish(Duration at_most) const;

 private:
  Reply History(const Request& request) const;
  Reply Events();

  const std::shared_ptr<const JobMonitor> monitor_;
  const std::shared_ptr<Frames> frames_;
  const std::shared_ptr<std::atomic<int>> viewers_ = std::make_shared<std::atomic<int>>(0);
};

// The address of the page with the view token, for a browser. The token is behind #, so it is in no request
// and no log; the page exchanges it for a cookie.
std::string DashboardLink(std::string_view address, bool tls, std::string_view view_token);

}  // namespace leat::observe
