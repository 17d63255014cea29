#include "job/input/input_files.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "base/encoding/printable.h"
#include "base/exit_status.h"
#include "base/path/paths.h"
#include "base/text.h"
#include "stream/avro/avro_program.h"
#include "stream/csv/csv.h"
#include "stream/dead_letters.h"
#include "stream/decode/decoder.h"
#include "stream/decode/row_writer.h"
#include "stream/file/file_reader.h"

namespace leat::job {
namespace {

namespace fs = std::filesystem;

// Limit of the schemas' bytes that the job keeps: every role gets them with the job.
constexpr size_t kMaxKept = 256 << 10;
constexpr uintmax_t kMaxDescriptor = 64 << 20;

[[noreturn]] void RefuseFile(const std::string& where, const std::string& why) {
  throw std::invalid_argument(where + ": " + why);
}

std::string ReadBytes(const fs::path& path, uintmax_t most, const std::string& where) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::status_known(status))
    Throw(Status(CodeOfErrno(error.value()), path.string() + ": " + error.message()).With(where));
  if (!fs::is_regular_file(status)) RefuseFile(where, path.string() + ": there is no such file");
  auto bytes = ReadFirstBytes(path, most + 1);
  ThrowIfError(bytes.status().With(where));
  if (bytes->size() > most)
    RefuseFile(where, StrCat(path.string(), ": is too large; at most ", most, " bytes"));
  return std::move(bytes).value();
}

std::string ReadAvroSchema(const stream::AvroSettings& avro, const fs::path& path) {
  const auto small = stream::MinifyJson(ReadBytes(path, stream::AvroSchema::kMaxText, avro.where));
  if (!small.ok()) RefuseFile(avro.where, path.string() + ": " + small.status().message());
  return *small;
}

stream::AvroTexts AvroTextsIn(const Config& resolved) {
  stream::AvroTexts texts;
  if (!resolved.Has("avro")) return texts;
  const Config all = resolved.At("avro");
  for (const std::string& key : all.Keys()) {
    const auto id = ToNumber<uint32_t>(key);
    if (!id) all.At(key).Fail("'" + key + "' is not the id of a schema");
    texts[*id] = all.At(key).String();
  }
  return texts;
}

void ReadDescriptor(const Config& resolved, const std::string& data, stream::Schema* schema) {
  stream::ProtobufSettings& settings = schema->protobuf;
  if (resolved.Has("descriptor")) {
    settings.descriptor = FromBase64(resolved.At("descriptor").String());
  } else {
    stream::UseDescriptor(ReadBytes(fs::path(data) / settings.file, kMaxDescriptor, settings.where), schema);
  }
  if (settings.descriptor.size() > kMaxKept) {
    RefuseFile(settings.where, StrCat("the fields need ", settings.descriptor.size(),
                                      " bytes of the descriptor; at most ", kMaxKept));
  }
  (void)stream::MakeDecoder(*schema);  // reports what does not fit
}

// The categories none of whose values has occurred: their features are always 0.
class UnseenCategories {
 public:
  explicit UnseenCategories(const stream::Schema& schema) : schema_(schema) {
    uint32_t first = 0;
    for (size_t i = 0; i < schema.fields.size(); ++i) {
      const stream::Field& field = schema.fields[i];
      if (field.type == stream::Field::Type::kCategory && !field.values.empty() && field.features() > 0)
        unseen_.push_back({i, first});
      first += field.features();
    }
  }

  void See(const stream::DecodedRows& rows) {
    std::erase_if(unseen_, [&](const Category& category) {
      for (size_t row = 0; row < rows.rows; ++row) {
        const auto* const at = rows.features.data() + row * schema_.features() + category.first;
        if (std::any_of(at, at + schema_.fields[category.field].features(), [](float x) { return x != 0; }))
          return true;
      }
      return false;
    });
  }

