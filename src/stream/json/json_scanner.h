// The fast parser of typical JSON records. See MakeJsonDecoder.
#pragma once

#include <climits>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "stream/json/json_fields.h"

namespace leat::stream {

// Takes objects of plain numbers, strings without escapes in ASCII, true, false and null, nested or not, in
// one pass. It remembers the order of the keys of each object, so that a key costs one comparison. Not
// thread-safe.
class JsonScanner {
 public:
  // `fields` must outlive it.
  explicit JsonScanner(JsonFields& fields) : fields_(fields), orders_(fields.objects()) {}

  // Writes the record to a row, or returns false with a partly written row. Zeros follow the last record.
  bool Scan(std::string_view record, const Row& row);

 private:
  static constexpr int kNoKey = INT_MIN;
  static constexpr size_t kMaxKeys = 1024;

  // The key at this position of an object in an earlier record: with its quotes, as 16 bytes for one
  // comparison, and the rest.
  struct Key {
    uint64_t words[2] = {0, 0};
    uint64_t masks[2] = {0, 0};
    std::string text;
    int place = JsonFields::kUnknown;

    void Set(std::string_view quoted, int at);
    bool At(const char* p) const {
      uint64_t now[2];
      std::memcpy(now, p, sizeof(now));
      if (((now[0] ^ words[0]) & masks[0]) | ((now[1] ^ words[1]) & masks[1])) return false;
      return text.size() <= 16 || std::strncmp(p + 16, text.data() + 16, text.size() - 16) == 0;
    }
  };

  // Each reads what begins at `p` and returns its end, or null if it is not typical or does not fit.
  const char* Object(size_t object, const char* p, const Row& row);
  // An object that fields are in, or null.
  const char* Inner(int place, const char* p, const Row& row);
  // The value of a field.
  const char* Value(int place, const char* p, const Row& row);
  static const char* List(const FieldWriter& field, const char* p, const Row& row);

  // The place of the key at `p` (kNoKey: not a plain key), which is then expected there; moves `p` past it.
  int FindKey(size_t object, size_t i, const char** p);

  JsonFields& fields_;
  std::vector<std::vector<Key>> orders_;  // the keys of each object
};

}  // namespace leat::stream
