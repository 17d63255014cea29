// Converts field values to the numbers of a row, for the decoders of all formats.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/text.h"
#include "stream/decode/decoder.h"
#include "stream/decode/text.h"
#include "stream/schema.h"

namespace leat::stream {

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
template <class Place>
using PlacesOfTexts = std::unordered_map<std::string, Place, TextHash, std::equal_to<>>;

// The bytes of the first character of a text in UTF-8, at least 1.
size_t CharacterSize(std::string_view text);

// Divides text into tokens and gives each an id, for fields of type text. Ids begin at 1;
// 0 is padding. Thread-safe.
//
//   bytes       the byte + 1
//   characters  of the alphabet: the index + 2; any other: 1
//   words       of the list: the index + 2; any other: 1. Hashed: 1 to buckets - 1
//
// A word is a run of letters, digits, underscores and all that is not ASCII. Letters of ASCII become small.
class Tokenizer {
 public:
  explicit Tokenizer(const Field& field);

  // Writes the ids of the first `length` tokens and pads the rest with 0. Returns the number of tokens.
  size_t WriteIds(std::string_view text, size_t length, float* out) const;
  // Adds 1 to out[id - 1] for each token.
  void CountIds(std::string_view text, float* out) const;

 private:
  // Calls take(id) for each token, in order.
  template <class Take>
  void ForEach(std::string_view text, const Take& take) const;
  template <class Take>
  void ForEachWord(std::string_view text, const Take& take) const;
  uint32_t Place(std::string_view token) const;

  Field::Tokens tokens_;
  uint32_t buckets_;
  PlacesOfTexts<uint32_t> places_;
};

// The end of the reason for a label that is not among the values of its category.
inline constexpr std::string_view kNotAmongValues = " is not among the label's values";

// log(1 + x) · scale + shift as float, several times as fast as std::log1p and always equal to it.
//
// A table of logarithms and a short polynomial give the value with a small error. If all values within a
// bound on the errors round to the same float, that is also what std::log1p leads to (Ziv 1991). Otherwise,
// less than once in 10,000 values of usual size, std::log1p decides.
//
// Immutable; thread-safe.
class LogScale {
 public:
  LogScale(double scale, double shift)
      : scale_(scale),
        shift_(shift),
        bound_(std::abs(scale) * kError + (std::abs(scale) * kMost + std::abs(shift)) * kRounding) {}

  // Equal to static_cast<float>(std::log1p(x) * scale + shift); NaN and infinite x likewise.
  float operator()(double x) const {
    if (x >= 0 && x < kLargest) [[likely]] {
      const double y = Approximate(1 + x) * scale_ + shift_;
      const auto low = static_cast<float>(y - bound_), high = static_cast<float>(y + bound_);
      if (low == high) [[likely]]
        return low;
    }
    return Exact(x);
  }

 private:
  static constexpr double kLargest = 1e300;
  static constexpr double kMost = 700;          // above any logarithm
  static constexpr double kError = 0x1p-40;     // above 2^-42.3, the polynomial's
  static constexpr double kRounding = 0x1p-50;  // above those of all operations, relative to the largest
  static constexpr int kBits = 7;               // leading bits of the mantissa, which select an entry

  struct Entry {
    double inverse;  // 1 / the middle of the entry's interval
    double log;      // logarithm of the middle
  };
  inline static const std::array<Entry, 1 << kBits> kTable = [] {
    std::array<Entry, 1 << kBits> table;
    for (size_t i = 0; i < table.size(); ++i) {
      const double middle = 1 + (static_cast<double>(i) + 0.5) / static_cast<double>(table.size());
      table[i].inverse = 1 / middle;
      table[i].log = -std::log(table[i].inverse);
    }
    return table;
  }();

  // log(u), u ≥ 1. With u = 2^k · m and 1 ≤ m < 2: k · log(2) + log(c) + log(m / c).
  static double Approximate(double u) {
    const auto bits = std::bit_cast<uint64_t>(u);
    const Entry& entry = kTable[bits >> (52 - kBits) & ((1 << kBits) - 1)];
    const auto k = static_cast<double>(static_cast<int32_t>(bits >> 52) - 1023);
    const auto m = std::bit_cast<double>((bits & 0x000fffffffffffff) | 0x3ff0000000000000);
    const double r = m * entry.inverse - 1;  // |r| ≤ 2^-8
    const double r2 = r * r;
    return (k * 0.693147180559945309417 + entry.log) + (r - r2 * ((0.5 - r * (1.0 / 3)) + r2 * 0.25));
  }

  [[gnu::cold, gnu::noinline]] float Exact(double x) const {
    return static_cast<float>(std::log1p(x) * scale_ + shift_);
  }

  double scale_, shift_;
  double bound_;  // on the errors of the approximation and of its rounding
};

// Memory of a row. `features` and `labels` are zero before the first field is written.
struct Row {
  float* features;
  float* labels;
  float* truth;
};

// A field, prepared for writing: constants are folded, categories are in a lookup table. Immutable;
// thread-safe.
class FieldWriter {
 public:
  // The field's features start at index `first` of the row, its labels at `label`. `decimal`: the decimal
  // point of numbers among a category's texts, besides the dot.
  FieldWriter(const Field& field, uint32_t first, uint32_t label, char decimal = '.');
  FieldWriter(const FieldWriter&) = delete;
  FieldWriter& operator=(const FieldWriter&) = delete;

