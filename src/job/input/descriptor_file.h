// The Protobuf descriptor of a job, read from its file where the job is loaded and then kept in its
// `resolved:` section.
#pragma once

#include <string>

#include "base/config.h"
#include "stream/schema.h"

namespace leat::job {

// Completes a schema of the format protobuf from `resolved`, or else from the file that it names, whose path
// is relative to `data` or to the current directory. Throws std::invalid_argument with the place.
void ReadDescriptor(const Config& resolved, const std::string& data, stream::Schema* schema);

// To `resolved: {descriptor: TEXT}`; no entry if there is no descriptor.
Config WithDescriptor(const Config& resolved, const std::string& descriptor);

}  // namespace leat::job
