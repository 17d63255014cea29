// For tests and fuzz targets: random values, texts and checks of codecs, for structs that list their
// fields (fields.h) and variants of them.
//
//   EXPECT_EQ(fields::CodecFault<protocol::Lease>(/*values=*/200), "");
//
// A type that has no list, or whose fields depend on each other more than rejection can find, has overloads
// beside the tests, in its own namespace, and in one header for all sources of a test:
//
//   void Randomize(RunSet* set, fields::Fill& fill, const RunsOf& rule);  // or without the rule
//   void DumpField(const RunSet& set, fields::Dump& dump);
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/encoding/printable.h"
#include "base/fields/codec.h"
#include "base/fields/fields.h"
#include "base/fields/types.h"
#include "base/rng.h"

namespace leat::fields {

// Random values that keep the rules and pass Check, often at the limit of a range. Long texts and lists stay
// short.
class Fill {
 public:
  // JSON has neither infinite numbers nor texts of any bytes.
  explicit Fill(uint64_t seed, bool for_json = false) : rng_(seed), for_json_(for_json) {}

  template <class T, class... Rules>
  void operator()(std::string_view, T& value, const Rules&... rules) {
    Set(&value, rules...);
  }

  // Throws if hardly any value passes the Check of the type.
  template <class T, class... Rules>
  void Set(T* value, const Rules&... rules) {
    std::string why;
    for (int i = 0; i < 1000; ++i) {
      Try(value, rules...);
      why = CheckValue(*value, rules...);
      if (why.empty()) return;
    }
    throw std::logic_error("a random value is refused, so its type needs a Randomize: it " + why);
  }

  // Uniform in [least, most] or at a limit of it.
  uint64_t Number(uint64_t least = 0, uint64_t most = std::numeric_limits<uint64_t>::max()) {
    const uint64_t span = most - least, near = std::min<uint64_t>(span, rng_.Below(3));
    switch (rng_.Below(4)) {
      case 0:
        return least + near;
      case 1:
        return most - near;
      default: {
        const uint64_t offset = rng_() >> rng_.Below(64);
        return least + (offset > span ? offset % (span + 1) : offset);
      }
    }
  }
  // Number of bytes or elements: at most `usual`, and `most`.
  uint64_t Size(uint64_t most, uint64_t usual) {
    return most <= 2 * usual && Chance(0.1) ? most : rng_.Below(std::min(most, usual) + 1);
  }
  std::string Text(uint64_t size, bool printable = false) {
    std::string text(size, '\0');
    for (char& c : text) c = static_cast<char>(for_json_ || printable ? ' ' + rng_.Below(95) : rng_());
    return text;
  }
  bool Chance(double p) { return rng_.Chance(p); }
  uint64_t Below(uint64_t n) { return rng_.Below(n); }

 private:
  template <class T, class... Rules>
  void Try(T* value, const Rules&... rules) {
    if constexpr (requires { Randomize(value, *this, rules...); }) {
      Randomize(value, *this, rules...);
    } else if constexpr (requires { Randomize(value, *this); }) {
      Randomize(value, *this);
    } else if constexpr (std::is_same_v<T, bool>) {
      *value = Chance(0.5);
    } else if constexpr (std::is_floating_point_v<T>) {
      *value = Real<T>(kHas<FiniteRule, Rules...>, kHas<NotNegativeRule, Rules...>);
      if (const AtLeast* limit = Find<AtLeast>(rules...))
        *value = std::max(*value, static_cast<T>(limit->least));
      if (const AtMost* limit = Find<AtMost>(rules...))
        *value = std::min(*value, static_cast<T>(limit->most));
    } else if constexpr (std::is_integral_v<T>) {
      *value = Integer(BoundsOf<T>(rules...));
    } else if constexpr (std::is_enum_v<T>) {
      const auto all = EnumeratorsOf(T{});
      *value = all[Below(all.size())].value;
    } else if constexpr (kIsId<T>) {
      Try(&value->value, rules...);
    } else if constexpr (kIsDuration<T>) {
      *value = T(Integer(BoundsOfDuration(rules...)));
    } else if constexpr (std::is_same_v<T, std::string>) {
      *value = Text(Size(MostText(rules...), 40), kHas<PrintableRule, Rules...>);
    } else if constexpr (std::is_same_v<T, Bytes>) {
      const std::string text = Text(Size(MostText(rules...), 40));
      value->assign(AsBytes(text).begin(), AsBytes(text).end());
    } else if constexpr (std::is_same_v<T, Status>) {
      const auto code = static_cast<Code>(Below(static_cast<uint64_t>(Code::kInternal) + 1));
      *value = code == Code::kOk ? Status() : Status(code, Text(Below(40)));
    } else if constexpr (kIsOptional<T>) {
      *value = {};
      if (Chance(0.5)) Set(&Emplaced(value), rules...);
    } else if constexpr (kIsVector<T>) {
      value->resize(Size(MostElements(rules...), 4));
      SetElements(value, rules...);
    } else if constexpr (kIsArray<T>) {
      SetElements(value, rules...);
    } else if constexpr (kIsMap<T>) {
      value->clear();
      for (uint64_t n = Size(MostElements(rules...), 4); n > 0; --n) {
        typename T::key_type key{};
        if constexpr (std::is_same_v<decltype(key), std::string>) {
          key = Text(Below(12));
        } else {
          Set(&key);
        }
        WithElementRules([&](const auto&... own) { Set(&(*value)[key], own...); }, rules...);
      }
    } else if constexpr (Alternatives<T>) {
      std::apply(
          [&](const auto&... kind) {
            uint64_t chosen = Below(sizeof...(kind));
            const auto set = [&]<class One>(const Kind<One>&) {
              if (chosen-- == 0) Set(&value->template emplace<One>());
            };
            (set(kind), ...);
          },
          KindsOf(value));
    } else {
      static_assert(Listed<T>, "the type has neither LEAT_FIELDS nor Randomize");
      VisitFields(*value, *this);
    }
  }

