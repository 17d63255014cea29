#include "show/dashboard/frames.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/fields/json.h"
#include "show/dashboard/verdicts.h"

namespace leat::observe {
namespace {

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
    auto& its = columns->members[Name(member)];
    size_t place = 0;
    for (const auto& figure : RatesOf(member.role))
      put(&its[std::string(figure.tag)], Short(member.figures[place++]));
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

std::string EventsJson(const std::vector<Event>& events) {
  return fields::ToJson(events);
}

std::string FrameJson(const JobMonitor& monitor) {
  const auto present = monitor.present();
  Content content{.number = present->number, .live = !monitor.closed() && present->live};
  if (present->number == 0) return fields::ToJson(content);
  const double now = present->reading.time_s;
  const auto recent = monitor.Query(now - kVerdictSpan_s, now, kVerdictPoints);
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

}  // namespace leat::observe
