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

size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xc2 && lead < 0xe0 ? 2 : lead >= 0xe0 && lead < 0xf0 ? 3 : 4;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xf0 && byte(1) < 0x90);
  const bool surrogate = lead == 0xed && byte(1) >= 0xa0;
  const bool too_large = lead == 0xf4 && byte(1) >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

std::string_view CutUtf8(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return text.substr(0, most);
}

std::string Quoted(std::string_view text, size_t most) {
  const std::string_view kept = CutUtf8(text, most);
  std::string quoted = "'";
  for (size_t at = 0, size = 0; at < kept.size(); at += size) {
    const std::string_view rest = kept.substr(at);
    const size_t length = Utf8Length(rest);
    size = std::max<size_t>(length, 1);
    const auto first = static_cast<unsigned char>(rest[0]);
    const bool controls = first < 0x20 || first == 0x7f ||
                          (length == 2 && first == 0xc2 && static_cast<unsigned char>(rest[1]) < 0xa0);
    quoted.append(length == 0 || controls ? "?" : rest.substr(0, size));
  }
  return quoted + (kept.size() < text.size() ? "...'" : "'");
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
