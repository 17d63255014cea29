#include "observe/tensorboard/status_summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "observe/tensorboard/distribution.h"

namespace leat::tensorboard {
namespace {

using Json = nlohmann::json;

struct Figure {
  const char* entry;  // of the status, as a JSON pointer
  const char* tag;
  const char* description;
};

constexpr std::array kFigures = {
    Figure{"/loss", "learning/loss", "of each event before the model trained on it, over the job's window"},
    Figure{"/accuracy", "learning/accuracy", "share of labels predicted correctly, over the job's window"},
    Figure{"/mae", "learning/mae", "mean absolute error, over the job's window"},
    Figure{"/auc", "learning/auc", "over the job's window"},
    Figure{"/auc_possible", "learning/auc_possible", "AUC of the known probability, over the same events"},
    Figure{"/fading/loss", "learning/fading/loss", "with forgetting"},
    Figure{"/fading/accuracy", "learning/fading/accuracy", "with forgetting"},
    Figure{"/fading/mae", "learning/fading/mae", "with forgetting"},
    Figure{"/fading/auc", "learning/fading/auc", "with forgetting"},
    Figure{"/learning_rate", "learning/learning_rate", "of the next update, with schedule and drift alarms"},
    Figure{"/drift/alarms", "learning/drift_alarms", "of this run"},
    Figure{"/events", "stream/events", "applied by every slice, each once, since the job was created"},
    Figure{"/events_per_s_now", "stream/events_per_s", "of the last seconds"},
    Figure{"/lag", "stream/lag", "events that some slice has not applied yet"},
    Figure{"/lag_s", "stream/lag_s", "seconds since the oldest of them came"},
    Figure{"/dead_letters", "stream/dead_letters", "records that did not fit the schema"},
    Figure{"/lost_to_retention", "stream/lost_to_retention",
           "offsets that retention removed before they were read"},
    Figure{"/unjoined", "stream/unjoined", "events for which no label came"},
    Figure{"/steps", "updates/steps", "batches trained by this run's workers"},
    Figure{"/step", "updates/step", "stepped strategies: reached by every slice"},
    Figure{"/staleness_mean", "updates/staleness_mean",
           "updates applied between a worker's pull and its push"},
    Figure{"/staleness_p99", "updates/staleness_p99", "99th percentile"},
    Figure{"/rejected_batches", "updates/rejected_batches", "with a gradient that was not finite"},
    Figure{"/duplicates", "updates/duplicates", "batches that a ledger rejected because the slice had them"},
    Figure{"/late", "updates/late", "runs that missed their step"},
    Figure{"/skipped", "updates/skipped", "updates that were not finite"},
    Figure{"/wanted/workers", "members/workers_wanted", "by the job or its autoscaler"},
    Figure{"/failed_checkpoints", "checkpoints/failed", "in this run"},
    Figure{"/aggregated_compute_s", "cost/compute_s", "CPU seconds of all processes together"},
};

// Of one member: the entry in its object, and the last part of the tag "servers/0/bytes_per_s".
constexpr std::array kOfServers = {
    Figure{"/share", "share", "of the bytes that all servers hold"},
    Figure{"/bytes_per_s", "bytes_per_s", "received and sent"},
};
constexpr std::array kOfWorkers = {
    Figure{"/step_ms", "step_ms", "duration of a step without the wait for servers"},
    Figure{"/wait_s", "wait_s", "for servers, in all"},
    Figure{"/input_wait_s", "input_wait_s", "with nothing to train, in all"},
};

class Writer {
 public:
  explicit Writer(std::set<std::string>* described) : described_(*described) {}

  void Describe(const std::string& tag, const char* description) {
    if (described_.insert(tag).second) summary.descriptions[tag] = description;
  }
  void Add(const std::string& tag, double value, const char* description) {
    if (!std::isfinite(value)) return;
    summary.scalars.emplace_back(tag, static_cast<float>(value));
    Describe(tag, description);
  }
  void Add(const Json& from, const Figure& figure, const std::string& prefix = "") {
    const Json::json_pointer entry(figure.entry);
    if (from.contains(entry) && from[entry].is_number())
      Add(prefix + figure.tag, from[entry].get<double>(), figure.description);
  }

  Summary summary;

 private:
  std::set<std::string>& described_;
};

// The scalars of one member, unless its index is too high.
void AddMember(const Json& member, std::span<const Figure> figures, const std::string& tag, Writer* out) {
  const auto index = member.at("index").get<uint64_t>();
  if (index >= StatusSummary::kMaxMembers) return;
  const std::string prefix = tag + "/" + std::to_string(index) + "/";
  for (const Figure& figure : figures) out->Add(member, figure, prefix);
}

void AddMembers(const Json& members, Writer* out) {
  std::map<std::string, uint64_t> counts = {{"workers", 0}, {"servers", 0}, {"standbys", 0}, {"feeds", 0}};
  for (const Json& member : members) {
    const auto role = member.at("role").get<std::string>();
    if (member.value("state", "") == "standby" || role == "coordinator") {
      ++counts["standbys"];
    } else if (role == "ps") {
      ++counts["servers"];
      AddMember(member, kOfServers, "servers", out);
    } else if (role == "worker") {
      ++counts["workers"];
      AddMember(member, kOfWorkers, "workers", out);
    } else if (role == "feed") {
      ++counts["feeds"];
    }
  }
  for (const auto& [role, count] : counts)
    out->Add("members/" + role, static_cast<double>(count), "in the job");
}

}  // namespace

StatusSummary::Step StatusSummary::Take(const Json& status) {
  const auto events = status.at("events").get<uint64_t>();
  Writer out(&described_);
  for (const Figure& figure : kFigures) out.Add(status, figure);
  if (const auto members = status.find("members"); members != status.end()) AddMembers(*members, &out);

  auto staleness = status.value("staleness", std::vector<uint64_t>());
  auto since = staleness;
  // Servers that come again begin with 0.
  for (size_t i = 0; i < std::min(since.size(), staleness_.size()); ++i)
    since[i] -= std::min(since[i], staleness_[i]);
  staleness_ = std::move(staleness);
  if (Histogram histogram = OfWholeNumbers(since); !histogram.counts.empty()) {
    out.summary.histograms.emplace_back("updates/staleness", std::move(histogram));
    out.Describe("updates/staleness", "of what was applied since the last point");
  }
  return {.events = events, .summary = std::move(out.summary)};
}

}  // namespace leat::tensorboard
