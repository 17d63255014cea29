#include "stream/avro/avro_program.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/text.h"
#include "stream/decode/text.h"

namespace leat::stream {
namespace {

using AvroKind = AvroType::Kind;

// The most bytes that ReadAvroLong reads.
constexpr size_t kMaxAvroLong = 10;
static_assert(RecordBatch::kPadding >= kMaxAvroLong);

// Reads a number of variable length at `p`: 7 bits per byte, the lowest first, zigzag. Returns its end, or
// null if it has more than 64 bits. Reads up to 10 bytes, whatever the length of the record: the caller
// compares the end.
inline const uint8_t* ReadAvroLong(const uint8_t* p, int64_t* out) {
  uint64_t bits = *p;
  if (bits < 0x80) {
    *out = static_cast<int64_t>(bits >> 1) ^ -static_cast<int64_t>(bits & 1);
    return p + 1;
  }
  uint64_t word;
  std::memcpy(&word, p, 8);
  const uint64_t ends = ~word & 0x8080808080808080;
  // Joins the groups of 7 bits in pairs, then those of 14 and of 28.
  const auto join = [](uint64_t w) {
    w = (w & 0x007f007f007f007f) | ((w & 0x7f007f007f007f00) >> 1);
    w = (w & 0x00003fff00003fff) | ((w & 0x3fff00003fff0000) >> 2);
    return (w & 0x000000000fffffff) | ((w & 0x0fffffff00000000) >> 4);
  };
  if (ends != 0) [[likely]] {
    bits = join(word & (ends ^ (ends - 1)));
    p += std::countr_zero(ends) / 8 + 1;
  } else {
    bits = join(word) | static_cast<uint64_t>(p[8] & 0x7f) << 56;
    if (p[8] < 0x80) {
      p += 9;
    } else {
      if (p[9] > 1) return nullptr;
      bits |= static_cast<uint64_t>(p[9]) << 63;
      p += 10;
    }
  }
  *out = static_cast<int64_t>(bits >> 1) ^ -static_cast<int64_t>(bits & 1);
  return p;
}

// Why a record cannot be read, with the number that is wrong and its limit, as printf formats.
constexpr const char* kEnds = "the record ends within it";
constexpr const char* kLongNumber = "a number has more than 64 bits";
constexpr const char* kNoInt = "%lld is not an int of 32 bits";
constexpr const char* kLength = "its length is %lld, and %lld bytes are left";
constexpr const char* kBranch = "branch %lld of a union of %lld";
constexpr const char* kSymbol = "symbol %lld of an enum of %lld";
constexpr const char* kNoBoolean = "a boolean is %lld";
constexpr const char* kBlockBytes = "a block of an array has %lld bytes and says %lld";
constexpr const char* kDepth = "is nested more than %lld times";

// 8 bytes are readable after the text.
bool IsAscii(std::string_view text) {
  uint64_t all = 0, word;
  const char* p = text.data();
  size_t left = text.size();
  for (; left >= 8; p += 8, left -= 8) {
    std::memcpy(&word, p, 8);
    all |= word;
  }
  std::memcpy(&word, p, 8);
  all |= word & ((uint64_t{1} << (8 * left)) - 1);
  return (all & 0x8080808080808080) == 0;
}

bool IsUtf8(std::string_view text, const TextStart& start) {
  const bool ascii = start.has_all() ? start.is_ascii() : IsAscii(text);
  return ascii || ValidUtf8(text);
}

// A whole number in two's complement, the highest byte first.
double BigEndianDouble(std::string_view bytes) {
  if (bytes.empty()) return 0;
  const bool negative = static_cast<unsigned char>(bytes[0]) >= 0x80;
  if (bytes.size() <= 8) {
    uint64_t word = negative ? ~uint64_t{0} : 0;
    for (const char c : bytes) word = word << 8 | static_cast<unsigned char>(c);
    return static_cast<double>(static_cast<int64_t>(word));
  }
  // A negative number is read as its complement, whose leading bytes are small: no digits cancel.
  double sum = 0;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    sum = sum * 256 + (negative ? 255 - byte : byte);
  }
  return negative ? -sum - 1 : sum;
}

double Scaled(double x, uint32_t scale) {
  return scale < std::size(kExactPowers) ? x / kExactPowers[scale] : x / std::pow(10.0, scale);
}

}  // namespace

// A run over one record. The functions take the place of a value and return its end, or null after they have
// set `wrong_` or `why_`. The place is never beyond the end of the record.
class AvroRun {
 public:
  // `why` is empty.
  AvroRun(const AvroProgram& program, ByteView record, const Row& row, Misfit* why)
      : program_(program),
        types_(program.avro_.types),
        row_(row),
        why_(why),
        begin_(reinterpret_cast<const uint8_t*>(record.data())),
        end_(begin_ + record.size()) {}

