// The table of figures: the name of each, and where it is shown. Prometheus, TensorBoard, the history, the
// job's page, docs/metrics.md and docs/tensorboard.md are made from it. A new figure is a row in figures.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fields/types.h"
#include "show/report/job_status.h"

namespace leat::report {

// Series of the history, which the dashboard draws.
enum class Series : uint8_t {
  kEventsPerS,
  kArrivedPerS,  // events that have come into the stream
  kLoss,
  kAccuracy,
  kMae,
  kAuc,
  kAucPossible,
  kLag,   // events
  kLagS,  // seconds
  kStaleness,
  kServerBytesPerS,  // traffic of all servers, in both directions
  // The mean over all workers: shares of their time, and of the thread that decodes.
  kCompute,
  kWait,
  kInputWait,
  kDecode,
  kCores,  // processors in use, by all processes of the job
  kWorkers,
  kServers,
  kDeadLettersPerS,
  kCount
};
LEAT_ENUM(Series, (kEventsPerS, "events_per_s"), (kArrivedPerS, "arrived_per_s"), (kLoss, "loss"),
          (kAccuracy, "accuracy"), (kMae, "mae"), (kAuc, "auc"), (kAucPossible, "auc_possible"),
          (kLag, "lag"), (kLagS, "lag_s"), (kStaleness, "staleness"),
          (kServerBytesPerS, "server_bytes_per_s"), (kCompute, "compute"), (kWait, "wait"),
          (kInputWait, "input_wait"), (kDecode, "decode"), (kCores, "cores"), (kWorkers, "workers"),
          (kServers, "servers"), (kDeadLettersPerS, "dead_letters_per_s"));

// The charts of the job's page, in their order, with their titles.
enum class Chart : uint8_t { kEvents, kLoss, kQuality, kLag, kTraffic, kStaleness, kTime, kNone };
LEAT_ENUM(Chart, (kEvents, "Events per second"), (kLoss, "Loss"), (kQuality, "Quality"), (kLag, "Lag"),
          (kTraffic, "Traffic of each server"), (kStaleness, "Staleness of updates"),
          (kTime, "Time of all workers"));
// The columns of its table of members.
enum class Column : uint8_t { kSpeed, kStep, kProcessors, kDone, kNone };
LEAT_ENUM(Column, (kSpeed, "Speed"), (kStep, "Step"), (kProcessors, "CPU"), (kDone, "Done"));

// How the page shows a figure.
struct Shown {
  enum class As : uint8_t {
    kCell,  // in the column alone
    // A line of the chart; kRight: with an axis of its own.
    kLine,
    kFilled,
    kDashed,
    kRight,
    kPart,      // a server's part of a sum, or a part of a worker's time: stacked in the chart, and a bar
    kBar,       // below the parts of a member
    kDetail,    // with the part or bar of this name: the value or, if there are several, the largest
    kFact,      // above the charts
    kRareFact,  // the same, unless it is 0
    kFactPerS,  // growth per second
  } as = As::kCell;
  std::string_view label = {};
  Chart chart = Chart::kNone;
  int color = -1;  // index in the theme's colors; -1: grey
  Column column = Column::kNone;
};
LEAT_FIELDS(Shown, (as), (label), (chart, Unshown), (color), (column, Unshown));
LEAT_ENUM(Shown::As, (kCell, "cell"), (kLine, "line"), (kFilled, "filled"), (kDashed, "dashed"),
          (kRight, "right"), (kPart, "part"), (kBar, "bar"), (kDetail, "detail"), (kFact, "fact"),
          (kRareFact, "rare fact"), (kFactPerS, "fact per s"));

using Keyed = std::vector<std::pair<std::string, double>>;
// A figure of a T: of the job's status, or of a member's report.
template <class T>
struct Figure {
  std::string_view help;         // a sentence that can be read alone
  std::string_view unit;         // "seconds", "bytes", "events"; empty: a number without one
  double (*value)(const T&);     // NaN: not known
  std::string_view metric = {};  // Prometheus name; a counter if it ends with "_total"
  std::string_view tag = {};     // TensorBoard name; for a member, its last part; for a rate, the rate's
  Shown shown = {};
  Series series = Series::kCount;  // the history's series: the value, or its growth per second
  bool rate = false;
  // A figure with several values has these in place of `value`, by their keys, and a label for the keys.
  Keyed (*values)(const T&) = nullptr;
  std::string_view label = {};
  std::string_view name = {};  // key in a member's entry of the status, for the page; empty: the tag
};
// Calls f(key, value) for each value; the key is empty unless the figure has several.
template <class T, class F>
void ForEachValue(const Figure<T>& figure, const T& from, const F& f) {
  if (figure.values == nullptr) return f(std::string(), figure.value(from));
  for (const auto& [key, value] : figure.values(from)) f(key, value);
}

// The member at the end of a path: Get<&JobStatus::drift, &DriftStatus::alarms>. NaN: an optional is empty.
template <auto kFirst, auto... kRest, class T>
double Get(const T& from) {
  const auto& value = from.*kFirst;
  const auto follow = [](const auto& at) {
    if constexpr (sizeof...(kRest) > 0) {
      return Get<kRest...>(at);
    } else {
      return static_cast<double>(at);
    }
  };
  if constexpr (fields::kIsOptional<std::decay_t<decltype(value)>>) {
    return value ? follow(*value) : kUnknown;
  } else {
    return follow(value);
  }
}

// The values of a list of structs with these members, by their keys.
template <auto kList, auto kKey, auto kValue, class T>
Keyed Each(const T& from) {
  Keyed all;
  for (const auto& one : from.*kList)
    all.emplace_back(std::to_string(one.*kKey), static_cast<double>(one.*kValue));
  return all;
}

template <class T>
using Figures = std::span<const Figure<T>>;

extern const Figures<JobStatus> kJobFigures;
extern const Figures<MemberStatus> kMemberFigures;  // as the coordinator shows them
// Figures whose growth per second is in the history, in this order. `series`: their mean over all workers, or
// their sum over all servers.
extern const Figures<MemberStatus> kWorkerRates, kServerRates;
// As the member shows them.
extern const Figures<protocol::WorkerProgress> kWorkerFigures;
extern const Figures<protocol::MemberReport> kGroupMemberFigures;
extern const Figures<protocol::ServerProgress> kServerFigures;
extern const Figures<protocol::FeedHeartbeat> kFeedFigures;
extern const Figures<protocol::FollowProgress> kFollowFigures;
extern const Figures<protocol::BotsHeartbeat> kBotsFigures;

}  // namespace leat::report
