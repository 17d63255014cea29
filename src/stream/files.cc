#include "stream/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "base/encoding/printable.h"
#include "base/exit_status.h"
#include "base/files/descriptor.h"
#include "base/rng.h"
#include "base/text.h"
#include "stream/decode/text.h"
#include "stream/file/file_reader.h"

namespace leat::stream {
namespace {

uint32_t BigEndian(ByteView bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | std::to_integer<uint32_t>(bytes[at + i]);
  return value;
}

std::string Join(const std::vector<uint32_t>& sizes) {
  std::string text;
  for (uint32_t size : sizes) text += StrCat(text.empty() ? "" : "x", size);
  return text;
}

Result<std::unique_ptr<Source>> OpenIdx(const FileSourceOptions& options) {
  if (options.paths.size() != 2) {
    return Status(Code::kInvalidArgument,
                  StrCat("idx takes two files, images and labels, not ", options.paths.size()));
  }
  const std::string &images_path = options.paths[0], &labels_path = options.paths[1];
  LEAT_ASSIGN_OR_RETURN(const Bytes images_file, ReadWholeFile(images_path, {.format = "idx"}));
  LEAT_ASSIGN_OR_RETURN(const Idx images, ParseIdx(images_file, images_path));
  LEAT_ASSIGN_OR_RETURN(const Bytes labels_file, ReadWholeFile(labels_path, {.format = "idx"}));
  LEAT_ASSIGN_OR_RETURN(const Idx labels, ParseIdx(labels_file, labels_path));
  if (images.sizes.size() < 2)
    return Status(Code::kDataLoss, images_path + ": has magic 2049, that of labels; images have 2051");
  if (labels.sizes.size() != 1) {
    return Status(Code::kDataLoss, StrCat(labels_path, ": has magic ", 2048 + labels.sizes.size(),
                                          ", not 2049, that of labels"));
  }
  if (images.sizes[0] != labels.sizes[0]) {
    return Status(Code::kDataLoss, StrCat(images_path, " has ", images.sizes[0], " images, ", labels_path,
                                          " has ", labels.sizes[0], " labels"));
  }
  const size_t count = images.sizes[0];
  if (count == 0) return Status(Code::kDataLoss, images_path + ": has no images");
  const size_t width = images.data.size() / count;
  RecordBatch records;
  records.data.resize(count * (width + 1));
  records.offsets.resize(count + 1);
  for (size_t i = 0; i < count; ++i) {
    std::byte* const record = records.data.data() + i * (width + 1);
    std::copy_n(images.data.data() + i * width, width, record);
    record[width] = labels.data[i];
    records.offsets[i + 1] = (i + 1) * (width + 1);
  }
  return MakeMemorySource(std::move(records), options.partitions);
}

// The records of a file that a reading has: [begin, end). The last reading, of this run, has the rest.
struct ReadingRange {
  uint64_t begin = 0, end = 0;
};
ReadingRange RangeOfReading(const FileSourceOptions& options, size_t reading, size_t file, uint64_t records) {
  const auto end = [&](size_t i) { return options.readings[i][file]; };
  return {reading > 0 ? end(reading - 1) : 0, reading < options.readings.size() ? end(reading) : records};
}

// `records`: of the file, as it is now.
Status CheckReadings(const FileSourceOptions& options, size_t file, uint64_t records) {
  for (size_t i = 0; i <= options.readings.size(); ++i) {
    const ReadingRange range = RangeOfReading(options, i, file, records);
    if (range.begin <= range.end) continue;
    return {Code::kDataLoss, StrCat(options.paths[file], ": has ", records, " records, fewer than the ",
                                    range.begin, " that were read before")};
  }
  return {};
}

// CSV, or JSON lines.
Result<std::unique_ptr<Source>> OpenLines(const FileSourceOptions& options) {
  std::vector<RecordBatch> readings(options.readings.size() + 1);
  for (size_t f = 0; f < options.paths.size(); ++f) {
    CsvDialect dialect = options.format == "csv" ? options.csv : CsvDialect{.quote = '\0'};
    LEAT_ASSIGN_OR_RETURN(const Bytes file, ReadWholeFile(options.paths[f], {.format = options.format,
                                                                             .encoding = options.encoding,
                                                                             .bytes = options.bytes}));
    uint64_t records = 0;
    size_t reading = 0;
    bool header = options.header;
    // Without quotes records are lines, which are found faster.
    const bool quotes = dialect.quote != '\0' && AsText(file).find(dialect.quote) != std::string_view::npos;
    if (!quotes) dialect.quote = '\0';
    ForCsvRecords(AsText(file), dialect, [&](std::string_view record) {
      if (std::exchange(header, false)) return;
      while (reading < options.readings.size() && records >= options.readings[reading][f]) ++reading;
      readings[reading].Add(AsBytes(record));
      ++records;
    });
    if (records == 0) return Status(Code::kDataLoss, options.paths[f] + ": has no records");
    LEAT_RETURN_IF_ERROR(CheckReadings(options, f, records));
  }
  const uint64_t shared = readings[0].size();
  for (size_t i = 1; i < readings.size(); ++i) {
    for (size_t record = 0; record < readings[i].size(); ++record) readings[0].Add(readings[i][record]);
    readings[i] = {};
  }
  return MakeMemorySource(std::move(readings[0]), options.partitions, shared);
}

// Windows of texts, created when they are read, because they may overlap.
class TextSource final : public NumberedSource {
 public:
  // `records` windows of a text from `begin` on, numbered from `first`.
  struct Run {
    uint64_t first, records;
    uint64_t begin;
  };
  TextSource(Bytes text, std::vector<Run> runs, uint32_t window, uint32_t stride, uint32_t partitions,
             uint64_t shared)
      : NumberedSource(runs.back().first + runs.back().records, partitions, shared),
        text_(std::move(text)),
        runs_(std::move(runs)),
        window_(window),
        stride_(stride) {}

