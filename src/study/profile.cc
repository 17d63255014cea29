#include "study/profile.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "base/exit_status.h"
#include "base/hex.h"
#include "base/json/text.h"
#include "base/read_file.h"
#include "base/rng.h"

namespace leat::study {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr size_t kMaxBytes = 1 << 20;
constexpr double kMaxSeconds = 3600;
constexpr size_t kMaxParts = 1000;

Json CostJson(const sim::MessageCost& cost) {
  return {{"message_s", Seconds(cost.message)}, {"byte_s", cost.byte}};
}

// Reads values out of a JSON object; the first wrong one makes `error`.
struct Reader {
  std::string error;

  void Fail(const std::string& what) {
    if (error.empty()) error = what;
  }
  Json At(const Json& in, const char* key) {
    if (in.is_object() && in.contains(key)) return in.at(key);
    Fail(std::string("'") + key + "' is missing");
    return {};
  }
  double Number(const Json& in, const char* key, double most, double least = 0) {
    const Json value = At(in, key);
    const double number = value.is_number() ? value.get<double>() : NAN;
    if (number >= least && number <= most) return number;
    Fail(std::string("'") + key + "' is " + JsonText(value) + "; must be a number from " +
         JsonText(Json(least)) + " to " + JsonText(Json(most)));
    return 0;
  }
  std::string Text(const Json& in, const char* key) {
    const Json value = At(in, key);
    if (value.is_string() && value.get_ref<const std::string&>().size() <= 1000)
      return value.get<std::string>();
    Fail(std::string("'") + key + "' must be a text");
    return "";
  }
  sim::MessageCost Cost(const Json& in, const char* key) {
    const Json cost = At(in, key);
    return {FromSeconds(Number(cost, "message_s", 1)), Number(cost, "byte_s", 1e-3)};
  }
  BatchProfile Batch(const Json& in) {
    BatchProfile batch;
    batch.size = static_cast<uint32_t>(Number(in, "size", 1e9, 1));
    batch.first_gradient = Number(in, "first_gradient", 1);
    batch.compute = {.kind = sim::Distribution::Kind::kMeasured,
                     .mean = Number(in, "compute_s", kMaxSeconds)};
    const Json quantiles = At(in, "quantiles_s");
    if (!quantiles.is_array() || quantiles.size() < 2 || quantiles.size() > kMaxParts) {
      Fail("'quantiles_s' must be a list of 2 to " + std::to_string(kMaxParts) + " numbers");
      return batch;
    }
    for (const Json& value : quantiles) {
      const double seconds = value.is_number() ? value.get<double>() : NAN;
      const auto& before = batch.compute.quantiles;
      if (!(seconds >= 0 && seconds <= kMaxSeconds) || (!before.empty() && seconds < before.back()))
        Fail("'quantiles_s' must be growing times of at most an hour");
      batch.compute.quantiles.push_back(seconds);
    }
    return batch;
  }
};

}  // namespace

uint64_t ProfiledHash(const job::Job& job) {
  uint64_t hash = Mix(HashName("profile"), job.schema.hash());
  for (const char* section : {"model", "optimizer", "compute", "debug"}) {
    if (job.config.Has(section)) hash = Mix(hash, HashName(section + job.config.At(section).ToYaml()));
  }
  return Mix(hash, job.bf16 ? 1 : 0);
}

std::string ToJson(const Profile& profile) {
  Json json{{"leat_profile", kFormat},    {"job", profile.job},     {"job_hash", ToHex(profile.job_hash)},
            {"machine", profile.machine}, {"cores", profile.cores}, {"build", profile.build}};
  for (const BatchProfile& batch : profile.batches) {
    json["batches"].push_back({{"size", batch.size},
                               {"compute_s", batch.compute.mean},
                               {"first_gradient", batch.first_gradient},
                               {"quantiles_s", batch.compute.quantiles}});
  }
  json["input"] = {{"event_bytes", profile.event_bytes}, {"decode_s", profile.decode_s}};
  json["server"] = CostJson(profile.server);
  json["worker"] = CostJson(profile.worker);
  json["member"] = CostJson(profile.member);
  if (profile.link) {
    json["link"] = {{"to", profile.link->to},
                    {"bytes_per_s", profile.link->bytes_per_s},
                    {"latency_s", profile.link->latency_s}};
  }
  return JsonText(json, 2);
}

