#include "base/config/config_text.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "base/config/config.h"
#include "base/encoding/printable.h"
#include "base/text.h"

namespace leat {
namespace {

// Edit distance with insert, delete, replace and swap of neighbours (Damerau 1964; no substring is edited
// twice).
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        next[j] = std::min(next[j], before[j - 2] + 1);
      }
    }
    std::swap(before, row);
    std::swap(row, next);
  }
  return row[b.size()];
}

}  // namespace

std::string Nearest(std::string_view word, const std::vector<std::string>& known) {
  const std::string wanted = Lower(word);
  const size_t limit = std::max<size_t>(1, wanted.size() / 3);
  std::string best;
  size_t best_distance = std::min(limit + 1, wanted.size());
  for (const auto& candidate : known) {
    const size_t longer = std::max(candidate.size(), wanted.size());
    if (longer - std::min(candidate.size(), wanted.size()) >= best_distance) continue;
    const size_t distance = EditDistance(wanted, Lower(candidate));
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace leat

namespace leat::config_text {
namespace {

// Whether YAML reads `text` back unchanged without quotes, in any position.
bool IsPlainWord(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (text.empty() || !letter(text[0])) return false;
  if (IsNullWord(text) || text == "true" || text == "false") return false;
  return std::ranges::all_of(text,
                             [&](char c) {
                               return letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '/' || c == '-';
                             }) &&
         !ParseNumber(text);
}

}  // namespace

void FailAt(std::string_view name, size_t line, std::string_view message) {
  const std::string place = line == 0 ? "" : ":" + std::to_string(line);
  std::string text = std::string(name) + place + ": " + std::string(message);
  // Quoted values must not break the message into several lines.
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  throw std::invalid_argument(text);
}

void Check(std::string_view text, std::string_view name) {
  if (text.size() > kMaxBytes) {
    FailAt(name, 1,
           "the text has " + std::to_string(text.size()) + " bytes; at most " + std::to_string(kMaxBytes) +
               " are allowed");
  }
  size_t line = 1;
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const size_t length = Utf8Length(text.substr(i));
    const bool control = (c < 0x20 && c != '\n' && c != '\t' && c != '\r') || c == 0x7f;
    if (control || length == 0) {
      FailAt(name, line,
             "byte " + std::to_string(c) + " at offset " + std::to_string(i) + " is not UTF-8 text");
    }
    line += c == '\n';
    i += length;
  }
}

std::string Hint(std::string_view word, const std::vector<std::string>& known, std::string_view list_title) {
  const std::string nearest = Nearest(word, known);
  if (!nearest.empty()) return "; did you mean '" + nearest + "'?";
  return known.empty() ? "" : std::string(list_title) + Joined(known);
}

std::optional<double> ParseNumber(std::string_view text) {
  const auto value = ParseWhole<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

bool IsNullWord(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

std::string Scalar(std::string_view text, bool plain) {
  const bool word = plain && (ParseNumber(text) || text == "true" || text == "false");
  return word || IsPlainWord(text) ? std::string(text) : DoubleQuoted(text);
}

std::string DoubleQuoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x" + ToHex({&c, 1});
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace leat::config_text
