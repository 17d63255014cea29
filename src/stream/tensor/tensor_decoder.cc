#include "stream/decode/decoder.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/multiversion.h"
#include "base/text.h"
#include "compute/tensor/convert.h"
#include "stream/decode/row_writer.h"

namespace leat::stream {
namespace {

// IEEE binary16.
float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16, exponent = half >> 10 & 31u;
  const uint32_t fraction = half & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float small = static_cast<float>(fraction) * 0x1p-24f;
  return sign != 0 ? -small : small;
}

template <class T>
T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}
template <class T>
double LoadNumber(const std::byte* at) {
  return static_cast<double>(Load<T>(at));
}
double LoadBf16(const std::byte* at) {
  return ToFloat(Bf16{Load<uint16_t>(at)});
}
double LoadF16(const std::byte* at) {
  return HalfToFloat(Load<uint16_t>(at));
}

// In the order of Element.
struct ElementType {
  size_t size;
  double (*load)(const std::byte* at);
};
constexpr ElementType kElementTypes[] = {{4, LoadNumber<float>},
                                         {8, LoadNumber<double>},
                                         {2, LoadBf16},
                                         {2, LoadF16},
                                         {1, LoadNumber<int8_t>},
                                         {2, LoadNumber<int16_t>},
                                         {4, LoadNumber<int32_t>},
                                         {8, LoadNumber<int64_t>},
                                         {1, LoadNumber<uint8_t>},
                                         {2, LoadNumber<uint16_t>},
                                         {4, LoadNumber<uint32_t>},
                                         {8, LoadNumber<uint64_t>}};
const ElementType& TypeOf(Element element) {
  return kElementTypes[static_cast<size_t>(element)];
}

// Returns whether all results are finite. The exponents are joined, because a loop that ends early is not
// vectorized.
LEAT_MULTIVERSION bool CopyFloats(const std::byte* in, size_t size, float* out) {
  uint32_t bad = 0;
  for (size_t i = 0; i < size; ++i) {
    uint32_t bits;
    std::memcpy(&bits, in + 4 * i, 4);
    bad |= ((bits & 0x7f800000u) + 0x00800000u) & 0x80000000u;
    std::memcpy(out + i, &bits, 4);
  }
  return bad == 0;
}

LEAT_MULTIVERSION bool ScaleFloats(const std::byte* in, size_t size, double scale, double shift, float* out) {
  uint32_t bad = 0;
  for (size_t i = 0; i < size; ++i) {
    float x;
    std::memcpy(&x, in + 4 * i, 4);
    const auto y = static_cast<float>(x * scale + shift);
    uint32_t bits;
    std::memcpy(&bits, &y, 4);
    bad |= ((bits & 0x7f800000u) + 0x00800000u) & 0x80000000u;
    out[i] = y;
  }
  return bad == 0;
}

// A whole number as a category has it.
std::string_view SpellingOfElement(Element element, const std::byte* at, char (&buffer)[24]) {
  char* const end = buffer + sizeof(buffer);
  const auto to = element == Element::kU64 ? std::to_chars(buffer, end, Load<uint64_t>(at))
                  : element == Element::kI64
                      ? std::to_chars(buffer, end, Load<int64_t>(at))
                      : std::to_chars(buffer, end, static_cast<int64_t>(TypeOf(element).load(at)));
  return {buffer, static_cast<size_t>(to.ptr - buffer)};
}

// Records of arrays, and those of idx: bytes. The fields are one after the other.
class TensorDecoder final : public Decoder {
 public:
  explicit TensorDecoder(const Schema& schema) : schema_(schema) {
    const bool idx = schema.format == Schema::Format::kIdx;
    auto writers = MakeWriters(schema_);
    uint32_t first = 0;
    for (size_t i = 0; i < writers.size(); ++i) {
      const Field& field = schema_.fields[i];
      const uint32_t begin = std::exchange(first, first + field.features());
      if (field.from) continue;
      Part part{.writer = std::move(writers[i]),
                .element = idx ? Element::kU8 : field.element,
                .first = begin,
                .count = field.width};
      part.step = field.period > 0 ? 2 : 1;
      part.bytes = field.type == Field::Type::kBytes;
      part.floats = field.role == Role::kFeature && field.type == Field::Type::kNumber && !field.log &&
                    field.period == 0 && part.element == Element::kF32;
      part.copied = part.floats && field.mean == 0 && field.std == 1;
      part.scale = 1 / field.std;
      part.shift = -field.mean / field.std;
      bytes_ += part.count * TypeOf(part.element).size;
      parts_.push_back(std::move(part));
    }
  }

  void Decode(const RecordBatch& batch, DecodedRows* out) override {
    RowSink(schema_, batch, out).TakeAll([this](ByteView record, const Row& row) {
      return WriteRow(record, row);
    });
  }

 private:
  struct Part {
    std::unique_ptr<const FieldWriter> writer;
    Element element;
    uint32_t first;
    size_t count;
    size_t step = 1;      // features of an element
    bool bytes = false;   // u8 of idx, which are scaled together
    bool floats = false;  // f32 that are only scaled
    bool copied = false;  // not even that
    double scale = 1, shift = 0;
  };

  Misfit WriteRow(ByteView record, const Row& row) const {
    if (record.size() != bytes_) return StrCat("has ", record.size(), " bytes instead of ", bytes_);
    const std::byte* at = record.data();
    for (const Part& part : parts_) {
      if (part.writer && !WriteFast(part, at, row)) {
        Misfit why = WriteEach(part, at, row);
        if (!why.empty()) return why;
      }
      at += part.count * TypeOf(part.element).size;
    }
    return {};
  }

  // False: the elements are to be written one by one, which finds the one that does not match.
  static bool WriteFast(const Part& part, const std::byte* at, const Row& row) {
    if (part.bytes) return part.writer->WriteBytes(reinterpret_cast<const uint8_t*>(at), row);
    if (!part.floats) return false;
    float* const out = row.features + part.first;
    return part.copied ? CopyFloats(at, part.count, out)
                       : ScaleFloats(at, part.count, part.scale, part.shift, out);
  }

  static Misfit WriteEach(const Part& part, const std::byte* at, const Row& row) {
    char buffer[24];
    const ElementType& type = TypeOf(part.element);
    for (size_t i = 0; i < part.count; ++i, at += type.size) {
      const Row place{row.features + i * part.step, row.labels, row.truth};
      if (!part.writer->takes_number()) {
        const std::string_view text = SpellingOfElement(part.element, at, buffer);
        if (!part.writer->WriteText(text, place)) return part.writer->Reason(text);
        continue;
      }
      const double x = type.load(at);
      if (part.writer->WriteNumber(x, place)) continue;
      return part.writer->Reason(x) + (part.count > 1 ? StrCat(", element ", i) : "");
    }
    return {};
  }

  const Schema schema_;
  std::vector<Part> parts_;
  size_t bytes_ = 0;
};

}  // namespace

std::unique_ptr<Decoder> MakeTensorDecoder(const Schema& schema) {
  return std::make_unique<TensorDecoder>(schema);
}

}  // namespace leat::stream
