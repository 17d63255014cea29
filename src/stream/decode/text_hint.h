// What to write in the schema when a field that was taken for a number holds text.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "stream/schema.h"

namespace leat::stream {

// Whether a text says that a value is not known: empty, "?", "NA", "null" and the like.
bool IsMissing(std::string_view text);
// A scalar of a job file that reads as this text.
std::string YamlText(std::string_view text);

// Collects the texts that dead letters show. Bounded memory; not thread-safe.
class TextHint {
 public:
  static constexpr size_t kMaxFields = 64;
  // Values that the hint lists; of more it says that there are.
  static constexpr size_t kMaxValues = 6;

  void See(const DecodedRows::DeadLetter& letter);
  // Of the field that most letters are about: "; `type: category, values: [no, yes]` would read 'churned'".
  // Empty when no field had text other than that of missing values, or its texts are many and hardly repeat.
  std::string Describe() const;

 private:
  struct Texts {
    uint64_t count = 0;
    uint64_t repeats = 0;  // of `values`
    bool more = false;
    std::set<std::string> values;
  };
  std::map<std::string, Texts, std::less<>> fields_;
};

}  // namespace leat::stream
