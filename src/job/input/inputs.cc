// Identities of what a job's stream is read from, and of the files that its model is built from. A role on
// another host may have other files of the same name, or another topic.
#include "job/input/input_files.h"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "base/exit_status.h"
#include "base/rng.h"
#include "base/text.h"
#include "storage/checkpoint/file.h"

namespace leat::job {
namespace {

Status Differs(const std::string& what, const std::string& found, const std::string& wanted) {
  return {Code::kFailedPrecondition, what + " is not the job's: it is " + found + ", the job has " + wanted};
}

[[noreturn]] void FailReplaced(const Job& job, const std::string& what, const std::string& now,
                               const std::string& trained) {
  throw std::invalid_argument(
      what + " is not what job '" + job.name + "' was trained on: it is " + now + ", it was " + trained +
      "; a resume goes on with the same input, or with files that have grown at their "
      "end; start a new job for another one");
}

struct WholeFile {
  std::unique_ptr<stream::Source> source;
  uint64_t records = 0;
};
WholeFile OpenAlone(stream::FileSourceOptions options, const std::string& path, uint64_t bytes = UINT64_MAX) {
  options.paths = {path};
  options.partitions = 1;
  options.readings.clear();
  options.bytes = bytes;
  WholeFile file{OrThrow(stream::OpenFiles(options)), 0};
  file.records = OrThrow(file.source->Ranges()).front().end;
  return file;
}

// How many records a file had when it had `bytes`. Throws if it has not the same ones now: a last record that
// did not end with the file goes on in what was added.
uint64_t RecordsBefore(const Job& job, const std::string& path, uint64_t bytes) {
  const stream::FileSourceOptions& options = *job.stream->files();
  const WholeFile before = OpenAlone(options, path, bytes), now = OpenAlone(options, path);
  constexpr uint64_t kAtOnce = 4096;
  stream::RecordBatch then, here;
  for (uint64_t at = 0; at < before.records; at += kAtOnce) {
    const uint64_t end = std::min(at + kAtOnce, before.records);
    bool same = before.source->Read(0, at, end, &then).ok() && now.source->Read(0, at, end, &here).ok() &&
                then.offsets == here.offsets && then.data == here.data;
    for (uint64_t i = at; !same && i < end; ++i) {
      const bool there =
          before.source->Read(0, i, i + 1, &then).ok() && now.source->Read(0, i, i + 1, &here).ok();
      if (there && then.data == here.data) continue;
      throw std::invalid_argument(
          StrCat(path, " has grown since job '", job.name, "' was trained, but record ", i + 1, " of ",
                 before.records, " has changed: it did not end where the file ended; start a new job"));
    }
  }
  return before.records;
}

// Whether a file has the same content as before at its beginning, and more.
bool HasGrown(const std::string& path, const stream::FileIdentity& now, const stream::FileIdentity& before) {
  return now.bytes > before.bytes && OrThrow(stream::IdentifyStart(path, before.bytes)) == before;
}

// The job, whose files had so many records when they were read last.
Job WithReading(Job job, std::vector<uint64_t> records) {
  auto& readings = job.stream->files()->readings;
  readings.push_back(std::move(records));
  std::vector<std::string> texts;
  for (const auto& reading : readings) {
    std::string& text = texts.emplace_back();
    for (const uint64_t count : reading) text += StrCat(text.empty() ? "" : " ", count);
  }
  job.config = job.config.With(kResolved, job.config.At(kResolved).With("readings", texts));
  return job;
}

Job WithTrainedFiles(const Job& job, const std::vector<std::string>& trained) {
  const std::vector<std::string> now = OrThrow(job.stream->Identify());
  const stream::FileSourceOptions& options = *job.stream->files();
  Job resumed = job.WithInputs(now);
  if (now == trained) return resumed;
  if (now.size() < trained.size()) {
    throw std::invalid_argument(StrCat("job '", job.name, "' was trained on ", trained.size(),
                                       " files, and now has ", now.size(),
                                       "; a resume goes on with the same ones, and with others behind them"));
  }
  std::vector<uint64_t> records(now.size(), 0);
  for (size_t f = 0; f < trained.size(); ++f) {
    const std::string& path = options.paths[f];
    const auto before = OrThrow(stream::ParseIdentity(trained[f])),
               own = OrThrow(stream::ParseIdentity(now[f]));
    const bool whole = options.format != "text" || (options.part_begin == 0 && options.part_end == 1);
    if (own != before && (!HasGrown(path, own, before) || options.format == "idx"))
      FailReplaced(job, path, now[f], trained[f]);
    if (own != before && !whole)
      throw std::invalid_argument(path + " has grown since job '" + job.name +
                                  "' was trained, which reads a part of it: that is another part now; start "
                                  "a new job");
    if (own == before) {
      records[f] = OpenAlone(options, path).records;
      continue;
    }
    records[f] = RecordsBefore(job, path, before.bytes);
    resumed.notes.push_back(StrCat(path, " has grown from ", before.bytes, " to ", own.bytes,
                                   " bytes; its new records come last"));
  }
  for (size_t f = trained.size(); f < now.size(); ++f)
    resumed.notes.push_back(options.paths[f] + " was added; its records come last");
  return WithReading(std::move(resumed), std::move(records));
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

Job WithTrained(const Job& job, const std::vector<std::string>& trained) {
  if (trained.empty()) return job;
  if (job.stream->files() != nullptr) return WithTrainedFiles(job, trained);
  const std::string directory = job.stream->directory();
  if (directory.empty() || job.stream->loss_rules().shortened == Loss::kAccepted) return job;
  // A missing topic is reported where it is opened.
  const auto now = job.stream->Identify();
  if (now.ok() && !now->empty() && *now != trained)
    FailReplaced(job, job.stream->Describe() + " in " + directory, now->front(), trained.front());
  return job;
}

}  // namespace leat::job
