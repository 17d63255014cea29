#include "stream/decode/decoder.h"

#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/encoding/varint.h"
#include "base/text.h"
#include "stream/decode/row_writer.h"
#include "stream/protobuf/message_table.h"

namespace leat::stream {
namespace {

// Limit of messages and groups in each other, as in other readers of Protobuf.
constexpr size_t kMaxMessageDepth = 100;
// Limit of the indexes of a message in the framing of a schema registry.
constexpr uint64_t kMaxIndexes = 100;

using Kind = MessageTable::Kind;

// Calls take(x) with the number in its own type.
template <class Take>
auto WithNumber(Kind kind, uint64_t bits, const Take& take) {
  const auto low = static_cast<uint32_t>(bits);
  switch (kind) {
    case Kind::kInt32:
      return take(static_cast<int32_t>(low));
    case Kind::kInt64:
      return take(static_cast<int64_t>(bits));
    case Kind::kUint32:
      return take(low);
    case Kind::kUint64:
      return take(bits);
    case Kind::kSint32:
      return take(static_cast<int32_t>(UnZigZag(low)));
    case Kind::kSint64:
      return take(UnZigZag(bits));
    case Kind::kFloat:
      return take(std::bit_cast<float>(low));
    case Kind::kDouble:
      return take(std::bit_cast<double>(bits));
    case Kind::kBool:
    case Kind::kText:
      break;
  }
  return take(kind == Kind::kBool && bits != 0 ? 1 : 0);
}

double NumberFromBits(Kind kind, uint64_t bits) {
  return WithNumber(kind, bits, [](auto x) { return static_cast<double>(x); });
}

// A whole number as a category has it.
std::string_view SpellingOfBits(Kind kind, uint64_t bits, char (&buffer)[24]) {
  if (kind == Kind::kBool) return bits != 0 ? "true" : "false";
  char* const end =
      WithNumber(kind, bits, [&](auto x) { return std::to_chars(buffer, buffer + sizeof(buffer), x).ptr; });
  return {buffer, static_cast<size_t>(end - buffer)};
}

const std::string* EnumName(const MessageTable::Enum& values, uint64_t bits) {
  const auto number = static_cast<int32_t>(bits);
  const auto at = std::ranges::lower_bound(values, number, {}, &MessageTable::Enum::value_type::first);
  return at == values.end() || at->first != number ? nullptr : &at->second;
}

// Bytes of a record. The first failure ends its use.
class Wire {
 public:
  // Begins after the first `skipped` bytes.
  Wire(ByteView bytes, size_t skipped)
      : begin_(reinterpret_cast<const uint8_t*>(bytes.data())),
        at_(begin_ + skipped),
        end_(begin_ + bytes.size()) {}

  bool AtEnd() const { return at_ == end_; }
  size_t remaining() const { return static_cast<size_t>(end_ - at_); }

  bool Fail(const char* why) {
    if (why_ == nullptr) why_ = why;
    return false;
  }
  Misfit Why() const { return StrCat("is not Protobuf: ", why_, " at byte ", at_ - begin_); }

  bool Varint(uint64_t* out) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < 10; ++i) {
      if (at_ + i == end_) return Fail("the record ends in a number");
      const uint8_t byte = at_[i];
      value |= uint64_t{byte & 0x7fu} << 7 * i;
      if (byte < 0x80) {
        at_ += i + 1;
        *out = value;
        return true;
      }
    }
    return Fail("a number has more than ten bytes");
  }

  // A field's number and wire type.
  bool Tag(uint32_t* out) {
    const uint8_t* const before = at_;
    uint64_t value;
    if (!Varint(&value)) return false;
    *out = static_cast<uint32_t>(value);
    if (at_ - before <= 5 && *out >> 3 != 0 && (*out & 7) < 6) return true;
    at_ = before;
    return Fail("there is no such field");
  }

  template <class T>
  bool Fixed(uint64_t* out) {
    T value;
    if (remaining() < sizeof(T)) return Fail("the record ends in a number");
    std::memcpy(&value, at_, sizeof(T));
    at_ += sizeof(T);
    *out = value;
    return true;
  }

  bool Number(WireType wire, uint64_t* out) {
    if (wire == WireType::kVarint) return Varint(out);
    return wire == WireType::kFixed32 ? Fixed<uint32_t>(out) : Fixed<uint64_t>(out);
  }

  bool Length(size_t* out) {
    const uint8_t* const before = at_;
    uint64_t value;
    if (!Varint(&value)) return false;
    if (at_ - before > 5 || value > remaining()) {
      at_ = before;
      return Fail("a length exceeds what is left");
    }
    *out = static_cast<size_t>(value);
    return true;
  }

  bool Text(std::string_view* out) {
    size_t size;
    if (!Length(&size)) return false;
    *out = {reinterpret_cast<const char*>(at_), size};
    at_ += size;
    return true;
  }

