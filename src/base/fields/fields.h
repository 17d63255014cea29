// The fields of a struct, listed once beside it: LEAT_FIELDS names each member and the rules for its values.
// Operator ==, binary and JSON codecs, limits, random values for tests, the hash by which two builds compare
// what they speak, and the tables in docs/formats/ are derived from the list (codec.h, json.h, description.h,
// testing.h).
//
//   struct Progress {
//     uint64_t steps = 0;
//     double cpu_seconds = 0;
//     std::string last_error;
//   };
//   LEAT_FIELDS(Progress, (steps), (cpu_seconds, NotNegative), (last_error, CutTo(1 << 16)))
//
// The list has the order in which fields are written, and is at namespace scope. A member that it lacks does
// not compile. Rules over several fields are in `Status Check(const Progress&)` beside the struct: what was
// read is checked by it.
//
// Without a rule, a whole number may have any value, and a duration up to a day. A text, a list and a map
// need a limit.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/bytes.h"
#include "base/status.h"

namespace leat::fields {

// ---- the binary form

// The code is in the source that names the type in LEAT_CODECS (codec.h), one for each folder.
template <class T>
Bytes Encode(const T& message);
// Reads all of `bytes`. `what`: how an error begins.
template <class T>
Result<T> Decode(ByteView bytes, std::string_view what, Code code = Code::kDataLoss);

// ---- rules

// A number's value, a text's bytes, or the elements of a list, are at most `most`. NaN passes.
struct AtMost {
  uint64_t most;
};
struct AtLeast {
  uint64_t least;
};
// A signed number, or the nanoseconds of a duration or time, is in [least, most].
struct Between {
  int64_t least, most;
};
// A text has at most `most` bytes; a longer one is cut when it is written.
struct CutTo {
  uint64_t most;
};
// The elements of a list, and the values of a map, keep these rules.
template <class... Rules>
struct EachRule {
  std::tuple<Rules...> rules;
};
template <class... Rules>
constexpr EachRule<Rules...> Each(Rules... rules) {
  return {{rules...}};
}
// Records on disk: the version of the format that appended the field. An older record ends before it, and the
// field keeps the value of a new struct. In bytes it ends the whole record: elements of lists have none.
struct Since {
  uint32_t version;
};
// JSON has another name for the field.
struct As {
  std::string_view name;
};
// Defines a rule that is its name alone.
#define LEAT_RULE(name)                                 \
  [[maybe_unused]] inline constexpr struct name##Rule { \
  } name

// JSON has the fields of the struct in its place; of an optional one, if it is there.
LEAT_RULE(Flat);
// JSON lacks the field while it has the value of a new struct.
LEAT_RULE(Sparse);
// JSON lacks the field.
LEAT_RULE(Unshown);
// JSON has null in place of an optional that is empty.
LEAT_RULE(OrNull);
// JSON has the number of the enumerator, not its name.
LEAT_RULE(Numbered);

// A double is finite and not below 0.
LEAT_RULE(NotNegative);
// A double is finite.
LEAT_RULE(Finite);
// A text has no control characters. For names that are shown and logged.
LEAT_RULE(Printable);
// A list ascends, without equal elements.
LEAT_RULE(Ascending);
// An array is written with its count, since a later version may have more elements: a reader has no place for
// them, and keeps its own where an earlier version has fewer.
LEAT_RULE(Counted);
// A number is written in all its bytes. For random ones, which have no short form, and where speed matters.
LEAT_RULE(Fixed);

// The first of the rules that is a Rule, or null.
template <class Rule, class... Rules>
constexpr const Rule* Find(const Rules&... rules) {
  const Rule* found = nullptr;
  [[maybe_unused]] const auto look = [&found](const auto& rule) {
    if constexpr (std::is_same_v<std::decay_t<decltype(rule)>, Rule>) {
      if (found == nullptr) found = &rule;
    }
  };
  (look(rules), ...);
  return found;
}
template <class Rule, class... Rules>
inline constexpr bool kHas = (std::is_same_v<std::decay_t<Rules>, Rule> || ...);

