// The binary form of structs that list their fields (fields.h), and of variants of them: the fields one after
// the other, without names.
//
//   whole numbers, enumerators, ids   varint (base/encoding/varint.h), signed ones zigzag
//                                     Fixed: little-endian
//   bool                              u8, 0 or 1
//   double, float                     8 or 4 bytes
//   Duration, Time                    as a signed number, nanoseconds
//   text, bytes                       varint length, bytes
//   list, map                         varint count, elements
//   array                             its elements; Counted: as a list
//   optional, Shared                  u8, 0 or 1: then the value
//   Status                            u8 code, text; ok: 0 alone
//   struct                            its fields
//   variant                           varint number of the kind, the struct
//
// A type whose bytes depend on other fields has its own PutField and GetField beside it. The encoding ends
// with its last field, so that records can get more of them (Since).
//
// Input is untrusted: each rule, count and length is checked before it is believed, and the first
// violation is the result, with the field and its value. Only sources that define codecs include this: each
// instance is code.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/encoding/varint.h"
#include "base/fields/fields.h"
#include "base/fields/types.h"
#include "base/ids.h"
#include "base/status.h"

namespace leat::fields {

class Writer {
 public:
  template <class T, class... Rules>
  void operator()(std::string_view, const T& value, const Rules&... rules) {
    Put(value, rules...);
  }

  template <class T, class... Rules>
  void Put(const T& value, const Rules&... rules) {
    if constexpr (requires { PutField(value, this, rules...); }) {
      PutField(value, this, rules...);
    } else if constexpr (std::is_same_v<T, bool>) {
      out_.Put(static_cast<uint8_t>(value));
    } else if constexpr (std::is_floating_point_v<T> ||
                         (std::is_integral_v<T> && kHas<FixedRule, Rules...>)) {
      out_.Put(value);
    } else if constexpr (std::is_enum_v<T>) {
      PutVarint(static_cast<std::underlying_type_t<T>>(value), &out_);
    } else if constexpr (std::is_signed_v<T>) {
      PutVarint(ZigZag(value), &out_);
    } else if constexpr (std::is_integral_v<T>) {
      PutVarint(value, &out_);
    } else if constexpr (kIsId<T>) {
      Put(value.value, rules...);
    } else if constexpr (kIsDuration<T>) {
      PutVarint(ZigZag(value.count()), &out_);
    } else if constexpr (std::is_same_v<T, std::string>) {
      PutText(AsBytes(value), rules...);
    } else if constexpr (std::is_same_v<T, Bytes>) {
      PutText(value, rules...);
    } else if constexpr (std::is_same_v<T, Status>) {
      out_.Put(static_cast<uint8_t>(value.code()));
      if (!value.ok()) PutText(AsBytes(value.message()), rules..., CutTo{kMostStatusText});
    } else if constexpr (kIsOptional<T>) {
      out_.Put(static_cast<uint8_t>(static_cast<bool>(value)));
      if (value) Put(*value, rules...);
    } else if constexpr (kIsVector<T>) {
      PutVarint(value.size(), &out_);
      for (const auto& element : value) PutElement(element, rules...);
    } else if constexpr (kIsArray<T>) {
      if (kHas<CountedRule, Rules...>) PutVarint(value.size(), &out_);
      for (const auto& element : value) PutElement(element, rules...);
    } else if constexpr (kIsMap<T>) {
      PutVarint(value.size(), &out_);
      for (const auto& [key, element] : value) {
        Put(key);
        PutElement(element, rules...);
      }
    } else if constexpr (Alternatives<T>) {
      PutVariant(value);
    } else {
      static_assert(Listed<T>, "the type has neither LEAT_FIELDS nor PutField");
      VisitFields(value, *this);
    }
  }

  ByteWriter* bytes() { return &out_; }

 private:
  template <class... Rules>
  void PutText(ByteView text, const Rules&... rules) {
    if (const CutTo* cut = Find<CutTo>(rules...))
      text = text.first(std::min<uint64_t>(text.size(), cut->most));
    PutVarint(text.size(), &out_);
    out_.PutRaw(text);
  }

  template <class T, class... Rules>
  void PutElement(const T& element, const Rules&... rules) {
    WithElementRules([&](const auto&... own) { Put(element, own...); }, rules...);
  }

