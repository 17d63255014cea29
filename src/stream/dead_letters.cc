#include "stream/dead_letters.h"

#include <fcntl.h>
#include <simdjson.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "stream/base64.h"

namespace leat::stream {
namespace {

void AppendJsonString(std::string_view text, std::string* out) {
  *out += '"';
  for (char c : text) {
    if (c == '"' || c == '\\') {
      *out += '\\';
      *out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", c);
      *out += escaped;
    } else {
      *out += c;
    }
  }
  *out += '"';
}

// At most `size` bytes, not ending inside a UTF-8 sequence.
std::string_view CutText(std::string_view text, size_t size) {
  if (text.size() <= size) return text;
  while (size > 0 && (text[size] & 0xc0) == 0x80) --size;
  return text.substr(0, size);
}

bool ParseLine(simdjson::dom::parser& parser, const std::string& line, DeadLetter* letter) {
  simdjson::dom::element root;
  uint64_t partition;
  std::string_view text;
  if (parser.parse(line).get(root) || root["partition"].get(partition) ||
      root["offset"].get(letter->offset) || root["reason"].get(text)) {
    return false;
  }
  letter->partition = static_cast<uint32_t>(partition);
  letter->reason = text;
  letter->record.clear();
  if (!root["record"].get(text)) letter->record = text;
  if (!root["record_base64"].get(text)) letter->record = FromBase64(text);
  return true;
}

}  // namespace

Result<std::unique_ptr<DeadLetterFile>> DeadLetterFile::Open(const std::string& directory,
                                                             const std::string& name) {
  std::error_code ignored;
  if (std::filesystem::create_directories(directory, ignored))
    std::filesystem::permissions(directory, std::filesystem::perms::owner_all, ignored);
  std::string path = directory + "/" + name + ".jsonl";
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return Status(Code::kPermissionDenied, path + ": " + std::strerror(errno));
  struct stat info;
  const uint64_t bytes = ::fstat(fd, &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
  std::unique_ptr<DeadLetterFile> file(new DeadLetterFile(fd, std::move(path), bytes));
  // After a torn line, begins a new one.
  if (bytes > 0 && ::write(fd, "\n", 1) != 1)
    return Status(Code::kResourceExhausted, file->path_ + ": cannot be written");
  return file;
}

DeadLetterFile::~DeadLetterFile() {
  ::close(fd_);
}

Status DeadLetterFile::Append(uint32_t partition, uint64_t offset, std::string_view reason,
                              std::string_view record) {
  std::string line = "{\"partition\":" + std::to_string(partition) + ",\"offset\":" + std::to_string(offset) +
                     ",\"reason\":";
  reason = CutText(reason, kMaxRecordBytes);
  AppendJsonString(simdjson::validate_utf8(reason.data(), reason.size()) ? reason : "not UTF-8", &line);
  const std::string_view text = CutText(record, kMaxRecordBytes);
  if (!simdjson::validate_utf8(text.data(), text.size())) {
    line += ",\"record_base64\":\"" + ToBase64(record.substr(0, kMaxRecordBytes)) + '"';
  } else if (!text.empty()) {
    line += ",\"record\":";
    AppendJsonString(text, &line);
  }
  line += "}\n";
  if (bytes_ + line.size() > kMaxFileBytes) return Status();
  const ssize_t written = ::write(fd_, line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) {
    bytes_ += line.size();
    return Status();
  }
  return Status(Code::kResourceExhausted,
                path_ + ": " + (written < 0 ? std::strerror(errno) : "the disk is full"));
}

Result<std::vector<DeadLetter>> ReadDeadLetters(const std::string& directory, size_t limit) {
  std::error_code error;
  std::vector<std::string> paths;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == ".jsonl") paths.push_back(it->path().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return Status(Code::kPermissionDenied, directory + ": " + error.message());
  }
  std::sort(paths.begin(), paths.end());
  std::map<std::pair<uint32_t, uint64_t>, DeadLetter> letters;
  simdjson::dom::parser parser;
  for (const std::string& path : paths) {
    std::ifstream file(path);
    DeadLetter letter;
    for (std::string line; letters.size() < limit && std::getline(file, line);) {
      if (ParseLine(parser, line, &letter))
        letters.emplace(std::pair(letter.partition, letter.offset), letter);
    }
  }
  std::vector<DeadLetter> all;
  for (auto& [place, letter] : letters) all.push_back(std::move(letter));
  return all;
}

void DeadLetterRate::Count(uint64_t events, uint64_t dead) {
  events_[1] += events;
  dead_[1] += dead;
  const uint64_t all = events_[0] + events_[1], bad = dead_[0] + dead_[1];
  if (!exceeded_) {
    described_events_ = all;
    described_dead_ = bad;
    const auto count = static_cast<double>(std::max(all, kLeast));
    exceeded_ = static_cast<double>(bad) > limit_ * count + 3 * std::sqrt(limit_ * (1 - limit_) * count);
  }
  if (events_[1] < kWindow) return;
  events_[0] = std::exchange(events_[1], 0);
  dead_[0] = std::exchange(dead_[1], 0);
}

std::string DeadLetterRate::Share(double limit, uint64_t events, uint64_t dead) {
  char text[128];
  std::snprintf(text, sizeof(text),
                "%llu of %llu events (%.3g %%); at most %.3g %% are allowed (train: max_dead_letter_rate)",
                static_cast<unsigned long long>(dead), static_cast<unsigned long long>(events),
                100.0 * static_cast<double>(dead) / static_cast<double>(std::max<uint64_t>(events, 1)),
                100.0 * limit);
  return text;
}

std::string DeadLetterRate::Describe() const {
  char text[128];
  std::snprintf(text, sizeof(text), "%.3g %% of the last %llu events; at most %.3g %% are allowed",
                described_events_
                    ? 100.0 * static_cast<double>(described_dead_) / static_cast<double>(described_events_)
                    : 0.0,
                static_cast<unsigned long long>(described_events_), 100.0 * limit_);
  return text;
}

}  // namespace leat::stream