// ---- enumerations and variants

// An enumerator or a message, with the number that is written and the name for people. Neither is its
// position.
template <class E>
struct Enumerator {
  E value;
  std::string_view name;
};
template <class T>
struct Kind {
  using type = T;
  uint32_t number;
  std::string_view name;
};

template <class T>
concept Enumerated = std::is_enum_v<T> && requires(T value) {
  {EnumeratorsOf(value)};
};
template <class T>
concept Listed = requires(std::remove_const_t<T>* type) {
  { NameOfFields(type) } -> std::convertible_to<std::string_view>;
};
template <class T>
concept Alternatives = requires(const T* type) {
  {KindsOf(type)};
};

// Its name; "?" if it has none.
template <Enumerated E>
constexpr std::string_view NameOf(E value) {
  for (const auto& one : EnumeratorsOf(value)) {
    if (one.value == value) return one.name;
  }
  return "?";
}

}  // namespace leat::fields

// ---- macros

#define LEAT_EXPAND(...) LEAT_EXPAND4(LEAT_EXPAND4(LEAT_EXPAND4(LEAT_EXPAND4(__VA_ARGS__))))
#define LEAT_EXPAND4(...) LEAT_EXPAND3(LEAT_EXPAND3(LEAT_EXPAND3(LEAT_EXPAND3(__VA_ARGS__))))
#define LEAT_EXPAND3(...) LEAT_EXPAND2(LEAT_EXPAND2(LEAT_EXPAND2(LEAT_EXPAND2(__VA_ARGS__))))
#define LEAT_EXPAND2(...) __VA_ARGS__
#define LEAT_PARENTHESES ()

// macro(first) macro(second) ...
#define LEAT_EACH(macro, ...) __VA_OPT__(LEAT_EXPAND(LEAT_EACH_STEP(macro, __VA_ARGS__)))
#define LEAT_EACH_STEP(macro, first, ...) \
  macro(first) __VA_OPT__(LEAT_EACH_AGAIN LEAT_PARENTHESES(macro, __VA_ARGS__))
#define LEAT_EACH_AGAIN() LEAT_EACH_STEP
// macro(first), macro(second), ...
#define LEAT_LIST(macro, ...) __VA_OPT__(LEAT_EXPAND(LEAT_LIST_STEP(macro, __VA_ARGS__)))
#define LEAT_LIST_STEP(macro, first, ...) \
  macro(first) __VA_OPT__(, LEAT_LIST_AGAIN LEAT_PARENTHESES(macro, __VA_ARGS__))
#define LEAT_LIST_AGAIN() LEAT_LIST_STEP

#define LEAT_FIELD_NAME(field) LEAT_FIELD_NAME_OF field
#define LEAT_FIELD_NAME_OF(name, ...) name
#define LEAT_FIELD_EQUAL(field) LEAT_FIELD_EQUAL_OF field
#define LEAT_FIELD_EQUAL_OF(name, ...) &&one.name == other.name
#define LEAT_FIELD_VISIT(field) LEAT_FIELD_VISIT_OF field
#define LEAT_FIELD_VISIT_OF(name, ...) visitor(std::string_view(#name), self.name __VA_OPT__(, ) __VA_ARGS__);

// The names of rules in a list, whatever else has such a name around it.
#define LEAT_RULES                   \
  using ::leat::fields::AtMost;      \
  using ::leat::fields::AtLeast;     \
  using ::leat::fields::Between;     \
  using ::leat::fields::CutTo;       \
  using ::leat::fields::Each;        \
  using ::leat::fields::Since;       \
  using ::leat::fields::As;          \
  using ::leat::fields::Flat;        \
  using ::leat::fields::Sparse;      \
  using ::leat::fields::Unshown;     \
  using ::leat::fields::OrNull;      \
  using ::leat::fields::Numbered;    \
  using ::leat::fields::NotNegative; \
  using ::leat::fields::Finite;      \
  using ::leat::fields::Printable;   \
  using ::leat::fields::Ascending;   \
  using ::leat::fields::Counted;     \
  using ::leat::fields::Fixed;

