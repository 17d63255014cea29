#include "run/launcher/start/ready.h"

#include <unistd.h>

#include <algorithm>

namespace leat::launcher {
namespace {

constexpr std::string_view kWaits = "waits for ";
constexpr size_t kMostText = 1000;

}  // namespace

ReadyNews TakeReady(std::string_view bytes, std::string* rest) {
  rest->append(bytes);
  ReadyNews news;
  size_t begin = 0;
  for (size_t end; (end = rest->find('\n', begin)) != rest->npos && news.address.empty(); begin = end + 1) {
    const std::string_view line = std::string_view(*rest).substr(begin, end - begin);
    if (line.starts_with(kWaits)) {
      news.waits = line.substr(kWaits.size());
    } else {
      news.address = line;
    }
  }
  rest->erase(0, begin);
  // Nothing that a coordinator writes is so long.
  if (rest->size() > 4 * kMostText) rest->clear();
  return news;
}

Status SayReady(int fd, const std::string& address) {
  if (fd < 0) return {};
  const std::string line = address + "\n";
  const bool written = write(fd, line.data(), line.size()) >= 0;
  close(fd);
  if (written) return {};
  return {Code::kUnavailable,
          "cannot write the address to file descriptor " + std::to_string(fd) + " (--ready-fd)"};
}

std::string WaitsLine(std::string_view what) {
  std::string line(kWaits);
  line += what.substr(0, kMostText);
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return line + "\n";
}

}  // namespace leat::launcher
