// Folders of temporary files that one process owns and locks while it lives, so that a later process can find
// and remove those of dead ones. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "net/same_host/descriptor.h"

namespace leat::net {

// Locks a folder until the descriptor is closed. Returns none if the folder does not exist, belongs to
// another user, is locked, or was removed meanwhile: between its creation and its lock another process may
// take it for a left one, so that the caller makes it again.
Descriptor LockFolder(const std::string& path);

// Removes the folders of dead processes of this user in `parent` whose names begin with `prefix`.
void RemoveLeftFolders(const std::string& parent, std::string_view prefix);

}  // namespace leat::net