// The structured binding counts the members, and the visits name them, so each is there once.
#define LEAT_FIELDS(Type, ...)                                                                      \
  constexpr std::string_view NameOfFields(const Type*) {                                            \
    return #Type;                                                                                   \
  }                                                                                                 \
  template <class Self, class Visitor>                                                              \
  requires std::same_as<std::remove_const_t<Self>, Type>                                            \
  constexpr void VisitFields(Self& self, Visitor&& visitor) {                                       \
    LEAT_RULES                                                                                      \
    [[maybe_unused]] auto& [LEAT_LIST(LEAT_FIELD_NAME, __VA_ARGS__)] = self;                        \
    LEAT_EACH(LEAT_FIELD_VISIT, __VA_ARGS__)                                                        \
  }                                                                                                 \
  template <class Self>                                                                             \
  requires std::same_as<Self, Type>                                                                 \
  constexpr bool operator==([[maybe_unused]] const Self& one, [[maybe_unused]] const Self& other) { \
    return true LEAT_EACH(LEAT_FIELD_EQUAL, __VA_ARGS__);                                           \
  }                                                                                                 \
  static_assert(true)

// The fields of a struct with a base: those of the base, then these. The compiler does not notice a member
// that this list lacks.
#define LEAT_MORE_FIELDS(Type, Base, ...)                                                                  \
  constexpr std::string_view NameOfFields(const Type*) {                                                   \
    return #Type;                                                                                          \
  }                                                                                                        \
  template <class Self, class Visitor>                                                                     \
  requires std::same_as<std::remove_const_t<Self>, Type>                                                   \
  constexpr void VisitFields(Self& self, Visitor&& visitor) {                                              \
    LEAT_RULES                                                                                             \
    VisitFields(static_cast<std::conditional_t<std::is_const_v<Self>, const Base, Base>&>(self), visitor); \
    LEAT_EACH(LEAT_FIELD_VISIT, __VA_ARGS__)                                                               \
  }                                                                                                        \
  static_assert(true)

// LEAT_ENUM(Role, (kServer, "ps"), (kWorker, "worker")): the enumerators that may be read, with their names.
#define LEAT_ENUMERATOR(one) LEAT_ENUMERATOR_OF one
#define LEAT_ENUMERATOR_OF(value, name) \
  { Enum::value, name }
#define LEAT_ENUM(Type, ...)                                                                           \
  constexpr auto EnumeratorsOf(Type) {                                                                 \
    using Enum = Type;                                                                                 \
    return std::to_array<::leat::fields::Enumerator<Enum>>({LEAT_LIST(LEAT_ENUMERATOR, __VA_ARGS__)}); \
  }                                                                                                    \
  static_assert(true)

// LEAT_KINDS(Request, (Join, 1, "join"), (Status, 5, "status")): the alternatives of a std::variant.
#define LEAT_KIND(one) LEAT_KIND_OF one
#define LEAT_KIND_OF(Type, number, name) \
  ::leat::fields::Kind<Type> {           \
    number, name                         \
  }
#define LEAT_KINDS(Variant, ...)                                                              \
  constexpr auto KindsOf(const Variant*) {                                                    \
    return std::tuple{LEAT_LIST(LEAT_KIND, __VA_ARGS__)};                                     \
  }                                                                                           \
  constexpr std::string_view NameOfKinds(const Variant*) {                                    \
    return #Variant;                                                                          \
  }                                                                                           \
  static_assert(std::tuple_size_v<decltype(KindsOf(static_cast<const Variant*>(nullptr)))> == \
                std::variant_size_v<Variant>)
