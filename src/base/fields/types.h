// The common part of all codecs of fields: kinds of types, the check of a value by its rules, and the place
// of an error.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/fields/fields.h"
#include "base/ids.h"
#include "base/shared.h"
#include "base/status.h"

namespace leat::fields {

class Reader;
class Writer;

template <class T>
inline constexpr bool kIsId = false;
template <class Tag, class Rep>
inline constexpr bool kIsId<Id<Tag, Rep>> = true;
template <class T>
inline constexpr bool kIsDuration = false;
template <class Rep, class Period>
inline constexpr bool kIsDuration<std::chrono::duration<Rep, Period>> = true;
template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kIsOptional<Shared<T>> = true;
template <class T>
inline constexpr bool kIsVector = false;
template <class T>
inline constexpr bool kIsVector<std::vector<T>> = !std::is_same_v<std::vector<T>, Bytes>;
template <class T>
inline constexpr bool kIsArray = false;
template <class T, size_t n>
inline constexpr bool kIsArray<std::array<T, n>> = true;
template <class T>
inline constexpr bool kIsMap = false;
template <class Key, class T>
inline constexpr bool kIsMap<std::map<Key, T>> = true;

inline constexpr int64_t kMostDuration = int64_t{86'400} * 1'000'000'000;  // unless a rule says another limit
inline constexpr uint64_t kMostStatusText = 1 << 16;
inline constexpr uint64_t kMostKey = 256;  // bytes of a text that is a key

// The type has its own PutField for a field with these rules.
template <class T, class... Rules>
concept WithOwnCodec = requires(const T& value, Writer* out, const Rules&... rules) {
  PutField(value, out, rules...);
};

// The value inside an optional or Shared.
template <class T>
using Inside = std::decay_t<decltype(*std::declval<const T&>())>;
// A new one. For clang, a struct inside another has no constructor that an optional of it would find.
template <class T>
T& Emplaced(std::optional<T>* value) {
  return value->emplace(T());
}
template <class T>
T& Emplaced(Shared<T>* value) {
  return value->emplace();
}

// Calls `with` with the rules that Each has.
template <class With>
void WithElementRules(With with) {
  with();
}
template <class With, class Rule, class... Rules>
void WithElementRules(With with, const Rule&, const Rules&... rules) {
  WithElementRules(with, rules...);
}
template <class With, class... Own, class... Rules>
void WithElementRules(With with, const EachRule<Own...>& each, const Rules&...) {
  std::apply(with, each.rules);
}

// The least bytes of an encoded T (codec.h).
template <class T>
uint64_t LeastBytes() {
  if constexpr (std::is_floating_point_v<T>) {
    return sizeof(T);
  } else if constexpr (kIsArray<T>) {
    return std::tuple_size_v<T> * LeastBytes<typename T::value_type>();
  } else if constexpr (Listed<T> && !WithOwnCodec<T>) {
    static const uint64_t least = [] {
      uint64_t sum = 0;
      const T value{};
      VisitFields(value, [&sum]<class... Rules>(std::string_view, const auto& field, const Rules&...) {
        sum += kHas<CountedRule, Rules...> ? 1 : LeastBytes<std::decay_t<decltype(field)>>();
      });
      return sum;
    }();
    return least;
  } else {
    // Types with a codec of their own may have nothing.
    return std::is_arithmetic_v<T> || std::is_enum_v<T> || kIsId<T> || kIsDuration<T> || kIsOptional<T> ||
                   kIsVector<T> || kIsMap<T> || Alternatives<T> || std::is_same_v<T, std::string> ||
                   std::is_same_v<T, Bytes> || std::is_same_v<T, Status>
               ? 1
               : 0;
  }
}

// [least, most] of a whole number, by the rules.
template <class T>
struct Bounds {
  T least, most;
};
template <class T, class... Rules>
constexpr Bounds<T> BoundsOf(const Rules&... rules) {
  Bounds<T> bounds{std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
  const auto raise = [&](auto least) {
    if (std::cmp_greater(least, bounds.least)) bounds.least = static_cast<T>(least);
  };
  const auto lower = [&](auto most) {
    if (std::cmp_less(most, bounds.most)) bounds.most = static_cast<T>(most);
  };
  if (const AtLeast* limit = Find<AtLeast>(rules...)) raise(limit->least);
  if (const AtMost* limit = Find<AtMost>(rules...)) lower(limit->most);
  if (const Between* between = Find<Between>(rules...)) {
    raise(between->least);
    lower(between->most);
  }
  return bounds;
}
// The nanoseconds of a duration.
template <class... Rules>
constexpr Bounds<int64_t> BoundsOfDuration(const Rules&... rules) {
  const Between* range = Find<Between>(rules...);
  return range != nullptr ? Bounds<int64_t>{range->least, range->most} : Bounds<int64_t>{0, kMostDuration};
}
// The most bytes of a text.
template <class... Rules>
constexpr uint64_t MostText(const Rules&... rules) {
  static_assert(kHas<AtMost, Rules...> || kHas<CutTo, Rules...>, "a text needs a limit");
  const CutTo* cut = Find<CutTo>(rules...);
  return cut != nullptr ? cut->most : Find<AtMost>(rules...)->most;
}
// The most elements of a list or map.
template <class... Rules>
constexpr uint64_t MostElements(const Rules&... rules) {
  static_assert(kHas<AtMost, Rules...>, "a list needs a limit");
  return Find<AtMost>(rules...)->most;
}

// Why a value breaks its rules: "is -1"; empty if it keeps them. Lengths of texts, counts of lists and
// enumerators are checked while they are read.
template <class T, class... Rules>
std::string CheckValue(const T& value, const Rules&... rules) {
  if constexpr (kIsId<T>) {
    return CheckValue(value.value, rules...);
  } else if constexpr (kIsDuration<T>) {
    const Bounds<int64_t> bounds = BoundsOfDuration(rules...);
    if (value.count() < bounds.least || value.count() > bounds.most)
      return "is " + std::to_string(value.count()) + " ns";
  } else if constexpr (std::is_same_v<T, bool>) {
    return {};
  } else if constexpr (std::is_floating_point_v<T>) {
    if ((kHas<FiniteRule, Rules...> || kHas<NotNegativeRule, Rules...>)&&!std::isfinite(value))
      return "is " + std::to_string(value);
    const AtMost* most = Find<AtMost>(rules...);
    const AtLeast* least = Find<AtLeast>(rules...);
    if ((kHas<NotNegativeRule, Rules...> && value < 0) ||
        (most != nullptr && value > static_cast<T>(most->most)) ||
        (least != nullptr && value < static_cast<T>(least->least)))
      return "is " + std::to_string(value);
  } else if constexpr (std::is_integral_v<T>) {
    if (const AtMost* limit = Find<AtMost>(rules...);
        limit != nullptr && std::cmp_greater(value, limit->most))
      return "is " + std::to_string(value) + ", at most " + std::to_string(limit->most);
    if (const AtLeast* limit = Find<AtLeast>(rules...);
        limit != nullptr && std::cmp_less(value, limit->least))
      return "is " + std::to_string(value) + ", at least " + std::to_string(limit->least);
    if (const Between* range = Find<Between>(rules...);
        range != nullptr && (std::cmp_less(value, range->least) || std::cmp_greater(value, range->most)))
      return "is " + std::to_string(value);
  } else if constexpr (std::is_same_v<T, std::string> && kHas<PrintableRule, Rules...>) {
    if (std::ranges::any_of(value, [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
      return "has control characters";
  } else if constexpr (kIsVector<T> && kHas<AscendingRule, Rules...>) {
    if (std::ranges::adjacent_find(value, std::ranges::greater_equal()) != value.end())
      return "does not ascend";
  }
  if constexpr (std::is_class_v<T> && !WithOwnCodec<T, Rules...>) {
    if constexpr (requires {
                    { Check(value) } -> std::same_as<Status>;
                  }) {
      if (const Status status = Check(value); !status.ok()) return ": " + status.message();
    }
  }
  return {};
}

// The first violation, and the path of the field: each level adds its name on the way out.
class FieldError {
 public:
  FieldError() = default;
  // `lenient`: fields and elements that violate their rules are left out.
  explicit FieldError(bool lenient) : lenient_(lenient) {}
  bool lenient() const { return lenient_; }
  bool ok() const { return what_.empty(); }
  void Keep(std::string what) {
    if (ok()) what_ = std::move(what);
  }
  void In(std::string_view name) {
    const bool joined = path_.empty() || path_.front() == '[';
    path_ = std::string(name) + (joined ? "" : ".") + path_;
  }
  std::string text() const {
    const bool check = what_.starts_with(": ");
    if (path_.empty()) return check ? what_.substr(2) : what_;
    return path_ + (check ? "" : " ") + what_;
  }

 private:
  bool lenient_ = false;
  std::string path_;
  std::string what_;
};

}  // namespace leat::fields
