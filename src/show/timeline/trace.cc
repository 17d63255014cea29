#include "show/timeline/trace.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/json/text.h"

namespace leat::timeline {
namespace {

using Json = nlohmann::ordered_json;

// A push, as both sides name it: worker, server and sequence.
using PushKey = std::tuple<uint64_t, uint64_t, uint64_t>;

double Microseconds(Duration d) {
  return static_cast<double>(d.count()) * 1e-3;
}

// Where a span is shown: a thread of its process.
struct Place {
  int process = 0, row = 0;
  Time begin{0};  // start of the span
};

// The rows of one process. Spans of a row are apart, or one is inside the other.
class Rows {
 public:
  // Spans come in the order of their beginnings, the longer first.
  int RowFor(const std::string& name, Time begin, Time end) {
    std::vector<Row>& rows = rows_[name];
    for (Row& row : rows) {
      while (!row.open.empty() && row.open.back() <= begin) row.open.pop_back();
      if (!row.open.empty() && row.open.back() < end) continue;
      row.open.push_back(end);
      return row.number;
    }
    names_.push_back(rows.empty() ? name : name + " (" + std::to_string(rows.size() + 1) + ")");
    rows.push_back({static_cast<int>(names_.size()), {end}});
    return rows.back().number;
  }
  const std::vector<std::string>& names() const { return names_; }  // names of row 1, 2, …

 private:
  struct Row {
    int number;
    std::vector<Time> open;  // ends of spans, the innermost last
  };
  std::map<std::string, std::vector<Row>> rows_;
  std::vector<std::string> names_;
};

class Writer {
 public:
  Writer(const Recorded& recorded, const std::function<void(std::string_view)>& write)
      : recorded_(recorded), write_(write) {
    for (const auto& process : recorded.processes) names_[process.process.node.value] = process.process.name;
  }

  TraceCounts Write() {
    write_("{\"displayTimeUnit\":\"ms\",\"otherData\":" + JsonText(About()) + ",\"traceEvents\":[\n");
    for (size_t i = 0; i < recorded_.processes.size(); ++i)
      WriteProcess(static_cast<int>(i) + 1, recorded_.processes[i]);
    WriteArrows();
    write_("\n]}\n");
    return counts_;
  }

 private:
  Json About() {
    Json about{{"seconds", Seconds(recorded_.end - recorded_.begin)}, {"clock", "the coordinator's"}};
    for (const auto& [process, tracks] : recorded_.processes) {
      const Duration error = ClockOffset(process.clock).error();
      counts_.clock_error = std::max(counts_.clock_error, error);
      Json entry{{"name", process.name}, {"host", process.host}, {"pid", process.pid}};
      if (!process.clock.empty()) {
        entry["clock_offset_us"] = Microseconds(process.clock.front().offset);
        entry["clock_error_us"] = Microseconds(error);
      }
      if (process.dropped > 0) entry["dropped_spans"] = process.dropped;
      if (!process.missing.empty()) entry["missing"] = process.missing;
      about["processes"].push_back(std::move(entry));
    }
    return about;
  }

  void Event(const std::string& json) {
    write_(first_ ? json : ",\n" + json);
    first_ = false;
  }
  void Name(const char* what, int process, int row, const std::string& name) {
    Json event{{"ph", "M"}, {"name", what}, {"pid", process}, {"args", {{"name", name}}}};
    if (row > 0) event["tid"] = row;
    Event(JsonText(event));
    Json order{{"ph", "M"},
               {"pid", process},
               {"name", row > 0 ? "thread_sort_index" : "process_sort_index"},
               {"args", {{"sort_index", row > 0 ? row : process}}}};
    if (row > 0) order["tid"] = row;
    Event(JsonText(order));
  }

  std::string NameOf(uint64_t node) const {
    const auto found = names_.find(node);
    return found != names_.end() ? found->second : "node " + std::to_string(node);
  }
  // Pushes and applies have a row for each peer.
  std::string RowName(const std::string& track, const Span& span) const {
    if (span.kind == Kind::kPush) return "push to " + NameOf(span.peer);
    if (span.kind == Kind::kApply) return "apply of " + NameOf(span.peer);
    if (span.kind == Kind::kBucket) return "buckets";
    return track;
  }

  void WriteProcess(int number, const ProcessSpans& source) {
    const auto& process = source.process;
    const ClockOffset offset(process.clock);
    std::string title = process.name;
    if (!process.host.empty()) title += " on " + process.host;
    if (process.pid != 0) title += ", pid " + std::to_string(process.pid);
    if (!process.missing.empty()) title += ": " + process.missing;
    Name("process_name", number, 0, title);

    std::vector<std::pair<const std::string*, Span>> spans;
    for (const TrackSpans& track : source.tracks) {
      for (Span span : track.spans) {
        span.begin = offset.ToOther(span.begin);
        span.end = offset.ToOther(span.end);
        if (span.begin < recorded_.begin || span.begin > recorded_.end) continue;
        spans.emplace_back(&track.name, span);
      }
    }
    std::ranges::stable_sort(spans, [](const auto& a, const auto& b) {
      return std::tuple(a.second.begin, b.second.end) < std::tuple(b.second.begin, a.second.end);
    });
    Rows rows;
    for (const auto& [track, span] : spans) {
      const int row = rows.RowFor(RowName(*track, span), span.begin, span.end);
      WriteSpan(number, row, process.node.value, span);
    }
    for (size_t i = 0; i < rows.names().size(); ++i)
      Name("thread_name", number, static_cast<int>(i) + 1, rows.names()[i]);
  }