  [[gnu::always_inline]] bool Run() {
    const Step* step = program_.steps_.data();
    const uint8_t* p = begin_;
    while (step->op != Op::kEnd) {
      const Step* const at = step;
      p = Take(p, &step);
      if (p == nullptr) [[unlikely]] {
        if (why_->empty()) *why_ = NameOf(*at) + ": " + Formatted(wrong_.why, wrong_.number, wrong_.limit);
        return false;
      }
    }
    if (p == end_) [[likely]]
      return true;
    *why_ = StrCat("has ", end_ - p, " bytes more than its Avro schema describes");
    return false;
  }

 private:
  using Op = AvroProgram::Op;
  using Step = AvroProgram::Step;
  using Place = const uint8_t*;

  const std::string& NameOf(const Step& step) const {
    return program_.names_[static_cast<size_t>(&step - program_.steps_.data())];
  }

  [[gnu::cold, gnu::noinline]] Place Refuse(const char* why, long long number = 0, long long limit = 0) {
    wrong_ = {why, number, limit};
    return nullptr;
  }
  [[gnu::cold, gnu::noinline]] Place Refuse(Misfit why) {
    *why_ = std::move(why);
    return nullptr;
  }

  // Executes a step and moves to the next one.
  [[gnu::always_inline]] Place Take(Place p, const Step** next) {
    const Step& step = *(*next)++;
    switch (step.op) {
      case Op::kJump:
        *next = program_.steps_.data() + step.target;
        return p;
      case Op::kUnion: {
        uint64_t branch;
        p = Index(p, step.count, kBranch, &branch);
        if (p != nullptr) *next = program_.steps_.data() + program_.targets_[step.target + branch];
        return p;
      }
      case Op::kSkipBytes:
        return Has(p, step.count) ? p + step.count : nullptr;
      case Op::kSkipNumber: {
        int64_t number;
        return Number(p, &number);
      }
      case Op::kSkipText: {
        std::string_view text;
        return Text(p, &text);
      }
      case Op::kDouble:
        return Float<double>(p, step);
      case Op::kInt:
        return Whole(p, true, step);
      case Op::kLong:
        return Whole(p, false, step);
      case Op::kString: {
        std::string_view text;
        p = Text(p, &text);
        if (p == nullptr) return nullptr;
        const auto start = TextStart::OfReadable(text);
        if (!IsUtf8(text, start)) [[unlikely]]
          return Refuse(step.field->name() + ": is not UTF-8");
        return step.field->WriteText(text, start, row_) ? p : Refuse(step.field->Reason(text));
      }
      default:
        return Other(p, step);
    }
  }

  // The less frequent steps.
  [[gnu::noinline]] Place Other(Place p, const Step& step) {
    const auto type = static_cast<uint32_t>(step.count);
    switch (step.op) {
      case Op::kSkipValue:
        return Skip(p, type, 0);
      case Op::kDefault:
        step.field->WriteDefault(row_);
        return p;
      case Op::kFloat:
        return Float<float>(p, step);
      case Op::kBoolean: {
        bool x;
        p = Boolean(p, &x);
        return p == nullptr ? p : Write(p, step, x);
      }
      case Op::kDecimal:
      case Op::kFixedDecimal: {
        double x;
        p = Decimal(p, types_[type], &x);
        return p == nullptr ? p : Write(p, step, x);
      }
      case Op::kEnum:
        return Enum(p, step);
      case Op::kBooleanText:
      case Op::kIntText:
      case Op::kLongText:
        return Spelling(p, step);
      case Op::kList:
        return List(p, step);
      case Op::kIsNull:
        return Refuse(step.field->name() + ": is null");
      case Op::kIsMissing:
        return Refuse(step.field->name() + ": is missing");
      default:
        return Refuse(step.field->name() + ": is " + types_[type].Describe());
    }
  }

  Place Enum(Place p, const Step& step) {
    uint64_t symbol;
    p = Index(p, step.count, kSymbol, &symbol);
    if (p == nullptr) return nullptr;
    const AvroProgram::Symbols& symbols = program_.symbols_[step.target];
    const std::string& text = types_[symbols.type].names[symbol];
    const bool fits = symbols.places.empty() ? step.field->WriteText(text, row_)
                                             : step.field->WritePlace(symbols.places[symbol], row_);
    return fits ? p : Refuse(step.field->Reason(text));
  }