  // Narrows the rest to `size` bytes, and returns its former end for Widen.
  const uint8_t* Narrow(size_t size) { return std::exchange(end_, at_ + size); }
  void Widen(const uint8_t* end) { end_ = end; }

  // The value of a field that is not read. `depth`: of the message that has it.
  bool Skip(uint32_t tag, size_t depth) {
    uint64_t number;
    std::string_view text;
    switch (static_cast<WireType>(tag & 7)) {
      case WireType::kStartGroup:
        return SkipGroup(tag >> 3, depth);
      case WireType::kEndGroup:
        return Fail("a group ends that has not begun");
      case WireType::kBytes:
        return Text(&text);
      default:
        return Number(static_cast<WireType>(tag & 7), &number);
    }
  }

 private:
  bool SkipGroup(uint32_t number, size_t depth) {
    uint32_t open[kMaxMessageDepth + 1];
    size_t count = 0;
    uint32_t tag = number << 3 | static_cast<uint32_t>(WireType::kStartGroup);
    for (;;) {
      if (static_cast<WireType>(tag & 7) == WireType::kStartGroup) {
        if (depth + count >= kMaxMessageDepth) return Fail("groups are nested too deeply");
        open[count++] = tag >> 3;
      } else if (static_cast<WireType>(tag & 7) == WireType::kEndGroup) {
        if (tag >> 3 != open[--count]) return Fail("another group ends than has begun");
        if (count == 0) return true;
      } else if (!Skip(tag, depth)) {
        return false;
      }
      if (!Tag(&tag)) return false;
    }
  }

  const uint8_t* const begin_;
  const uint8_t* at_;
  const uint8_t* end_;
  const char* why_ = nullptr;
};

class ProtobufDecoder final : public Decoder {
 public:
  explicit ProtobufDecoder(const Schema& schema)
      : schema_(schema), table_(CompileTable(schema)), writers_(MakeWriters(schema_)), found_(table_.slots) {}

  void Decode(const RecordBatch& batch, DecodedRows* out) override {
    RowSink(schema_, batch, out).TakeAll([this](ByteView record, const Row& row) {
      return WriteRow(record, row);
    });
  }

 private:
  // Contents of a slot in the record. Nothing is cleared between records: they have other stamps.
  struct Found {
    uint64_t stamp = 0;
    uint64_t bits = 0;
    std::string_view text;
    size_t items = 0;
    bool misfit = false;  // an item of a list does not match
    double item = 0;      // the first such item
  };

  Misfit WriteRow(ByteView record, const Row& row) {
    ++stamp_;
    not_text_ = nullptr;
    // It could be a message without fields. But so are tombstones, and the records that take lost offsets.
    if (record.empty()) return "is empty: a tombstone?";
    const bool framed = schema_.protobuf.framed;
    if (framed && !IsFramed(record)) return ReasonOfFrame(record);
    Wire wire(record, framed ? kFrameBytes : 0);
    if (framed && !SkipIndexes(&wire)) return wire.Why();
    if (!ReadMessage(table_.nodes[0], 0, 0, row, &wire)) {
      if (not_text_ == nullptr) return wire.Why();
      return not_text_->name() + ": is not UTF-8";
    }
    for (size_t i = 0; i < writers_.size(); ++i) {
      if (!writers_[i]) continue;
      Misfit why = WriteField(*writers_[i], table_.values[i], found_[i], row);
      if (!why.empty()) return why;
    }
    return {};
  }

  // After the id, where in its schema the message is defined: how many indexes, and each.
  static bool SkipIndexes(Wire* wire) {
    uint64_t bits, count;
    if (!wire->Varint(&count)) return false;
    count = static_cast<uint64_t>(UnZigZag(count));
    if (count > kMaxIndexes) return wire->Fail("the framing has too many indexes");
    for (; count > 0; --count) {
      if (!wire->Varint(&bits)) return false;
    }
    return true;
  }

  bool IsSet(uint32_t slot) const { return found_[slot].stamp == stamp_; }

  // `group`: the number whose end is the message's end; 0: the rest is the message.
  bool ReadMessage(const MessageTable::Node& node, uint32_t group, size_t depth, const Row& row, Wire* wire) {
    found_[node.slot].stamp = stamp_;
    while (!wire->AtEnd()) {
      uint32_t tag;
      if (!wire->Tag(&tag)) return false;
      if (group != 0 && tag == (group << 3 | static_cast<uint32_t>(WireType::kEndGroup))) return true;
      const MessageTable::Entry* const entry = table_.Find(node, tag >> 3);
      const auto type = static_cast<WireType>(tag & 7);
      bool good;
      if (entry == nullptr) {
        good = wire->Skip(tag, depth);
      } else if (type == entry->wire) {
        good = ReadValue(*entry, tag, depth, row, wire);
      } else if (entry->repeated && type == WireType::kBytes) {
        good = ReadPacked(*entry, row, wire);
      } else {
        good = wire->Skip(tag, depth);  // another type: an unknown field
      }
      if (!good) return false;
    }
    return group == 0 || wire->Fail("a group does not end");
  }

