#include "lab/study/profile.h"

#include <algorithm>
#include <utility>

#include "base/encoding/printable.h"
#include "base/exit_status.h"
#include "base/fields/json.h"
#include "base/json/text.h"
#include "base/read_file.h"
#include "base/rng.h"
#include "base/text.h"

namespace leat::study {

namespace {

constexpr uint32_t kFormat = 1;
constexpr size_t kMaxBytes = 1 << 20;

struct ProfileFile {
  uint32_t leat_profile = kFormat;
  Profile profile;
};
LEAT_FIELDS(ProfileFile, (leat_profile), (profile, Flat));
struct AnyProfileFile {
  std::optional<uint32_t> leat_profile;
};
LEAT_FIELDS(AnyProfileFile, (leat_profile));

}  // namespace

Status Check(const BatchProfile& batch) {
  if (batch.quantiles_s.size() >= 2 && std::ranges::is_sorted(batch.quantiles_s)) return {};
  return {Code::kInvalidArgument, "quantiles_s are not two or more times that grow"};
}

Status Check(const CostProfile& cost) {
  if (cost.byte_s <= 1e-3) return {};
  return {Code::kInvalidArgument, "byte_s is " + std::to_string(cost.byte_s) + ", at most 0.001"};
}

uint64_t ProfiledHash(const job::Job& job) {
  uint64_t hash = Mix(HashName("profile"), job.schema.hash());
  for (const char* section : {"model", "optimizer", "compute", "debug"}) {
    if (job.config.Has(section)) hash = Mix(hash, HashName(section + job.config.At(section).ToYaml()));
  }
  return Mix(hash, job.bf16 ? 1 : 0);
}

std::string ToJson(const Profile& profile) {
  return JsonText(fields::JsonWriter::Value(ProfileFile{kFormat, profile}), 2);
}

Result<Profile> ParseProfile(std::string_view text, std::string_view name) {
  const auto bad = [name](const std::string& what) {
    return Status(Code::kInvalidArgument, std::string(name) + ": " + what);
  };
  if (text.size() > kMaxBytes) return bad("larger than a profile can be");
  const auto any = fields::FromJson<AnyProfileFile>(text, name);
  if (!any.ok() || !any->leat_profile) return bad("not a profile; leat calibrate writes them");
  if (any->leat_profile != kFormat) return bad("a profile of another version of leat; calibrate again");
  LEAT_ASSIGN_OR_RETURN(ProfileFile file, fields::FromJson<ProfileFile>(text, name));
  auto& batches = file.profile.batches;
  if (batches.empty()) return bad("batches is empty");
  std::ranges::sort(batches, {}, &BatchProfile::size);
  if (std::ranges::adjacent_find(batches, {}, &BatchProfile::size) != batches.end())
    return bad("batches has a size twice");
  return std::move(file.profile);
}

Profile ReadProfile(const std::string& file) {
  const auto text = OrThrow(ReadFirstBytes(file, kMaxBytes + 1));
  return OrThrow(ParseProfile(text, file));
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
    const std::string sizes =
        Joined(profile.batches, ", ", [](const BatchProfile& batch) { return std::to_string(batch.size); });
    return Status(Code::kInvalidArgument, std::string(name) + ": has batches of " + sizes +
                                              " events, none of " + std::to_string(size) +
                                              "; calibrate with --batch " + std::to_string(size));
  }
  const BatchProfile& below = *std::prev(above);
  const double part = static_cast<double>(size - below.size) / (above->size - below.size);
  const auto between = [part](double a, double b) { return a + part * (b - a); };
  BatchProfile batch{.size = size,
                     .compute_s = between(below.compute_s, above->compute_s),
                     .first_gradient = between(below.first_gradient, above->first_gradient)};
  // Quantiles of both at the same places.
  const size_t parts = std::max(below.quantiles_s.size(), above->quantiles_s.size());
  const auto quantile = [parts](const std::vector<double>& all, size_t i) {
    const double at =
        static_cast<double>(all.size() - 1) * static_cast<double>(i) / static_cast<double>(parts - 1);
    const auto first = std::min(static_cast<size_t>(at), all.size() - 2);
    return all[first] + (at - static_cast<double>(first)) * (all[first + 1] - all[first]);
  };
  for (size_t i = 0; i < parts; ++i) {
    batch.quantiles_s.push_back(between(quantile(below.quantiles_s, i), quantile(above->quantiles_s, i)));
  }
  return batch;
}

}  // namespace leat::study
