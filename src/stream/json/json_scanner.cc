#include "stream/json/json_scanner.h"

#include <algorithm>

#include "stream/decode/number.h"
#include "stream/decode/scan.h"

namespace leat::stream {
namespace {

inline const char* SkipBlanks(const char* p) {
  if (static_cast<unsigned char>(*p) > ' ') return p;
  while (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r') ++p;
  return p;
}

// The quote that ends the plain string beginning at `p`, or null if another special character comes first.
// Stops at the zeros after the last record.
inline const char* EndOfPlainString(const char* p) {
  p = FindUnplain(p);
  return *p == '"' ? p : nullptr;
}

inline bool IsNull(const char* p) {
  return std::strncmp(p, "null", 4) == 0;
}

// Past the colon after the plain key at `p`, and blanks; or null.
const char* SkipKey(const char* p) {
  if (*p != '"') return nullptr;
  p = EndOfPlainString(p + 1);
  if (!p) return nullptr;
  p = SkipBlanks(p + 1);
  return *p == ':' ? SkipBlanks(p + 1) : nullptr;
}

// Past the plain string, number or literal at `p`, or null.
const char* SkipScalar(const char* p) {
  switch (*p) {
    case '"':
      p = EndOfPlainString(p + 1);
      return p ? p + 1 : nullptr;
    case 't':
      return std::strncmp(p, "true", 4) == 0 ? p + 4 : nullptr;
    case 'f':
      return std::strncmp(p, "false", 5) == 0 ? p + 5 : nullptr;
    case 'n':
      return IsNull(p) ? p + 4 : nullptr;
    default:
      double number;
      return ParseNumber(p, &number);
  }
}

// Past the object or list that begins at `p`, whose keys no field has; or null.
const char* SkipNested(const char* p) {
  constexpr int kMaxDepth = 64;
  uint64_t objects = 0;  // a bit for each open bracket: is it an object's?
  int depth = 0;
  for (;;) {
    const bool object = *p == '{';
    if (object || *p == '[') {
      if (++depth > kMaxDepth) return nullptr;
      objects = objects << 1 | static_cast<uint64_t>(object);
      p = SkipBlanks(p + 1);
      if (*p != (object ? '}' : ']')) {
        if (object && !(p = SkipKey(p))) return nullptr;
        continue;
      }
    } else {
      p = SkipScalar(p);
      if (!p) return nullptr;
      p = SkipBlanks(p);
    }
    for (; *p == (objects & 1 ? '}' : ']'); p = SkipBlanks(p)) {
      ++p;
      objects >>= 1;
      if (--depth == 0) return p;
    }
    if (*p != ',') return nullptr;
    p = SkipBlanks(p + 1);
    if ((objects & 1) && !(p = SkipKey(p))) return nullptr;
  }
}

inline const char* Skip(const char* p) {
  return *p == '{' || *p == '[' ? SkipNested(p) : SkipScalar(p);
}

}  // namespace

bool JsonScanner::Scan(std::string_view record, const Row& row) {
  fields_.BeginRecord();
  const char* const end = record.data() + record.size();
  const char* p = SkipBlanks(record.data());
  if (*p != '{') return false;
  p = Object(0, p, row);
  if (!p) return false;
  // A token may continue into the next record, so the end is checked last.
  while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')) ++p;
  return p == end && fields_.FillMissing(row);
}

const char* JsonScanner::Inner(int place, const char* p, const Row& row) {
  if (!fields_.See(place)) return nullptr;
  if (*p == '{') return Object(fields_.ObjectAt(place), p, row);
  return IsNull(p) ? p + 4 : nullptr;
}

[[gnu::always_inline]] inline const char* JsonScanner::Value(int place, const char* p, const Row& row) {
  if (!fields_.SeeField(place)) return nullptr;
  const FieldWriter& field = fields_[place];
  const char* const begin = p;
  double number = 0;
  if (*p == '"') {
    const char* const close = EndOfPlainString(p + 1);
    if (!close) return nullptr;
    const std::string_view text(p + 1, static_cast<size_t>(close - p - 1));
    return field.WriteText(text, row) ? close + 1 : nullptr;
  }
  if (*p == 't' && std::strncmp(p, "true", 4) == 0) {
    p += 4;
    number = 1;
  } else if (*p == 'f' && std::strncmp(p, "false", 5) == 0) {
    p += 5;
  } else if (*p == '[') {
    return List(field, p + 1, row);
  } else if (*p == 'n') {
    if (!IsNull(p) || !field.has_default()) return nullptr;
    field.WriteDefault(row);
    return p + 4;
  } else {
    p = ParseNumber(p, &number);
    if (!p) return nullptr;
  }
  if (field.takes_list()) return nullptr;
  const bool fits = field.takes_number() ? field.WriteNumber(number, row)
                                         : field.WriteText({begin, static_cast<size_t>(p - begin)}, row);
  return fits ? p : nullptr;
}

const char* JsonScanner::Object(size_t object, const char* p, const Row& row) {
  p = SkipBlanks(p + 1);
  if (*p == '}') return p + 1;
  const std::vector<Key>& keys = orders_[object];
  for (size_t i = 0;; ++i) {
    int place;
    if (i < keys.size() && keys[i].At(p)) {
      p += keys[i].text.size();
      place = keys[i].place;
    } else {
      place = FindKey(object, i, &p);
      if (place == kNoKey) return nullptr;
    }
    p = SkipBlanks(p);
    if (*p != ':') return nullptr;
    p = SkipBlanks(p + 1);
    p = place >= 0 ? Value(place, p, row) : place == JsonFields::kUnknown ? Skip(p) : Inner(place, p, row);
    if (!p) return nullptr;
    p = SkipBlanks(p);
    if (*p == '}') return p + 1;
    if (*p != ',') return nullptr;
    p = SkipBlanks(p + 1);
  }
}

int JsonScanner::FindKey(size_t object, size_t i, const char** p) {
  std::vector<Key>& keys = orders_[object];
  if (**p != '"') return kNoKey;
  const char* const close = EndOfPlainString(*p + 1);
  if (!close) return kNoKey;
  const std::string_view quoted(*p, static_cast<size_t>(close + 1 - *p));
  const int place = fields_.Find(object, quoted.substr(1, quoted.size() - 2));
  if (i >= keys.size() && i < kMaxKeys) keys.resize(i + 1);
  if (i < keys.size()) keys[i].Set(quoted, place);
  *p = close + 1;
  return place;
}

// Writes the numbers after an opening bracket to the field.
const char* JsonScanner::List(const FieldWriter& field, const char* p, const Row& row) {
  if (!field.takes_list()) return nullptr;
  size_t items = 0;
  p = SkipBlanks(p);
  for (bool more = *p != ']'; more; ++items) {
    double number;
    p = ParseNumber(SkipBlanks(p), &number);
    if (!p || !field.WriteItem(items, number, row)) return nullptr;
    p = SkipBlanks(p);
    more = *p == ',';
    if (more) ++p;
  }
  return *p == ']' && field.EndList(items, row) ? p + 1 : nullptr;
}

void JsonScanner::Key::Set(std::string_view quoted, int at) {
  text = quoted;
  place = at;
  for (size_t k = 0; k < 2; ++k) {
    const size_t bytes = quoted.size() <= 8 * k ? 0 : std::min<size_t>(quoted.size() - 8 * k, 8);
    words[k] = 0;
    std::memcpy(&words[k], quoted.data() + std::min(8 * k, quoted.size()), bytes);
    masks[k] = bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * bytes)) - 1;
  }
}

}  // namespace leat::stream
