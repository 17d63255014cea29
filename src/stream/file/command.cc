#include "stream/file/command.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

namespace leat::stream {

std::string ShellWord(const std::string& path) {
  const bool plain = !path.empty() && path[0] != '-' && std::ranges::all_of(path, [](unsigned char c) {
    return c > 0x7f || std::isalnum(c) != 0 ||
           std::string_view("_./+-,:@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return path;
  std::string word = "'";
  for (const char c : path) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

std::string NewFile(const std::string& path, const std::string& extension) {
  return ShellWord(std::filesystem::path(path).stem().string() + ".new" + extension);
}

std::string FromLine(const std::string& path, size_t line) {
  return "tail -n +" + std::to_string(line) + " " + ShellWord(path) + " > " + NewFile(path, ".csv");
}

}  // namespace leat::stream
