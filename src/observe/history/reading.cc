#include "observe/history/reading.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json/depth.h"
#include "base/json/text.h"

namespace leat::observe {
namespace {

using Json = nlohmann::ordered_json;

// A name or a reason is not longer than this, whoever it comes from.
constexpr size_t kMaxText = 512;
// In a trimmed status.
constexpr size_t kMostMembers = 200;
constexpr size_t kMostVariables = 100;
constexpr size_t kMostParts = 50;  // of a variable
constexpr size_t kMostPeers = 20;  // that a member cannot reach
constexpr size_t kMostBots = 50;
constexpr size_t kMostEvicted = 20;
constexpr size_t kMostWarnings = 20;
// Levels. A status has five; some functions of the library call themselves for each.
constexpr int kMaxDepth = 32;

const Json* Find(const Json& json, const char* key) {
  const auto at = json.find(key);
  return at == json.end() ? nullptr : &*at;
}

void TakeMember(const Json& json, const char* key, double* out) {
  const Json* value = Find(json, key);
  if (value != nullptr && value->is_number()) *out = value->get<double>();
}

// Counts up to 2^53 are exact.
template <class T>
requires std::is_integral_v<T>
void TakeMember(const Json& json, const char* key, T* out) {
  double value = -1;
  TakeMember(json, key, &value);
  if (value >= 0 && value <= 9e15)
    *out = static_cast<T>(std::min(value, double(std::numeric_limits<T>::max())));
}

void TakeMember(const Json& json, const char* key, bool* out) {
  const Json* value = Find(json, key);
  if (value != nullptr && value->is_boolean()) *out = value->get<bool>();
}

void TakeMember(const Json& json, const char* key, std::string* out) {
  const Json* value = Find(json, key);
  if (value != nullptr && value->is_string()) *out = value->get<std::string>().substr(0, kMaxText);
}

void TakeMember(const Json& json, const char* key, std::vector<std::string>* out) {
  const Json* value = Find(json, key);
  if (value == nullptr || !value->is_array()) return;
  for (const Json& item : *value) {
    if (item.is_string()) out->push_back(item.get<std::string>().substr(0, kMaxText));
  }
}

// The objects of an array; none if it is not there.
template <class F>
void ForEach(const Json& json, const char* key, const F& f) {
  const Json* value = Find(json, key);
  if (value == nullptr || !value->is_array()) return;
  for (const Json& item : *value) {
    if (item.is_object()) f(item);
  }
}

MemberReading ReadMember(const Json& json) {
  MemberReading m;
  TakeMember(json, "role", &m.role);
  TakeMember(json, "index", &m.index);
  TakeMember(json, "node", &m.node);
  TakeMember(json, "state", &m.state);
  TakeMember(json, "host", &m.host);
  TakeMember(json, "pid", &m.pid);
  TakeMember(json, "slow", &m.slow);
  TakeMember(json, "stuck", &m.stuck);
  TakeMember(json, "skewed", &m.skewed);
  TakeMember(json, "unreachable", &m.unreachable);
  TakeMember(json, "cpu_s", &m.cpu_s);
  TakeMember(json, "done", &m.done);
  TakeMember(json, "compute_s", &m.compute_s);
  TakeMember(json, "wait_s", &m.wait_s);
  TakeMember(json, "input_wait_s", &m.input_wait_s);
  TakeMember(json, "decode_s", &m.decode_s);
  TakeMember(json, "step_ms", &m.step_ms);
  TakeMember(json, "last_dead_letter", &m.last_dead_letter);
  double in = 0, out = 0;
  TakeMember(json, "bytes_in", &in);
  TakeMember(json, "bytes_out", &out);
  m.bytes = in + out;
  return m;
}

// Keeps the `most` items with the highest ranks, in their order, and says how many there were.
template <class Rank>
void Keep(const char* key, size_t most, const Rank& rank, Json* json) {
  const auto at = json->find(key);
  if (at == json->end() || !at->is_array() || at->size() <= most) return;
  Json all = std::move(*at);
  std::vector<size_t> order(all.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t i) { return rank(all[i]); });
  order.resize(most);
  std::ranges::sort(order);
  Json kept = Json::array();
  for (const size_t i : order) kept.push_back(std::move(all[i]));
  (*json)[key] = std::move(kept);
  (*json)[std::string("all_") + key] = all.size();
}

// That of a variable, or of a part of one.
double BytesOfItem(const Json& item) {
  double bytes = 0;
  if (item.is_object()) TakeMember(item, "bytes", &bytes);
  return bytes;
}

// A list within each object of a list.
template <class Rank>
void KeepWithin(const char* list, const char* key, size_t most, const Rank& rank, Json* json) {
  const auto at = json->find(list);
  if (at == json->end() || !at->is_array()) return;
  for (Json& item : *at) {
    if (item.is_object()) Keep(key, most, rank, &item);
  }
}

void Trim(Json* json) {
  const auto as_they_are = [](const Json&) { return 0; };
  Keep(
      "members", kMostMembers,
      [](const Json& item) {
        if (!item.is_object()) return 0;
        const MemberReading m = ReadMember(item);
        return (m.stuck || !m.unreachable.empty() ? 4 : 0) + (m.slow ? 2 : 0) + (m.role == "ps" ? 1 : 0);
      },
      json);
  KeepWithin("members", "unreachable", kMostPeers, as_they_are, json);
  Keep("variables", kMostVariables, BytesOfItem, json);
  KeepWithin("variables", "ps", kMostParts, BytesOfItem, json);
  Keep("bots", kMostBots, as_they_are, json);
  Keep("stuck_evicted", kMostEvicted, as_they_are, json);
  Keep("warnings", kMostWarnings, as_they_are, json);
}

}  // namespace

