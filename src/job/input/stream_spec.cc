#include "job/input/stream_spec.h"

#include <exception>
#include <filesystem>
#include <iomanip>
#include <ranges>
#include <sstream>
#include <stdexcept>

#include "base/text.h"
#include "job/extensions/extensions.h"
#include "stream/file/file_reader.h"

namespace leat::job {
namespace {

// Settings belong to one kind of source; only `epochs` is for all.
const StreamKind& KindOf(const Config& config) {
  std::vector<std::string> known = {"epochs"};
  const StreamKind* chosen = nullptr;
  bool both = false;
  for (const StreamKind* kind : StreamKinds()) {
    known.insert(known.end(), kind->keys.begin(), kind->keys.end());
    if (!config.Has(kind->key())) continue;
    // A topic is Kafka's if the stream says so.
    both = both || (chosen != nullptr && !kind->Has(chosen->key()));
    chosen = kind;
  }
  config.Allow(known);
  if (chosen == nullptr || both) config.Fail("a stream has either a topic or files");
  for (const auto& key : config.Keys()) {
    if (key == "epochs" || chosen->Has(key)) continue;
    const auto other = std::ranges::find_if(StreamKinds(), [&](const auto* kind) { return kind->Has(key); });
    config.At(key).Fail("'" + key + "' is for " + (*other)->name + "; this stream has " + chosen->name);
  }
  return *chosen;
}

class FileStream final : public StreamSpec {
 public:
  explicit FileStream(stream::FileSourceOptions options) : options_(std::move(options)) {}

  const StreamTraits& traits() const override { return FileKind().traits; }
  std::string Describe() const override {
    const size_t more = options_.paths.size() - 1;
    return "file " + options_.paths.front() + (more > 0 ? StrCat(" and ", more, " more") : "");
  }
  SourceIdentity Identity() const override {
    SourceIdentity identity{.topic = "", .partitions = options_.partitions, .windows = ""};
    if (options_.format != "text") {
      identity.windows = options_.encoding;
      return identity;
    }
    std::stringstream windows;
    windows << options_.sequence << " " << options_.stride << " " << std::setprecision(17)
            << options_.part_begin << " " << options_.part_end;
    identity.windows = windows.str();
    return identity;
  }
  const stream::FileSourceOptions* files() const override { return &options_; }
  stream::FileSourceOptions* files() override { return &options_; }
  Result<std::vector<std::string>> Identify() const override {
    std::vector<std::string> identities;
    for (const std::string& path : options_.paths) {
      LEAT_ASSIGN_OR_RETURN(const stream::FileIdentity identity, stream::IdentifyFile(path));
      identities.push_back(stream::ToString(identity));
    }
    return identities;
  }
  Status CheckEmpty() const override { return {Code::kInvalidArgument, Describe() + ": has no records"}; }
  Result<std::unique_ptr<stream::Source>> Open() const override { return stream::OpenFiles(options_); }
  Result<std::unique_ptr<stream::TopicWriter>> OpenWriter() const override {
    return Status(Code::kFailedPrecondition, Describe() + ": nothing is appended to files");
  }

 private:
  stream::FileSourceOptions options_;
};

void ReadTextWindows(const Config& config, uint32_t sequence, stream::FileSourceOptions* files) {
  constexpr int64_t kMax = stream::Schema::kMaxSequence;
  files->sequence = static_cast<uint32_t>(config.Integer("sequence", sequence, 1, kMax));
  if (files->sequence == 0) (void)config.At("sequence");
  files->stride = static_cast<uint32_t>(config.Integer("stride", 0, 1, kMax));
  if (!config.Has("part")) return;
  const Config part = config.At("part");
  if (!part.IsList() || part.size() != 2)
    part.Fail("part is a list of two, where it begins and ends: [0, 0.9]");
  files->part_begin = part[0].Number();
  files->part_end = part[1].Number();
  if (!(0 <= files->part_begin && files->part_begin < files->part_end && files->part_end <= 1)) {
    part.Fail("part is [" + part[0].String() + ", " + part[1].String() +
              "]; it goes from 0 or more to 1 or less, and begins before it ends");
  }
}

class OwnStream final : public StreamSpec {
 public:
  OwnStream(std::string name, SourceRequest request, SourceFactory open)
      : name_(std::move(name)), request_(std::move(request)), open_(std::move(open)) {}

  const StreamTraits& traits() const override { return OwnKind().traits; }
  std::string Describe() const override { return "source '" + name_ + "'"; }
  // The number of partitions follows from the settings.
  SourceIdentity Identity() const override {
    return {.topic = "source " + name_ + ": " + request_.settings.ToYaml(), .partitions = 0, .windows = ""};
  }
  // Unknown: the program alone can tell.
  Result<std::vector<std::string>> Identify() const override { return std::vector<std::string>(); }
  Result<std::unique_ptr<stream::Source>> Open() const override {
    try {
      auto source = open_(request_);
      if (source != nullptr) return source;
      return Status(Code::kInvalidArgument, Describe() + ": its function returned none");
    } catch (const std::invalid_argument& error) {
      return Status(Code::kInvalidArgument, error.what());  // names the place
    } catch (const std::exception& error) {
      return Status(Code::kUnavailable, Describe() + ": " + error.what());
    }
  }