  // The Write functions write a value, or return false if it does not match; Reason gives the cause. Text is
  // the contents of quotes or of a CSV field; for a number or literal in JSON, its spelling. A category takes
  // all spellings of a number or boolean for one value (CanonicalSpelling).
  [[gnu::always_inline]] bool WriteNumber(double x, const Row& row) const {
    if (kind_ > Kind::kLog) return WriteOtherNumber(x, row);
    const bool log = kind_ == Kind::kLog;
    const float y = log ? log_scale_(x) : static_cast<float>(x * scale_ + shift_);
    row.features[first_] = y;
    return (!log || x >= 0) && std::abs(y) <= std::numeric_limits<float>::max();  // neither infinite nor NaN
  }
  bool WriteText(std::string_view text, const Row& row) const {
    return WriteText(text, TextStart::Of(text), row);
  }
  bool WriteText(std::string_view text, const TextStart& start, const Row& row) const {
    return kind_ < Kind::kTokens ? WritePlace(PlaceOf(text, start), row) : WriteTokens(text, row);
  }
  // The same in two steps, for categories that are known before any record: PlaceOf finds what WritePlace
  // writes.
  int32_t PlaceOf(std::string_view text) const { return PlaceOf(text, TextStart::Of(text)); }
  bool WritePlace(int32_t place, const Row& row) const {
    if (kind_ == Kind::kOneHot || kind_ == Kind::kHashed) {
      if (place >= 0) row.features[first_ + static_cast<uint32_t>(place)] = 1;
      return true;
    }
    if (kind_ != Kind::kLabelText) return false;
    row.labels[label_] = static_cast<float>(place);
    return place >= 0;
  }
  // Both in one call: why the value does not match, or an empty reason.
  Misfit TakeNumber(double x, const Row& row) const { return WriteNumber(x, row) ? Misfit() : Reason(x); }
  Misfit TakeText(std::string_view text, const Row& row) const {
    return WriteText(text, row) ? Misfit() : Reason(text);
  }
  // `bytes` has field.width bytes.
  bool WriteBytes(const uint8_t* bytes, const Row& row) const;

  // Lists: WriteItem writes item `i`, unless it is cut, EndList the padding after the last item.
  bool WriteItem(size_t i, double x, const Row& row) const;
  bool EndList(size_t items, const Row& row) const;
  // `characters` has one character more than the sequence. Returns the index of the first that is not in the
  // alphabet, or the number of characters.
  size_t WriteCharacters(const uint8_t* characters, const Row& row) const;

  // Writes the value of a record that lacks the field; only if there is one.
  bool has_default() const { return has_default_; }
  void WriteDefault(const Row& row) const;
  // The same in any case; without a default the reason is the field's name and `why`.
  Misfit TakeDefault(std::string_view why, const Row& row) const;
  // Why the field's default does not match; empty if it does, or there is none.
  const std::string& DefaultMisfit() const { return default_misfit_; }

  bool takes_number() const { return kind_ < Kind::kOneHot; }
  // A category whose values are listed.
  bool has_values() const { return kind_ == Kind::kOneHot || kind_ == Kind::kLabelText; }
  bool takes_list() const { return kind_ == Kind::kIds || kind_ == Kind::kNumbers; }
  // Why the number, or the text, does not match: "amount: -3 is below 0, which log does not take".
  std::string Reason(double x) const;
  Misfit Reason(std::string_view text) const;
  // For a number that is too large for a double.
  std::string ReasonOfTooLarge(std::string_view number) const;
  // For a list with this many items.
  std::string ReasonOfLength(size_t items) const;
  // The field's path as messages show it.
  const std::string& name() const { return name_; }
  // The length of a list or a sequence.
  size_t length() const { return length_; }
  // Whether a longer list or text is cut.
  bool truncates() const { return truncate_; }

 private:
  enum class Kind : uint8_t {
    kNumber,
    kLog,
    kPeriod,
    kLabel,
    kClass,
    kTruth,
    kId,
    kOneHot,
    kHashed,
    kLabelText,
    kBytes,
    kIds,
    kNumbers,
    kCharacters,
    kTokens,
    kTokenCounts
  };
  bool WriteOtherNumber(double x, const Row& row) const;
  bool WriteTokens(std::string_view text, const Row& row) const;
  std::string ReasonOfNumber(double x, const std::string& spelling) const;
  void PrepareDefault(const Field& field);
  // Index of the text among the values, or -1.
  int32_t Find(std::string_view text, const TextStart& start) const {
    if (!slots_.empty()) {
      const Slot& slot = slots_[SlotOf(start)];
      if (slot.start == start && (start.has_all() || values_[static_cast<size_t>(slot.place)] == text))
        return slot.place;
    }
    return places_.empty() ? -1 : FindPlace(text);
  }
  int32_t FindPlace(std::string_view text) const;
  int32_t PlaceOf(std::string_view text, const TextStart& start) const {
    return kind_ == Kind::kHashed ? Hashed(text) : Find(text, start);
  }
  int32_t Hashed(std::string_view text) const;

