#include "protocol/placement.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace leat::protocol {

namespace {

constexpr size_t kNamedVariables = 3;  // in a warning

constexpr std::pair<std::string_view, Placement::Kind> kPlacementKinds[] = {
    {"round_robin", Placement::kRoundRobin},
    {"greedy", Placement::kGreedy},
    {"partitioned", Placement::kPartitioned},
    {"weighted", Placement::kWeighted}};

// Bytes assigned to each server so far, without excluded servers.
class Loads {
 public:
  Loads(const Placement& placement, uint32_t servers) : bytes_(servers, 0), weights_(servers, 1) {
    if (placement.kind == Placement::kWeighted) weights_ = placement.weights;
    for (const uint32_t server : placement.exclude) weights_[server] = 0;
    for (uint32_t server = 0; server < servers; ++server) {
      if (weights_[server] > 0) allowed_.push_back(server);
    }
  }
  const std::vector<uint32_t>& allowed() const { return allowed_; }
  double Weight(uint32_t server) const { return weights_[server]; }
  uint64_t& operator[](uint32_t server) { return bytes_[server]; }
  // The server that would be least full, relative to its weight, with `more` bytes added; the first of
  // equals.
  uint32_t LeastWith(uint64_t more) const {
    uint32_t least = allowed_.front();
    for (const uint32_t server : allowed_) {
      if (Fullness(server, more) < Fullness(least, more)) least = server;
    }
    return least;
  }

 private:
  double Fullness(uint32_t server, uint64_t more) const {
    return static_cast<double>(bytes_[server] + more) / weights_[server];
  }

  std::vector<uint64_t> bytes_;
  std::vector<double> weights_;
  std::vector<uint32_t> allowed_;
};

// Indices of `sizes`, largest first; equal ones keep their order.
std::vector<uint32_t> LargestFirst(const std::vector<uint64_t>& sizes) {
  std::vector<uint32_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return sizes[a] > sizes[b]; });
  return order;
}

Status InvalidPlacement(std::string why) {
  return {Code::kInvalidArgument, std::move(why)};
}

Result<std::vector<uint32_t>> PlaceByFunction(const SliceTable& table, const PlacementFunction& own,
                                              uint32_t servers) {
  std::vector<uint32_t> assignment;
  try {
    assignment = own(table, servers);
  } catch (const std::exception& error) {
    return InvalidPlacement(std::string("the placement function failed: ") + error.what());
  }
  if (assignment.size() != table.slices.size()) {
    return InvalidPlacement("the placement function placed " + std::to_string(assignment.size()) +
                            " slices, there are " + std::to_string(table.slices.size()));
  }
  for (size_t i = 0; i < assignment.size(); ++i) {
    if (assignment[i] < servers) continue;
    return InvalidPlacement("the placement function put slice " + std::to_string(i) + " of '" +
                            table.variables[table.slices[i].variable].name + "' on server " +
                            std::to_string(assignment[i]) + " of " + std::to_string(servers));
  }
  return assignment;
}

std::string Percent(double share) {
  return std::to_string(static_cast<int>(std::floor(share * 100 + 1e-9))) + "%";
}

double LargestExcess(const PlacementReport& report) {
  double most = 0;
  for (const auto& server : report.servers) {
    const double limit = std::min(2 * server.fair, (1 + server.fair) / 2);
    most = std::max(most, server.share - limit);
  }
  return most;
}

// The report without warnings.
PlacementReport SumOf(const SliceTable& table, const Placement& placement,
                      const std::vector<uint32_t>& assignment, uint32_t servers, size_t slots) {
  PlacementReport report;
  report.servers.resize(servers);
  std::vector<std::vector<uint64_t>> parts(servers, std::vector<uint64_t>(table.variables.size()));
  for (size_t i = 0; i < assignment.size(); ++i) {
    const SliceSpec& slice = table.slices[i];
    // Statistics and moments have no optimizer.
    const bool trained = table.variables[slice.variable].role == optim::VariableRole::kTrained;
    const uint64_t bytes = slice.elements() * sizeof(float) * (trained ? 1 + slots : 1);
    report.bytes += bytes;
    report.servers[assignment[i]].bytes += bytes;
    parts[assignment[i]][slice.variable] += bytes;
  }
  Loads loads(placement.kind == Placement::kOwn ? Placement() : placement, servers);
  double weights = 0;
  for (const uint32_t server : loads.allowed()) weights += loads.Weight(server);
  for (uint32_t s = 0; s < servers; ++s) {
    auto& server = report.servers[s];
    server.fair = std::max(loads.Weight(s), 0.0) / weights;
    if (report.bytes > 0)
      server.share = static_cast<double>(server.bytes) / static_cast<double>(report.bytes);
    for (const uint32_t v : LargestFirst(parts[s])) {
      if (parts[s][v] > 0) server.variables.push_back({table.variables[v].name, parts[s][v]});
    }
  }
  return report;
}

}  // namespace

