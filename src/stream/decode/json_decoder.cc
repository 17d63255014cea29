#include "stream/decode/json_decoder.h"
#include "stream/decode/decoder.h"

#include <simdjson.h>

#include <cstring>
#include <unordered_map>

#include "stream/decode/number.h"
#include "stream/decode/row_writer.h"
#include "stream/decode/scan.h"

namespace leat::stream {
namespace {

namespace ondemand = simdjson::ondemand;
static_assert(RecordBatch::kPadding >= simdjson::SIMDJSON_PADDING);

// Fields by name, and those found in the current record.
class Fields {
 public:
  explicit Fields(const Schema& schema) {
    auto writers = MakeWriters(schema);
    for (size_t i = 0; i < schema.fields.size(); ++i) {
      if (!writers[i]) continue;
      places_.emplace(schema.fields[i].name, static_cast<int>(all_.size()));
      all_.push_back(std::move(writers[i]));
    }
    seen_.resize(all_.size());
  }
  // Index of a field, or -1 for a key that the schema does not have.
  int Find(std::string_view key) const {
    const auto it = places_.find(key);
    return it == places_.end() ? -1 : it->second;
  }
  const FieldWriter& operator[](int place) const { return *all_[static_cast<size_t>(place)]; }

  void BeginRecord() {
    ++record_;
    missing_ = all_.size();
  }
  // False if the record has had the field before.
  bool See(int place) {
    uint64_t& seen = seen_[static_cast<size_t>(place)];
    if (seen == record_) return false;
    seen = record_;
    --missing_;
    return true;
  }
  bool complete() const { return missing_ == 0; }
  const std::string& FirstMissing() const {
    size_t i = 0;
    while (seen_[i] == record_) ++i;
    return all_[i]->name();
  }

 private:
  std::vector<std::unique_ptr<const FieldWriter>> all_;
  std::unordered_map<std::string_view, int> places_;
  std::vector<uint64_t> seen_;  // number of the last record with the field
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

class Scanner {
 public:
  explicit Scanner(Fields& fields) : fields_(fields) {}

  // Writes the record to a row, or returns false with a partly written row. A token may continue into the
  // next record (zeros follow the last one), so the end is checked last.
  bool Scan(std::string_view record, const Row& row) {
    fields_.BeginRecord();
    const char* const end = record.data() + record.size();
    const char* p = SkipBlanks(record.data());
    if (*p != '{') return false;
    p = SkipBlanks(p + 1);
    for (size_t i = 0;; ++i) {
      const int place = KeyAt(i, &p);
      if (place == kNoKey) return false;
      p = Value(place, SkipBlanks(p), row);
      if (!p) return false;
      p = SkipBlanks(p);
      if (*p == '}') break;
      if (*p != ',') return false;
      p = SkipBlanks(p + 1);
    }
    ++p;
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')) ++p;
    return p == end && fields_.complete();
  }

 private:
  static constexpr int kNoKey = -2;
  static constexpr size_t kMaxKeys = 1024;

  // The key at this position in the last record: with its quotes and colon, as 16 bytes for one comparison,
  // and the rest.
  struct Key {
    uint64_t words[2] = {0, 0};
    uint64_t masks[2] = {0, 0};
    std::string text;
    int place = -1;

