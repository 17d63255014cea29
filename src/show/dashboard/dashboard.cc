#include "show/dashboard/dashboard.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "base/fields/json.h"
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
      const auto events = monitor_->With(&History::EventsAfter, event_, kMostEvents);
      if (!events.empty()) {
        messages += Message("log", fields::ToJson(events));
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

constexpr size_t kVerdictPoints = 120;
constexpr size_t kVerdictEvents = 100;

// The same number with five digits: more than a chart shows.
double Short(float value) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value, std::chars_format::general, 5);
  double number = kUnknown;
  std::from_chars(text, end, number);
  return number;
}

// Hundredths of a second.
double ShortTime(double time_s) {
  return std::round(time_s * 100) / 100;
}

// The columns of a table of samples: a V for the times, for each series, and for each rate of a member.
template <class V>
struct Columns {
  V t{};
  std::map<std::string, V> series;
  std::map<std::string, std::map<std::string, V>> members;
};
using Moment = Columns<double>;
LEAT_FIELDS(Moment, (t), (series), (members));
using Past = Columns<std::vector<double>>;
LEAT_FIELDS(Past, (t), (series), (members));

// Calls put(column, value) for all that the sample has.
template <class V, class F>
void Put(const Sample& sample, Columns<V>* columns, const F& put) {
  put(&columns->t, ShortTime(sample.time_s));
  for (size_t i = 0; i < kSeries; ++i)
    put(&columns->series[std::string(fields::NameOf(static_cast<Series>(i)))], Short(sample.figures[i]));
  for (const MemberSample& member : sample.members) {
    auto& rates = columns->members[Name(member)];
    size_t place = 0;
    for (const auto& figure : RatesOf(member.role))
      put(&rates[std::string(figure.tag)], Short(member.figures[place++]));
  }
}

struct Fact {
  std::string_view label;
  std::string unit;
  double value = 0;
};
LEAT_FIELDS(Fact, (label), (unit), (value));

// The figures above the charts of the page, without those that are unknown.
std::vector<Fact> FactsOf(const report::JobStatus& status, const Sample& sample) {
  using As = report::Shown::As;
  std::vector<Fact> facts;
  for (const auto& figure : report::kJobFigures) {
    const As as = figure.shown.as;
    if (as != As::kFact && as != As::kRareFact && as != As::kFactPerS) continue;
    const bool rate = as == As::kFactPerS;
    const double value = rate ? Short(sample[figure.series]) : figure.value(status);
    if (std::isfinite(value) && (as != As::kRareFact || value != 0))
      facts.push_back({figure.shown.label, std::string(figure.unit) + (rate ? "/s" : ""), value});
  }
  return facts;
}

struct Content {
  uint64_t number = 0;
  double time = 0;
  bool live = true;
  std::optional<report::JobStatus> status;
  std::optional<Moment> sample;
  std::vector<Verdict> verdicts;
  std::vector<Fact> facts;
};
LEAT_FIELDS(Content, (number, Sparse), (time, Sparse), (live), (status), (sample), (verdicts, Sparse),
            (facts, Sparse));

}  // namespace

std::string HistoryJson(const std::vector<Sample>& samples) {
  Past past;
  // A member that came later has a column that begins with unknown values, or that ends with them.
  size_t row = 0;
  for (const Sample& sample : samples) {
    Put(sample, &past, [row](std::vector<double>* column, double value) {
      column->resize(row, kUnknown);
      column->push_back(value);
    });
    ++row;
  }
  for (auto& [name, columns] : past.members) {
    for (auto& [figure, column] : columns) column.resize(row, kUnknown);
  }
  return fields::ToJson(past);
}

std::string FrameJson(const JobMonitor& monitor) {
  const auto present = monitor.present();
  Content content{.number = present->number, .live = !monitor.closed() && present->live};
  if (present->number == 0) return fields::ToJson(content);
  const double now = present->reading.time_s;
  const auto recent = monitor.With(&History::Query, now - kVerdictSpan_s, now, kVerdictPoints);
  const auto events = monitor.With([](const History& history) {
    const auto& all = history.events();
    return std::vector<Event>(all.end() - static_cast<ptrdiff_t>(std::min(all.size(), kVerdictEvents)),
                              all.end());
  });
  const Evidence evidence{present->reading, recent, events, content.live};
  content.verdicts = Verdicts(evidence);
  content.facts = FactsOf(present->reading, present->sample);
  // Only those of the members that are in the status.
  Sample sample = present->sample;
  std::set<std::string> shown;
  for (const MemberStatus& member : present->trimmed.members) shown.insert(member.name.Text());
  std::erase_if(sample.members, [&](const MemberSample& m) { return !shown.contains(Name(m)); });
  Put(sample, &content.sample.emplace(), [](double* at, double value) { *at = value; });
  content.time = ShortTime(now);
  content.status = present->trimmed;
  return fields::ToJson(content);
}

std::shared_ptr<const Frames::Frame> Frames::Latest() {
  std::lock_guard lock(mutex_);
  const uint64_t number = monitor_->present()->number;
  const bool closed = monitor_->closed();
  if (last_ == nullptr || last_->number != number || closed != closed_) {
    last_ = std::make_shared<const Frame>(Frame{number, FrameJson(*monitor_)});
    closed_ = closed;
  }
  return last_;
}

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
  const double end = monitor_->With(&History::end_s);
  const double begin = seconds > 0 ? std::max(monitor_->With(&History::begin_s), end - seconds)
                                   : monitor_->With(&History::begin_s);
  return {.body = HistoryJson(monitor_->With(&History::Query, begin, end, std::max<size_t>(points, 2)))};
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
