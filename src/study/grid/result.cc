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
  switch (mode) {
    case Mode::kReal:
      return "real";
    case Mode::kModelled:
      return "simulated";
    case Mode::kComputed:
      return "simulated, real arithmetic";
  }
  return "unknown";
}

void Fill(const report::JobStatus& summary, double bytes_per_s, double model_bytes, bool stepped,
          PointResult* result) {
  const auto known = [](double x, double otherwise = 0) { return std::isfinite(x) ? x : otherwise; };
  result->events = static_cast<double>(summary.events);
  result->seconds = known(summary.training_s, known(summary.wall_s));
  if (result->events_per_s == 0) result->events_per_s = summary.events_per_s;
  if (result->events_per_s == 0 && result->seconds > 0)
    result->events_per_s = result->events / result->seconds;
  for (const auto& accuracy :
       {summary.test ? summary.test->test_accuracy : std::nullopt, summary.quality.accuracy}) {
    if (!result->accuracy && accuracy && std::isfinite(*accuracy)) result->accuracy = accuracy;
  }
  if (std::isfinite(summary.quality.loss)) result->loss = summary.quality.loss;
  Usage& usage = result->usage;
  usage.stepped = stepped;
  usage.staleness = known(summary.staleness_mean);
  const double seconds = result->seconds;
  if (!(seconds > 0)) return;
  std::vector<double> steps;
  double compute = 0, wait = 0, steps_done = 0;
  size_t workers = 0;
  result->server_bytes.clear();
  for (const report::MemberStatus& member : summary.members) {
    if (member.name.role == "ps") {
      const auto in = static_cast<double>(member.bytes_in.value_or(0)),
                 out = static_cast<double>(member.bytes_out.value_or(0));
      result->server_bytes.push_back(in + out);
      if (bytes_per_s > 0)
        usage.server_link = std::max(usage.server_link, std::max(in, out) / seconds / bytes_per_s);
      usage.server_cpu = std::max(usage.server_cpu, member.cpu_s.value_or(0) / seconds);
    } else if (member.name.role == "worker") {
      ++workers;
      if (!member.worker) continue;
      const double step = known(member.worker->step_ms) * 1e-3;
      const auto done = static_cast<double>(member.worker->progress.steps);
      if (step > 0) steps.push_back(step);
      compute += step * done;
      wait += member.worker->progress.wait_seconds;
      steps_done = std::max(steps_done, done);
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