  void WriteSpan(int process, int row, uint64_t node, const Span& span) {
    ++counts_.spans;
    if (span.kind == Kind::kPush) pushes_[{node, span.peer, span.number}] = {process, row, span.begin};
    if (span.kind == Kind::kApply) applies_[{span.peer, node, span.number}] = {process, row, span.begin};
    // By hand: there may be millions.
    char text[256];
    const auto kind = kKindNames[static_cast<size_t>(span.kind)];
    int n = std::snprintf(text, sizeof(text),
                          "{\"ph\":\"X\",\"name\":\"%.*s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f",
                          static_cast<int>(kind.size()), kind.data(), process, row,
                          Microseconds(span.begin - recorded_.begin), Microseconds(span.end - span.begin));
    std::string event(text, static_cast<size_t>(n));
    std::string arguments;
    const auto add = [&](const char* name, double value) {
      n = std::snprintf(text, sizeof(text), "%s\"%s\":%.17g", arguments.empty() ? "" : ",", name, value);
      arguments.append(text, static_cast<size_t>(n));
    };
    const bool numbered = span.kind == Kind::kPush || span.kind == Kind::kApply ||
                          span.kind == Kind::kCheckpoint || span.kind == Kind::kBucket;
    if (numbered) add("number", static_cast<double>(span.number));
    if (span.bytes > 0) add("bytes", static_cast<double>(span.bytes));
    if (span.kind == Kind::kApply) add("busy_us", Microseconds(span.busy));
    if (!arguments.empty()) event += ",\"args\":{" + arguments + "}";
    Event(event + "}");
  }

  void WriteArrows() {
    for (const auto& [key, push] : pushes_) {
      const auto apply = applies_.find(key);
      if (apply == applies_.end()) {
        ++counts_.unmatched;
        continue;
      }
      ++counts_.arrows;
      Arrow("s", push, "");
      Arrow("f", apply->second, ",\"bp\":\"e\"");
    }
  }
  // Writes an end of the arrow; both ends have the number of the arrow.
  void Arrow(const char* phase, const Place& at, const char* more) {
    char text[200];
    const int n = std::snprintf(
        text, sizeof(text),
        "{\"ph\":\"%s\",\"cat\":\"push\",\"name\":\"push\",\"id\":%llu,\"pid\":%d,\"tid\":%d,\"ts\":%.3f%s}",
        phase, static_cast<unsigned long long>(counts_.arrows), at.process, at.row,
        Microseconds(at.begin - recorded_.begin), more);
    Event(std::string(text, static_cast<size_t>(n)));
  }

  const Recorded& recorded_;
  const std::function<void(std::string_view)>& write_;
  std::map<uint64_t, std::string> names_;  // by node
  std::map<PushKey, Place> pushes_, applies_;
  TraceCounts counts_;
  bool first_ = true;
};

}  // namespace

ClockSample Measure(Time sent, Time received, Time other) {
  const Duration half = (received - sent) / 2;
  // An additional tick covers the rounding of the divisions.
  return {.at = sent + half, .offset = other - (sent + half), .error = half + Duration(1)};
}

std::vector<ClockSample> Best(std::span<const ClockSample> samples) {
  if (samples.size() < 2) return {samples.begin(), samples.end()};
  const size_t questions = std::min(kQuestions, samples.size() / 2);
  std::vector<ClockSample> best;
  for (const auto& part : {samples.first(questions), samples.last(questions)})
    best.push_back(*std::ranges::min_element(part, {}, &ClockSample::error));
  return best;
}

ClockOffset::ClockOffset(std::vector<ClockSample> samples) : samples_(std::move(samples)) {}

Time ClockOffset::ToOther(Time mine) const {
  if (samples_.empty()) return mine;
  const auto after = std::ranges::find_if(samples_, [&](const auto& s) { return s.at > mine; });
  if (after == samples_.begin()) return mine + after->offset;
  const ClockSample& a = *std::prev(after);
  if (after == samples_.end()) return mine + a.offset;
  const double part = Seconds(mine - a.at) / Seconds(after->at - a.at);
  return mine + a.offset +
         Duration(static_cast<int64_t>(static_cast<double>((after->offset - a.offset).count()) * part));
}

Duration ClockOffset::error() const {
  Duration largest{0};
  for (const ClockSample& sample : samples_) largest = std::max(largest, sample.error);
  return largest;
}

TraceCounts WriteTrace(const Recorded& recorded, const std::function<void(std::string_view)>& write) {
  return Writer(recorded, write).Write();
}

}  // namespace leat::timeline
