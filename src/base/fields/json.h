// JSON of structs that list their fields (fields.h): an object with a member for each field, by its name or
// that of As.
//
//   whole numbers, ids, Duration   a number; Fixed: a text of 16 hexadecimal digits
//   double, float                  a number; null if it is not finite
//   enumerator                     its name; Numbered: its number
//   optional, Shared               the value, or no member; OrNull: or null
//   list, map with texts as keys   an array, an object
//   std::string_view               a text, which is only written
//   Status                         {"code": "unavailable", "message": "..."}; ok: {"code": "ok"}
//
// A variant has no JSON. Input is untrusted: each rule is checked, and the first violation is the
// result, with the field. A number is repeated, a text is not: it may be a secret. Members that no field has
// are ignored.
//
// Only sources that define such texts include this.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/encoding/printable.h"
#include "base/fields/fields.h"
#include "base/fields/types.h"
#include "base/json/text.h"

namespace leat::fields {

// For writing, in the order of the fields. Reading takes a nlohmann::json: an object of the other kind
// searches all its members for each new one, and others may send many.
using Json = nlohmann::ordered_json;

class JsonWriter {
 public:
  template <class T, class... Rules>
  void operator()(std::string_view name, const T& value, const Rules&... rules) {
    if (const As* other = Find<As>(rules...)) name = other->name;
    if constexpr (kHas<UnshownRule, Rules...>) {
      return;
    } else if constexpr (kHas<FlatRule, Rules...> && kIsOptional<T>) {
      if (value) VisitFields(*value, *this);
    } else if constexpr (kHas<FlatRule, Rules...>) {
      VisitFields(value, *this);
    } else if constexpr (kIsOptional<T>) {
      if (value) {
        object_[std::string(name)] = Value(*value, rules...);
      } else if (kHas<OrNullRule, Rules...>) {
        object_[std::string(name)] = nullptr;
      }
    } else {
      if (kHas<SparseRule, Rules...> && IsNew(value)) return;
      object_[std::string(name)] = Value(value, rules...);
    }
  }

  template <class T, class... Rules>
  static Json Value(const T& value, const Rules&... rules) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool> && kHas<FixedRule, Rules...>) {
      return ToHex(value);
    } else if constexpr (std::is_arithmetic_v<T>) {
      return value;
    } else if constexpr (std::is_same_v<T, std::string>) {
      const CutTo* cut = Find<CutTo>(rules...);
      return cut == nullptr ? value : value.substr(0, cut->most);
    } else if constexpr (std::is_same_v<T, std::string_view>) {
      return value;
    } else if constexpr (Enumerated<T> && kHas<NumberedRule, Rules...>) {
      return static_cast<std::underlying_type_t<T>>(value);
    } else if constexpr (Enumerated<T>) {
      return NameOf(value);
    } else if constexpr (kIsId<T>) {
      return Value(value.value, rules...);
    } else if constexpr (kIsDuration<T>) {
      return value.count();
    } else if constexpr (std::is_same_v<T, Status>) {
      Json status = {{"code", CodeName(value.code())}};
      if (!value.ok()) status["message"] = value.message();
      return status;
    } else if constexpr (kIsVector<T> || kIsArray<T>) {
      Json list = Json::array();
      for (const auto& element : value)
        WithElementRules([&](const auto&... own) { list.push_back(Value(element, own...)); }, rules...);
      return list;
    } else if constexpr (kIsMap<T>) {
      Json object = Json::object();
      for (const auto& [key, element] : value)
        WithElementRules([&](const auto&... own) { object[key] = Value(element, own...); }, rules...);
      return object;
    } else {
      static_assert(Listed<T>, "the type has no LEAT_FIELDS");
      JsonWriter writer;
      VisitFields(value, writer);
      return std::move(writer.object_);
    }
  }

 private:
  template <class T>
  static bool IsNew(const T& value) {
    if constexpr (requires { value.empty(); }) {
      return value.empty();
    } else if constexpr (std::equality_comparable<T>) {
      return value == T{};
    } else {
      return false;
    }
  }

  Json object_ = Json::object();
};