  bool ReadValue(const MessageTable::Entry& entry, uint32_t tag, size_t depth, const Row& row, Wire* wire) {
    if (entry.node != MessageTable::kNone) {
      Clear(entry);
      if (depth + 1 > kMaxMessageDepth) return wire->Fail("messages are nested too deeply");
      const MessageTable::Node& node = table_.nodes[entry.node];
      if (entry.wire == WireType::kStartGroup) return ReadMessage(node, entry.number, depth + 1, row, wire);
      size_t size;
      if (!wire->Length(&size)) return false;
      const uint8_t* const end = wire->Narrow(size);
      const bool good = ReadMessage(node, 0, depth + 1, row, wire);
      wire->Widen(end);
      return good;
    }
    if (entry.wire == WireType::kBytes) {
      std::string_view text;
      if (!wire->Text(&text)) return false;
      Clear(entry);
      if (entry.slot == MessageTable::kNone) return true;
      if (entry.utf8 && !ValidUtf8(text)) {
        not_text_ = writers_[entry.slot].get();
        return false;
      }
      found_[entry.slot].stamp = stamp_;
      found_[entry.slot].text = text;
      return true;
    }
    if (entry.wire == WireType::kStartGroup) {
      Clear(entry);
      return wire->Skip(tag, depth);
    }
    uint64_t bits;
    if (!wire->Number(entry.wire, &bits)) return false;
    Store(entry, bits, row);
    return true;
  }

  bool ReadPacked(const MessageTable::Entry& entry, const Row& row, Wire* wire) {
    size_t size;
    if (!wire->Length(&size)) return false;
    const uint8_t* const end = wire->Narrow(size);
    bool good = true;
    uint64_t bits;
    while (good && !wire->AtEnd()) {
      good = wire->Number(entry.wire, &bits);
      if (good) Store(entry, bits, row);
    }
    wire->Widen(end);
    return good;
  }

  void Clear(const MessageTable::Entry& entry) {
    for (const uint32_t slot : entry.clears) found_[slot].stamp = 0;
  }

  void Store(const MessageTable::Entry& entry, uint64_t bits, const Row& row) {
    if (entry.closed != MessageTable::kNone && EnumName(table_.enums[entry.closed], bits) == nullptr) return;
    Clear(entry);
    if (entry.slot == MessageTable::kNone) return;
    Found& found = found_[entry.slot];
    const bool first = found.stamp != stamp_;
    found.stamp = stamp_;
    found.bits = bits;
    if (!entry.repeated) return;
    if (first) found.items = 0, found.misfit = false;
    const FieldWriter& writer = *writers_[entry.slot];
    const double item = NumberFromBits(table_.values[entry.slot].kind, bits);
    if (!found.misfit && found.items < writer.length() && !writer.WriteItem(found.items, item, row)) {
      found.misfit = true;
      found.item = item;
    }
    ++found.items;
  }

  Misfit WriteField(const FieldWriter& writer, const MessageTable::Value& value, const Found& found,
                    const Row& row) const {
    const bool is_set = found.stamp == stamp_, has_parent = IsSet(value.parent);
    if (writer.takes_list() && has_parent) {
      if (is_set && found.misfit) return writer.Reason(found.item);
      const size_t items = is_set ? found.items : 0;
      return writer.EndList(items, row) ? Misfit() : writer.ReasonOfLength(items);
    }
    if (is_set) return WriteValue(writer, value, found.bits, found.text, row);
    if (has_parent && value.absent) return WriteValue(writer, value, *value.absent, value.absent_text, row);
    return writer.TakeDefault("is missing", row);
  }

  Misfit WriteValue(const FieldWriter& writer, const MessageTable::Value& value, uint64_t bits,
                    std::string_view text, const Row& row) const {
    if (writer.takes_number()) return writer.TakeNumber(NumberFromBits(value.kind, bits), row);
    char buffer[24];
    if (value.names != MessageTable::kNone) {
      const std::string* const name = EnumName(table_.enums[value.names], bits);
      text = name != nullptr ? std::string_view(*name) : SpellingOfBits(value.kind, bits, buffer);
    } else if (value.kind != Kind::kText) {
      text = SpellingOfBits(value.kind, bits, buffer);
    }
    return writer.TakeText(text, row);
  }

  const Schema schema_;
  const MessageTable table_;
  const std::vector<std::unique_ptr<const FieldWriter>> writers_;
  std::vector<Found> found_;
  uint64_t stamp_ = 0;
  const FieldWriter* not_text_ = nullptr;
};

}  // namespace

std::unique_ptr<Decoder> MakeProtobufDecoder(const Schema& schema) {
  return std::make_unique<ProtobufDecoder>(schema);
}

}  // namespace leat::stream