  // A line for each that has other values in these records. `where`: of all records seen.
  void Warn(const stream::RecordBatch& records, const std::string& where,
            std::vector<std::string>* warnings) const {
    for (const Category& category : unseen_) {
      const stream::Field& field = schema_.fields[category.field];
      const std::string other = OtherValue(records, category.field);
      if (!other.empty()) {
        warnings->push_back(field.where + ": none of the values of '" + field.name + "' occurs in " + where +
                            "; they have " + other + ", for example");
      }
    }
  }

 private:
  struct Category {
    size_t field;
    uint32_t first;  // column of its first feature
  };

  // A value that occurs, in quotes: as a label, it makes a dead letter.
  std::string OtherValue(const stream::RecordBatch& records, size_t category) const {
    stream::Schema schema = schema_;
    for (stream::Field& field : schema.fields) field.role = stream::Role::kIgnore;
    stream::Field& label = schema.fields[category];
    label.role = stream::Role::kLabel;
    label.fallback.reset();
    stream::DecodedRows rows;
    stream::MakeDecoder(schema.WithoutLateLabels())->Decode(records, &rows);
    for (const auto& letter : rows.dead) {
      std::string_view value = letter.reason;
      if (!value.ends_with(stream::kNotAmongValues)) continue;
      value.remove_suffix(stream::kNotAmongValues.size());
      value.remove_prefix(label.path_text().size() + 2);
      if (value != "''") return std::string(value);
    }
    return "";
  }

  const stream::Schema& schema_;
  std::vector<Category> unseen_;
};

// Why the first records are so bad that the job would stop, or that none of them fits, or, when all of them
// are seen, that too many do not fit; empty if they are good. `name`: of the source.
std::string WhyUnfit(const Job& job, const stream::Schema& schema, stream::Source& source,
                     const std::vector<stream::PartitionRange>& ranges, const std::string& name,
                     std::vector<std::string>* warnings) {
  const uint64_t share = std::max<uint64_t>(1, (1 << 22) / (schema.features() + schema.labels()));
  const auto decoder = stream::MakeDecoder(schema);
  stream::DeadLetterRate rate(job.dead_letter_rate);
  stream::TextHint hint(schema.format == stream::Schema::Format::kCsv);
  UnseenCategories unseen(schema);
  stream::RecordBatch records;
  stream::DecodedRows rows;
  uint64_t seen = 0, dead = 0, all = 0;
  bool ends = true;
  std::string first;
  for (const auto& range : ranges) {
    all += range.end - range.begin;
    ends = ends && range.sealed;
    for (uint64_t at = range.begin; at < range.end && seen < stream::DeadLetterRate::kWindow; at += share) {
      const uint64_t end = std::min({range.end, at + share, at + stream::DeadLetterRate::kWindow - seen});
      if (const auto read = source.Read(range.partition, at, end, &records); !read.ok()) Throw(read);
      if (seen == 0 && schema.format == stream::Schema::Format::kCsv &&
          NamesFields(schema, AsText(records[0]))) {
        return name + ": its first record names the fields; say header: true, so that they are found by name";
      }
      rows.clear();
      decoder->Decode(records, &rows);
      if (dead == 0 && !rows.dead.empty()) {
        first =
            StrCat("partition ", range.partition, " offset ", rows.dead[0].offset, ": ", rows.dead[0].reason);
      }
      seen += end - at;
      unseen.See(rows);
      for (const auto& letter : rows.dead) hint.See(letter);
      dead += rows.dead.size();
      hint.SeeFitting(rows.rows);
      rate.Count(end - at, rows.dead.size());
    }
  }
  const bool whole = ends && seen == all;
  const bool above =
      whole ? stream::DeadLetterRate::Above(job.dead_letter_rate, seen, dead) : rate.exceeded();
  if (!above && (dead < seen || seen == 0)) {
    if (dead < seen) unseen.Warn(records, StrCat("the first ", seen, " records of ", name), warnings);
    return "";
  }
  return StrCat(name, ": ", dead, " of the first ", seen, " records do not fit the schema: ", first,
                hint.Describe());
}

