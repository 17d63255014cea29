// Secrets of a job's settings. A job names where they are; it never has them, because copies of it exist.
#pragma once

#include <string>

#include "base/config/config.h"
#include "base/status.h"

namespace leat::stream {

struct Secret {
  std::string setting;         // setting whose value it is
  std::string variable, file;  // variable of the environment, or a path: one of them
};

// From {env: NAME} or {file: PATH}. Throws std::invalid_argument with the line.
Secret ReadSecret(const Config& config, const std::string& setting);
// The value, from this process's environment or files. kInvalidArgument with the setting and the place.
Result<std::string> ReadSecretValue(const Secret& secret);

}  // namespace leat::stream