bool IsPlacement(std::string_view name) {
  return std::ranges::any_of(kPlacementKinds, [&](const auto& kind) { return kind.first == name; });
}

Placement PlacementFromConfig(const Config& config, const std::map<std::string, PlacementFunction>& own) {
  std::vector<std::string> names;
  for (const auto& [name, kind] : kPlacementKinds) names.emplace_back(name);
  for (const auto& [name, place] : own) names.push_back(name);
  const std::string name = (config.IsMap() ? config.At("type") : config).OneOf("placement", names);
  Placement placement(Placement::kOwn);
  if (const auto at = own.find(name); at != own.end()) {
    placement.own = at->second;
  } else {
    placement.kind = kPlacementKinds[std::ranges::find(names, name) - names.begin()].second;
  }
  const Config settings = config.IsMap() ? config : config.WithoutSettings();
  settings.Allow({"type", "weights", "exclude"});
  const bool weighted = placement.kind == Placement::kWeighted;
  if (settings.Has("weights") != weighted) {
    if (!weighted) settings.At("weights").Fail("weights are for the placement weighted; this one is " + name);
    config.Fail("the placement weighted takes weights: [1, 2] gives server 1 twice the bytes of server 0");
  }
  if (weighted) {
    const Config weights = settings.At("weights");
    if (!weights.IsList()) weights.Fail("weights is a list, a number for each server");
    for (size_t i = 0; i < weights.size(); ++i) placement.weights.push_back(weights[i].Number());
  }
  if (settings.Has("exclude")) {
    const Config exclude = settings.At("exclude");
    if (!exclude.IsList()) exclude.Fail("exclude is a list of servers: [0]");
    for (size_t i = 0; i < exclude.size(); ++i) {
      const int64_t server = exclude[i].Integer();
      if (server < 0 || server > ~0u) exclude.Fail("exclude names server " + std::to_string(server));
      placement.exclude.push_back(static_cast<uint32_t>(server));
    }
  }
  return placement;
}

Status Check(const Placement& placement, uint32_t servers) {
  const std::string of = " of " + Plural(servers, "server");
  if (placement.kind == Placement::kOwn) {
    if (!placement.own) return InvalidPlacement("the placement function is missing");
    if (!placement.exclude.empty())
      return InvalidPlacement(
          "exclude has no effect with a placement function, which must leave servers out itself");
    return {};
  }
  for (const uint32_t server : placement.exclude) {
    if (server < servers) continue;
    return InvalidPlacement("exclude names server " + std::to_string(server) + of +
                            "; servers are numbered from 0");
  }
  const bool weighted = placement.kind == Placement::kWeighted;
  if (weighted && placement.weights.size() != servers) {
    return InvalidPlacement(std::to_string(placement.weights.size()) + " weights for " +
                            Plural(servers, "server") + "; there must be one for each");
  }
  for (const double weight : placement.weights) {
    if (std::isfinite(weight) && weight >= 0 && weight <= 1e6) continue;
    return InvalidPlacement("a weight is " + std::to_string(weight) + "; it is between 0 and 1000000");
  }
  for (uint32_t server = 0; server < servers; ++server) {
    const bool excluded = std::ranges::find(placement.exclude, server) != placement.exclude.end();
    if (!excluded && (!weighted || placement.weights[server] > 0)) return {};
  }
  return InvalidPlacement("no server" + of + " may hold slices: each is excluded or has weight 0");
}

