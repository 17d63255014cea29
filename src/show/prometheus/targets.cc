#include "show/prometheus/targets.h"

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

std::string TargetsJson(const report::JobStatus& status, const std::string& own, const std::string& host,
                        bool tls) {
  Json targets = Json::array();
  // The names differ from those of the labels of metrics.
  const auto add = [&](const std::string& address, const std::string& role, uint64_t index) {
    Json labels{{"leat_job", status.job}, {"leat_role", role}, {"leat_index", std::to_string(index)}};
    if (tls) labels["__scheme__"] = "https";
    targets.push_back({{"targets", {address}}, {"labels", std::move(labels)}});
  };
  add(own, "coordinator", 0);
  const auto reachable = [&](const auto& process) {
    return !process.metrics.empty() &&
           (!OnLoopback(process.metrics) || process.host.empty() || process.host == host);
  };
  for (const report::MemberStatus& m : status.members) {
    // Both are counted by themselves.
    const bool apart = m.name.role == "coordinator" || m.name.standby();
    if (reachable(m)) add(m.metrics, m.name.role + (apart ? "-standby" : ""), m.name.index);
  }
  for (const report::BotsStatus& bots : status.bots) {
    if (reachable(bots)) add(bots.metrics, "bots", 0);
  }
  return JsonText(targets, 2) + "\n";
}

}  // namespace leat::observe
