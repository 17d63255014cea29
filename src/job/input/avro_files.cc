#include "job/input/avro_files.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "stream/avro/avro_schema.h"

namespace leat::job {
namespace {

namespace fs = std::filesystem;

// Of all schemas together: every role gets them with the job.
constexpr size_t kMaxBytes = 256 << 10;

[[noreturn]] void Fail(const stream::AvroSettings& avro, const std::string& why) {
  throw std::invalid_argument(avro.where + ": " + why);
}

std::string ReadText(const stream::AvroSettings& avro, const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) Fail(avro, path.string() + ": there is no such file");
  const auto size = fs::file_size(path, error);
  if (error || size > stream::AvroSchema::kMaxText) {
    Fail(avro,
         path.string() + ": a schema has at most " + std::to_string(stream::AvroSchema::kMaxText) + " bytes");
  }
  std::ifstream in(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  if (!in) Fail(avro, path.string() + ": cannot be read");
  const auto small = stream::MinifyJson(text);
  if (!small.ok()) Fail(avro, path.string() + ": " + small.status().message());
  return *small;
}

// The id in the name ID.avsc; false for other names.
bool IdIn(const fs::path& path, uint32_t* id) {
  if (path.extension() != ".avsc") return false;
  const std::string stem = path.stem().string();
  const auto read = std::from_chars(stem.data(), stem.data() + stem.size(), *id);
  return read.ec == std::errc() && read.ptr == stem.data() + stem.size();
}

}  // namespace

stream::AvroTexts ReadAvroFiles(const stream::AvroSettings& avro, const std::string& data) {
  stream::AvroTexts texts;
  const fs::path base = data;
  if (!avro.file.empty()) texts[0] = ReadText(avro, base / avro.file);
  for (const auto& [id, file] : avro.files) texts[id] = ReadText(avro, base / file);
  if (!avro.folder.empty()) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(base / avro.folder, error)) {
      if (uint32_t id; IdIn(entry.path(), &id)) texts[id] = ReadText(avro, entry.path());
    }
    if (error) Fail(avro, (base / avro.folder).string() + ": " + error.message());
    if (texts.empty()) Fail(avro, (base / avro.folder).string() + " has no schemas; their names are ID.avsc");
  }
  size_t bytes = 0;
  for (const auto& [id, text] : texts) bytes += text.size();
  if (bytes > kMaxBytes) {
    Fail(avro, "the schemas have " + std::to_string(bytes) + " bytes without blanks; at most " +
                   std::to_string(kMaxBytes));
  }
  return texts;
}

Config WithAvro(const Config& resolved, const stream::AvroTexts& texts) {
  if (texts.empty()) return resolved;
  Config all = Config::EmptyMap("avro");
  for (const auto& [id, text] : texts) all = all.With(std::to_string(id), text);
  return resolved.With("avro", all);
}

stream::AvroTexts AvroTextsIn(const Config& resolved) {
  stream::AvroTexts texts;
  if (!resolved.Has("avro")) return texts;
  const Config all = resolved.At("avro");
  for (const std::string& key : all.Keys()) {
    uint32_t id;
    const auto read = std::from_chars(key.data(), key.data() + key.size(), id);
    if (read.ec != std::errc() || read.ptr != key.data() + key.size())
      all.At(key).Fail("'" + key + "' is not the id of a schema");
    texts[id] = all.At(key).String();
  }
  return texts;
}

}  // namespace leat::job