Result<std::vector<uint32_t>> Place(const SliceTable& table, const Placement& placement, uint32_t servers) {
  LEAT_RETURN_IF_ERROR(Check(placement, servers));
  if (placement.kind == Placement::kOwn) return PlaceByFunction(table, placement.own, servers);
  Loads loads(placement, servers);
  const std::vector<uint32_t>& allowed = loads.allowed();
  std::vector<uint32_t> assignment(table.slices.size(), allowed.front());
  if (allowed.size() == 1) return assignment;
  if (placement.kind == Placement::kRoundRobin) {
    for (size_t i = 0; i < assignment.size(); ++i)
      assignment[i] = allowed[table.slices[i].variable % allowed.size()];
    return assignment;
  }

  uint64_t total = 0;
  std::vector<uint64_t> variable_sizes(table.variables.size(), 0);
  std::vector<std::vector<uint32_t>> members(table.variables.size());
  for (uint32_t i = 0; i < assignment.size(); ++i) {
    const SliceSpec& slice = table.slices[i];
    variable_sizes[slice.variable] += slice.elements();
    members[slice.variable].push_back(i);
    total += slice.elements();
  }
  const auto place_slices = [&](const std::vector<uint32_t>& slices) {
    std::vector<uint64_t> sizes;
    for (uint32_t i : slices) sizes.push_back(table.slices[i].elements());
    for (uint32_t k : LargestFirst(sizes)) {
      assignment[slices[k]] = loads.LeastWith(sizes[k]);
      loads[assignment[slices[k]]] += sizes[k];
    }
  };
  if (placement.kind != Placement::kGreedy) {
    std::vector<uint32_t> all(assignment.size());
    std::iota(all.begin(), all.end(), 0u);
    place_slices(all);
    return assignment;
  }
  const uint64_t fair = (total + allowed.size() - 1) / allowed.size();
  for (uint32_t v : LargestFirst(variable_sizes)) {
    const uint32_t least = loads.LeastWith(variable_sizes[v]);
    if (loads[least] + variable_sizes[v] > fair + fair / 20) {
      place_slices(members[v]);
      continue;
    }
    for (uint32_t i : members[v]) assignment[i] = least;
    loads[least] += variable_sizes[v];
  }
  return assignment;
}

std::vector<uint32_t> Place(const SliceTable& table, Placement::Kind kind, uint32_t servers) {
  auto assignment = Place(table, Placement(kind), std::max(servers, 1u));
  LEAT_CHECK(assignment.ok());
  return std::move(*assignment);
}

PlacementReport Describe(const SliceTable& table, const Placement& placement,
                         const std::vector<uint32_t>& assignment, uint32_t servers, size_t slots) {
  PlacementReport report = SumOf(table, placement, assignment, servers, slots);
  for (uint32_t s = 0; s < servers; ++s) {
    const auto& server = report.servers[s];
    if (server.share <= std::min(2 * server.fair, (1 + server.fair) / 2)) continue;
    std::string line = "ps " + std::to_string(s) + " carries " + Percent(server.share) +
                       " of the bytes (fair: " + Percent(server.fair) + "): ";
    for (size_t i = 0; i < server.variables.size() && i < kNamedVariables; ++i) {
      line += (i > 0 ? ", " : "") + server.variables[i].name + " " + BytesText(server.variables[i].bytes);
    }
    if (server.variables.size() > kNamedVariables) line += ", …";
    report.warnings.push_back(std::move(line));
  }
  if (report.warnings.empty() || placement.kind == Placement::kGreedy) return report;
  // The suggestion, if another placement is better.
  Placement greedy = placement;
  greedy.kind = Placement::kGreedy;
  if (placement.kind == Placement::kOwn) greedy = Placement::kGreedy;
  const auto spread = Place(table, greedy, servers);
  if (spread.ok() && LargestExcess(SumOf(table, greedy, *spread, servers, slots)) <= 0)
    for (std::string& line : report.warnings) line += "; placement: greedy spreads them";
  return report;
}

std::string BytesText(uint64_t bytes) {
  constexpr const char* kUnits[] = {"KB", "MB", "GB", "TB"};
  if (bytes < 1000) return std::to_string(bytes) + " bytes";
  double value = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  while (value >= 999.95 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return Formatted("%.1f %s", value, kUnits[unit]);
}

}  // namespace leat::protocol