    void Set(std::string_view spelled, int at) {
      text = spelled;
      place = at;
      for (size_t k = 0; k < 2; ++k) {
        const size_t bytes = spelled.size() <= 8 * k ? 0 : std::min<size_t>(spelled.size() - 8 * k, 8);
        words[k] = 0;
        std::memcpy(&words[k], spelled.data() + std::min(8 * k, spelled.size()), bytes);
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

  // The field whose key is at `p` (-1: unknown key, kNoKey: not a plain key and a colon); moves `p` past the
  // colon.
  int KeyAt(size_t i, const char** p) {
    if (i < known_ && keys_[i].At(*p)) {
      *p += keys_[i].text.size();
      return keys_[i].place;
    }
    if (**p != '"') return kNoKey;
    const char* const close = EndOfPlainString(*p + 1);
    if (!close) return kNoKey;
    const int place = fields_.Find({*p + 1, static_cast<size_t>(close - *p - 1)});
    const char* const colon = SkipBlanks(close + 1);
    if (*colon != ':') return kNoKey;
    if (i >= known_ && i < kMaxKeys) keys_.resize(known_ = i + 1);
    if (i < known_) keys_[i].Set({*p, static_cast<size_t>(colon + 1 - *p)}, place);
    *p = colon + 1;
    return place;
  }

  // Writes the value at `p` to the field; returns its end, or null.
  const char* Value(int place, const char* p, const Row& row) {
    if (place >= 0 && !fields_.See(place)) return nullptr;
    const char* const begin = p;
    double number = 0;
    if (*p == '"') {
      const char* const close = EndOfPlainString(p + 1);
      if (!close) return nullptr;
      if (place < 0) return close + 1;
      const std::string_view text(p + 1, static_cast<size_t>(close - p - 1));
      return fields_[place].WriteText(text, row) ? close + 1 : nullptr;
    }
    if (*p == '[' && place >= 0) return List(fields_[place], p + 1, row);
    if (*p == 't' && std::strncmp(p, "true", 4) == 0) {
      p += 4;
      number = 1;
    } else if (*p == 'f' && std::strncmp(p, "false", 5) == 0) {
      p += 5;
    } else {
      p = ParseNumber(p, &number);
      if (!p) return nullptr;
    }
    if (place < 0) return p;
    const FieldWriter& field = fields_[place];
    if (field.takes_list()) return nullptr;
    const bool fits = field.takes_number() ? field.WriteNumber(number, row)
                                           : field.WriteText({begin, static_cast<size_t>(p - begin)}, row);
    return fits ? p : nullptr;
  }

  // Writes the numbers after an opening bracket to the field; returns the end of the closing bracket, or
  // null.
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

  Fields& fields_;
  std::vector<Key> keys_;
  size_t known_ = 0;  // keys_.size(), which is a division
};

// The slow, complete parser.
class Parser {
 public:
  explicit Parser(Fields& fields) : fields_(fields) {}

  // Writes the record to a row, or sets the reason why not.
  bool Parse(std::string_view record, const Row& row, Misfit* reason) {
    fields_.BeginRecord();
    *reason = {};
    const simdjson::error_code error = ParseObject(record, row, reason);
    if (!reason->empty()) return false;
    if (error) {
      *reason = std::string("not a JSON object: ") + simdjson::error_message(error);
      return false;
    }
    if (fields_.complete()) return true;
    *reason = fields_.FirstMissing() + ": is missing";
    return false;
  }

 private:
  // Ends early with a reason if a field does not match.
  simdjson::error_code ParseObject(std::string_view record, const Row& row, Misfit* reason) {
    ondemand::document document;
    const simdjson::padded_string_view padded(record, record.size() + RecordBatch::kPadding);
    if (const auto error = parser_.iterate(padded).get(document)) return error;
    ondemand::object object;
    if (const auto error = document.get_object().get(object)) return error;
    for (auto member : object) {
      ondemand::field field;
      if (const auto error = std::move(member).get(field)) return error;
      std::string_view key;
      if (const auto error = field.unescaped_key().get(key)) return error;
      const int place = fields_.Find(key);
      if (place < 0) continue;
      if (!fields_.See(place)) {
        *reason = fields_[place].name() + ": appears twice";
        return simdjson::SUCCESS;
      }
      if (const auto error = ParseValue(fields_[place], field.value(), row, reason)) return error;
      if (!reason->empty()) return simdjson::SUCCESS;
    }
    const char* behind;
    return document.current_location().get(behind) == simdjson::OUT_OF_BOUNDS ? simdjson::SUCCESS
                                                                              : simdjson::TRAILING_CONTENT;
  }

  static simdjson::error_code ParseValue(const FieldWriter& field, ondemand::value value, const Row& row,
                                         Misfit* reason) {
    ondemand::json_type type;
    if (const auto error = value.type().get(type)) return error;
    switch (type) {
      case ondemand::json_type::string: {
        std::string_view text;
        if (const auto error = value.get_string().get(text)) return error;
        if (!field.WriteText(text, row)) *reason = field.Reason(text);
        return simdjson::SUCCESS;
      }
      case ondemand::json_type::number:
      case ondemand::json_type::boolean:
        return ParseScalar(field, value, type, row, reason);
      case ondemand::json_type::null:
        *reason = field.name() + ": is null";
        return simdjson::SUCCESS;
      case ondemand::json_type::array:
        if (field.takes_list()) return ParseList(field, value, row, reason);
        *reason = field.name() + ": is an array";
        return simdjson::SUCCESS;
      default:
        *reason = field.name() + ": is an object";
        return simdjson::SUCCESS;
    }
  }

  // The spelling of the value.
  static std::string_view TextOf(ondemand::value& value) {
    const std::string_view text = value.raw_json_token();
    return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
  }

  // Our own parser: simdjson before 3.6.3 misreads "0." and more than 19 digits.
  static bool NumberFrom(const FieldWriter& field, std::string_view text, double* number, Misfit* reason) {
    if (ParseNumber(text.data(), number) == text.data() + text.size()) return true;
    *reason = field.name() + ": " + Quoted(text) + " is not a number that fits";
    return false;
  }

  static simdjson::error_code ParseList(const FieldWriter& field, ondemand::value value, const Row& row,
                                        Misfit* reason) {
    ondemand::array array;
    if (const auto error = value.get_array().get(array)) return error;
    size_t items = 0;
    for (auto item : array) {
      ondemand::value element;
      if (const auto error = std::move(item).get(element)) return error;
      ondemand::json_type type;
      if (const auto error = element.type().get(type)) return error;
      if (type != ondemand::json_type::number) {
        *reason = field.name() + ": holds something that is not a number";
        return simdjson::SUCCESS;
      }
      double number;
      const std::string_view text = TextOf(element);
      if (!NumberFrom(field, text, &number, reason)) return simdjson::SUCCESS;
      if (items < field.length() && !field.WriteItem(items, number, row)) {
        *reason = field.Reason(number);
        return simdjson::SUCCESS;
      }
      ++items;
    }
    if (!field.EndList(items, row)) *reason = field.ReasonOfLength(items);
    return simdjson::SUCCESS;
  }

  static simdjson::error_code ParseScalar(const FieldWriter& field, ondemand::value value,
                                          ondemand::json_type type, const Row& row, Misfit* reason) {
    const std::string_view text = TextOf(value);
    double number = 0;
    if (type == ondemand::json_type::boolean) {
      bool truth;
      if (const auto error = value.get_bool().get(truth)) return error;
      number = truth;
    } else if (!NumberFrom(field, text, &number, reason)) {
      return simdjson::SUCCESS;
    }
    if (field.takes_number()) {
      if (!field.WriteNumber(number, row)) *reason = field.Reason(number);
    } else if (!field.WriteText(text, row)) {
      *reason = field.Reason(text);
    }
    return simdjson::SUCCESS;
  }

  Fields& fields_;
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
  Fields fields_;
  Scanner scanner_;
  Parser parser_;
  bool scan_;
};

}  // namespace

std::unique_ptr<Decoder> MakeJsonDecoder(const Schema& schema, bool scan) {
  return std::make_unique<JsonDecoder>(schema, scan);
}

}  // namespace leat::stream