  template <class List, class... Rules>
  void SetElements(List* list, const Rules&... rules) {
    for (auto& element : *list)
      WithElementRules([&](const auto&... own) { Set(&element, own...); }, rules...);
    if constexpr (kHas<AscendingRule, Rules...>) {
      std::ranges::sort(*list);
      const auto same = std::ranges::unique(*list, [](const auto& a, const auto& b) { return !(a < b); });
      list->erase(same.begin(), same.end());
    }
  }

  template <class T>
  T Real(bool finite, bool not_negative) {
    using Limits = std::numeric_limits<T>;
    finite |= not_negative || for_json_;
    const T sign = not_negative || Chance(0.5) ? 1 : -1;
    switch (Below(finite ? 10 : 12)) {
      case 0:
        return 0;
      case 1:
        return sign * Limits::max();
      case 2:
        return sign * Limits::denorm_min();
      case 10:
        return sign * Limits::infinity();
      case 11:
        return Limits::quiet_NaN();
      default:
        return sign * static_cast<T>(rng_.Exponential(1e6));
    }
  }

  template <class T>
  T Integer(Bounds<T> bounds) {
    auto& [least, most] = bounds;
    if (least < T{0} && most > T{0} && Chance(0.5)) {  // as often on either side of 0
      if (Chance(0.5)) {
        least = 0;
      } else {
        most = 0;
      }
    }
    return static_cast<T>(Number(static_cast<uint64_t>(least), static_cast<uint64_t>(most)));
  }

  Rng rng_;
  bool for_json_;
};

template <class T>
T Random(uint64_t seed, bool for_json = false) {
  T value{};
  Fill fill(seed, for_json);
  fill.Set(&value);
  return value;
}

// A value as text, with names, that differs whenever a field differs: {begin: 3, rates: [1/3f800000]}.
class Dump {
 public:
  template <class T, class... Rules>
  void operator()(std::string_view name, const T& value, const Rules&...) {
    Next();
    text_ += std::string(name) + ": ";
    Put(value);
  }

  template <class T>
  void Put(const T& value) {
    if constexpr (requires { DumpField(value, *this); }) {
      DumpField(value, *this);
    } else if constexpr (std::is_same_v<T, bool>) {
      text_ += value ? "true" : "false";
    } else if constexpr (std::is_floating_point_v<T>) {
      using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
      char decimal[32];
      std::snprintf(decimal, sizeof(decimal), "%.9g", static_cast<double>(value));
      text_ += decimal + ("/" + ToHex(uint64_t{std::bit_cast<Bits>(value)}).substr(16 - 2 * sizeof(T)));
    } else if constexpr (std::is_integral_v<T>) {
      text_ += std::to_string(value);
    } else if constexpr (Enumerated<T>) {
      text_ += std::to_string(static_cast<int64_t>(value)) + "/" + std::string(NameOf(value));
    } else if constexpr (kIsId<T>) {
      text_ += std::to_string(value.value);
    } else if constexpr (kIsDuration<T>) {
      text_ += std::to_string(value.count()) + " ns";
    } else if constexpr (std::is_same_v<T, std::string>) {
      PutText(value);
    } else if constexpr (std::is_same_v<T, Bytes>) {
      PutText(AsText(value));
    } else if constexpr (std::is_same_v<T, Status>) {
      text_ += std::string(CodeName(value.code())) + " ";
      PutText(value.message());
    } else if constexpr (kIsOptional<T>) {
      if (value) {
        Put(*value);
      } else {
        text_ += "none";
      }
    } else if constexpr (kIsVector<T> || kIsArray<T>) {
      Within('[', ']', [&] {
        for (const auto& element : value) {
          Next();
          Put(element);
        }
      });
    } else if constexpr (kIsMap<T>) {
      Within('{', '}', [&] {
        for (const auto& [key, element] : value) {
          Next();
          Put(key);
          text_ += ": ";
          Put(element);
        }
      });
    } else if constexpr (Alternatives<T>) {
      std::apply(
          [&](const auto&... kind) {
            const auto put = [&]<class One>(const Kind<One>& one) {
              const One* message = std::get_if<One>(&value);
              if (message == nullptr) return;
              text_ += std::string(one.name) + " ";
              Put(*message);
            };
            (put(kind), ...);
          },
          KindsOf(&value));
    } else {
      static_assert(Listed<T>, "the type has neither LEAT_FIELDS nor DumpField");
      Within('{', '}', [&] { VisitFields(value, *this); });
    }
  }