  template <class Variant>
  void PutVariant(const Variant& value) {
    std::apply(
        [&](const auto&... kind) {
          const auto put = [&]<class T>(const Kind<T>& one) {
            const T* message = std::get_if<T>(&value);
            if (message == nullptr) return;
            PutVarint(one.number, &out_);
            Put(*message);
          };
          (put(kind), ...);
        },
        KindsOf(&value));
  }

  ByteWriter out_;
};

class Reader {
 public:
  explicit Reader(ByteView bytes) : in_(bytes) {}

  template <class T, class... Rules>
  void operator()(std::string_view name, T& value, const Rules&... rules) {
    if (!ok() || (kHas<Since, Rules...> && in_.remaining() == 0)) return;
    Get(&value, rules...);
    if (!ok()) error_.In(name);
  }

  template <class T, class... Rules>
  void Get(T* value, const Rules&... rules) {
    if constexpr (requires { GetField(value, this, rules...); }) {
      GetField(value, this, rules...);
    } else if constexpr (std::is_same_v<T, bool>) {
      const auto byte = in_.Get<uint8_t>();
      *value = byte == 1;
      if (byte > 1) Fail("is " + std::to_string(byte));
    } else if constexpr (std::is_floating_point_v<T> ||
                         (std::is_integral_v<T> && kHas<FixedRule, Rules...>)) {
      *value = in_.Get<T>();
    } else if constexpr (std::is_enum_v<T>) {
      GetEnumerator(value);
    } else if constexpr (std::is_integral_v<T>) {
      GetNumber(value);
    } else if constexpr (kIsId<T>) {
      Get(&value->value, rules...);
    } else if constexpr (kIsDuration<T>) {
      *value = T(UnZigZag(GetVarint(&in_)));
    } else if constexpr (std::is_same_v<T, std::string>) {
      *value = std::string(AsText(GetText(rules...)));
    } else if constexpr (std::is_same_v<T, Bytes>) {
      const ByteView text = GetText(rules...);
      value->assign(text.begin(), text.end());
    } else if constexpr (std::is_same_v<T, Status>) {
      GetStatus(value, rules...);
    } else if constexpr (kIsOptional<T>) {
      bool there = false;
      Get(&there);
      if (there && ok()) Get(&Emplaced(value), rules...);
    } else if constexpr (kIsVector<T>) {
      GetVector(value, rules...);
    } else if constexpr (kIsArray<T>) {
      const uint64_t count = kHas<CountedRule, Rules...> ? GetVarint(&in_) : value->size();
      typename T::value_type later{};
      for (size_t i = 0; i < count && ok(); ++i)
        GetElement(i, i < value->size() ? &(*value)[i] : &later, rules...);
    } else if constexpr (kIsMap<T>) {
      GetMap(value, rules...);
    } else if constexpr (Alternatives<T>) {
      GetVariant(value);
    } else {
      static_assert(Listed<T>, "the type has neither LEAT_FIELDS nor GetField");
      VisitFields(*value, *this);
    }
    if (!in_.ok()) Fail("is cut off");
    if (!ok()) return;
    if (std::string wrong = CheckValue(*value, rules...); !wrong.empty()) Fail(std::move(wrong));
  }

  bool ok() const { return error_.ok(); }
  size_t remaining() const { return in_.remaining(); }
  // The fault of the field that is read: "is 7".
  void Fail(std::string what) { error_.Keep(std::move(what)); }
  ByteReader* bytes() { return &in_; }
  // "worker.progress.cpu_seconds is -1".
  std::string error() const { return error_.text(); }

 private:
  template <class T>
  void GetNumber(T* value) {
    const uint64_t number = GetVarint(&in_);
    if constexpr (std::is_signed_v<T>) {
      *value = static_cast<T>(UnZigZag(number));
      if (*value != UnZigZag(number)) Fail("is " + std::to_string(UnZigZag(number)));
    } else {
      *value = static_cast<T>(number);
      if (*value != number) Fail("is " + std::to_string(number));
    }
  }

  template <class E>
  void GetEnumerator(E* value) {
    static_assert(Enumerated<E>, "the type has no LEAT_ENUM");
    static constexpr auto kEnumerators = EnumeratorsOf(E{});
    const uint64_t number = GetVarint(&in_);
    for (const auto& one : kEnumerators) {
      if (static_cast<uint64_t>(one.value) != number) continue;
      *value = one.value;
      return;
    }
    Fail("is " + std::to_string(number));
  }

