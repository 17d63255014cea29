#include "observe/dashboard/frames.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "fields/json.h"
#include "observe/dashboard/verdicts.h"

namespace leat::observe {
namespace {

constexpr size_t kVerdictPoints = 120;
constexpr size_t kVerdictEvents = 100;

// Five digits are more than a chart shows.
void AppendFigure(float value, std::string* out) {
  if (!std::isfinite(value)) {
    *out += "null";
    return;
  }
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value, std::chars_format::general, 5);
  out->append(text, end);
}

void AppendTime(double time_s, std::string* out) {
  char text[64];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), time_s, std::chars_format::fixed, 2);
  *out += error == std::errc() ? std::string_view(text, end) : "null";
}

// "name":[...], or "name":value.
void AppendKey(std::string_view name, std::string* out) {
  if (out->back() != '{') *out += ',';
  *out += '"';
  *out += name;
  *out += "\":";
}

template <class F>
void AppendColumn(std::string_view name, size_t size, const F& value, std::string* out) {
  AppendKey(name, out);
  *out += '[';
  for (size_t i = 0; i < size; ++i) {
    if (i > 0) *out += ',';
    AppendFigure(value(i), out);
  }
  *out += ']';
}

std::string SampleJson(const Sample& sample) {
  std::string out = "{\"t\":";
  AppendTime(sample.time_s, &out);
  out += ",\"series\":{";
  for (size_t i = 0; i < kSeries; ++i) {
    AppendKey(fields::NameOf(static_cast<Series>(i)), &out);
    AppendFigure(sample.figures[i], &out);
  }
  out += "},\"members\":{";
  for (const MemberSample& member : sample.members) {
    AppendKey(Name(member), &out);
    out += '{';
    const auto series = SeriesOf(member.role);
    for (size_t i = 0; i < series.size(); ++i) {
      AppendKey(series[i].name, &out);
      AppendFigure(member.figures[i], &out);
    }
    out += '}';
  }
  out += "}}";
  return out;
}

}  // namespace

std::string HistoryJson(const std::vector<Sample>& samples) {
  std::string out = "{\"t\":[";
  for (size_t i = 0; i < samples.size(); ++i) {
    if (i > 0) out += ',';
    AppendTime(samples[i].time_s, &out);
  }
  out += "],\"series\":{";
  for (size_t s = 0; s < kSeries; ++s) {
    AppendColumn(
        fields::NameOf(static_cast<Series>(s)), samples.size(),
        [&](size_t i) { return samples[i].figures[s]; }, &out);
  }
  // By member: in each sample, its figures.
  std::map<std::pair<MemberSample::Role, uint32_t>, std::vector<const MemberSample*>> members;
  for (size_t i = 0; i < samples.size(); ++i) {
    for (const MemberSample& member : samples[i].members) {
      auto& its = members[{member.role, member.index}];
      its.resize(samples.size());
      its[i] = &member;
    }
  }
  out += "},\"members\":{";
  for (const auto& [key, its] : members) {
    MemberSample named;
    std::tie(named.role, named.index) = key;
    AppendKey(Name(named), &out);
    out += '{';
    const auto series = SeriesOf(named.role);
    for (size_t f = 0; f < series.size(); ++f) {
      AppendColumn(
          series[f].name, samples.size(),
          [&](size_t i) { return its[i] != nullptr ? its[i]->figures[f] : kUnknownValue; }, &out);
    }
    out += '}';
  }
  out += "}}";
  return out;
}

std::string EventsJson(const std::vector<Event>& events) {
  return fields::ToJson(events);
}

std::string FrameJson(const JobMonitor& monitor) {
  const auto present = monitor.present();
  const bool live = !monitor.closed() && present->live;
  if (present->number == 0) return live ? R"({"live":true})" : R"({"live":false})";
  const double now = present->reading.time_s;
  const auto recent = monitor.Query(now - kVerdictSpan_s, now, kVerdictPoints);
  const auto events = monitor.With([](const History& history) {
    const auto& all = history.events();
    return std::vector<Event>(all.end() - static_cast<ptrdiff_t>(std::min(all.size(), kVerdictEvents)),
                              all.end());
  });
  const Evidence evidence{present->reading, recent, events, live};
  const std::vector<Verdict> verdicts = {Health(evidence), Learning(evidence), Pace(evidence),
                                         Limit(evidence)};
  // Only those of the members that are in the status.
  Sample sample = present->sample;
  std::set<std::string> shown;
  for (const MemberStatus& member : present->trimmed.members) shown.insert(member.name.Text());
  std::erase_if(sample.members, [&](const MemberSample& m) { return !shown.contains(Name(m)); });
  std::string out = "{\"number\":" + std::to_string(present->number) + ",\"time\":";
  AppendTime(now, &out);
  out += live ? ",\"live\":true" : ",\"live\":false";
  out += ",\"status\":" + report::ToJson(present->trimmed) + ",\"sample\":" + SampleJson(sample) +
         ",\"verdicts\":" + fields::ToJson(verdicts) + "}";
  return out;
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
