// The most bytes of an encoded message, by its rules.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "base/encoding/varint.h"
#include "base/fields/fields.h"
#include "base/fields/types.h"
#include "base/status.h"

namespace leat::fields {

constexpr uint64_t SumUpTo64Bits(uint64_t a, uint64_t b) {
  return a + b < a ? std::numeric_limits<uint64_t>::max() : a + b;
}
constexpr uint64_t ProductUpTo64Bits(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<uint64_t>::max() : product;
}

// The most bytes of an encoded T that keeps the rules (codec.h), up to the largest number. A type with a
// codec of its own has `uint64_t MostBytesOf(const T*)` beside it, or one with its rules, too.
template <class T, class... Rules>
uint64_t MostBytes(const Rules&... rules) {
  const auto of_elements = [&]<class Element>(const Element*) {
    uint64_t most = 0;
    WithElementRules([&](const auto&... own) { most = MostBytes<Element>(own...); }, rules...);
    return most;
  };
  const auto of_text = [](uint64_t most) { return SumUpTo64Bits(BytesOfVarint(most), most); };
  if constexpr (requires(const T* type) { MostBytesOf(type, rules...); }) {
    return MostBytesOf(static_cast<const T*>(nullptr), rules...);
  } else if constexpr (requires(const T* type) { MostBytesOf(type); }) {
    return MostBytesOf(static_cast<const T*>(nullptr));
  } else if constexpr (std::is_same_v<T, bool>) {
    return 1;
  } else if constexpr (std::is_floating_point_v<T> || (std::is_integral_v<T> && kHas<FixedRule, Rules...>)) {
    return sizeof(T);
  } else if constexpr (Enumerated<T>) {
    uint64_t most = 0;
    for (const auto& one : EnumeratorsOf(T{})) most = std::max(most, static_cast<uint64_t>(one.value));
    return BytesOfVarint(most);
  } else if constexpr (std::is_integral_v<T>) {
    const Bounds<T> bounds = BoundsOf<T>(rules...);
    if constexpr (std::is_signed_v<T>)
      return BytesOfVarint(std::max(ZigZag(bounds.least), ZigZag(bounds.most)));
    return BytesOfVarint(static_cast<uint64_t>(bounds.most));
  } else if constexpr (kIsId<T>) {
    return MostBytes<typename T::rep>(rules...);
  } else if constexpr (kIsDuration<T>) {
    const Bounds<int64_t> bounds = BoundsOfDuration(rules...);
    return BytesOfVarint(std::max(ZigZag(bounds.least), ZigZag(bounds.most)));
  } else if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, Bytes>) {
    return of_text(MostText(rules...));
  } else if constexpr (std::is_same_v<T, Status>) {
    return 1 + of_text(MostText(rules..., CutTo{kMostStatusText}));
  } else if constexpr (kIsOptional<T>) {
    return SumUpTo64Bits(1, MostBytes<Inside<T>>(rules...));
  } else if constexpr (kIsVector<T>) {
    const uint64_t count = MostElements(rules...);
    return SumUpTo64Bits(
        BytesOfVarint(count),
        ProductUpTo64Bits(count, of_elements(static_cast<typename T::value_type*>(nullptr))));
  } else if constexpr (kIsArray<T>) {
    if (kHas<CountedRule, Rules...>) return std::numeric_limits<uint64_t>::max();
    return ProductUpTo64Bits(std::tuple_size_v<T>,
                             of_elements(static_cast<typename T::value_type*>(nullptr)));
  } else if constexpr (kIsMap<T>) {
    using Key = typename T::key_type;
    const uint64_t count = MostElements(rules...);
    uint64_t one = of_elements(static_cast<typename T::mapped_type*>(nullptr));
    if constexpr (std::is_same_v<Key, std::string>) {
      one = SumUpTo64Bits(one, of_text(kMostKey));
    } else {
      one = SumUpTo64Bits(one, MostBytes<Key>());
    }
    return SumUpTo64Bits(BytesOfVarint(count), ProductUpTo64Bits(count, one));
  } else if constexpr (Alternatives<T>) {
    uint64_t most = 0;
    const auto add = [&most]<class Message>(const Kind<Message>& kind) {
      most = std::max(most, SumUpTo64Bits(BytesOfVarint(kind.number), MostBytes<Message>()));
    };
    std::apply([&](const auto&... kind) { (add(kind), ...); }, KindsOf(static_cast<const T*>(nullptr)));
    return most;
  } else {
    static_assert(Listed<T> && !WithOwnCodec<T, Rules...>,
                  "the type has neither LEAT_FIELDS nor MostBytesOf");
    uint64_t most = 0;
    const T value{};
    VisitFields(value, [&most](std::string_view, const auto& field, const auto&... own) {
      most = SumUpTo64Bits(most, MostBytes<std::decay_t<decltype(field)>>(own...));
    });
    return most;
  }
}

}  // namespace leat::fields