class JsonReader {
 public:
  JsonReader(const nlohmann::json& json, FieldError* error) : json_(json), error_(*error) {}

  template <class T, class... Rules>
  void operator()(std::string_view name, T& value, const Rules&... rules) {
    if (!error_.ok()) return;
    if constexpr (kHas<UnshownRule, Rules...>) {
      return;
    } else if constexpr (kHas<FlatRule, Rules...> && kIsOptional<T>) {
      const size_t before = found_;
      const FieldError none = error_;
      VisitFields(Emplaced(&value), *this);
      if (found_ > before) return;
      value.reset();
      error_ = none;
    } else if constexpr (kHas<FlatRule, Rules...>) {
      VisitFields(value, *this);
      if (error_.ok()) error_.Keep(CheckValue(value, rules...));
      return;
    } else {
      ReadMember(name, value, rules...);
    }
  }

  template <class T, class... Rules>
  void ReadMember(std::string_view name, T& value, const Rules&... rules) {
    if (const As* other = Find<As>(rules...)) name = other->name;
    const auto at = json_.find(name);
    if (at == json_.end()) {
      if (!kIsOptional<T> && !kHas<Since, Rules...> && !kHas<SparseRule, Rules...> && !error_.lenient())
        error_.Keep("there is no field " + std::string(name));
      return;
    }
    ++found_;
    if (kHas<OrNullRule, Rules...> && at->is_null()) return;
    if (error_.lenient()) {
      T read{};
      FieldError own(true);
      Get(*at, &read, &own, rules...);
      if (own.ok()) value = std::move(read);
      return;
    }
    Get(*at, &value, &error_, rules...);
    if (!error_.ok()) error_.In(name);
  }

  template <class T, class... Rules>
  static void Get(const nlohmann::json& json, T* value, FieldError* error, const Rules&... rules) {
    if constexpr (std::is_same_v<T, bool>) {
      if (!json.is_boolean()) return error->Keep("is neither true nor false");
      *value = json.get<bool>();
    } else if constexpr (std::is_integral_v<T> && kHas<FixedRule, Rules...>) {
      const auto number = json.is_string() ? NumberFromHex(json.get_ref<const std::string&>()) : std::nullopt;
      if (!number) return error->Keep("is no number of 16 hexadecimal digits");
      *value = *number;
    } else if constexpr (std::is_integral_v<T>) {
      GetNumber(json, value, error);
    } else if constexpr (std::is_floating_point_v<T>) {
      if (!json.is_number() && !json.is_null()) return error->Keep("is no number");
      *value = json.is_null() ? std::numeric_limits<T>::quiet_NaN() : json.get<T>();
    } else if constexpr (std::is_same_v<T, std::string>) {
      GetText(json, value, error, rules...);
    } else if constexpr (Enumerated<T>) {
      GetEnumerator(json, value, error, kHas<NumberedRule, Rules...>);
    } else if constexpr (kIsId<T>) {
      Get(json, &value->value, error, rules...);
    } else if constexpr (kIsDuration<T>) {
      typename T::rep count{};
      GetNumber(json, &count, error);
      *value = T(count);
    } else if constexpr (kIsOptional<T>) {
      Get(json, &Emplaced(value), error, rules...);
    } else if constexpr (kIsVector<T>) {
      if (!json.is_array() || json.size() > MostElements(rules...))
        return error->Keep("is no list, or too long");
      value->clear();
      for (const nlohmann::json& one : json) {
        WithElementRules([&](const auto&... own) { Get(one, &value->emplace_back(), error, own...); },
                         rules...);
        if (error->ok()) continue;
        if (!error->lenient()) return error->In("[" + std::to_string(value->size() - 1) + "]");
        value->pop_back();
        *error = FieldError(true);
      }
    } else if constexpr (kIsMap<T>) {
      if (!json.is_object() || json.size() > MostElements(rules...))
        return error->Keep("is no object, or too large");
      value->clear();
      for (const auto& [name, one] : json.items()) {
        WithElementRules([&](const auto&... own) { Get(one, &(*value)[name], error, own...); }, rules...);
        if (!error->ok()) return error->In(name);
      }
    } else {
      static_assert(Listed<T>, "the type has no LEAT_FIELDS");
      if (!json.is_object()) return error->Keep("is no object");
      JsonReader reader(json, error);
      VisitFields(*value, reader);
    }
    if (error->ok()) error->Keep(CheckValue(*value, rules...));
  }

