// Notices that a file has changed.
#pragma once

#include <string>

namespace leat::serve {

// Another one whenever the file is written or replaced; "none" if there is no file.
std::string FileStamp(const std::string& path);

}  // namespace leat::serve
