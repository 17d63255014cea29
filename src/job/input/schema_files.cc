#include "job/input/input_files.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "base/encoding/printable.h"
#include "base/exit_status.h"
#include "base/read_file.h"
#include "base/text.h"
#include "job/input/input_files.h"
#include "stream/avro/avro_schema.h"
#include "stream/csv/split.h"
#include "stream/decode/decoder.h"
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
    RefuseFile(where, path.string() + ": is too large; at most " + std::to_string(most) + " bytes");
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
    RefuseFile(settings.where, "the fields need " + std::to_string(settings.descriptor.size()) +
                                   " bytes of the descriptor; at most " + std::to_string(kMaxKept));
  }
  (void)stream::MakeDecoder(*schema);  // reports what does not fit
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
  if (bytes > kMaxKept) {
    RefuseFile(avro.where, "the schemas have " + std::to_string(bytes) + " bytes without blanks; at most " +
                               std::to_string(kMaxKept));
  }
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

}  // namespace leat::job