// Looks into the files before the job starts. If several files do not fit, those that are bad by themselves
// are named.
void CheckFiles(const Job& job, const stream::Schema& schema, const stream::FileSourceOptions& files,
                stream::Source& source, const std::vector<stream::PartitionRange>& ranges,
                std::vector<std::string>* warnings) {
  const size_t others = files.paths.size() - 1;
  std::string why = WhyUnfit(
      job, schema, source, ranges,
      files.paths.front() + (others > 0 ? StrCat(" and ", others, " more") : std::string()), warnings);
  if (why.empty()) return;
  const size_t alone = others > 0 && files.format != "idx" ? files.paths.size() : 0;
  for (size_t i = 0; i < alone; ++i) {
    stream::FileSourceOptions one = files;
    one.paths = {files.paths[i]};
    one.partitions = 1;
    one.readings = {};
    const auto opened = stream::OpenFiles(one);
    if (!opened.ok()) continue;  // the files may be on the host of a feed
    const std::string unfit =
        WhyUnfit(job, schema, **opened, OrThrow((*opened)->Ranges()), files.paths[i], warnings);
    if (unfit.empty()) continue;
    why = unfit;
    break;
  }
  job.config.At("schema").Fail(why);
}

// Devices that layers ask for have to be on this machine.
void CheckDevices(const Job& job) {
  const auto machine = job.Plan({}).machine;
  const graph::Graph graph = job.model->Build(1, false).graph;
  for (const graph::Node& node : graph.nodes()) {
    if (node.device.empty()) continue;
    try {
      machine->Find(node.device);
    } catch (const std::invalid_argument& e) {
      throw std::invalid_argument((node.where.empty() ? "" : node.where + ": ") + e.what() +
                                  " (compute: cpu_devices divides the cores)");
    }
  }
}

}  // namespace

stream::AvroTexts ReadAvroFiles(const stream::AvroSettings& avro, const std::string& data) {
  stream::AvroTexts texts;
  const fs::path base = data;
  if (!avro.file.empty()) texts[0] = ReadAvroSchema(avro, base / avro.file);
  for (const auto& [id, file] : avro.files) texts[id] = ReadAvroSchema(avro, base / file);
  if (!avro.folder.empty()) {
    const fs::path folder = base / avro.folder;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      const fs::path& path = entry.path();
      const auto id = ToNumber<uint32_t>(path.stem().string());
      if (id && path.extension() == ".avsc") texts[*id] = ReadAvroSchema(avro, path);
    }
    if (error) RefuseFile(avro.where, folder.string() + ": " + error.message());
    if (texts.empty()) RefuseFile(avro.where, folder.string() + " has no schemas; their names are ID.avsc");
  }
  size_t bytes = 0;
  for (const auto& [id, text] : texts) bytes += text.size();
  if (bytes > kMaxKept)
    RefuseFile(avro.where, StrCat("the schemas have ", bytes, " bytes without blanks; at most ", kMaxKept));
  return texts;
}

std::vector<std::string> ReadSchemaFiles(const Config& resolved, const std::string& data,
                                         stream::Schema* schema) {
  using Format = stream::Schema::Format;
  if (schema->format == Format::kProtobuf) ReadDescriptor(resolved, data, schema);
  if (schema->format != Format::kAvro || schema->avro.registry) return {};
  auto texts = AvroTextsIn(resolved);
  if (texts.empty()) texts = ReadAvroFiles(schema->avro, data);
  return stream::UseAvro(texts, schema);
}

Config WithSchemaFiles(const Config& resolved, const stream::Schema& schema) {
  Config all = resolved;
  if (!schema.avro.texts.empty()) {
    Config texts = Config::EmptyMap("avro");
    for (const auto& [id, text] : schema.avro.texts) texts = texts.With(std::to_string(id), text);
    all = all.With("avro", texts);
  }
  const std::string& descriptor = schema.protobuf.descriptor;
  return descriptor.empty() ? all : all.With("descriptor", ToBase64(descriptor));
}

