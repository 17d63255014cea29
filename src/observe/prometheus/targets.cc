#include "observe/prometheus/targets.h"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/json/text.h"

namespace leat::observe {
namespace {

using Json = nlohmann::ordered_json;

bool OnLoopback(const std::string& address) {
  return address.starts_with("127.") || address.starts_with("[::1]");
}

}  // namespace

std::string TargetsJson(const Json& status, const std::string& own, const std::string& host, bool tls) {
  Json targets = Json::array();
  const std::string job = status.value("job", "");
  // The names differ from those of the labels of metrics.
  const auto add = [&](const std::string& address, const std::string& role, uint64_t index) {
    Json labels{{"leat_job", job}, {"leat_role", role}, {"leat_index", std::to_string(index)}};
    if (tls) labels["__scheme__"] = "https";
    targets.push_back({{"targets", {address}}, {"labels", std::move(labels)}});
  };
  add(own, "coordinator", 0);
  const auto reachable = [&](const Json& process) {
    const std::string address = process.value("metrics", "");
    return !address.empty() && (!OnLoopback(address) || process.value("host", host) == host);
  };
  for (const Json& member : status.value("members", Json::array())) {
    if (!reachable(member)) continue;
    std::string role = member.value("role", "");
    // Both are counted by themselves.
    if (role == "coordinator" || member.value("state", "") == "standby") role += "-standby";
    add(member.value("metrics", ""), role, member.value("index", uint64_t{0}));
  }
  for (const Json& bots : status.value("bots", Json::array())) {
    if (reachable(bots)) add(bots.value("metrics", ""), "bots", 0);
  }
  return JsonText(targets, 2) + "\n";
}

}  // namespace leat::observe
