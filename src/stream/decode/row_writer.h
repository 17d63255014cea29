// Converts field values to the numbers of a row, for the decoders of all formats.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "stream/decode/decoder.h"
#include "stream/decode/text_index.h"
#include "stream/schema.h"

namespace leat::stream {

// Memory of a row. `features` and `labels` are zero before the first field is written.
struct Row {
  float* features;
  float* labels;
  float* truth;
};

// One field, prepared for writing: constants are folded, categories are in a lookup table. Immutable;
// thread-safe.
class FieldWriter {
 public:
  // The field's features start at index `first` of the row, its labels at `label`.
  FieldWriter(const Field& field, uint32_t first, uint32_t label);
  FieldWriter(const FieldWriter&) = delete;
  FieldWriter& operator=(const FieldWriter&) = delete;

  // The Write functions write a value, or return false if it does not match; Reason gives the cause. Text is
  // the contents of quotes or of a CSV field; for a number or literal in JSON, its spelling.
  bool WriteNumber(double x, const Row& row) const {
    if (kind_ != Kind::kNumber) return WriteOtherNumber(x, row);
    const auto y = static_cast<float>(x * scale_ + shift_);
    row.features[first_] = y;
    return std::abs(y) <= std::numeric_limits<float>::max();  // neither infinite nor NaN
  }
  bool WriteText(std::string_view text, const Row& row) const;
  // `bytes` has field.width bytes.
  bool WriteBytes(const uint8_t* bytes, const Row& row) const;

  // Lists: WriteItem writes item `i`, EndList the padding after the last item.
  bool WriteItem(size_t i, double x, const Row& row) const;
  bool EndList(size_t items, const Row& row) const;
  // `characters` has one character more than the sequence. Returns the index of the first that is not in the
  // alphabet, or the number of characters.
  size_t WriteCharacters(const uint8_t* characters, const Row& row) const;

  bool takes_number() const { return kind_ < Kind::kOneHot; }
  bool takes_list() const { return kind_ == Kind::kIds; }
  // Why the number, or the text, does not match: "amount: -3 is below 0, which log does not take".
  std::string Reason(double x) const;
  Misfit Reason(std::string_view text) const;
  // For a list with this many items.
  std::string ReasonOfLength(size_t items) const;
  const std::string& name() const { return name_; }
  // Of a list or a sequence.
  size_t length() const { return length_; }

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
    kCharacters
  };
  bool WriteOtherNumber(double x, const Row& row) const;
  Kind kind_;
  uint32_t first_, label_;
  uint32_t count_;   // buckets, classes, or the upper bound of ids
  uint32_t length_;  // features of a list, a sequence or bytes
  uint32_t pad_;
  double scale_ = 1, shift_ = 0;
  TextIndex values_;
  std::vector<int32_t> place_of_byte_;  // characters: index in the alphabet, or -1
  std::string name_;
};

// The writers of a schema's fields, in the schema's order; null for ignored fields.
std::vector<std::unique_ptr<const FieldWriter>> MakeWriters(const Schema& schema);

// Appends a batch to DecodedRows: reserves memory for all records, then takes a row or a dead letter for
// each, in order.
class RowSink {
 public:
  RowSink(const Schema& schema, const RecordBatch& batch, DecodedRows* out);
  // Trims the columns to the rows kept.
  ~RowSink();
  RowSink(const RowSink&) = delete;
  RowSink& operator=(const RowSink&) = delete;

  // For every record calls `write(record, row)`, which writes its row or returns why it does not match.
  template <class Write>
  void TakeAll(const Write& write) {
    for (size_t i = 0; i < batch_.size(); ++i) {
      Misfit why = write(batch_[i], row());
      if (why.empty()) {
        Keep(i);
      } else {
        Refuse(i, std::move(why));
      }
    }
  }

  // The next row to write, all zeros.
  Row row();
  void Keep(size_t record);
  // Clears what was written to the row.
  void Refuse(size_t record, Misfit why);
  // Clears what was written to the row, to write it again.
  void Restart();

 private:
  // Why the record could not be read; null for most.
  const std::string* LostReason(size_t record) const;

  const RecordBatch& batch_;
  DecodedRows& out_;
  size_t features_, labels_;
  bool truth_;
};

// "'abc'", truncated and without unprintable characters, because dead letters are shown in terminals.
std::string Quoted(std::string_view text);

}  // namespace leat::stream
