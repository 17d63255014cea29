// An event file on disk: TensorFlow's TFRecord format.
//
//   file   = record*
//   record = length:u64 checksum(length):u32 data checksum(data):u32      little-endian
//
// A checksum is the CRC-32C of the bytes, rotated right by 15 bits, plus 0xa282ead8: a file that contains
// checksums of its own parts stays well distributed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "show/tensorboard/events.h"
#include "storage/checkpoint/file.h"

namespace leat::tensorboard {

// Seconds since 1970, for Event::wall_time.
double WallTime();

uint32_t MaskedCrc32c(ByteView bytes);
// Appends a record to the bytes of a file.
void AppendRecord(ByteView data, std::string* file);

// A new file that events are appended to. Not thread-safe; every call may block on the disk.
class EventFile {
 public:
  // Makes the directory if it does not exist. kFailedPrecondition if it has files of another run, unless this
  // one is `resumed`. TensorBoard reads the files of a directory in the order of their names, which begin
  // with the time. The first event is in the file when this returns.
  static Result<EventFile> Create(const std::string& directory, const std::string& host, bool resumed);
  // A failure leaves none of these events in the file, as far as the disk allows; later ones may succeed.
  Status Append(const std::vector<Event>& events);
  const std::string& path() const { return file_.path(); }

 private:
  explicit EventFile(checkpoint::File file) : file_(std::move(file)) {}
  checkpoint::File file_;
  uint64_t size_ = 0;     // size of the whole records
  bool damaged_ = false;  // bytes of a broken record may follow
};

}  // namespace leat::tensorboard
