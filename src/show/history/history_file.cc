#include "show/history/history_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace leat::observe {
namespace {

// Limit of a file that is read. Files of this program are much smaller.
constexpr uint64_t kMaxFileBytes = 256 << 20;

// 0: there is no such file.
uint64_t InodeOf(const std::string& path) {
  struct stat its {};
  return stat(path.c_str(), &its) == 0 ? its.st_ino : 0;
}

uint64_t InodeOf(const checkpoint::File& file) {
  struct stat its {};
  return fstat(file.fd(), &its) == 0 ? its.st_ino : 0;
}

Status WriteNew(const std::string& directory, const History& history, const StoredStatus& status,
                checkpoint::File* file, uint64_t* written) {
  LEAT_RETURN_IF_ERROR(Encode(history, status, [&](ByteView piece) {
    *written += piece.size();
    return file->Write(piece);
  }));
  // Or a power cut could leave an empty file in place of the former one.
  LEAT_RETURN_IF_ERROR(file->Sync());
  return checkpoint::Rename(directory, std::string(kHistoryName) + ".tmp", kHistoryName);
}

}  // namespace

Result<HistoryWriter> HistoryWriter::Create(const std::string& directory, const History& history,
                                            const StoredStatus& status) {
  const std::string path = directory + "/" + kHistoryName;
  LEAT_ASSIGN_OR_RETURN(checkpoint::File file,
                        checkpoint::File::Open(path + ".tmp", O_RDWR | O_CREAT | O_TRUNC | O_APPEND));
  uint64_t written = 0;
  if (Status made = WriteNew(directory, history, status, &file, &written); !made.ok()) {
    unlink(file.path().c_str());
    return made;
  }
  file.set_path(path);
  return HistoryWriter(std::move(file), written);
}

Status HistoryWriter::Append(ByteView records) {
  bytes_ += records.size();
  return file_.Write(records);
}

Result<bool> HistoryWriter::Outdated() const {
  const uint64_t there = InodeOf(file_.path());
  if (there != 0 && there != InodeOf(file_))
    return Status(Code::kStale, file_.path() + ": another process writes it now");
  return there == 0 || bytes_ > kMaxBytes;
}

Result<bool> HistoryReader::Update() {
  const std::string path = directory_ + "/" + kHistoryName;
  if (const uint64_t inode = InodeOf(path); !file_ || (inode != 0 && inode != inode_)) {
    LEAT_ASSIGN_OR_RETURN(checkpoint::File file, checkpoint::File::Open(path, O_RDONLY));
    inode_ = InodeOf(file);
    file_ = std::move(file);
    read_ = 0;
    history_ = History();
    status_ = {};
  }
  LEAT_ASSIGN_OR_RETURN(const uint64_t size, file_->Size());
  if (size <= read_) return false;
  if (size - read_ > kMaxFileBytes)
    return Status(Code::kResourceExhausted,
                  path + ": " + std::to_string(size) + " bytes, at most " + std::to_string(kMaxFileBytes));
  Bytes bytes(size - read_);
  LEAT_RETURN_IF_ERROR(file_->ReadAt(read_, bytes));
  RecordReader reader(bytes, read_ > 0);
  bool any = false;
  while (auto record = reader.Next()) {
    Apply(std::move(*record), &history_, &status_);
    any = true;
  }
  read_ += reader.position();
  if (reader.damaged()) return Status(Code::kDataLoss, path + ": damaged at byte " + std::to_string(read_));
  return any;
}

}  // namespace leat::observe
