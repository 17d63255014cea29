#include "stream/json/json_parser.h"

#include "stream/csv/split.h"
#include "stream/decode/number.h"
#include "stream/json/json_fields.h"

namespace leat::stream {
namespace {

namespace ondemand = simdjson::ondemand;
static_assert(RecordBatch::kPadding >= simdjson::SIMDJSON_PADDING);

// Our own parser: simdjson before 3.6.3 misreads "0." and more than 19 digits.
bool NumberFrom(const FieldWriter& field, std::string_view text, double* number, Misfit* reason) {
  if (ParseNumber(text.data(), number) == text.data() + text.size()) return true;
  if (IsInfinity(text)) {
    *reason = field.name() + ": " + WhyNoJson(text);
    return false;
  }
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (digits.size() > 1 && digits[0] == '0' && IsDigit(digits[1])) {
    *reason = field.name() + ": " + Quoted(text) + " is no JSON: a number has no zeros before it";
  } else if (IsTooLargeNumber(text)) {
    *reason = field.ReasonOfTooLarge(text);
  } else {
    *reason = field.name() + ": " + Quoted(text) + " is not a number";
  }
  return false;
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
      *reason = field.name() + ": holds " + Quoted(token) + ", which is not a number";
      return simdjson::SUCCESS;
    }
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

simdjson::error_code ParseScalar(const FieldWriter& field, ondemand::value value, ondemand::json_type type,
                                 const Row& row, Misfit* reason) {
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

simdjson::error_code ParseField(const FieldWriter& field, ondemand::value value, const Row& row,
                                Misfit* reason) {
  ondemand::json_type type;
  if (value.type().get(type)) {
    const std::string_view token = TextOf(value);
    if (IsNaN(token) && field.has_default()) {
      field.WriteDefault(row);
    } else {
      *reason = field.name() + ": " +
                (IsNaN(token) ? "is NaN; a `default` of the field would take its place" : WhyNoJson(token));
    }
    return simdjson::SUCCESS;
  }
  switch (type) {
    case ondemand::json_type::string: {
      std::string_view text;
      if (const auto error = value.get_string().get(text)) return error;
      if (double number; field.takes_number() && CsvNumber(text, '.', &number)) {
        *reason =
            field.name() + ": " + Quoted(text) + " is a text that holds a number; write it without quotes";
      } else if (!field.WriteText(text, row)) {
        *reason = field.Reason(text);
      }
      return simdjson::SUCCESS;
    }
    case ondemand::json_type::number:
    case ondemand::json_type::boolean:
      return ParseScalar(field, value, type, row, reason);
    case ondemand::json_type::null:
      if (TextOf(value) != "null") return simdjson::N_ATOM_ERROR;
      if (field.has_default()) {
        field.WriteDefault(row);
      } else {
        *reason = field.name() + ": is null";
      }
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

}  // namespace

bool JsonParser::Parse(std::string_view record, const Row& row, Misfit* reason) {
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

simdjson::error_code JsonParser::ParseObject(size_t index, ondemand::object object, const Row& row,
                                             Misfit* reason) {
  for (auto member : object) {
    ondemand::field field;
    if (const auto error = std::move(member).get(field)) return error;
    std::string_view key;
    if (const auto error = field.unescaped_key().get(key)) return error;
    const int place = fields_.Find(index, key);
    if (place == JsonFields::kUnknown) continue;
    if (!fields_.See(place)) {
      *reason = fields_.PathOf(place) + ": appears twice";
      return simdjson::SUCCESS;
    }
    const auto error = fields_.IsObject(place) ? ParseInner(place, field.value(), row, reason)
                                               : ParseField(fields_[place], field.value(), row, reason);
    if (error) return error;
    if (!reason->empty()) return simdjson::SUCCESS;
  }
  return simdjson::SUCCESS;
}

simdjson::error_code JsonParser::ParseInner(int place, ondemand::value value, const Row& row,
                                            Misfit* reason) {
  ondemand::json_type type;
  if (const auto error = value.type().get(type)) return IsNaN(TextOf(value)) ? simdjson::SUCCESS : error;
  if (type == ondemand::json_type::null)  // as if it were missing
    return TextOf(value) == "null" ? simdjson::SUCCESS : simdjson::N_ATOM_ERROR;
  if (type != ondemand::json_type::object) {
    *reason = fields_.PathOf(place) + ": is " + NameOf(type) + ", not an object";
    return simdjson::SUCCESS;
  }
  ondemand::object object;
  if (const auto error = value.get_object().get(object)) return error;
  return ParseObject(fields_.ObjectAt(place), object, row, reason);
}

}  // namespace leat::stream
