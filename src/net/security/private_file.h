// Files with secrets: tokens and keys. Thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/status.h"
#include "net/same_host/same_host_peer.h"

namespace leat::net {

// The limit of the size of a file with a secret.
constexpr size_t kMaxPrivateFileBytes = 64 << 10;

// Whether the mode bits of a file with a secret keep it from other users. Its group may read it if root owns
// it, because containers mount secrets that way.
bool IsPrivate(unsigned mode, bool owned_by_root);

// Reads a whole file. The errors name the file: kNotFound if there is none, kPermissionDenied if other users
// can read or write it or this user cannot read it, kInvalidArgument if it is not a regular file or too
// large.
Result<std::string> ReadPrivateFile(const std::filesystem::path& path);

// As ReadPrivateFile, for a file that others may read.
Result<std::string> ReadPublicFile(const std::filesystem::path& path);

// Another one whenever the file is written or replaced; "none" if there is no file.
std::string FileStamp(const std::filesystem::path& path);

// Creates a file that only its owner can read, with this content, and the folder that it is in. Nobody ever
// sees a part of the content. If several processes create the same file, one succeeds; the others leave it
// unchanged and also return ok. The errors name the file.
Status CreatePrivateFile(const std::filesystem::path& path, std::string_view content);

// `bytes` random bytes as hexadecimal digits, from the system's generator of secrets.
std::string RandomHex(size_t bytes);

// Folders of temporary files that one process owns and locks while it lives, so that a later process can find
// and remove those of dead ones. Thread-safe.

// Locks a folder until the descriptor is closed. Returns none if the folder does not exist, belongs to
// another user, is locked, or was removed meanwhile: between its creation and its lock another process may
// take it for a left one, so that the caller makes it again.
Descriptor LockFolder(const std::string& path);

// Removes the folders of dead processes of this user in `parent` whose names begin with `prefix`.
void RemoveLeftFolders(const std::string& parent, std::string_view prefix);

}  // namespace leat::net
