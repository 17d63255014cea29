#include "stream/dead_letters.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/encoding/printable.h"
#include "base/fields/json.h"
#include "base/text.h"
#include "stream/decode/text.h"

namespace leat::stream {
namespace {

constexpr uint64_t kLook = 1 << 20;  // after so many bytes the sizes of all files are looked at again

// Bytes of all files in a directory, which need not exist.
Result<uint64_t> BytesIn(const std::string& directory) {
  std::error_code error;
  uint64_t bytes = 0;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code gone;
    const uint64_t size = std::filesystem::file_size(it->path(), gone);
    if (!gone && it->path().extension() == ".jsonl") bytes += size;
  }
  if (error && error != std::errc::no_such_file_or_directory)
    return Status(Code::kPermissionDenied, directory + ": " + error.message());
  return bytes;
}

// A line of a file.
struct Line {
  uint32_t partition = 0;
  uint64_t offset = 0;
  std::string reason;
  std::string record, record_base64;
};
LEAT_FIELDS(Line, (partition), (offset), (reason, AtMost(DeadLetterFile::kMaxRecordBytes)),
            (record, Sparse, AtMost(DeadLetterFile::kMaxRecordBytes)),
            (record_base64, Sparse, AtMost(2 * DeadLetterFile::kMaxRecordBytes)));

}  // namespace

DeadLetterFile::DeadLetterFile(std::string directory, const std::string& name, uint64_t max_bytes)
    : directory_(std::move(directory)), path_(directory_ + "/" + name + ".jsonl"), max_bytes_(max_bytes) {}

Status DeadLetterFile::Open() {
  std::error_code ignored;
  if (std::filesystem::create_directories(directory_, ignored))
    std::filesystem::permissions(directory_, std::filesystem::perms::owner_all, ignored);
  fd_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (!fd_.ok()) return {Code::kPermissionDenied, path_ + ": " + std::strerror(errno)};
  struct stat info;
  // After a torn line, begins a new one.
  if (::fstat(fd_.get(), &info) == 0 && info.st_size > 0 && ::write(fd_.get(), "\n", 1) != 1)
    return {Code::kResourceExhausted, path_ + ": cannot be written"};
  return {};
}

Status DeadLetterFile::Append(uint32_t partition, uint64_t offset, std::string_view reason,
                              std::string_view record) {
  Line letter{.partition = partition, .offset = offset, .reason = {}, .record = {}, .record_base64 = {}};
  letter.reason = CutUtf8(reason, kMaxRecordBytes);
  if (!ValidUtf8(letter.reason)) letter.reason = "not UTF-8";
  letter.record = CutUtf8(record, kMaxRecordBytes);
  if (!ValidUtf8(letter.record)) {
    letter.record.clear();
    letter.record_base64 = ToBase64(record.substr(0, kMaxRecordBytes));
  }
  const std::string line = fields::ToJson(letter) + "\n";
  if (all_bytes_ >= next_look_) {
    LEAT_ASSIGN_OR_RETURN(all_bytes_, BytesIn(directory_));
    next_look_ = all_bytes_ + kLook;
  }
  if (all_bytes_ + line.size() > max_bytes_) return {};
  if (!fd_.ok()) LEAT_RETURN_IF_ERROR(Open());
  const ssize_t written = ::write(fd_.get(), line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) {
    all_bytes_ += line.size();
    return {};
  }
  return Status(Code::kResourceExhausted,
                path_ + ": " + (written < 0 ? std::strerror(errno) : "the disk is full"));
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
  return Formatted("%llu of %llu events (%.3g %%); at most %.3g %% are allowed (train: max_dead_letter_rate)",
                   static_cast<unsigned long long>(dead), static_cast<unsigned long long>(events),
                   100.0 * static_cast<double>(dead) / static_cast<double>(std::max<uint64_t>(events, 1)),
                   100.0 * limit);
}

std::string DeadLetterRate::Describe() const {
  return Formatted("%.3g %% of the last %llu events; at most %.3g %% are allowed",
                   described_events_
                       ? 100.0 * static_cast<double>(described_dead_) / static_cast<double>(described_events_)
                       : 0.0,
                   static_cast<unsigned long long>(described_events_), 100.0 * limit_);
}

}  // namespace leat::stream
