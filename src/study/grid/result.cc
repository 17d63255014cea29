#include "study/grid/result.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/json/text.h"

namespace leat::study {

namespace {

using Json = nlohmann::ordered_json;

template <class J>
double Number(const J& in, const char* key, double fallback = 0) {
  if (!in.is_object() || !in.contains(key) || !in.at(key).is_number()) return fallback;
  const double value = in.at(key).template get<double>();
  return std::isfinite(value) ? value : fallback;
}

template <class J>
std::optional<double> Maybe(const J& in, const char* key) {
  const double value = Number(in, key, NAN);
  return std::isnan(value) ? std::nullopt : std::optional(value);
}

Json OrNull(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

constexpr std::array<std::pair<const char*, double Usage::*>, 9> kShares{
    {{"server_link", &Usage::server_link},
     {"server_cpu", &Usage::server_cpu},
     {"source_link", &Usage::source_link},
     {"worker_link", &Usage::member_link},
     {"compute", &Usage::compute},
     {"wait", &Usage::wait},
     {"input_wait", &Usage::input_wait},
     {"slowest", &Usage::slowest},
     {"staleness", &Usage::staleness}}};

}  // namespace

std::string_view Name(Mode mode) {
  return fields::NameOf(mode);
}

void Fill(const nlohmann::json& summary, double bytes_per_s, double model_bytes, bool stepped,
          PointResult* result) {
  result->events = Number(summary, "events");
  result->seconds = Number(summary, "training_s", Number(summary, "wall_s"));
  for (const char* key : {"steady_events_per_s", "events_per_s"}) {
    if (result->events_per_s == 0) result->events_per_s = Number(summary, key);
  }
  if (result->events_per_s == 0 && result->seconds > 0)
    result->events_per_s = result->events / result->seconds;
  result->accuracy = Maybe(summary, "test_accuracy");
  if (!result->accuracy) result->accuracy = Maybe(summary, "accuracy");
  result->loss = Maybe(summary, "loss");
  Usage& usage = result->usage;
  usage.stepped = stepped;
  usage.staleness = Number(summary, "staleness_mean");
  const double seconds = result->seconds;
  if (!(seconds > 0) || !summary.contains("members") || !summary.at("members").is_array()) return;
  std::vector<double> steps;
  double compute = 0, wait = 0, steps_done = 0;
  size_t workers = 0;
  result->server_bytes.clear();
  for (const auto& member : summary.at("members")) {
    const std::string role = member.is_object() ? member.value("role", "") : "";
    if (role == "ps") {
      const double in = Number(member, "bytes_in"), out = Number(member, "bytes_out");
      result->server_bytes.push_back(in + out);
      if (bytes_per_s > 0)
        usage.server_link = std::max(usage.server_link, std::max(in, out) / seconds / bytes_per_s);
      usage.server_cpu = std::max(usage.server_cpu, Number(member, "cpu_s") / seconds);
    } else if (role == "worker") {
      ++workers;
      const double step = Number(member, "step_ms") * 1e-3;
      if (step > 0) steps.push_back(step);
      compute += step * Number(member, "steps");
      wait += Number(member, "wait_s");
      steps_done = std::max(steps_done, Number(member, "steps"));
    }
  }
  if (workers == 0) return;
  const double all = seconds * static_cast<double>(workers);
  usage.compute = std::min(1.0, compute / all);
  usage.wait = std::min(1.0, wait / all);
  usage.input_wait = std::max(0.0, 1 - usage.compute - usage.wait);
  if (!steps.empty()) {
    std::ranges::sort(steps);
    usage.slowest = steps.back() / steps[(steps.size() - 1) / 2];
  }
  if (result->server_bytes.empty() && bytes_per_s > 0) {
    const double n = static_cast<double>(workers);
    usage.member_link = steps_done * 2 * (n - 1) / n * model_bytes / seconds / bytes_per_s;
  }
}

double CostOf(const StudyFile& study, const PointResult& result) {
  const double per_hour =
      study.worker_price * result.point.workers + study.server_price * result.point.servers;
  return per_hour / 3600 * result.target_s.value_or(result.seconds);
}

nlohmann::ordered_json ToJson(const StudyFile& study, const PointResult& result) {
  const GridPoint& point = result.point;
  Json json{{"key", KeyOf(study, point)},
            {"workers", point.workers},
            {"ps", point.servers},
            {"batch", point.batch},
            {"strategy", StrategyText(study, point.strategy)},
            {"placement", point.servers > 0 ? Json(PlacementText(study, point.placement)) : Json(nullptr)},
            {"link", study.links[point.link]},
            {"input", study.inputs[point.input]},
            {"mode", Name(result.mode)}};
  if (!result.error.empty()) {
    json["error"] = result.error;
    return json;
  }
  json["events"] = result.events;
  json["events_per_s"] = result.events_per_s;
  json["seconds"] = result.seconds;
  if (study.target) {
    json["target_s"] = OrNull(result.target_s);
    json["target_events"] = OrNull(result.target_events);
  }
  json["compute_s"] = result.compute_s;
  json["cost"] = result.cost;
  json["accuracy"] = OrNull(result.accuracy);
  json["loss"] = OrNull(result.loss);
  json["server_bytes"] = result.server_bytes;
  for (const auto& [name, share] : kShares) json["usage"][name] = result.usage.*share;
  json["usage"]["stepped"] = result.usage.stepped;
  return json;
}

Result<PointResult> ParseResult(std::string_view text, const GridPoint& point) {
  const Json json = ParsedOrderedJson(text);
  if (!json.is_object() || !json.contains("mode")) return Status(Code::kDataLoss, "not a result");
  PointResult result{.point = point};
  const auto mode = json.at("mode");
  for (const Mode one : {Mode::kReal, Mode::kModelled, Mode::kComputed}) {
    if (mode.is_string() && mode.get_ref<const std::string&>() == Name(one)) result.mode = one;
  }
  if (json.contains("error")) {
    result.error = json.at("error").is_string() ? json.at("error").get<std::string>() : "unknown";
    return result;
  }
  result.events = Number(json, "events");
  result.events_per_s = Number(json, "events_per_s");
  result.seconds = Number(json, "seconds");
  if (!(result.seconds > 0)) return Status(Code::kDataLoss, "a result without a time");
  result.target_s = Maybe(json, "target_s");
  result.target_events = Maybe(json, "target_events");
  result.compute_s = Number(json, "compute_s");
  result.cost = Number(json, "cost");
  result.accuracy = Maybe(json, "accuracy");
  result.loss = Maybe(json, "loss");
  if (json.contains("server_bytes") && json.at("server_bytes").is_array()) {
    for (const Json& bytes : json.at("server_bytes")) {
      if (bytes.is_number()) result.server_bytes.push_back(bytes.get<double>());
    }
  }
  if (json.contains("usage")) {
    const Json& usage = json.at("usage");
    for (const auto& [name, share] : kShares) result.usage.*share = Number(usage, name, result.usage.*share);
    result.usage.stepped = usage.is_object() && usage.contains("stepped") && usage.at("stepped") == true;
  }
  return result;
}

}  // namespace leat::study