 private:
  // How an error describes a value of the wrong kind.
  static std::string Shown(const nlohmann::json& json) {
    if (json.is_number() || json.is_boolean() || json.is_null()) return "is " + JsonText(json);
    return std::string(json.is_string() ? "is a " : "is an ") + json.type_name();
  }

  template <class T>
  static void GetNumber(const nlohmann::json& json, T* value, FieldError* error) {
    const bool fits = json.is_number_unsigned()
                          ? std::in_range<T>(json.get<uint64_t>())
                          : json.is_number_integer() && std::in_range<T>(json.get<int64_t>());
    if (!fits) return error->Keep(Shown(json));
    *value = json.is_number_unsigned() ? static_cast<T>(json.get<uint64_t>())
                                       : static_cast<T>(json.get<int64_t>());
  }

  template <class... Rules>
  static void GetText(const nlohmann::json& json, std::string* value, FieldError* error,
                      const Rules&... rules) {
    const uint64_t most = MostText(rules...);
    if (error->lenient() && kHas<CutTo, Rules...> && json.is_string()) {
      *value = json.get_ref<const std::string&>().substr(0, most);
      return;
    }
    if (!json.is_string() || json.get_ref<const std::string&>().size() > most)
      return error->Keep("is no text of at most " + std::to_string(most) + " bytes");
    *value = json.get<std::string>();
  }

  template <Enumerated E>
  static void GetEnumerator(const nlohmann::json& json, E* value, FieldError* error, bool numbered) {
    for (const auto& one : EnumeratorsOf(E{})) {
      const bool same =
          numbered ? json.is_number_unsigned() && json.get<uint64_t>() == static_cast<uint64_t>(one.value)
                   : json.is_string() && json.get_ref<const std::string&>() == one.name;
      if (!same) continue;
      *value = one.value;
      return;
    }
    error->Keep("is unknown");
  }

  const nlohmann::json& json_;
  FieldError& error_;
  size_t found_ = 0;  // fields
};

template <class T>
std::string ToJson(const T& message) {
  return JsonText(JsonWriter::Value(message));
}

// JSON of others, for ReadJson. `what`: how an error begins.
inline Result<nlohmann::json> ParseJson(std::string_view text, std::string_view what,
                                        Code code = Code::kInvalidArgument) {
  constexpr int kMostLevels = 8;
  const auto invalid = [&](const std::string& why) { return Status(code, std::string(what) + ": " + why); };
  if (!IsShallowJson(text, kMostLevels))
    return invalid("it is nested deeper than " + std::to_string(kMostLevels) + " levels");
  nlohmann::json json = ParsedJson(text);
  if (json.is_discarded()) return invalid("it is no JSON");
  return json;
}

// `rules`: of a T that is no struct.
template <class T, class... Rules>
Result<T> ReadJson(const nlohmann::json& json, std::string_view what, Code code, const Rules&... rules) {
  T value{};
  FieldError error;
  JsonReader::Get(json, &value, &error, rules...);
  if (error.ok()) return value;
  return Status(code, std::string(what) + ": " + error.text());
}
template <class T, class... Rules>
Result<T> FromJson(std::string_view text, std::string_view what, Code code = Code::kInvalidArgument,
                   const Rules&... rules) {
  LEAT_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(text, what, code));
  return ReadJson<T>(json, what, code, rules...);
}

// An object of another version of the program: fields that are absent, or break a rule, keep the values of a
// new struct; so do elements of lists, which are left out.
template <class T>
Result<T> FromAnyJson(std::string_view text, std::string_view what, Code code) {
  LEAT_ASSIGN_OR_RETURN(const Json json, ParseJson(text, what, code));
  T value{};
  FieldError error(true);
  JsonReader::Get(json, &value, &error);
  if (error.ok()) return value;
  return Status(code, std::string(what) + ": " + error.text());
}

}  // namespace leat::fields
