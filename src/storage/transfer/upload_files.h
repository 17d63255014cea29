// The receiving side of uploads: files that arrive in chunks, in order, and continue where they ended after
// a broken connection. Everything that a peer names is checked. Thread-compatible. Calls block on the disk.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/status.h"
#include "storage/checkpoint/file.h"

namespace leat::transfer {

// While a file arrives it is "<name>.tmp". A commit checks it, syncs it and renames it to "<name>", durably.
// All errors but kFailedPrecondition are final for an upload.
class UploadFiles {
 public:
  // Accepts files for `folder` into an existing directory, of at most `max_bytes` together.
  void Accept(uint64_t folder, std::string directory, uint64_t max_bytes);
  // Forgets the folder and its unfinished uploads; later requests for it return kNotFound. Files stay.
  void Stop(uint64_t folder);

  // Returns the bytes that have arrived of this file. Begins again if its size or checksum is another one
  // than before; kInvalidArgument if such a file is committed already, or for an invalid name or size.
  Result<uint64_t> Open(uint64_t folder, const std::string& name, uint64_t bytes, uint64_t checksum);
  // Appends; returns the bytes that have arrived. Bytes that arrived before are not written again.
  // kFailedPrecondition for bytes behind a gap, or of a file that is not open.
  Result<uint64_t> Write(uint64_t folder, const std::string& name, uint64_t offset, ByteView bytes);
  // kFailedPrecondition if bytes are missing. kDataLoss if the checksum differs: the upload then begins
  // again. Can be repeated. Returns the file's size.
  Result<uint64_t> Commit(uint64_t folder, const std::string& name);

 private:
  struct Upload {
    explicit Upload(checkpoint::File its_file) : file(std::move(its_file)) {}
    checkpoint::File file;
    uint64_t bytes = 0;
    uint64_t checksum = 0;
    uint64_t arrived = 0;
    uint64_t started = 0;  // writing to the disk has been started for the bytes before this
    checkpoint::RunningChecksum running;
    bool committed = false;
  };
  struct Folder {
    std::string directory;
    uint64_t max_bytes = 0;
    std::map<std::string, Upload> uploads;
  };

  Result<Folder*> Find(uint64_t folder);
  Result<Upload*> Find(uint64_t folder, const std::string& name);
  static Status Finish(const std::string& directory, const std::string& name, Upload* upload);

  std::map<uint64_t, Folder> folders_;
};

}  // namespace leat::transfer
