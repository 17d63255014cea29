#include "storage/transfer/upload_files.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/path/paths.h"

namespace leat::transfer {
namespace {

constexpr size_t kMaxUploads = 4096;  // per folder
// The disk writes while more bytes arrive, so that a commit has little to wait for. Bytes that are this far
// behind the newest are waited for, so that the memory of the system does not fill with them.
constexpr uint64_t kFlushBytes = 4 << 20;
constexpr uint64_t kMaxDirtyBytes = 32 << 20;

std::string Temporary(const std::string& name) {
  return name + ".tmp";
}

}  // namespace

void UploadFiles::Accept(uint64_t folder, std::string directory, uint64_t max_bytes) {
  folders_[folder] = {std::move(directory), max_bytes, {}};
}

void UploadFiles::Stop(uint64_t folder) {
  folders_.erase(folder);
}

Result<UploadFiles::Folder*> UploadFiles::Find(uint64_t folder) {
  const auto found = folders_.find(folder);
  if (found == folders_.end())
    return Status(Code::kNotFound, "folder " + std::to_string(folder) + " accepts no uploads");
  return &found->second;
}

Result<UploadFiles::Upload*> UploadFiles::Find(uint64_t folder, const std::string& name) {
  LEAT_ASSIGN_OR_RETURN(Folder * in, Find(folder));
  const auto found = in->uploads.find(name);
  if (found == in->uploads.end())
    return Status(Code::kFailedPrecondition, "an upload that has not been opened");
  return &found->second;
}

Result<uint64_t> UploadFiles::Open(uint64_t folder, const std::string& name, uint64_t bytes,
                                   uint64_t checksum) {
  LEAT_ASSIGN_OR_RETURN(Folder * in, Find(folder));
  if (!IsPlainName(Temporary(name))) return Status(Code::kInvalidArgument, "an upload with an invalid name");
  uint64_t others = 0;
  for (const auto& [other, upload] : in->uploads) {
    if (other != name) others += upload.bytes;
  }
  if (bytes > in->max_bytes || others > in->max_bytes - bytes) {
    return Status(Code::kInvalidArgument, "an upload of " + std::to_string(bytes) +
                                              " bytes to a folder with " + std::to_string(others) +
                                              " bytes, at most " + std::to_string(in->max_bytes) +
                                              " are accepted");
  }
  if (const auto found = in->uploads.find(name); found != in->uploads.end()) {
    const Upload& known = found->second;
    if (known.bytes == bytes && known.checksum == checksum) return known.arrived;
    if (known.committed) return Status(Code::kInvalidArgument, "an upload of a file that is complete");
    in->uploads.erase(found);
  }
  if (in->uploads.size() >= kMaxUploads) return Status(Code::kInvalidArgument, "too many uploads");
  LEAT_ASSIGN_OR_RETURN(checkpoint::File file,
                        checkpoint::File::Open(in->directory + "/" + Temporary(name),
                                               O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW));
  Upload& upload = in->uploads.emplace(name, Upload(std::move(file))).first->second;
  upload.bytes = bytes;
  upload.checksum = checksum;
  return uint64_t{0};
}

Result<uint64_t> UploadFiles::Write(uint64_t folder, const std::string& name, uint64_t offset,
                                    ByteView bytes) {
  LEAT_ASSIGN_OR_RETURN(Upload * upload, Find(folder, name));
  if (offset > upload->bytes || bytes.size() > upload->bytes - offset) {
    return Status(Code::kInvalidArgument, "bytes " + std::to_string(offset) + " to " +
                                              std::to_string(offset + bytes.size()) + " of a file of " +
                                              std::to_string(upload->bytes));
  }
  if (offset > upload->arrived) {
    return Status(Code::kFailedPrecondition, "bytes from " + std::to_string(offset) + " on, " +
                                                 std::to_string(upload->arrived) + " have arrived");
  }
  const uint64_t known = upload->arrived - offset;
  if (known >= bytes.size()) return upload->arrived;
  bytes = bytes.subspan(known);
  LEAT_RETURN_IF_ERROR(upload->file.WriteAt(upload->arrived, bytes));
  upload->running.Add(bytes);
  upload->arrived += bytes.size();
  if (upload->arrived - upload->started >= kFlushBytes) {
    // A hint: the sync of the commit reports failures.
    (void)sync_file_range(upload->file.fd(), static_cast<off_t>(upload->started),
                          static_cast<off_t>(upload->arrived - upload->started), SYNC_FILE_RANGE_WRITE);
    upload->started = upload->arrived;
    if (upload->arrived > kMaxDirtyBytes) {
      (void)sync_file_range(upload->file.fd(), 0, static_cast<off_t>(upload->arrived - kMaxDirtyBytes),
                            SYNC_FILE_RANGE_WAIT_BEFORE);
    }
  }
  return upload->arrived;
}

Status UploadFiles::Finish(const std::string& directory, const std::string& name, Upload* upload) {
  if (upload->running.value() != upload->checksum) {
    return Status(Code::kDataLoss, "the " + std::to_string(upload->bytes) +
                                       " bytes that have arrived do not match the checksum of the upload");
  }
  LEAT_RETURN_IF_ERROR(upload->file.Sync());
  return checkpoint::RenameSynced(directory, Temporary(name), name);
}

Result<uint64_t> UploadFiles::Commit(uint64_t folder, const std::string& name) {
  LEAT_ASSIGN_OR_RETURN(Upload * upload, Find(folder, name));
  if (upload->arrived != upload->bytes) {
    return Status(Code::kFailedPrecondition, "the commit of an upload of which " +
                                                 std::to_string(upload->arrived) + " of " +
                                                 std::to_string(upload->bytes) + " bytes have arrived");
  }
  if (upload->committed) return upload->bytes;
  Folder& in = folders_.at(folder);
  if (Status done = Finish(in.directory, name, upload); !done.ok()) {
    // After a failed sync the contents of the disk are unknown.
    unlink((in.directory + "/" + Temporary(name)).c_str());
    in.uploads.erase(name);
    return done;
  }
  upload->committed = true;
  return upload->bytes;
}

}  // namespace leat::transfer
