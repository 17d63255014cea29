#include "show/tensorboard/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/text.h"

namespace leat::tensorboard {
namespace {

constexpr const char* kPrefix = "events.out.tfevents.";

// Files of one process that are made in one second, such as those of the first processes of two containers.
constexpr int kMostNames = 100;

bool HasEventFiles(const std::string& directory) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().filename().string().starts_with(kPrefix)) return true;
  }
  return false;
}

}  // namespace

double WallTime() {
  return Seconds(UnixTime());
}

uint32_t MaskedCrc32c(ByteView bytes) {
  const uint32_t crc = Crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

void AppendRecord(ByteView data, std::string* file) {
  ByteWriter head;
  head.Put(uint64_t{data.size()});
  head.Put(MaskedCrc32c(head.view()));
  ByteWriter tail;
  tail.Put(MaskedCrc32c(data));
  file->append(AsText(head.view())).append(AsText(data)).append(AsText(tail.view()));
}

Result<EventFile> EventFile::Create(const std::string& directory, const std::string& host, bool resumed) {
  if (!resumed && HasEventFiles(directory)) {
    return Status(
        Code::kFailedPrecondition,
        directory + " has the event files of another run; remove them, or choose another directory");
  }
  LEAT_RETURN_IF_ERROR(checkpoint::MakeDirectory(directory));
  const double wall_time = WallTime();
  const std::string base = directory + "/" + kPrefix + Formatted("%010.0f.", wall_time) + host + "." +
                           std::to_string(getpid()) + ".";
  std::string path;
  for (int n = 0; n < kMostNames; ++n) {
    path = base + std::to_string(n);
    if (!checkpoint::Exists(path)) break;
  }
  LEAT_ASSIGN_OR_RETURN(auto file, checkpoint::File::Open(path, O_WRONLY | O_CREAT | O_EXCL));
  EventFile made(std::move(file));
  const Status begun = made.Append({{.wall_time = wall_time, .step = 0, .what = FileVersion{}}});
  if (begun.ok()) return made;
  // It would be taken for another run's.
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  return begun;
}

Status EventFile::Append(const std::vector<Event>& events) {
  std::string bytes;
  for (const Event& event : events) AppendRecord(AsBytes(Encode(event)), &bytes);
  if (damaged_) LEAT_RETURN_IF_ERROR(file_.Truncate(size_));
  damaged_ = true;
  LEAT_RETURN_IF_ERROR(file_.WriteAt(size_, AsBytes(bytes)));
  damaged_ = false;
  size_ += bytes.size();
  return Status();
}

}  // namespace leat::tensorboard
