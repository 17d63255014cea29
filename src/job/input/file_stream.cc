// `stream: {files: …}`: files, read where they are.
#include <iomanip>
#include <sstream>

#include "job/input/stream_spec.h"
#include "stream/file/file_reader.h"

namespace leat::job {
namespace {

class FileStream final : public StreamSpec {
 public:
  explicit FileStream(stream::FileSourceOptions options) : options_(std::move(options)) {}

  const StreamTraits& traits() const override { return FileKind().traits; }
  std::string Describe() const override {
    const size_t more = options_.paths.size() - 1;
    return "file " + options_.paths.front() + (more > 0 ? " and " + std::to_string(more) + " more" : "");
  }
  SourceIdentity Identity() const override;
  const stream::FileSourceOptions* files() const override { return &options_; }
  stream::FileSourceOptions* files() override { return &options_; }
  Result<std::vector<std::string>> Identify() const override;
  Status CheckEmpty() const override { return {Code::kInvalidArgument, Describe() + ": has no records"}; }
  Result<std::unique_ptr<stream::Source>> Open() const override { return stream::OpenFiles(options_); }
  Result<std::unique_ptr<stream::TopicWriter>> OpenWriter() const override {
    return Status(Code::kFailedPrecondition, Describe() + ": nothing is appended to files");
  }

 private:
  stream::FileSourceOptions options_;
};

SourceIdentity FileStream::Identity() const {
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

Result<std::vector<std::string>> FileStream::Identify() const {
  std::vector<std::string> identities;
  for (const std::string& path : options_.paths) {
    LEAT_ASSIGN_OR_RETURN(const stream::FileIdentity identity, stream::IdentifyFile(path));
    identities.push_back(stream::ToString(identity));
  }
  return identities;
}

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

AnyStream ReadFileStream(const Config& config, const StreamPaths& paths) {
  return FileStream(FilesFromConfig(config.At("files"), paths.data));
}

}  // namespace

const StreamKind& FileKind() {
  static const StreamKind kKind = {
      .name = "files", .keys = {"files"}, .read = ReadFileStream, .traits = {.upkeep = false}};
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
    paths.Fail("idx takes two paths, images and labels; here are " + std::to_string(files.paths.size()));
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

}  // namespace leat::job