std::optional<stream::Delimiter> FindDelimiter(const stream::FileSourceOptions& files,
                                               const stream::Schema& schema) {
  std::optional<stream::Delimiter> first;
  for (const auto& path : files.paths) {
    const auto text = stream::SampleText(path, {.format = files.format, .encoding = files.encoding});
    if (!text.ok()) return std::nullopt;
    const auto found = OrThrow(stream::ChooseDelimiter(path, stream::CsvSample(*text), schema, files.header));
    if (!first) first = found;
    if (first->character != found.character) {
      throw std::invalid_argument(path + ": its delimiter is " + stream::DelimiterName(found.character) +
                                  ", " + files.paths.front() + " has " +
                                  stream::DelimiterName(first->character));
    }
  }
  return first;
}

std::vector<std::string> ReadHeader(const stream::FileSourceOptions& files, const stream::CsvDialect& csv) {
  std::vector<std::string> first;
  for (const auto& path : files.paths) {
    const auto names = stream::ReadCsvHeader(path, csv, files.encoding);
    if (!names.ok()) Throw(names.status());
    if (first.empty()) first = *names;
    if (*names != first)
      throw std::invalid_argument(path + ": names other columns than " + files.paths.front());
  }
  return first;
}

bool NamesFields(const stream::Schema& schema, std::string_view record) {
  std::vector<std::string_view> names;
  std::string scratch;
  if (!stream::SplitCsv(record, schema.dialect(), &names, &scratch).empty()) return false;
  return std::ranges::all_of(schema.fields, [&](const stream::Field& field) {
    return !field.from && std::ranges::find(names, field.name) != names.end();
  });
}

void UseHeader(const stream::FileSourceOptions& files, std::vector<std::string> names,
               stream::Schema* schema) {
  const std::string& path = files.paths.front();
  try {
    schema->UseColumns(std::move(names), path);
  } catch (const std::invalid_argument&) {
    // A title or comments above the header are taken for it.
    const auto text = stream::SampleText(path, {.format = files.format, .encoding = files.encoding});
    if (!text.ok()) throw;
    const stream::CsvSample sample(*text);
    for (size_t lines = 1; lines <= stream::kMostAboveHeader; ++lines) {
      const stream::CsvSample below = sample.Below(lines);
      const auto records = below.Records(schema->dialect());
      if (below.BeginsBlank() || records.empty() || !NamesFields(*schema, records.front())) continue;
      throw std::invalid_argument(path + ": " + stream::NamesAreInLine(path, lines + 1));
    }
    throw;
  }
}

std::vector<std::string> CheckFits(const Job& job, stream::Source& source,
                                   const std::vector<stream::PartitionRange>& ranges) {
  std::vector<std::string> warnings;
  if (const stream::FileSourceOptions* files = job.stream->files(); files != nullptr)
    CheckFiles(job, job.schema, *files, source, ranges, &warnings);
  if (!job.stream->traits().previewed) return warnings;
  const std::string why = WhyUnfit(job, job.schema, source, ranges, job.stream->Describe(), &warnings);
  if (!why.empty()) job.config.At("schema").Fail(why);
  return warnings;
}

void CheckNotEmpty(const Job& job, const std::vector<stream::PartitionRange>& ranges) {
  if (std::ranges::any_of(ranges, [](const auto& range) { return range.begin < range.end; })) return;
  if (const Status good = job.stream->CheckEmpty(); !good.ok()) Throw(good);
}

std::vector<std::string> CheckReadable(const Job& job) {
  CheckDevices(job);
  (void)stream::MakeDecoder(job.schema);  // has what it needs, such as the secrets of a registry
  std::vector<std::string> warnings;
  if (job.evaluate) {
    const stream::FileSourceOptions files = job.EvaluationFiles();
    auto opened = OrThrow(stream::OpenFiles(files));
    CheckFiles(job, job.EvaluationSchema(), files, *opened, OrThrow(opened->Ranges()), &warnings);
  }
  if (job.stream->bots() != nullptr) return warnings;  // they make the topic
  const auto source = OrThrow(job.stream->Open());
  const auto ranges = OrThrow(source->Ranges());
  const auto others = CheckFits(job, *source, ranges);
  warnings.insert(warnings.end(), others.begin(), others.end());
  CheckNotEmpty(job, ranges);
  return warnings;
}

}  // namespace leat::job