 private:
  std::string name_;
  SourceRequest request_;
  SourceFactory open_;
};

AnyStream ReadOwnStream(const Config& config, const StreamPaths& paths) {
  const Config source = config.At("source");
  const auto& sources = OwnExtensions().sources;
  if (!source.IsScalar() && (!source.IsMap() || source.Keys().size() != 1))
    source.Fail("source is the name of one of the program's own, with its settings: {ticks: {rate: 100}}");
  const std::string name = source.IsScalar() ? source.String() : source.Keys()[0];
  std::vector<std::string> names;
  for (const auto& [known, open] : sources) names.push_back(known);
  const Config place = source.IsScalar() ? source : source.At(name);
  if (names.empty())
    place.Fail("unknown source '" + name +
               "': this program has none of its own; run the one that defines it");
  const auto at = sources.find(name);
  if (at == sources.end()) place.FailUnknown("source", name, names);
  const bool bare = source.IsScalar() || place.IsNull();
  return OwnStream(name, {bare ? place.WithoutSettings() : place, paths.data}, at->second);
}

}  // namespace

AnyStream StreamFromConfig(const Config& config, const StreamPaths& paths) {
  const StreamKind& kind = KindOf(config);
  const auto epochs = static_cast<uint32_t>(config.Integer("epochs", 1, 1, 1'000'000));
  AnyStream stream = kind.read(config, paths);
  stream->epochs = epochs;
  if (stream->bots() != nullptr && epochs != 1)
    config.At("epochs").Fail("a stream that bots write is read once; epochs must be 1");
  if (stream->late_labels() != nullptr && epochs != 1)
    config.At("epochs").Fail("events whose labels come later are read once; epochs must be 1");
  return stream;
}

const std::vector<const StreamKind*>& StreamKinds() {
  static const std::vector<const StreamKind*> kKinds = {&LogKind(), &FileKind(), &KafkaKind(), &OwnKind()};
  return kKinds;
}

std::vector<const StreamKind*> TopicKinds() {
  std::vector<const StreamKind*> kinds;
  for (const StreamKind* kind : StreamKinds() | std::views::reverse) {
    if (kind->topic != nullptr) kinds.push_back(kind);
  }
  return kinds;
}

std::string ProductsWith(bool StreamTraits::*trait) {
  std::string products;
  for (const StreamKind* kind : StreamKinds()) {
    if (kind->traits.*trait) products += (products.empty() ? "" : " or ") + std::string(kind->traits.product);
  }
  return products;
}

std::string PathBelow(const std::string& base, const std::string& path) {
  if (base.empty() || std::filesystem::path(path).is_absolute()) return path;
  return (std::filesystem::path(base) / path).string();
}

// `stream: {files: …}`: files, read where they are.

const StreamKind& FileKind() {
  static const StreamKind kKind = {.name = "files",
                                   .keys = {"files"},
                                   .read = [](const Config& config, const StreamPaths& paths) -> AnyStream {
                                     return FileStream(FilesFromConfig(config.At("files"), paths.data));
                                   },
                                   .traits = {.upkeep = false}};
  return kKind;
}

stream::FileSourceOptions FilesFromConfig(const Config& config, const std::string& data, uint32_t sequence) {
  config.Allow({"format", "paths", "partitions", "header", "encoding", "sequence", "stride", "part"});
  stream::FileSourceOptions files;
  files.format = config.At("format").OneOf("format", {"idx", "csv", "json", "text"});
  for (const auto& [key, format] : {std::pair{"header", "csv"}, std::pair{"sequence", "text"},
                                    std::pair{"stride", "text"}, std::pair{"part", "text"}}) {
    if (config.Has(key) && files.format != format)
      config.At(key).Fail(std::string(key) + " is for the format " + format);
  }
  const Config paths = config.At("paths");
  if (!paths.IsList() || paths.size() == 0) paths.Fail("paths must be a list of files");
  for (size_t i = 0; i < paths.size(); ++i) files.paths.push_back(PathBelow(data, paths[i].String()));
  if (files.format == "idx" && files.paths.size() != 2)
    paths.Fail(StrCat("idx takes two paths, images and labels; here are ", files.paths.size()));
  files.partitions = static_cast<uint32_t>(config.Integer("partitions", 1, 1, 1024));
  files.header = config.Bool("header", false);
  if (config.Has("encoding")) {
    const Config encoding = config.At("encoding");
    if (files.format != "csv" && files.format != "json")
      encoding.Fail("encoding is for the formats csv and json");
    files.encoding = encoding.String();
    if (const std::string why = stream::WhyNoEncoding(files.encoding); !why.empty()) encoding.Fail(why);
  }
  if (files.format == "text") ReadTextWindows(config, sequence, &files);
  return files;
}

// `stream: {source: …}`: a source of the program's own (job/extensions/extensions.h).

const StreamKind& OwnKind() {
  static const StreamKind kKind = {.name = "a source of its own",
                                   .keys = {"source"},
                                   .read = ReadOwnStream,
                                   .traits = {.previewed = true}};
  return kKind;
}

}  // namespace leat::job
