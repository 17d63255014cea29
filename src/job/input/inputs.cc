// Identities of what a job's stream is read from, and of the files that its model is built from. A role on
// another host may have other files of the same name, or another topic.
#include <fcntl.h>

#include <algorithm>
#include <filesystem>

#include "base/rng.h"
#include "job/job.h"
#include "storage/checkpoint/file.h"
#include "stream/identity.h"

namespace leat::job {
namespace {

Status Differs(const std::string& what, const std::string& found, const std::string& wanted) {
  return {Code::kFailedPrecondition, what + " is not the job's: it is " + found + ", the job has " + wanted};
}

}  // namespace

Job Job::WithInputs(std::vector<std::string> identities) const {
  Job job = *this;
  const Config resolved = config.Has(kResolved) ? config.At(kResolved) : Config::EmptyMap(kResolved);
  job.config = config.With(kResolved, resolved.With("inputs", identities));
  job.inputs = std::move(identities);
  return job;
}

Config WithStreamBounds(Config resolved, const StreamBounds& bounds) {
  for (const auto& [key, offsets] : {std::pair{"start", &bounds.start}, std::pair{"end", &bounds.end}}) {
    std::vector<std::string> texts;
    for (const uint64_t offset : *offsets) texts.push_back(std::to_string(offset));
    if (!texts.empty()) resolved = resolved.With(key, texts);
  }
  return resolved;
}

Job Job::WithBounds(const StreamBounds& bounds) const {
  Job job = *this;
  const Config resolved = config.Has(kResolved) ? config.At(kResolved) : Config::EmptyMap(kResolved);
  job.config = config.With(kResolved, WithStreamBounds(resolved, bounds));
  job.stream->SetBounds(bounds);
  return job;
}

Status Job::CheckInputs() const {
  LEAT_ASSIGN_OR_RETURN(const std::vector<std::string> own, stream->Identify());
  if (inputs.empty() || own == inputs) return Status();
  const stream::FileSourceOptions* files = stream->files();
  if (files == nullptr || own.size() != inputs.size())
    return Differs(stream->Describe(), own.empty() ? "without an id" : own.front(), inputs.front());
  size_t first = 0;
  while (own[first] == inputs[first]) ++first;
  return Differs(files->paths[first], own[first], inputs[first]);
}

uint64_t Job::InputsHash() const {
  uint64_t hash = 0;
  for (const std::string& input : inputs) hash = Mix(hash, HashName(input)) | 1;
  if (hash == 0 || stream->files() == nullptr) return hash;
  // The order of their records.
  for (const auto& reading : stream->files()->readings) {
    for (const uint64_t records : reading) hash = Mix(hash, records) | 1;
  }
  return hash;
}

std::string AssetFileName(const std::string& identity) {
  std::string name = identity;
  std::ranges::replace(name, ':', '-');
  return name;
}

std::string KeptAsset(const std::string& directory, const std::string& identity) {
  return directory + "/assets/" + AssetFileName(identity);
}

Status CheckAsset(const Asset& asset) {
  LEAT_ASSIGN_OR_RETURN(const stream::FileIdentity own, stream::IdentifyFile(asset.file));
  if (stream::ToString(own) == asset.identity) return Status();
  return Differs(asset.file, stream::ToString(own), asset.identity);
}

Status KeepAssets(Job* job) {
  const std::string folder = job->directory + "/assets";
  for (Asset& asset : job->assets) {
    Asset kept = asset;
    kept.file = KeptAsset(job->directory, asset.identity);
    if (!CheckAsset(kept).ok()) {
      LEAT_RETURN_IF_ERROR(checkpoint::MakeDirectory(folder));
      const std::string name = AssetFileName(asset.identity);
      Asset copied = asset;
      copied.file = folder + "/" + name + ".tmp";
      std::error_code error;
      std::filesystem::remove(copied.file, error);
      std::filesystem::copy_file(asset.file, copied.file, error);
      if (error) return checkpoint::SystemError(copied.file, "copy", error.value());
      if (const Status same = CheckAsset(copied); !same.ok()) {
        std::filesystem::remove(copied.file, error);
        return {Code::kFailedPrecondition, asset.file + ": has changed while the job was started"};
      }
      LEAT_ASSIGN_OR_RETURN(auto file, checkpoint::File::Open(copied.file, O_RDONLY));
      LEAT_RETURN_IF_ERROR(file.Sync());
      LEAT_RETURN_IF_ERROR(checkpoint::RenameSynced(folder, name + ".tmp", name));
    }
    asset.file = kept.file;
  }
  return {};
}

std::vector<Asset> ReadAssets(const Config& resolved) {
  if (!resolved.Has("assets")) return {};
  const nn::LayerFiles files{.data = resolved.String("data", "")};
  const std::string directory = resolved.String("directory", "");
  const Config all = resolved.At("assets");
  std::vector<Asset> assets;
  for (const std::string& path : all.Keys()) {
    Asset asset{.path = path, .identity = all.At(path).String(), .file = files.Locate(path)};
    if (const auto good = stream::ParseIdentity(asset.identity); !good.ok())
      all.At(path).Fail(good.status().message());
    Asset kept = asset;
    kept.file = KeptAsset(directory, asset.identity);
    assets.push_back(!directory.empty() && CheckAsset(kept).ok() ? std::move(kept) : std::move(asset));
  }
  return assets;
}

std::vector<Asset> Job::AssetsIn(const std::string& yaml, const std::string& name, const std::string& data) {
  const Config config = Config::Parse("\n" + yaml, name);
  if (!config.IsMap() || !config.Has(kResolved)) return {};
  const Config resolved = config.At(kResolved);
  return ReadAssets(data.empty() ? resolved : resolved.With("data", data));
}

std::vector<std::string> AssetPaths(const Config& config) {
  const Config layers = config.At("model").At("layers");
  std::vector<std::string> paths;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!layers[i].IsMap() || !layers[i].Has("onnx")) continue;
    std::string path = layers[i].At("onnx").At("file").String();
    if (std::ranges::find(paths, path) == paths.end()) paths.push_back(std::move(path));
  }
  return paths;
}

}  // namespace leat::job
