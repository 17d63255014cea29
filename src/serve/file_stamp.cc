#include "serve/file_stamp.h"

#include <sys/stat.h>

namespace leat::serve {

std::string FileStamp(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) return "none";
  return std::to_string(found.st_ino) + "." + std::to_string(found.st_size) + "." +
         std::to_string(found.st_mtim.tv_sec) + "." + std::to_string(found.st_mtim.tv_nsec);
}

}  // namespace leat::serve
