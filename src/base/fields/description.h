// Lists of fields (fields.h) as text: what two builds compare before they speak, and the tables of
// docs/formats/.
//
//   const uint64_t hash = fields::HashOf<Request, Reply>();
//
// The text has names, order, types, rules, and the numbers of kinds and enumerators. Check and codecs of
// their own are not in it: a type with a codec of its own has `std::string_view FormatOf(const T*)` beside
// it, or one with its rules, too: words for its bytes that change with them.
//
// Only sources that define a hash or a test include this.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/fields/fields.h"
#include "base/fields/types.h"
#include "base/rng.h"

namespace leat::fields {

// Structs and variants, each once, the outer before the inner.
class Description {
 public:
  struct Row {
    std::string name, type, limits;  // kind of a variant: its number, name and message
  };
  struct Block {
    std::string name;
    bool is_variant = false;
    std::vector<Row> rows;
    const void* type = nullptr;
  };

  template <class T>
  requires Listed<T> || Alternatives<T>
  void Add() { TextOf<T>(); }

  const std::vector<Block>& blocks() const { return blocks_; }
  template <class T>
  bool IsOf(const Block& block) const {
    return block.type == &kMark<T>;
  }
  // A line for each field, under the name of its struct.
  std::string text() const;

 private:
  struct Text {
    std::string type, limits;
  };

  template <class T>
  static constexpr char kMark = 0;  // its address is the type

  // The block of the type, new and empty unless it is there.
  size_t BlockOf(std::string_view name, bool is_variant, const void* type, bool* is_new);