  template <class... Rules>
  ByteView GetText(const Rules&... rules) {
    const uint64_t size = GetVarint(&in_), most = MostText(rules...);
    if (size > most) {
      Fail("has " + std::to_string(size) + " bytes, at most " + std::to_string(most));
      return {};
    }
    return in_.GetRaw(size);
  }

  template <class... Rules>
  void GetStatus(Status* value, const Rules&... rules) {
    const auto code = in_.Get<uint8_t>();
    if (code > static_cast<uint8_t>(Code::kInternal)) return Fail("has code " + std::to_string(code));
    if (code == 0) {
      *value = {};
    } else {
      *value =
          Status(static_cast<Code>(code), std::string(AsText(GetText(rules..., CutTo{kMostStatusText}))));
    }
  }

  // The number of elements of a list; 0 if there cannot be as many.
  template <class Element, class... Rules>
  size_t GetCount(const Rules&... rules) {
    const uint64_t count = GetVarint(&in_), most = MostElements(rules...);
    if (count > most) {
      Fail("has " + std::to_string(count) + " elements, at most " + std::to_string(most));
    } else if (count > in_.remaining() / std::max<uint64_t>(LeastBytes<Element>(), 1)) {
      Fail("has " + std::to_string(count) + " elements, and is cut off");
    }
    return ok() ? count : 0;
  }

  template <class T, class... Rules>
  void GetElement(size_t index, T* element, const Rules&... rules) {
    WithElementRules([&](const auto&... own) { Get(element, own...); }, rules...);
    if (!ok()) error_.In("[" + std::to_string(index) + "]");
  }

  template <class T, class... Rules>
  void GetVector(std::vector<T>* value, const Rules&... rules) {
    const size_t count = GetCount<T>(rules...);
    value->clear();
    value->reserve(count);
    for (size_t i = 0; i < count && ok(); ++i) GetElement(i, &value->emplace_back(), rules...);
  }

  template <class Key, class T, class... Rules>
  void GetMap(std::map<Key, T>* value, const Rules&... rules) {
    const size_t count = GetCount<T>(rules...);
    value->clear();
    for (size_t i = 0; i < count && ok(); ++i) {
      Key key{};
      if constexpr (std::is_same_v<Key, std::string>) {
        Get(&key, AtMost{kMostKey});
      } else {
        Get(&key);
      }
      if (!ok()) break;
      const auto [at, is_new] = value->try_emplace(std::move(key));
      if (!is_new || std::next(at) != value->end()) return Fail("has keys that do not ascend");
      GetElement(i, &at->second, rules...);
    }
  }

  template <class Variant>
  void GetVariant(Variant* value) {
    const uint64_t number = GetVarint(&in_);
    bool known = false;
    std::apply(
        [&](const auto&... kind) {
          const auto get = [&]<class T>(const Kind<T>& one) {
            if (one.number != number) return;
            known = true;
            Get(&value->template emplace<T>());
            if (!ok()) error_.In(one.name);
          };
          (get(kind), ...);
        },
        KindsOf(value));
    if (!known && in_.ok()) Fail("is of unknown kind " + std::to_string(number));
  }

  ByteReader in_;
  FieldError error_;
};

template <class T>
Bytes Encode(const T& message) {
  Writer writer;
  writer.Put(message);
  return writer.bytes()->Take();
}

template <class T>
Result<T> Decode(ByteView bytes, std::string_view what, Code code) {
  Reader reader(bytes);
  T message{};
  reader.Get(&message);
  if (reader.ok() && reader.remaining() > 0)
    reader.Fail("has " + std::to_string(reader.remaining()) + " bytes behind its end");
  if (reader.ok()) return message;
  return Status(code, std::string(what) + ": " + reader.error());
}

}  // namespace leat::fields

// LEAT_CODECS(wire::MoveRequest, wire::MoveReply), in namespace leat: Encode and Decode for sources that do
// not include this.
#define LEAT_CODECS(...) LEAT_EACH(LEAT_CODEC, __VA_ARGS__) static_assert(true)
#define LEAT_CODEC(Type)                      \
  template Bytes fields::Encode(const Type&); \
  template Result<Type> fields::Decode(ByteView, std::string_view, Code);