Result<Profile> ParseProfile(std::string_view text, std::string_view name) {
  const auto bad = [name](const std::string& what) {
    return Status(Code::kInvalidArgument, std::string(name) + ": " + what);
  };
  if (text.size() > kMaxBytes) return bad("larger than a profile can be");
  const Json json = ParsedOrderedJson(text);
  if (!json.is_object() || !json.contains("leat_profile"))
    return bad("not a profile; leat calibrate writes them");
  Reader reader;
  if (reader.Number(json, "leat_profile", 1e9) != kFormat)
    return bad("a profile of another version of leat; calibrate again");
  Profile profile;
  profile.job = reader.Text(json, "job");
  const std::string hash = reader.Text(json, "job_hash");
  profile.job_hash = std::strtoull(hash.c_str(), nullptr, 16);
  if (ToHex(profile.job_hash) != hash) reader.Fail("'job_hash' must have 16 hexadecimal digits");
  profile.machine = reader.Text(json, "machine");
  profile.cores = static_cast<uint32_t>(reader.Number(json, "cores", 1e6, 1));
  profile.build = reader.Text(json, "build");
  const Json batches = reader.At(json, "batches");
  if (!batches.is_array() || batches.empty() || batches.size() > kMaxParts) {
    reader.Fail("'batches' must be a list with an entry for each size");
  } else {
    for (const Json& batch : batches) profile.batches.push_back(reader.Batch(batch));
  }
  std::ranges::sort(profile.batches, {}, &BatchProfile::size);
  if (std::ranges::adjacent_find(profile.batches, {}, &BatchProfile::size) != profile.batches.end())
    reader.Fail("'batches' has a size twice");
  const Json input = reader.At(json, "input");
  profile.event_bytes = reader.Number(input, "event_bytes", 1e9);
  profile.decode_s = reader.Number(input, "decode_s", 60);
  profile.server = reader.Cost(json, "server");
  profile.worker = reader.Cost(json, "worker");
  profile.member = reader.Cost(json, "member");
  if (json.contains("link")) {
    const Json& link = json.at("link");
    profile.link = LinkProfile{reader.Text(link, "to"), reader.Number(link, "bytes_per_s", 1e15, 1),
                               reader.Number(link, "latency_s", 10)};
  }
  if (!reader.error.empty()) return bad(reader.error);
  return profile;
}

Profile ReadProfile(const std::string& file) {
  const auto text = ReadFirstBytes(file, kMaxBytes + 1);
  ThrowIfError(text.status());
  Result<Profile> profile = ParseProfile(*text, file);
  ThrowIfError(profile.status());
  return std::move(profile).value();
}

Status CheckProfile(const Profile& profile, const job::Job& job, std::string_view name) {
  if (profile.job_hash == ProfiledHash(job)) return Status();
  return Status(Code::kInvalidArgument, std::string(name) + ": a profile of another job ('" + profile.job +
                                            "', " + ToHex(profile.job_hash) + "); '" + job.name + "' is " +
                                            ToHex(ProfiledHash(job)) +
                                            " by its schema, model, optimizer, compute and debug settings");
}

Result<BatchProfile> BatchOf(const Profile& profile, uint32_t size, std::string_view name) {
  const auto above = std::ranges::lower_bound(profile.batches, size, {}, &BatchProfile::size);
  if (above != profile.batches.end() && above->size == size) return *above;
  if (above == profile.batches.end() || above == profile.batches.begin()) {
    std::string sizes;
    for (const BatchProfile& batch : profile.batches)
      sizes += (sizes.empty() ? "" : ", ") + std::to_string(batch.size);
    return Status(Code::kInvalidArgument, std::string(name) + ": has batches of " + sizes +
                                              " events, none of " + std::to_string(size) +
                                              "; calibrate with --batch " + std::to_string(size));
  }
  const BatchProfile& below = *std::prev(above);
  const double part = static_cast<double>(size - below.size) / (above->size - below.size);
  const auto between = [part](double a, double b) { return a + part * (b - a); };
  BatchProfile batch{.size = size,
                     .compute = {.kind = sim::Distribution::Kind::kMeasured,
                                 .mean = between(below.compute.mean, above->compute.mean)},
                     .first_gradient = between(below.first_gradient, above->first_gradient)};
  // Quantiles of both at the same places.
  const size_t parts = std::max(below.compute.quantiles.size(), above->compute.quantiles.size());
  const auto quantile = [parts](const std::vector<double>& all, size_t i) {
    const double at =
        static_cast<double>(all.size() - 1) * static_cast<double>(i) / static_cast<double>(parts - 1);
    const auto first = std::min(static_cast<size_t>(at), all.size() - 2);
    return all[first] + (at - static_cast<double>(first)) * (all[first + 1] - all[first]);
  };
  for (size_t i = 0; i < parts; ++i) {
    batch.compute.quantiles.push_back(
        between(quantile(below.compute.quantiles, i), quantile(above->compute.quantiles, i)));
  }
  return batch;
}

}  // namespace leat::study