  std::string* text() { return &text_; }

 private:
  // Bytes that are no letters of ASCII are shown as digits, with the length, so that no two texts look alike.
  void PutText(std::string_view text) {
    text_ += std::to_string(text.size()) + "\"";
    for (const char c : text) {
      if (c >= ' ' && c <= '~' && c != '\\') {
        text_ += c;
      } else {
        text_ += "\\" + ToHex(std::string_view(&c, 1));
      }
    }
    text_ += '"';
  }
  void Next() {
    if (!text_.empty() && text_.back() != '{' && text_.back() != '[') text_ += ", ";
  }
  template <class Body>
  void Within(char begin, char end, Body body) {
    text_ += begin;
    body();
    text_ += end;
  }

  std::string text_;
};

template <class T>
std::string ToText(const T& value) {
  Dump dump;
  dump.Put(value);
  return std::move(*dump.text());
}

// ---- checks of a codec: the fault, or empty

// Bytes from anywhere: they are refused, or are what their value is written as. Only later fields (Since) may
// be missing at their end. For fuzz targets too.
template <class T>
std::string BytesFault(ByteView bytes) {
  const auto read = Decode<T>(bytes, "it");
  if (!read.ok()) return {};
  const Bytes again = Encode(*read);
  if (again.size() >= bytes.size() && std::ranges::equal(bytes, ByteView(again).first(bytes.size())))
    return {};
  return ToHex(bytes) + " is read as " + ToText(*read) + ", which is written as " + ToHex(again);
}

// The first BytesFault of a fuzzer's input: as a message of each kind, and as damage to a random message. The
// fuzzer thus needs no seeds to get past the first checks.
template <class... Messages>
std::string InputFault(ByteView input) {
  std::string fault;
  const auto check = [&]<class Message>(const Message*) {
    if (fault.empty()) fault = BytesFault<Message>(input);
    if (!fault.empty() || input.size() < 2) return;
    Bytes bytes = Encode(Random<Message>(std::to_integer<uint64_t>(input[0])));
    if (bytes.empty()) return;
    size_t at = 0;
    for (size_t i = 1; i + 1 < input.size(); i += 2) {
      at = (at + std::to_integer<size_t>(input[i])) % bytes.size();
      bytes[at] = input[i + 1];
    }
    fault = BytesFault<Message>(bytes);
  };
  (check(static_cast<const Messages*>(nullptr)), ...);
  return fault;
}

// Sizes at which the encoding of an older version ended.
template <class T>
std::set<size_t> OlderSizes(const T& value) {
  std::set<size_t> sizes;
  if constexpr (Alternatives<T>) {
    const Bytes whole = Encode(value);
    std::visit(
        [&](const auto& message) {
          const size_t start = whole.size() - Encode(message).size();
          for (const size_t size : OlderSizes(message)) sizes.insert(start + size);
        },
        value);
  } else if constexpr (Listed<T>) {
    Writer writer;
    VisitFields(value, [&]<class... Rules>(std::string_view, const auto& field, const Rules&... rules) {
      if (kHas<Since, Rules...>) sizes.insert(writer.bytes()->size());
      writer.Put(field, rules...);
    });
  }
  return sizes;
}

// A value comes back exactly. Each prefix and a longer text are refused, except for what an older version
// would have written, and damaged bytes keep to BytesFault.
template <class T>
std::string CodecFault(const T& value, uint64_t seed = 1) {
  const Bytes whole = Encode(value);
  const auto read = Decode<T>(whole, "it");
  if (!read.ok()) return ToText(value) + " is refused: " + read.status().message();
  if (ToText(*read) != ToText(value)) return ToText(value) + " comes back as " + ToText(*read);
  if (Encode(*read) != whole) return ToText(value) + " is written in two ways";
  const std::set<size_t> older = OlderSizes(value);
  for (size_t size = 0; size < whole.size(); ++size) {
    if (!older.contains(size) && Decode<T>(ByteView(whole).first(size), "it").ok())
      return ToText(value) + ": its first " + std::to_string(size) + " bytes are read";
  }
  Bytes bytes = whole;
  bytes.push_back({});
  if (Decode<T>(bytes, "it").ok()) return ToText(value) + " is read with a byte behind its end";
  Rng rng(seed);
  for (int i = 0; i < 50 && !whole.empty(); ++i) {
    bytes = whole;
    bytes[rng.Below(bytes.size())] ^= static_cast<std::byte>(1 << rng.Below(8));
    if (std::string fault = BytesFault<T>(bytes); !fault.empty()) return fault;
  }
  return {};
}

// The first fault of random values.
template <class T>
std::string CodecFault(int values) {
  std::string fault;
  for (int seed = 1; seed <= values && fault.empty(); ++seed) {
    const auto at = static_cast<uint64_t>(seed);
    fault = CodecFault(Random<T>(at), at);
  }
  return fault;
}

}  // namespace leat::fields
