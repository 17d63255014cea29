#include "base/read_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/exit_status.h"

namespace leat {

Result<std::string> ReadFirstBytes(const std::string& path, uint64_t most) {
  const auto failed = [&path] { return Status(CodeOfErrno(errno), path + ": " + std::strerror(errno)); };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), std::fclose);
  if (file == nullptr) return failed();
  std::string text;
  uint64_t length = 0;
  while (length < most && std::feof(file.get()) == 0) {
    text.resize(std::min<uint64_t>(most, std::max<uint64_t>(2 * length, 64 << 10)));
    length += std::fread(text.data() + length, 1, text.size() - length, file.get());
    if (std::ferror(file.get()) != 0) return failed();
  }
  text.resize(length);
  return text;
}

}  // namespace leat