 private:
  void Append(uint64_t begin, uint64_t end, RecordBatch* out) const override {
    out->data.reserve((end - begin) * window_ + RecordBatch::kPadding);
    auto run = std::ranges::upper_bound(runs_, begin, {}, &Run::first) - 1;
    for (uint64_t i = begin; i < end; ++i) {
      while (i - run->first >= run->records) ++run;
      const auto from = text_.begin() + static_cast<std::ptrdiff_t>(run->begin + (i - run->first) * stride_);
      out->data.insert(out->data.end(), from, from + window_);
      out->offsets.push_back(out->data.size());
    }
  }

  const Bytes text_;
  const std::vector<Run> runs_;
  const uint32_t window_, stride_;
};

Result<std::unique_ptr<Source>> OpenText(const FileSourceOptions& options) {
  const uint32_t stride = options.stride > 0 ? options.stride : options.sequence;
  const uint64_t window = uint64_t{options.sequence} + 1;
  const bool fits = 0 <= options.part_begin && options.part_begin < options.part_end && options.part_end <= 1;
  if (options.sequence == 0 || window > UINT32_MAX || !fits)
    return Status(Code::kInvalidArgument, "text needs a sequence above 0 and a part between 0 and 1");
  Bytes text;
  struct Part {
    uint64_t begin = 0, records = 0;
  };
  std::vector<Part> parts;
  for (const std::string& path : options.paths) {
    LEAT_ASSIGN_OR_RETURN(const Bytes file, ReadWholeFile(path, {.format = options.format,
                                                                 .encoding = options.encoding,
                                                                 .bytes = options.bytes}));
    const auto at = [&file](double part) {
      return static_cast<size_t>(part * static_cast<double>(file.size()));
    };
    const size_t begin = at(options.part_begin), size = at(options.part_end) - begin;
    if (size < window) {
      return Status(Code::kDataLoss,
                    StrCat(path, ": has ", size, " characters", size < file.size() ? " in its part" : "",
                           ", too few for a record of ", window));
    }
    parts.push_back({text.size(), (size - window) / stride + 1});
    LEAT_RETURN_IF_ERROR(CheckReadings(options, parts.size() - 1, parts.back().records));
    const auto from = file.begin() + static_cast<std::ptrdiff_t>(begin);
    text.insert(text.end(), from, from + static_cast<std::ptrdiff_t>(size));
  }
  std::vector<TextSource::Run> runs;
  uint64_t records = 0, shared = 0;
  for (size_t reading = 0; reading <= options.readings.size(); ++reading) {
    for (size_t f = 0; f < parts.size(); ++f) {
      const ReadingRange range = RangeOfReading(options, reading, f, parts[f].records);
      if (range.begin == range.end) continue;
      runs.push_back({records, range.end - range.begin, parts[f].begin + range.begin * stride});
      records += range.end - range.begin;
    }
    if (reading == 0) shared = records;
  }
  return std::unique_ptr<Source>(std::make_unique<TextSource>(
      std::move(text), std::move(runs), static_cast<uint32_t>(window), stride, options.partitions, shared));
}

constexpr uint64_t kHashedBlock = 1 << 20;
constexpr uint64_t kSamples = 16;

class File {
 public:
  explicit File(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  int fd() const { return fd_.get(); }

  // Adds [begin, begin + size) to the hash.
  Status Hash(uint64_t begin, uint64_t size, uint64_t* hash) {
    buffer_.resize(kHashedBlock);
    while (size > 0) {
      const ssize_t got =
          ::pread(fd(), buffer_.data(), std::min(size, kHashedBlock), static_cast<off_t>(begin));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return {CodeOfErrno(errno), std::string("cannot be read: ") + std::strerror(errno)};
      if (got == 0) return {Code::kDataLoss, "has become shorter"};
      *hash = Checksum(ByteView(buffer_).first(static_cast<size_t>(got)), *hash);
      begin += static_cast<uint64_t>(got);
      size -= static_cast<uint64_t>(got);
    }
    return {};
  }

 private:
  const Descriptor fd_;
  Bytes buffer_;
};

// `hash(begin, size)` adds a range of the content to the hash.
template <class Hash>
Status HashContent(uint64_t bytes, uint64_t max_hashed_whole, const Hash& hash) {
  if (bytes <= std::max(max_hashed_whole, kHashedBlock)) return hash(0, bytes);
  const uint64_t last = bytes - kHashedBlock;
  LEAT_RETURN_IF_ERROR(hash(0, kHashedBlock));
  for (uint64_t i = 0; i < kSamples; ++i)
    LEAT_RETURN_IF_ERROR(hash(Mix(bytes, i) % (last + 1), kHashedBlock));
  return hash(last, kHashedBlock);
}

Result<FileIdentity> Identify(const std::string& path, std::optional<uint64_t> bytes,
                              uint64_t max_hashed_whole) {
  File file(path);
  const int why = errno;
  if (file.fd() < 0)
    return Status(why == ENOTDIR ? Code::kNotFound : CodeOfErrno(why), path + ": " + std::strerror(why));
  struct stat info;
  if (::fstat(file.fd(), &info) != 0 || !S_ISREG(info.st_mode))
    return Status(Code::kNotFound, path + ": is not a file");
  FileIdentity identity{.bytes = bytes.value_or(static_cast<uint64_t>(info.st_size))};
  const auto hash = [&](uint64_t begin, uint64_t size) { return file.Hash(begin, size, &identity.hash); };
  const Status hashed = HashContent(identity.bytes, max_hashed_whole, hash);
  if (!hashed.ok()) return hashed.With(path);
  return identity;
}

}  // namespace

Result<Idx> ParseIdx(ByteView file, const std::string& name) {
  if (file.size() < 4)
    return Status(Code::kDataLoss, StrCat(name, ": has ", file.size(), " bytes, too short for an idx file"));
  const uint32_t magic = BigEndian(file, 0), rank = magic & 0xff;
  if (magic >> 8 != 0x08 || rank < 1 || rank > 4) {
    return Status(Code::kDataLoss, StrCat(name, ": has magic ", magic,
                                          ", not 2051 (images) or 2049 (labels) of an idx file of bytes"));
  }
  const size_t head = 4 + 4 * size_t{rank};
  if (file.size() < head) return Status(Code::kDataLoss, name + ": ends inside its header");
  Idx idx;
  unsigned __int128 bytes = 1;
  for (uint32_t i = 0; i < rank; ++i) {
    idx.sizes.push_back(BigEndian(file, 4 + 4 * size_t{i}));
    bytes *= idx.sizes.back();
  }
  idx.data = file.subspan(head);
  if (bytes == idx.data.size()) return idx;
  return Status(Code::kDataLoss,
                StrCat(name, ": has ", idx.data.size(), " bytes of data ",
                       idx.data.size() < bytes ? "and is truncated" : "and goes on behind its end",
                       ": its header says ", Join(idx.sizes)));
}

Result<std::unique_ptr<Source>> OpenFiles(const FileSourceOptions& options) {
  if (options.partitions == 0) return Status(Code::kInvalidArgument, "files need at least one partition");
  if (options.paths.empty()) return Status(Code::kInvalidArgument, "no files are named");
  for (const auto& reading : options.readings) {
    if (reading.size() != options.paths.size())
      return Status(Code::kInvalidArgument, StrCat("an earlier run has read ", reading.size(),
                                                   " files, the job has ", options.paths.size()));
  }
  if (options.format == "idx") return OpenIdx(options);
  if (options.format == "csv" || options.format == "json") return OpenLines(options);
  if (options.format == "text") return OpenText(options);
  return Status(Code::kInvalidArgument,
                "unknown format of files '" + options.format + "'; there are idx, csv, json and text");
}

Result<std::vector<std::string>> ReadCsvHeader(const std::string& path, const CsvDialect& csv,
                                               const std::string& encoding) {
  LEAT_ASSIGN_OR_RETURN(const auto reader,
                        LineReader::Open(path, {.format = "csv", .encoding = encoding}, csv));
  std::string_view record;
  LEAT_ASSIGN_OR_RETURN(const bool there, reader->Next(&record));
  if (!there) return Status(Code::kDataLoss, path + ": has no header");
  std::vector<std::string_view> fields;
  std::string scratch;
  const std::string wrong = SplitCsv(record, csv, &fields, &scratch);
  if (!wrong.empty()) return Status(Code::kDataLoss, path + ": " + wrong);
  if (const std::string why = WhyNotUtf8(record); !why.empty())
    return Status(Code::kDataLoss, path + ": the header " + why +
                                       "; has the file another encoding (files: encoding: latin-1)?");
  return std::vector<std::string>(fields.begin(), fields.end());
}

std::string ToString(const FileIdentity& identity) {
  return StrCat(identity.bytes, ":", ToHex(identity.hash));
}

Result<FileIdentity> ParseIdentity(std::string_view text) {
  FileIdentity identity;
  const size_t colon = std::min(text.find(':'), text.size());
  const char* const end = text.data() + text.size();
  (void)std::from_chars(text.data(), text.data() + colon, identity.bytes);
  if (colon < text.size()) (void)std::from_chars(text.data() + colon + 1, end, identity.hash, 16);
  if (ToString(identity) == text) return identity;
  return Status(Code::kInvalidArgument, "'" + std::string(text) + "' is not the identity of a file");
}

Result<FileIdentity> IdentifyFile(const std::string& path, uint64_t max_hashed_whole) {
  return Identify(path, std::nullopt, max_hashed_whole);
}

Result<FileIdentity> IdentifyStart(const std::string& path, uint64_t bytes, uint64_t max_hashed_whole) {
  return Identify(path, bytes, max_hashed_whole);
}

}  // namespace leat::stream