  // A category that is a number or boolean.
  Place Spelling(Place p, const Step& step) {
    std::array<char, 24> digits;
    std::string_view text;
    if (step.op == Op::kBooleanText) {
      bool x;
      p = Boolean(p, &x);
      text = x ? "true" : "false";
    } else {
      int64_t x = 0;
      p = Number(p, step.op == Op::kIntText, &x);
      const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), x);
      text = {digits.data(), static_cast<size_t>(written.ptr - digits.data())};
    }
    if (p == nullptr) return nullptr;
    return step.field->WriteText(text, row_) ? p : Refuse(step.field->Reason(text));
  }

  [[gnu::always_inline]] Place Write(Place p, const Step& step, double x) {
    if (step.field->WriteNumber(x, row_)) [[likely]]
      return p;
    return Refuse(step.field->Reason(x));
  }
  template <class T>
  Place Float(Place p, const Step& step) {
    T x;
    p = Load(p, &x);
    return p == nullptr ? p : Write(p, step, x);
  }
  [[gnu::always_inline]] Place Whole(Place p, bool narrow, const Step& step) {
    int64_t x;
    p = Number(p, narrow, &x);
    return p == nullptr ? p : Write(p, step, static_cast<double>(x));
  }

  uint64_t Left(Place p) const { return static_cast<uint64_t>(end_ - p); }
  bool Has(Place p, uint64_t bytes) { return bytes <= Left(p) || Refuse(kEnds) != nullptr; }

  [[gnu::always_inline]] Place Number(Place p, int64_t* out) {
    const Place after = ReadAvroLong(p, out);
    if (after != nullptr && after <= end_) [[likely]]
      return after;
    return Refuse(Left(p) < kMaxAvroLong ? kEnds : kLongNumber);
  }
  [[gnu::always_inline]] Place Number(Place p, bool narrow, int64_t* out) {
    p = Number(p, out);
    if (p == nullptr || !narrow || *out == static_cast<int32_t>(*out)) [[likely]]
      return p;
    return Refuse(kNoInt, *out);
  }

  // A whole number from 0 to below `count`.
  Place Index(Place p, uint64_t count, const char* why, uint64_t* out) {
    int64_t number;
    p = Number(p, &number);
    if (p == nullptr) return nullptr;
    *out = static_cast<uint64_t>(number);
    return *out < count ? p : Refuse(why, number, static_cast<int64_t>(count));
  }

  Place Boolean(Place p, bool* out) {
    *out = false;
    if (!Has(p, 1)) return nullptr;
    *out = *p == 1;
    return *p <= 1 ? p + 1 : Refuse(kNoBoolean, *p);
  }

  template <class T>
  Place Load(Place p, T* out) {
    if (!Has(p, sizeof(T))) return nullptr;
    std::memcpy(out, p, sizeof(T));
    return p + sizeof(T);
  }

  [[gnu::always_inline]] Place Text(Place p, std::string_view* out) {
    int64_t size;
    p = Number(p, &size);
    if (p == nullptr) return nullptr;
    if (static_cast<uint64_t>(size) > Left(p)) [[unlikely]]
      return Refuse(kLength, size, static_cast<int64_t>(Left(p)));
    *out = {reinterpret_cast<const char*>(p), static_cast<size_t>(size)};
    return p + size;
  }

  Place Decimal(Place p, const AvroType& type, double* out) {
    std::string_view bytes;
    if (type.kind == AvroKind::kFixed) {
      if (!Has(p, type.bytes)) return nullptr;
      bytes = {reinterpret_cast<const char*>(p), type.bytes};
      p += type.bytes;
    } else {
      p = Text(p, &bytes);
      if (p == nullptr) return nullptr;
    }
    *out = Scaled(BigEndianDouble(bytes), type.scale);
    return p;
  }

  // Reads the head of a block of an array or map: how many items, and its bytes if the head says so (else
  // -1). No items: the end.
  Place Block(Place p, uint64_t* items, int64_t* bytes) {
    int64_t count;
    p = Number(p, &count);
    if (p == nullptr) return nullptr;
    *bytes = -1;
    *items = static_cast<uint64_t>(count);
    if (count >= 0) return p;
    *items = -*items;  // also of the lowest number, which has no positive one
    p = Number(p, bytes);
    if (p == nullptr || static_cast<uint64_t>(*bytes) <= Left(p)) return p;
    return Refuse(kLength, *bytes, static_cast<int64_t>(Left(p)));
  }

  Place List(Place p, const Step& step) {
    const uint32_t item = types_[static_cast<uint32_t>(step.count)].parts[0];
    const FieldWriter& field = *step.field;
    for (uint64_t written = 0;;) {
      uint64_t items;
      int64_t bytes;
      p = Block(p, &items, &bytes);
      if (p == nullptr) return nullptr;
      if (items == 0) return field.EndList(written, row_) ? p : nullptr;
      if (!field.truncates() && items > field.length() - written) {
        const uint64_t most = std::numeric_limits<uint64_t>::max();
        return Refuse(field.ReasonOfLength(items > most - written ? most : written + items));
      }
      const Place begin = p;
      for (; items > 0; --items, ++written) {
        double x;
        p = Item(p, item, field, &x);
        if (p == nullptr) return nullptr;
        if (!field.WriteItem(written, x, row_)) return Refuse(field.Reason(x));
      }
      if (bytes >= 0 && p - begin != bytes) return Refuse(kBlockBytes, p - begin, bytes);
    }
  }

  Place Item(Place p, uint32_t index, const FieldWriter& field, double* out) {
    const AvroType& type = types_[index];
    switch (type.kind) {
      case AvroKind::kInt:
      case AvroKind::kLong: {
        int64_t x = 0;
        p = Number(p, type.kind == AvroKind::kInt, &x);
        *out = static_cast<double>(x);
        return p;
      }
      case AvroKind::kFloat: {
        float x = 0;
        p = Load(p, &x);
        *out = x;
        return p;
      }
      case AvroKind::kDouble:
        return Load(p, out);
      case AvroKind::kBoolean: {
        bool x;
        p = Boolean(p, &x);
        *out = x;
        return p;
      }
      case AvroKind::kUnion: {
        uint64_t branch;
        p = Index(p, type.parts.size(), kBranch, &branch);
        return p == nullptr ? p : Item(p, type.parts[branch], field, out);
      }
      default:
        if (type.decimal) return Decimal(p, type, out);
        return Refuse(field.name() + ": holds " + type.Describe());
    }
  }

  Place Skip(Place p, uint32_t index, int depth) {
    const AvroType& type = types_[index];
    if (type.bytes != AvroType::kVaries) return Has(p, type.bytes) ? p + type.bytes : nullptr;
    if (depth >= AvroProgram::kMaxDepth) return Refuse(kDepth, AvroProgram::kMaxDepth);
    switch (type.kind) {
      case AvroKind::kString:
      case AvroKind::kBytes: {
        std::string_view text;
        return Text(p, &text);
      }
      case AvroKind::kRecord:
        for (const uint32_t part : type.parts) {
          p = Skip(p, part, depth + 1);
          if (p == nullptr) return nullptr;
        }
        return p;
      case AvroKind::kUnion: {
        uint64_t branch;
        p = Index(p, type.parts.size(), kBranch, &branch);
        return p == nullptr ? p : Skip(p, type.parts[branch], depth + 1);
      }
      case AvroKind::kArray:
      case AvroKind::kMap:
        return SkipBlocks(p, type, depth);
      default: {  // int, long, enum
        int64_t number;
        return Number(p, &number);
      }
    }
  }

  Place SkipBlocks(Place p, const AvroType& type, int depth) {
    for (;;) {
      uint64_t items;
      int64_t bytes;
      p = Block(p, &items, &bytes);
      if (p == nullptr || items == 0) return p;
      p = bytes >= 0 ? p + bytes : SkipItems(p, type, items, depth);
      if (p == nullptr) return nullptr;
    }
  }

  Place SkipItems(Place p, const AvroType& type, uint64_t items, int depth) {
    const uint64_t each = type.kind == AvroKind::kMap ? AvroType::kVaries : types_[type.parts[0]].bytes;
    if (each == 0) return p;
    if (each != AvroType::kVaries) {
      if (items > Left(p) / each) return Refuse(kEnds);
      return p + items * each;
    }
    for (; items > 0; --items) {  // each has a byte or more, so this ends with the record
      std::string_view key;
      if (type.kind == AvroKind::kMap) p = Text(p, &key);
      if (p != nullptr) p = Skip(p, type.parts[0], depth + 1);
      if (p == nullptr) return nullptr;
    }
    return p;
  }

  const AvroProgram& program_;
  const std::vector<AvroType>& types_;
  const Row row_;
  Misfit* const why_;
  const Place begin_, end_;
  struct {
    const char* why = "";
    long long number = 0, limit = 0;
  } wrong_;
};

bool AvroProgram::Run(ByteView record, const Row& row, Misfit* why) const {
  if (!why->empty()) *why = {};
  return AvroRun(*this, record, row, why).Run();
}

}  // namespace leat::stream
