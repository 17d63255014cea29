// The table of figures: what each is called, and where it is shown. Prometheus, TensorBoard, the history and
// docs/metrics.md are made from it. A new figure is a row in figures.cc.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fields/types.h"
#include "report/job_status.h"

namespace leat::report {

// What the history keeps, and the dashboard draws.
enum class Series : uint8_t {
  kEventsPerS,
  kArrivedPerS,  // that have come into the stream
  kLoss,
  kAccuracy,
  kMae,
  kAuc,
  kAucPossible,
  kLag,   // events
  kLagS,  // seconds
  kStaleness,
  kServerBytesPerS,  // of all servers, in both directions
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

using Keyed = std::vector<std::pair<std::string, double>>;
// A figure of a T: of the job's status, or of what a member reports.
template <class T>
struct Figure {
  std::string_view help;           // one sentence that can be read alone
  double (*value)(const T&);       // NaN: not known
  std::string_view metric = {};    // of Prometheus; a counter if it ends with "_total"
  std::string_view tag = {};       // of TensorBoard; of a member, its last part
  Series series = Series::kCount;  // of the history: the value, or what it grows by in a second
  bool rate = false;
  // A figure with several values has these in place of `value`, by their keys, and a label for the keys.
  Keyed (*values)(const T&) = nullptr;
  std::string_view label = {};
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

template <class T>
using Figures = std::span<const Figure<T>>;

extern const Figures<JobStatus> kJobFigures;
extern const Figures<MemberStatus> kMemberFigures;  // as the coordinator shows them
// As the member shows them.
extern const Figures<protocol::WorkerProgress> kWorkerFigures;
extern const Figures<protocol::MemberReport> kGroupMemberFigures;
extern const Figures<protocol::ServerProgress> kServerFigures;
extern const Figures<protocol::FeedHeartbeat> kFeedFigures;
extern const Figures<protocol::FollowProgress> kFollowFigures;
extern const Figures<protocol::BotsHeartbeat> kBotsFigures;

}  // namespace leat::report
