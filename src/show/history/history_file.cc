#include "show/history/history_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "base/fields/codec.h"

namespace leat::observe {
namespace {

// Limit of a file that is read. Files of this program are much smaller.
constexpr uint64_t kMaxFileBytes = 256 << 20;

// 0: there is no such file.
uint64_t InodeOf(const std::string& path) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 ? found.st_ino : 0;
}

uint64_t InodeOf(const checkpoint::File& file) {
  struct stat found {};
  return fstat(file.fd(), &found) == 0 ? found.st_ino : 0;
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

// Length of the payload and its checksum.
constexpr size_t kHead = sizeof(uint32_t) + sizeof(uint64_t);

}  // namespace

void Append(const Record& record, ByteWriter* out) {
  if (const auto* status = std::get_if<StoredStatus>(&record);
      status != nullptr && status->json.size() > kMaxStatusBytes)
    return;
  const Bytes payload = fields::Encode(record);
  out->Put(static_cast<uint32_t>(payload.size()));
  out->Put(Checksum(payload));
  out->PutRaw(payload);
}

Status Encode(const History& history, const StoredStatus& status,
              const std::function<Status(ByteView)>& write) {
  constexpr size_t kPiece = 64 << 10;
  ByteWriter out;
  out.PutRaw(AsBytes(kHistoryMagic));
  const auto add = [&](const Record& record) -> Status {
    Append(record, &out);
    return out.size() < kPiece ? Status() : write(std::exchange(out, ByteWriter()).view());
  };
  for (const Sample& sample : history.coarse()) LEAT_RETURN_IF_ERROR(add(CoarseSample{sample}));
  for (const Sample& sample : history.fine()) LEAT_RETURN_IF_ERROR(add(sample));
  for (const Event& event : history.EventsAfter(0, history.events().size() + history.dead_letters().size()))
    LEAT_RETURN_IF_ERROR(add(event));
  if (!status.json.empty()) LEAT_RETURN_IF_ERROR(add(status));
  return write(out.view());
}

RecordReader::RecordReader(ByteView bytes, bool begun) : bytes_(bytes) {
  if (begun) return;
  const size_t known = std::min(bytes.size(), kHistoryMagic.size());
  damaged_ = AsText(bytes.first(known)) != kHistoryMagic.substr(0, known);
  if (!damaged_ && known == kHistoryMagic.size()) position_ = known;
}

std::optional<Record> RecordReader::Next() {
  if (damaged_ || bytes_.size() - position_ < kHead) return std::nullopt;
  ByteReader head(bytes_.subspan(position_, kHead));
  const auto size = head.Get<uint32_t>();
  const auto checksum = head.Get<uint64_t>();
  if (size > kMaxRecordBytes) {
    damaged_ = true;
    return std::nullopt;
  }
  if (bytes_.size() - position_ - kHead < size) return std::nullopt;
  const ByteView payload = bytes_.subspan(position_ + kHead, size);
  damaged_ = true;
  if (Checksum(payload) != checksum) return std::nullopt;
  auto record = fields::Decode<Record>(payload, "record");
  if (!record.ok()) return std::nullopt;
  damaged_ = false;
  position_ += kHead + size;
  return std::move(*record);
}

void Apply(Record record, History* history, StoredStatus* status) {
  if (auto* sample = std::get_if<Sample>(&record)) {
    history->Add(std::move(*sample));
  } else if (auto* coarse = std::get_if<CoarseSample>(&record)) {
    history->AddCoarse(std::move(coarse->sample));
  } else if (auto* event = std::get_if<Event>(&record)) {
    history->Add(std::move(*event));
  } else {
    *status = std::move(std::get<StoredStatus>(record));
  }
}

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