  Kind kind_;
  uint32_t first_, label_;
  uint32_t count_;   // buckets, classes, or the upper bound of ids
  uint32_t length_;  // features of a list, a sequence or bytes
  uint32_t pad_;
  bool log_, truncate_;
  double scale_ = 1, shift_ = 0;
  LogScale log_scale_{1, 0};
  std::vector<std::string> values_;
  // A table without collisions: where a value is found by its start.
  struct Slot {
    TextStart start;
    int32_t place = -1;
  };
  size_t SlotOf(const TextStart& start) const {
    return (((start.first ^ std::rotl(start.second, 29)) + start.size) * factor_) >> slot_shift_;
  }
  void MakeSlots();
  std::vector<Slot> slots_;
  uint64_t factor_ = 1;
  int slot_shift_ = 0;
  // By canonical spellings, where values are numbers or booleans; also all values without such a table.
  PlacesOfTexts<int32_t> places_;
  char decimal_;
  std::vector<int32_t> place_of_byte_;  // characters: index in the alphabet, or -1
  std::unique_ptr<const Tokenizer> tokenizer_;
  const char* items_ = "items";  // name of a list's items in messages
  std::string name_;
  bool has_default_ = false;
  std::vector<float> default_features_, default_labels_;
  float default_truth_ = 0;
  std::string default_misfit_;
};

// The writers of a schema's fields, in the schema's order; null for those that are ignored or not in the
// record's bytes.
std::vector<std::unique_ptr<const FieldWriter>> MakeWriters(const Schema& schema);

// The columns of a schema's rows.
struct RowShape {
  explicit RowShape(const Schema& schema)
      : features(schema.features()), labels(schema.labels()), truth(schema.has_truth()) {}
  Row At(DecodedRows* rows, size_t row) const {
    return {rows->features.data() + row * features, rows->labels.data() + row * labels,
            truth ? &rows->truth[row] : nullptr};
  }
  // Makes room for so many rows, or trims the columns to them.
  void Resize(DecodedRows* rows, size_t count) const;

  size_t features, labels;
  bool truth;
};
// Makes a record of the batch a dead letter.
void AddDeadLetter(const RecordBatch& batch, size_t record, Misfit why, DecodedRows* out);

// Appends a batch to DecodedRows: reserves memory for all records, then takes a row or a dead letter for
// each, in order.
class RowSink {
 public:
  RowSink(const Schema& schema, const RecordBatch& batch, DecodedRows* out);
  // Trims the columns to the rows kept.
  ~RowSink() { shape_.Resize(&out_, out_.rows); }
  RowSink(const RowSink&) = delete;
  RowSink& operator=(const RowSink&) = delete;

  // For every record calls `write(record, row)`, which writes its row or returns why it does not match.
  template <class Write>
  void TakeAll(const Write& write) {
    for (size_t i = 0; i < batch_.size(); ++i) {
      if (RefuseOversize(i)) continue;
      Misfit why = write(batch_[i], row());
      if (why.empty()) {
        Keep(i);
      } else {
        Refuse(i, std::move(why));
      }
    }
  }

  // True if the record is larger than the schema allows; refuses it then.
  bool RefuseOversize(size_t record) {
    if (batch_[record].size() <= max_bytes_) return false;
    Refuse(record, TooLarge(record));
    return true;
  }
  // The next row to write, all zeros.
  Row row() { return shape_.At(&out_, out_.rows); }
  [[gnu::always_inline]] void Keep(size_t record) {
    // An empty record can fit a schema.
    const bool all = batch_.lost.empty() && batch_.absent.empty();
    if (!all && IsNone(record)) return Refuse(record, Misfit());
    out_.index[out_.rows++] = static_cast<uint32_t>(record);
  }
  // Clears what was written to the row.
  void Refuse(size_t record, Misfit why);
  // Clears what was written to the row, to write it again.
  void Restart();

 private:
  Misfit TooLarge(size_t record) const;
  // Whether the record could not be read, or does not exist.
  bool IsNone(size_t record) const { return LostReason(record) != nullptr || batch_.IsAbsent(record); }
  // Why the record could not be read; null for most.
  const std::string* LostReason(size_t record) const;

  const RecordBatch& batch_;
  DecodedRows& out_;
  const RowShape shape_;
  const uint64_t max_bytes_;
};

// The framing of records that serializers for a schema registry write: a byte 0, then the id of a schema in 4
// bytes, the highest first.

inline constexpr size_t kFrameBytes = 5;

inline bool IsFramed(ByteView record) {
  return record.size() >= kFrameBytes && record[0] == std::byte{0};
}

// The schema's id in a framed record.
inline uint32_t SchemaIdOf(ByteView record) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(record[i]); };
  return byte(1) << 24 | byte(2) << 16 | byte(3) << 8 | byte(4);
}

// Why a record is not framed.
std::string ReasonOfFrame(ByteView record);

}  // namespace leat::stream