  template <class T, class... Rules>
  Text TextOf(const Rules&... rules) {
    if constexpr (requires(const T* type) { FormatOf(type, rules...); }) {
      return {std::string(FormatOf(static_cast<const T*>(nullptr), rules...)), ""};
    } else if constexpr (requires(const T* type) { FormatOf(type); }) {
      return {std::string(FormatOf(static_cast<const T*>(nullptr))), ""};
    } else if constexpr (std::is_same_v<T, bool>) {
      return {"bool", ""};
    } else if constexpr (std::is_floating_point_v<T>) {
      constexpr bool not_negative = kHas<NotNegativeRule, Rules...>, finite = kHas<FiniteRule, Rules...>;
      std::string limits = not_negative ? "finite, not negative" : finite ? "finite" : "";
      if (const AtLeast* limit = Find<AtLeast>(rules...))
        Join("at least " + NumberText(limit->least), &limits);
      if (const AtMost* limit = Find<AtMost>(rules...)) Join("at most " + NumberText(limit->most), &limits);
      return {NumberType('f', sizeof(T)), limits};
    } else if constexpr (std::is_integral_v<T>) {
      constexpr bool fixed = kHas<FixedRule, Rules...>;
      const Bounds<T> all = BoundsOf<T>(), bounds = BoundsOf<T>(rules...);
      return {(fixed ? "fixed " : "") + NumberType(std::is_signed_v<T> ? 'i' : 'u', sizeof(T)),
              Limits(NumberText(bounds.least), bounds.least != all.least, NumberText(bounds.most),
                     bounds.most != all.most)};
    } else if constexpr (Enumerated<T>) {
      std::string all;
      for (const auto& one : EnumeratorsOf(T{})) {
        Join(std::to_string(static_cast<int64_t>(one.value)) + " " + std::string(one.name), &all);
      }
      return {"enum", all};
    } else if constexpr (kIsId<T>) {
      return TextOf<typename T::rep>(rules...);
    } else if constexpr (kIsDuration<T>) {
      const Bounds<int64_t> bounds = BoundsOfDuration(rules...);
      return {"duration", DurationText(bounds.least) + " to " + DurationText(bounds.most)};
    } else if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, Bytes>) {
      return {std::is_same_v<T, Bytes> ? "bytes" : "text",
              (kHas<CutTo, Rules...> ? "cut to " : "at most ") + NumberText(MostText(rules...)) + " bytes" +
                  (kHas<PrintableRule, Rules...> ? ", no control characters" : "")};
    } else if constexpr (std::is_same_v<T, Status>) {
      return {"status", kHas<CutTo, Rules...>
                            ? "cut to " + NumberText(MostText(rules..., CutTo{kMostStatusText})) + " bytes"
                            : ""};
    } else if constexpr (kIsOptional<T>) {
      Text inside = TextOf<Inside<T>>(rules...);
      return {"optional " + inside.type, inside.limits};
    } else if constexpr (kIsVector<T>) {
      Text element = ElementOf<typename T::value_type>(rules...);
      std::string limits = "at most " + NumberText(MostElements(rules...));
      if (kHas<AscendingRule, Rules...>) Join("ascending", &limits);
      return {"list of " + element.type, limits + element.limits};
    } else if constexpr (kIsArray<T>) {
      Text element = ElementOf<typename T::value_type>(rules...);
      return {(kHas<CountedRule, Rules...> ? "count, " : "") + std::to_string(std::tuple_size_v<T>) + " of " +
                  element.type,
              element.limits.empty() ? "" : element.limits.substr(2)};
    } else if constexpr (kIsMap<T>) {
      Text key = {"text", ""};
      if constexpr (!std::is_same_v<typename T::key_type, std::string>) key = TextOf<typename T::key_type>();
      Text element = ElementOf<typename T::mapped_type>(rules...);
      return {"map of " + key.type + " to " + element.type,
              "at most " + NumberText(MostElements(rules...)) + element.limits};
    } else if constexpr (Alternatives<T>) {
      bool is_new = false;
      const size_t block = BlockOf(NameOfKinds(static_cast<const T*>(nullptr)), true, &kMark<T>, &is_new);
      const auto add = [&]<class Message>(const Kind<Message>& kind) {
        Text message = TextOf<Message>();
        blocks_[block].rows.push_back({std::to_string(kind.number), std::string(kind.name), message.type});
      };
      if (is_new)
        std::apply([&](const auto&... kind) { (add(kind), ...); }, KindsOf(static_cast<const T*>(nullptr)));
      return {blocks_[block].name, ""};
    } else {
      static_assert(Listed<T> && !WithOwnCodec<T, Rules...>, "the type has neither LEAT_FIELDS nor FormatOf");
      bool is_new = false;
      const size_t block = BlockOf(NameOfFields(static_cast<const T*>(nullptr)), false, &kMark<T>, &is_new);
      const auto add = [&]<class Field, class... Own>(std::string_view name, const Field&,
                                                      const Own&... own) {
        Text text = TextOf<Field>(own...);
        if (const As* other = Find<As>(own...))
          Join("in JSON \"" + std::string(other->name) + '"', &text.limits);
        if (kHas<FlatRule, Own...>) Join("in JSON its fields", &text.limits);
        if (kHas<NumberedRule, Own...>) Join("in JSON its number", &text.limits);
        if (const Since* since = Find<Since>(own...))
          Join("since version " + std::to_string(since->version), &text.limits);
        blocks_[block].rows.push_back({std::string(name), text.type, text.limits});
      };
      const T value{};
      if (is_new) VisitFields(value, add);
      return {blocks_[block].name, ""};
    }
  }

  // Its limits begin with ", each ".
  template <class T, class... Rules>
  Text ElementOf(const Rules&... rules) {
    Text text;
    WithElementRules([&](const auto&... own) { text = TextOf<T>(own...); }, rules...);
    if (!text.limits.empty()) text.limits = ", each " + text.limits;
    return text;
  }

  static void Join(const std::string& more, std::string* all) { *all += (all->empty() ? "" : ", ") + more; }
  static std::string NumberType(char kind, size_t bytes) { return kind + std::to_string(8 * bytes); }
  static std::string NumberText(std::integral auto number) {
    const bool negative = std::cmp_less(number, 0);
    return (negative ? "-" : "") +
           PowerText(negative ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number));
  }
  static std::string PowerText(uint64_t number);
  static std::string DurationText(int64_t nanoseconds);
  static std::string Limits(const std::string& least, bool has_least, const std::string& most, bool has_most);

  std::vector<Block> blocks_;
};

template <class... Ts>
Description Describe() {
  Description description;
  (description.Add<Ts>(), ...);
  return description;
}

template <class... Ts>
uint64_t HashOf() {
  static const uint64_t hash = Mix(HashName(Describe<Ts...>().text()));
  return hash;
}

}  // namespace leat::fields
