// Suggests a schema setting if a field declared as a number has text.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "stream/decode/decoder.h"

namespace leat::stream {

// True for texts that mean a missing value: empty, "?", "NA", "null" and the like, in any case but for "na".
// Blanks around them do not count.
bool IsMissing(std::string_view text);
// True for those, and for "*" and words such as "none" and "unknown", which can be categories: where numbers
// are.
bool IsMissingNumber(std::string_view text);
// Whether the text is a whole number in groups of three digits, such as 1.234.567, whose first digit is not
// 0.
bool InThousands(std::string_view text, std::string_view separator);
// A YAML scalar that is parsed as this text.
std::string YamlText(std::string_view text);

// Collects the texts in dead letters. Bounded memory; not thread-safe.
class TextHint {
 public:
  static constexpr size_t kMaxFields = 64;
  // Number of values listed in the hint; further ones are indicated.
  static constexpr size_t kMaxValues = 6;

  // `csv`: numbers may have a decimal comma.
  explicit TextHint(bool csv = false) : csv_(csv) {}
  void See(const DecodedRows::DeadLetter& letter);
  // Adds the number of records that fit the schema.
  void SeeFitting(uint64_t records) { fitting_ += records; }
  // A hint for the field with the most such letters: "; `type: category, values: [no, yes]` would read
  // 'churned'". Empty if there is no text except missing values, if numbers fit in many records, or if there
  // are many texts that hardly repeat. For numbers with a comma, the setting that reads them, unless it may
  // separate thousands.
  std::string Describe() const;

 private:
  struct Texts {
    uint64_t count = 0;
    uint64_t repeats = 0;  // beyond `values`
    bool more = false;
    std::set<std::string> values;
  };
  const bool csv_;
  uint64_t fitting_ = 0;
  std::map<std::string, Texts, std::less<>> fields_;
};

}  // namespace leat::stream
