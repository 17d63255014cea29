#include "stream/decode/decoder.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <string_view>
#include <utility>

#include "stream/csv/csv.h"
#include "stream/decode/row_writer.h"
#include "stream/decode/text.h"
#include "stream/json/json_text.h"

namespace leat::stream {
namespace {

// The fields of a schema as a tree of keys, and those found in the current record.
//
// Each key of a path has a place: a field (from 0 on), or an object with more keys (below kUnknown). Not
// thread-safe.
class JsonFields {
 public:
  static constexpr int kUnknown = -1;

  // The schema must outlive it.
  explicit JsonFields(const Schema& schema) : objects_(1) {
    auto writers = MakeWriters(schema);
    std::vector<const Field*> read;
    for (size_t i = 0; i < writers.size(); ++i) {
      if (!writers[i]) continue;
      read.push_back(&schema.fields[i]);
      fields_.push_back(std::move(writers[i]));
    }
    for (size_t i = 0; i < read.size(); ++i) {
      const std::span keys(read[i]->path);
      size_t object = 0;
      for (size_t k = 0; k + 1 < keys.size(); ++k) {
        const int next = kUnknown - static_cast<int>(objects_.size());
        const auto [at, added] = objects_[object].places.emplace(keys[k], next);
        object = ObjectAt(at->second);
        if (added) objects_.push_back({.places = {}, .path = PathText(keys.first(k + 1))});
      }
      objects_[object].places.emplace(keys.back(), static_cast<int>(i));
    }
    seen_.resize(fields_.size() + objects_.size() - 1);
  }

  // The place of a key of an object (0: the record itself), or kUnknown.
  int Find(size_t object, std::string_view key) const {
    const auto& places = objects_[object].places;
    const auto it = places.find(key);
    return it == places.end() ? kUnknown : it->second;
  }
  size_t objects() const { return objects_.size(); }
  static bool IsObject(int place) { return place < kUnknown; }
  // The index of the object at a place.
  static size_t ObjectAt(int place) { return static_cast<size_t>(kUnknown - place); }
  const FieldWriter& operator[](int place) const { return *fields_[static_cast<size_t>(place)]; }
  // The keys that lead to the place, as messages show them.
  const std::string& PathOf(int place) const {
    return IsObject(place) ? objects_[ObjectAt(place)].path : (*this)[place].name();
  }

  void BeginRecord() {
    ++record_;
    missing_ = seen_.size();
  }
  // False if the record has had the place before.
  bool See(int place) { return place >= 0 ? SeeField(place) : SeeAt(fields_.size() + ObjectAt(place) - 1); }
  bool SeeField(int place) { return SeeAt(static_cast<size_t>(place)); }
  // Writes the default of each field that the record lacks; false if one has none.
  bool FillMissing(const Row& row) const { return missing_ == 0 || FillDefaults(row) == nullptr; }
  // The first field that is missing and has no default, or null.
  const FieldWriter* FillDefaults(const Row& row) const {
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (seen_[i] == record_) continue;
      if (!fields_[i]->has_default()) return fields_[i].get();
      fields_[i]->WriteDefault(row);
    }
    return nullptr;
  }

 private:
  bool SeeAt(size_t i) {
    uint64_t& seen = seen_[i];
    if (seen == record_) return false;
    seen = record_;
    --missing_;
    return true;
  }
  struct Object {
    std::unordered_map<std::string_view, int> places;
    std::string path;
  };

  std::vector<std::unique_ptr<const FieldWriter>> fields_;
  std::vector<Object> objects_;
  std::vector<uint64_t> seen_;  // number of the last record with each field, and with each object after them
  uint64_t record_ = 0;
  size_t missing_ = 0;
};

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

// The fast parser of typical records.
//
// Takes objects of plain numbers, strings without escapes in ASCII, true, false and null, nested or not, in
// one pass. It remembers the order of the keys of each object, so that a key costs one comparison. Not
// thread-safe.
class JsonScanner {
 public:
  // `fields` must outlive it.
  explicit JsonScanner(JsonFields& fields) : fields_(fields), orders_(fields.objects()) {}

