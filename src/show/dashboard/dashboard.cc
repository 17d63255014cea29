#include "show/dashboard/dashboard.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "base/text.h"
#include "show/dashboard/page_files.h"

namespace leat::observe {
namespace {

constexpr size_t kMostPoints = 2000;
constexpr size_t kMostEvents = 1200;  // all that there are

// A number of the query in [0, most]; `otherwise` if it is absent or anything else.
double QueryNumber(const Request& request, std::string_view name, double most, double otherwise) {
  const auto number = ToNumber<double>(request.head.QueryValue(name).value_or(""));
  return number && *number >= 0 && *number <= most ? *number : otherwise;
}

std::string Message(const char* event, const std::string& data) {
  return std::string("event: ") + event + "\ndata: " + data + "\n\n";
}

// The messages to a viewer of the job. A slow viewer misses frames, but no events; nothing is queued for it.
class Viewer {
 public:
  Viewer(std::shared_ptr<const JobMonitor> monitor, std::shared_ptr<Frames> frames,
         std::shared_ptr<std::atomic<int>> viewers)
      : monitor_(std::move(monitor)), frames_(std::move(frames)), viewers_(std::move(viewers)) {
    ++*viewers_;
  }
  ~Viewer() { --*viewers_; }
  Viewer(const Viewer&) = delete;
  Viewer& operator=(const Viewer&) = delete;

  std::optional<std::string> Next() {
    if (over_) return std::nullopt;
    const bool closed = monitor_->closed();  // before the last frame is fetched
    std::string messages;
    if (const auto frame = frames_->Latest(); !begun_ || frame->number != frame_ || closed) {
      const auto events = monitor_->EventsAfter(event_, kMostEvents);
      if (!events.empty()) {
        messages += Message("log", EventsJson(events));
        event_ = events.back().number;
      }
      messages += Message("frame", frame->json);
      frame_ = frame->number;
      begun_ = true;
    }
    if (closed) {
      messages += Message("end", "{}");
      over_ = true;
    }
    return messages;
  }

 private:
  const std::shared_ptr<const JobMonitor> monitor_;
  const std::shared_ptr<Frames> frames_;
  const std::shared_ptr<std::atomic<int>> viewers_;
  uint64_t frame_ = 0, event_ = 0;  // the last ones that it has
  bool begun_ = false, over_ = false;
};

}  // namespace

Dashboard::Dashboard(std::shared_ptr<const JobMonitor> monitor)
    : monitor_(std::move(monitor)), frames_(std::make_shared<Frames>(monitor_)) {}

std::vector<HttpRoute> Dashboard::Routes() {
  using Access = HttpRoute::Access;
  std::vector<HttpRoute> routes;
  // Without the token there is a page that asks for it.
  for (const PageFile& file : PageFiles()) {
    routes.push_back({.path = file.path, .access = Access::kEveryone, .handler = [&file](const Request&) {
                        return Reply{.type = file.type, .body = std::string(file.content)};
                      }});
  }
  const auto session = [](const Request& request) {
    return Reply{.body = request.known ? R"({"authorised":true})" : R"({"authorised":false})"};
  };
  routes.push_back({.path = "/session", .access = Access::kEveryone, .handler = session});
  routes.push_back({.method = "POST", .path = "/session", .grants_cookie = true, .handler = session});
  routes.push_back(
      {.path = "/history", .handler = [this](const Request& request) { return History(request); }});
  routes.push_back({.path = "/events", .handler = [this](const Request&) { return Events(); }});
  return routes;
}

Reply Dashboard::History(const Request& request) const {
  const double seconds = QueryNumber(request, "seconds", 1e9, 300);
  const auto points = static_cast<size_t>(QueryNumber(request, "points", kMostPoints, 300));
  const double end = monitor_->end_s();
  const double begin = seconds > 0 ? std::max(monitor_->begin_s(), end - seconds) : monitor_->begin_s();
  return {.body = HistoryJson(monitor_->Query(begin, end, std::max<size_t>(points, 2)))};
}

Reply Dashboard::Events() {
  const auto viewer = std::make_shared<Viewer>(monitor_, frames_, viewers_);
  return {.type = kEventStream, .stream = [viewer] { return viewer->Next(); }};
}

void Dashboard::Finish(Duration at_most) const {
  const MonotonicClock clock;
  const Time until = clock.Now() + at_most;
  while (*viewers_ > 0 && clock.Now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

std::string DashboardLink(std::string_view address, bool tls, std::string_view view_token) {
  return std::string(tls ? "https://" : "http://") + std::string(address) + "/#" + std::string(view_token);
}

}  // namespace leat::observe
