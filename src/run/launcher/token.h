// The secret that authenticates the roles of a job to each other. All hosts of a job need the same token.
#pragma once

#include <string>

#include "base/status.h"

namespace leat::launcher {

// $LEAT_TOKEN, or else the first line of the file $LEAT_TOKEN_FILE, or else of ~/.config/leat/token, which is
// created with a random token if it is missing. Returns kPermissionDenied or kInvalidArgument for a file that
// cannot be used (other users can read it, it is empty, $LEAT_TOKEN_FILE is missing), kNotFound if no file is
// named and none can be created.
Result<std::string> UserToken();

// A token that only the processes that get it from this one know.
std::string RandomToken();

}  // namespace leat::launcher
