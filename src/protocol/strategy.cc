#include "protocol/strategy.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/text.h"

namespace leat::protocol {

namespace {

struct KindRow {
  std::string_view name;
  std::vector<std::string_view> settings;
};

constexpr std::array kStrategyKinds = {StrategyKind::kAsync,     StrategyKind::kSync,
                                       StrategyKind::kSsp,       StrategyKind::kDownpour,
                                       StrategyKind::kAveraging, StrategyKind::kAllReduce};

const KindRow& Row(StrategyKind kind) {
  static const std::array<KindRow, kStrategyKinds.size()> kRows = {{
      {"async", {"staleness_aware"}},
      {"sync", {"lanes", "scale_learning_rate", "backup"}},
      {"ssp", {"staleness", "lanes", "scale_learning_rate", "staleness_aware"}},
      {"downpour", {"n_push", "n_fetch", "staleness_aware"}},
      {"averaging", {"period", "momentum", "lanes", "scale_learning_rate"}},
      {"allreduce", {"lanes", "scale_learning_rate", "deterministic", "transport"}},
  }};
  const auto index = static_cast<size_t>(kind);
  LEAT_CHECK(index < kRows.size());
  return kRows[index];
}

// Settings that had another name in earlier versions.
struct Renamed {
  std::string_view before, now;
};
constexpr std::array kRenamed = {Renamed{"virtual_workers", "lanes"}};

std::string_view NameNow(std::string_view setting) {
  const auto row = std::ranges::find(kRenamed, setting, &Renamed::before);
  return row == kRenamed.end() ? setting : row->now;
}

// The settings under their names of today. Their values keep their lines.
Config WithNamesOfToday(Config settings) {
  for (const auto& [before, now] : kRenamed) {
    if (!settings.Has(before)) continue;
    const Config value = settings.At(before);
    if (settings.Has(now)) {
      value.Fail("'" + std::string(before) + "' is the old name of '" + std::string(now) +
                 "', which is also set (" + settings.At(now).where() + ")");
    }
    settings = settings.Without(before).With(now, value);
  }
  return settings;
}

bool Has(StrategyKind kind, std::string_view setting) {
  return std::ranges::find(Row(kind).settings, setting) != Row(kind).settings.end();
}

StrategyKind ReadKind(const Config& config) {
  std::vector<std::string> names;
  for (const StrategyKind kind : kStrategyKinds) names.emplace_back(Name(kind));
  const std::string name = config.OneOf("strategy", names);
  return kStrategyKinds[static_cast<size_t>(std::ranges::find(names, name) - names.begin())];
}

// Rejects a setting of another strategy, which the error message names: it may be left from before a change
// of the type.
void Allow(const Config& config, StrategyKind kind) {
  std::vector<std::string> known = {"type"};
  for (const auto setting : Row(kind).settings) known.emplace_back(setting);
  for (const std::string& key : config.Keys()) {
    const std::string_view setting = NameNow(key);
    if (key == "type" || Has(kind, setting)) continue;
    std::string others;
    for (const StrategyKind other : kStrategyKinds) {
      if (Has(other, setting)) others += (others.empty() ? "" : ", ") + std::string(Name(other));
    }
    if (!others.empty()) {
      config.At(key).Fail("'" + key + "' is not a setting of the strategy " + std::string(Name(kind)) +
                          "; it belongs to " + others);
    }
  }
  WithNamesOfToday(config).Allow(known);
}

Status InvalidStrategy(std::string why) {
  return {Code::kInvalidArgument, std::move(why)};
}

// `lanes: auto`, and what goes with it.
void ReadAutoLanes(const Config& settings, StrategyConfig* out) {
  out->auto_lanes = settings.Has("lanes") && settings.At("lanes").String() == "auto";
  if (!settings.Has("scale_learning_rate")) return;
  using Scale = StrategyConfig::RateScale;
  const Config scale = settings.At("scale_learning_rate");
  const std::string name = scale.OneOf("scale_learning_rate", {"none", "linear", "sqrt"});
  out->rate_scale = name == "linear" ? Scale::kLinear : name == "sqrt" ? Scale::kSqrt : Scale::kNone;
  if (!out->auto_lanes && out->rate_scale != Scale::kNone)
    scale.Fail("scale_learning_rate is '" + name +
               "', but the number of lanes is fixed; it goes with lanes: auto");
}

// For the stepped strategies.
Status CheckLanes(const StrategyConfig& strategy, uint32_t workers, bool resumed) {
  const std::string name(Name(strategy.kind));
  const uint32_t most =
      strategy.on_servers() ? StrategyConfig::kMaxLanes : StrategyConfig::kMaxAllReduceLanes;
  if (strategy.backup >= workers) {
    return InvalidStrategy(
        "backup is " + std::to_string(strategy.backup) + " with " + Plural(workers, "worker") +
        ": no worker would be left to wait for; backup must be less than the number of workers");
  }
  if (strategy.lanes == 0) return InvalidStrategy("lanes is 0: a step needs at least one lane");
  if (strategy.lanes > most - strategy.backup) {
    return InvalidStrategy("lanes is " + std::to_string(strategy.lanes) + "; a step of " + name +
                           " has at most " + std::to_string(most) + " batches");
  }
  if (strategy.total_lanes() < workers && !resumed) {
    return InvalidStrategy(
        "lanes is " + std::to_string(strategy.lanes) +
        (strategy.backup > 0 ? " (and backup " + std::to_string(strategy.backup) + ")" : "") +
        ", fewer than the " + Plural(workers, "worker") + ": some workers would never have work");
  }
  return {};
}

}  // namespace

std::string_view Name(StrategyKind kind) {
  return Row(kind).name;
}

StrategyConfig Defaults(StrategyKind kind, uint32_t workers) {
  StrategyConfig out;
  out.kind = kind;
  if (Has(kind, "lanes")) out.lanes = workers;
  if (kind == StrategyKind::kSsp) out.staleness = 3;
  if (kind == StrategyKind::kDownpour) out.n_push = out.n_fetch = 4;
  if (kind == StrategyKind::kAveraging) out.period = 8;
  return out;
}

StrategyConfig StrategyFromConfig(const Config& config, uint32_t workers, uint32_t lanes) {
  const Config written = config.IsMap() ? config : config.WithoutSettings();
  const StrategyKind kind = ReadKind(config.IsMap() ? config.At("type") : config);
  Allow(written, kind);
  const Config settings = WithNamesOfToday(written);
  StrategyConfig out = Defaults(kind, workers);
  const auto read = [&](std::string_view key, auto& setting, int64_t least, int64_t most) {
    using T = std::remove_reference_t<decltype(setting)>;
    setting = static_cast<T>(settings.Integer(key, setting, least, most));
  };
  read("backup", out.backup, 0, StrategyConfig::kMaxLanes - 1);
  // By default there are as many lanes as workers.
  if (out.backup > 0 && out.backup < workers) out.lanes = workers - out.backup;
  if (lanes > 0 && Has(kind, "lanes")) out.lanes = lanes;
  ReadAutoLanes(settings, &out);
  if (!out.auto_lanes) read("lanes", out.lanes, 1, StrategyConfig::kMaxLanes);
  read("staleness", out.staleness, -1, StrategyConfig::kMaxStaleness);
  out.staleness_aware = settings.Bool("staleness_aware", out.staleness_aware);
  read("n_push", out.n_push, 1, StrategyConfig::kMaxPeriod);
  read("n_fetch", out.n_fetch, 1, StrategyConfig::kMaxPeriod);
  read("period", out.period, 1, StrategyConfig::kMaxPeriod);
  out.momentum = static_cast<float>(settings.Number("momentum", out.momentum));
  out.deterministic = settings.Bool("deterministic", out.deterministic);
  if (settings.Has("transport"))
    out.mpi = settings.At("transport").OneOf("transport", {"auto", "mpi"}) == "mpi";
  if (kind == StrategyKind::kSsp && out.staleness == -1 && settings.Has("lanes")) {
    settings.At("lanes").Fail(
        "lanes is the number of batches per step; with staleness -1 there are no steps");
  }
  if (const Status good = Check(out, workers, lanes > 0); !good.ok()) config.Fail(good.message());
  return out;
}

std::vector<std::string> OldNames(const Config& config) {
  std::vector<std::string> notes;
  for (const auto& [before, now] : kRenamed) {
    if (!config.IsMap() || !config.Has(before)) continue;
    notes.push_back(config.At(before).where() + ": '" + std::string(before) + "' is called '" +
                    std::string(now) + "' now; the old name still works");
  }
  return notes;
}

Status Check(const StrategyConfig& strategy, uint32_t workers, bool resumed) {
  const auto past = [](std::string_view what, uint32_t value) {
    return InvalidStrategy(std::string(what) + " is " + std::to_string(value) + "; it is between 1 and " +
                           std::to_string(StrategyConfig::kMaxPeriod) + " batches");
  };
  for (const auto& [what, value] :
       {std::pair{"n_push", strategy.n_push}, {"n_fetch", strategy.n_fetch}, {"period", strategy.period}}) {
    if (value == 0 || value > StrategyConfig::kMaxPeriod) return past(what, value);
  }
  if (strategy.staleness < -1 || strategy.staleness > StrategyConfig::kMaxStaleness) {
    return InvalidStrategy("staleness is " + std::to_string(strategy.staleness) + "; it is 0 (as sync) to " +
                           std::to_string(StrategyConfig::kMaxStaleness) + " steps, or -1 (as async)");
  }
  if (strategy.staleness != 0 && strategy.kind != StrategyKind::kSsp)
    return InvalidStrategy("staleness is a setting of ssp, not of " + std::string(Name(strategy.kind)));
  if (!(strategy.momentum >= 0 && strategy.momentum < 1)) {
    std::ostringstream text;
    text << "momentum is " << strategy.momentum << "; it is 0 or more and less than 1";
    return InvalidStrategy(text.str());
  }
  if (strategy.staleness_aware && strategy.stepped()) {
    return InvalidStrategy(
        "staleness_aware divides the rate of updates that come late; with " +
        std::string(Name(strategy.kind)) +
        (strategy.kind == StrategyKind::kSsp ? " only staleness: -1 has such" : " none does"));
  }
  if (strategy.auto_lanes && (strategy.deterministic || strategy.mpi)) {
    return InvalidStrategy(strategy.mpi
                               ? "lanes: auto follows workers that come and go; by MPI none does"
                               : "lanes: auto makes results depend on which workers there are; not with "
                                 "deterministic: true");
  }
  if (strategy.kind == StrategyKind::kAllReduce && workers < 2) {
    return InvalidStrategy("allreduce with " + Plural(workers, "worker") +
                           ": it needs 2 or more; a single worker can use any other strategy");
  }
  return strategy.stepped() ? CheckLanes(strategy, workers, resumed) : Status();
}

}  // namespace leat::protocol