  // Writes the record to a row, or returns false with a partly written row. Zeros follow the last record.
  bool Scan(std::string_view record, const Row& row) {
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

    void Set(std::string_view quoted, int at) {
      text = quoted;
      place = at;
      for (size_t k = 0; k < 2; ++k) {
        const size_t bytes = quoted.size() <= 8 * k ? 0 : std::min<size_t>(quoted.size() - 8 * k, 8);
        words[k] = 0;
        std::memcpy(&words[k], quoted.data() + std::min(8 * k, quoted.size()), bytes);
        masks[k] = bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * bytes)) - 1;
      }
    }
    bool At(const char* p) const {
      uint64_t now[2];
      std::memcpy(now, p, sizeof(now));
      if (((now[0] ^ words[0]) & masks[0]) | ((now[1] ^ words[1]) & masks[1])) return false;
      return text.size() <= 16 || std::strncmp(p + 16, text.data() + 16, text.size() - 16) == 0;
    }
  };

  // Each reads what begins at `p` and returns its end, or null if it is not typical or does not fit.
  const char* Object(size_t object, const char* p, const Row& row) {
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

  // An object that fields are in, or null.
  const char* Inner(int place, const char* p, const Row& row) {
    if (!fields_.See(place)) return nullptr;
    if (*p == '{') return Object(fields_.ObjectAt(place), p, row);
    return IsNull(p) ? p + 4 : nullptr;
  }

  // The value of a field.
  [[gnu::always_inline]] const char* Value(int place, const char* p, const Row& row) {
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

  // Writes the numbers after an opening bracket to the field.
  static const char* List(const FieldWriter& field, const char* p, const Row& row) {
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

  // The place of the key at `p` (kNoKey: not a plain key), which is then expected there; moves `p` past it.
  int FindKey(size_t object, size_t i, const char** p) {
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

  JsonFields& fields_;
  std::vector<std::vector<Key>> orders_;  // the keys of each object
};

namespace ondemand = simdjson::ondemand;
static_assert(RecordBatch::kPadding >= simdjson::SIMDJSON_PADDING);

// Our own parser: simdjson before 3.6.3 misreads "0." and more than 19 digits.
Misfit NumberFrom(const FieldWriter& field, std::string_view text, double* number) {
  if (ParseNumber(text.data(), number) == text.data() + text.size()) return {};
  if (IsInfinity(text)) return field.name() + ": " + WhyNoJson(text);
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (digits.size() > 1 && digits[0] == '0' && IsDigit(digits[1]))
    return field.name() + ": " + Quoted(text) + " is no JSON: a number has no zeros before it";
  if (IsTooLargeNumber(text)) return field.ReasonOfTooLarge(text);
  return field.name() + ": " + Quoted(text) + " is not a number";
}

// Says why the record, which is JSON so far, does not match; empty: it does so far.
simdjson::error_code Refuse(Misfit why, Misfit* reason) {
  *reason = std::move(why);
  return simdjson::SUCCESS;
}

simdjson::error_code ParseList(const FieldWriter& field, ondemand::value value, const Row& row,
                               Misfit* reason) {
  ondemand::array array;
  if (const auto error = value.get_array().get(array)) return error;
  size_t items = 0;
  for (auto item : array) {
    ondemand::value element;
    if (const auto error = std::move(item).get(element)) return error;
    ondemand::json_type type;
    if (const auto error = element.type().get(type)) {
      const std::string_view token = TextOf(element);
      if (!IsNaN(token) && !IsInfinity(token)) return error;
      return Refuse(field.name() + ": holds " + Quoted(token) + ", which is not a number", reason);
    }
    if (type != ondemand::json_type::number)
      return Refuse(field.name() + ": holds something that is not a number", reason);
    double number;
    if (Misfit why = NumberFrom(field, TextOf(element), &number); !why.empty())
      return Refuse(std::move(why), reason);
    if (items < field.length() && !field.WriteItem(items, number, row))
      return Refuse(field.Reason(number), reason);
    ++items;
  }
  if (!field.EndList(items, row)) *reason = field.ReasonOfLength(items);
  return simdjson::SUCCESS;
}

simdjson::error_code ParseScalar(const FieldWriter& field, ondemand::value value, ondemand::json_type type,
                                 const Row& row, Misfit* reason) {
  const std::string_view text = TextOf(value);
  double number = 0;
  if (type == ondemand::json_type::boolean) {
    bool truth;
    if (const auto error = value.get_bool().get(truth)) return error;
    number = truth;
  } else if (Misfit why = NumberFrom(field, text, &number); !why.empty()) {
    return Refuse(std::move(why), reason);
  }
  return Refuse(field.takes_number() ? field.TakeNumber(number, row) : field.TakeText(text, row), reason);
}

simdjson::error_code ParseField(const FieldWriter& field, ondemand::value value, const Row& row,
                                Misfit* reason) {
  ondemand::json_type type;
  if (value.type().get(type)) {
    const std::string_view token = TextOf(value);
    if (!IsNaN(token)) return Refuse(field.name() + ": " + WhyNoJson(token), reason);
    return Refuse(field.TakeDefault("is NaN; a `default` of the field would take its place", row), reason);
  }
  switch (type) {
    case ondemand::json_type::string: {
      std::string_view text;
      if (const auto error = value.get_string().get(text)) return error;
      if (double number; field.takes_number() && CsvNumber(text, '.', &number))
        return Refuse(
            field.name() + ": " + Quoted(text) + " is a text that holds a number; write it without quotes",
            reason);
      return Refuse(field.TakeText(text, row), reason);
    }
    case ondemand::json_type::number:
    case ondemand::json_type::boolean:
      return ParseScalar(field, value, type, row, reason);
    case ondemand::json_type::null:
      if (TextOf(value) != "null") return simdjson::N_ATOM_ERROR;
      return Refuse(field.TakeDefault("is null", row), reason);
    case ondemand::json_type::array:
      if (field.takes_list()) return ParseList(field, value, row, reason);
      return Refuse(field.name() + ": is an array", reason);
    default:
      return Refuse(field.name() + ": is an object", reason);
  }
}

const char* NameOf(ondemand::json_type type) {
  switch (type) {
    case ondemand::json_type::string:
      return "a text";
    case ondemand::json_type::number:
      return "a number";
    case ondemand::json_type::boolean:
      return "true or false";
    case ondemand::json_type::array:
      return "an array";
    default:
      return "something else";
  }
}

// The complete parser, by simdjson. Not thread-safe.
class JsonParser {
 public:
  // `fields` must outlive it.
  explicit JsonParser(JsonFields& fields) : fields_(fields) {}

  // Writes the record to a row, or sets the reason why not. RecordBatch::kPadding bytes after it are
  // readable.
  bool Parse(std::string_view record, const Row& row, Misfit* reason) {
    fields_.BeginRecord();
    *reason = {};
    const simdjson::error_code error = ReadJsonObject(
        &parser_, record, [&](ondemand::object object) { return ParseObject(0, object, row, reason); },
        [&] { return !reason->empty(); });
    if (!reason->empty()) return false;
    if (error) {
      const std::string why = WhyNoObject(record);
      *reason = "not a JSON object: " + (why.empty() ? simdjson::error_message(error) : why);
      return false;
    }
    const FieldWriter* const missing = fields_.FillDefaults(row);
    if (missing != nullptr) *reason = missing->name() + ": is missing";
    return missing == nullptr;
  }

 private:
  // Each ends early with a reason if a field does not match. `index`: of the object in `fields_`.
  simdjson::error_code ParseObject(size_t index, ondemand::object object, const Row& row, Misfit* reason) {
    for (auto member : object) {
      ondemand::field field;
      if (const auto error = std::move(member).get(field)) return error;
      std::string_view key;
      if (const auto error = field.unescaped_key().get(key)) return error;
      const int place = fields_.Find(index, key);
      if (place == JsonFields::kUnknown) continue;
      if (!fields_.See(place)) return Refuse(fields_.PathOf(place) + ": appears twice", reason);
      const auto error = fields_.IsObject(place) ? ParseInner(place, field.value(), row, reason)
                                                 : ParseField(fields_[place], field.value(), row, reason);
      if (error) return error;
      if (!reason->empty()) return simdjson::SUCCESS;
    }
    return simdjson::SUCCESS;
  }

  // The value of a key that leads to fields.
  simdjson::error_code ParseInner(int place, ondemand::value value, const Row& row, Misfit* reason) {
    ondemand::json_type type;
    if (const auto error = value.type().get(type)) return IsNaN(TextOf(value)) ? simdjson::SUCCESS : error;
    if (type == ondemand::json_type::null)  // as if it were missing
      return TextOf(value) == "null" ? simdjson::SUCCESS : simdjson::N_ATOM_ERROR;
    if (type != ondemand::json_type::object)
      return Refuse(fields_.PathOf(place) + ": is " + NameOf(type) + ", not an object", reason);
    ondemand::object object;
    if (const auto error = value.get_object().get(object)) return error;
    return ParseObject(fields_.ObjectAt(place), object, row, reason);
  }

  JsonFields& fields_;
  ondemand::parser parser_;
};

class JsonDecoder final : public Decoder {
 public:
  JsonDecoder(const Schema& schema, bool scan)
      : schema_(schema), fields_(schema_), scanner_(fields_), parser_(fields_), scan_(scan) {}

  void Decode(const RecordBatch& batch, DecodedRows* out) override {
    RowSink sink(schema_, batch, out);
    Misfit reason;
    for (size_t i = 0; i < batch.size(); ++i) {
      const std::string_view record = AsText(batch[i]);
      if (sink.RefuseOversize(i)) continue;
      if (record.empty()) {
        sink.Refuse(i, "is empty: a tombstone?");
        continue;
      }
      if (scan_) {
        if (scanner_.Scan(record, sink.row())) {
          sink.Keep(i);
          continue;
        }
        sink.Restart();
      }
      if (parser_.Parse(record, sink.row(), &reason)) {
        sink.Keep(i);
      } else {
        sink.Refuse(i, std::move(reason));
      }
    }
  }

 private:
  const Schema schema_;
  JsonFields fields_;
  JsonScanner scanner_;
  JsonParser parser_;
  bool scan_;
};

}  // namespace

std::unique_ptr<Decoder> MakeJsonDecoder(const Schema& schema, bool scan) {
  return std::make_unique<JsonDecoder>(schema, scan);
}

}  // namespace leat::stream
