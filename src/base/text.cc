#include "base/text.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace leat {

bool IsWord(std::string_view text, size_t most, std::string_view signs) {
  return !text.empty() && text.size() <= most && std::ranges::all_of(text, [signs](char c) {
    return IsLetterOrDigit(c) || signs.find(c) != std::string_view::npos;
  });
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

std::string_view Trimmed(std::string_view text, std::string_view blanks) {
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  return text.substr(0, text.find_last_not_of(blanks) + 1);
}

std::string_view TakeUntil(std::string_view separator, std::string_view* text) {
  const size_t end = std::min(text->find(separator), text->size());
  const std::string_view part = text->substr(0, end);
  text->remove_prefix(std::min(end + separator.size(), text->size()));
  return part;
}

std::string Formatted(const char* format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  std::string text(static_cast<size_t>(std::vsnprintf(nullptr, 0, format, arguments)), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  va_end(arguments);
  return text;
}

std::string TimeText(double seconds) {
  if (seconds < 120) return Formatted("%.1f s", seconds);
  return seconds < 7200 ? Formatted("%.1f min", seconds / 60) : Formatted("%.1f h", seconds / 3600);
}

std::string Plural(uint64_t count, std::string_view noun) {
  return std::to_string(count).append(" ").append(noun) + (count == 1 ? "" : "s");
}

}  // namespace leat