std::string MemberReading::name() const {
  return (state == "standby" ? state : role) + " " + std::to_string(index);
}

const MemberReading* Reading::Find(uint64_t node) const {
  const auto at = std::ranges::lower_bound(members, node, {}, &MemberReading::node);
  return at != members.end() && at->node == node ? &*at : nullptr;
}

size_t Reading::Count(std::string_view role) const {
  return static_cast<size_t>(std::ranges::count_if(
      members, [role](const MemberReading& m) { return m.role == role && m.state != "standby"; }));
}

Result<Reading> ReadStatus(std::string_view status, double time_s, std::string* trimmed) {
  if (!IsShallowJson(status, kMaxDepth))
    return Status(Code::kDataLoss, "the status of the job is nested too deeply");
  Json json = ParsedOrderedJson(status);
  if (!json.is_object()) return Status(Code::kDataLoss, "the status of the job is no JSON object");
  Reading r{.time_s = time_s};
  TakeMember(json, "job", &r.job);
  TakeMember(json, "phase", &r.phase);
  TakeMember(json, "strategy", &r.strategy);
  TakeMember(json, "term", &r.term);
  TakeMember(json, "events", &r.events);
  TakeMember(json, "stream_end", &r.stream_end);
  TakeMember(json, "events_per_s_now", &r.events_per_s);
  TakeMember(json, "loss", &r.loss);
  TakeMember(json, "accuracy", &r.accuracy);
  TakeMember(json, "mae", &r.mae);
  TakeMember(json, "auc", &r.auc);
  TakeMember(json, "auc_possible", &r.auc_possible);
  TakeMember(json, "lag", &r.lag);
  TakeMember(json, "lag_s", &r.lag_s);
  if (const Json* bins = Find(json, "staleness"); bins != nullptr && bins->is_array()) {
    for (const Json& bin : *bins) r.staleness.push_back(bin.is_number() ? bin.get<double>() : 0);
  }
  TakeMember(json, "aggregated_compute_s", &r.cpu_s);
  TakeMember(json, "dead_letters", &r.dead_letters);
  TakeMember(json, "rejected_batches", &r.rejected_batches);
  TakeMember(json, "conflicts", &r.conflicts);
  TakeMember(json, "failed_checkpoints", &r.failed_checkpoints);
  TakeMember(json, "checkpoint_failure", &r.checkpoint_failure);
  TakeMember(json, "checkpoint", &r.checkpoint);
  TakeMember(json, "waiting_for", &r.waiting_for);
  if (const Json* drift = Find(json, "drift"); drift != nullptr && drift->is_object()) {
    TakeMember(*drift, "alarms", &r.drift_alarms);
    if (const Json* last = Find(*drift, "last"); last != nullptr && last->is_object())
      TakeMember(*last, "event", &r.drift_event);
  }
  if (const Json* moves = Find(json, "moves"); moves != nullptr && moves->is_object())
    TakeMember(*moves, "planned", &r.planned_moves);
  if (const Json* wanted = Find(json, "wanted"); wanted != nullptr && wanted->is_object()) {
    TakeMember(*wanted, "workers", &r.wanted_workers);
    TakeMember(*wanted, "ps", &r.wanted_servers);
    TakeMember(*wanted, "reason", &r.wanted_reason);
  }
  TakeMember(json, "warnings", &r.warnings);
  ForEach(json, "members", [&r](const Json& m) { r.members.push_back(ReadMember(m)); });
  std::ranges::stable_sort(r.members, {}, &MemberReading::node);
  ForEach(json, "departed", [&r](const Json& d) {
    DepartureReading departure;
    const MemberReading member = ReadMember(d);
    TakeMember(d, "number", &departure.number);
    TakeMember(d, "how", &departure.how);
    departure.member = member.name();
    departure.node = member.node;
    r.departed.push_back(std::move(departure));
  });
  if (trimmed == nullptr) return r;
  Trim(&json);
  if (json.contains("all_members")) {
    for (MemberReading& m : r.members) m.shown = false;
    ForEach(json, "members", [&r](const Json& m) {
      const uint64_t node = ReadMember(m).node;
      for (auto at = std::ranges::lower_bound(r.members, node, {}, &MemberReading::node);
           at != r.members.end() && at->node == node; ++at)
        at->shown = true;
    });
  }
  *trimmed = JsonText(json);
  return r;
}

}  // namespace leat::observe
