// From a field's value to the numbers of a row: what the decoders of all formats share.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "stream/schema.h"

namespace leat::stream {

// Where a row's numbers go. `features` and `labels` are all zeros before the first field is written.
struct Row {
  float* features;
  float* labels;
  float* truth;
};

// One field, ready to be written: constants folded, categories looked up. Immutable; thread-safe.
class FieldWriter {
 public:
  // The field's features begin at `first` in the row, its labels at `label`.
  FieldWriter(const Field& field, uint32_t first, uint32_t label);
  FieldWriter(const FieldWriter&) = delete;
  FieldWriter& operator=(const FieldWriter&) = delete;

  // Write a value, or return false: it does not fit, and Reason says why. Text is as it is between quotes or
  // commas; of a number or literal in JSON it is as it is written.
  bool WriteNumber(double x, const Row& row) const {
    if (kind_ != Kind::kNumber) return WriteOtherNumber(x, row);
    const auto y = static_cast<float>(x * scale_ + shift_);
    row.features[first_] = y;
    return std::abs(y) <= std::numeric_limits<float>::max();  // neither infinite nor NaN
  }
  bool WriteText(std::string_view text, const Row& row) const;
  // Of field.width bytes.
  bool WriteBytes(const uint8_t* bytes, const Row& row) const;

  // Lists: item `i`, or, behind the last, what fills the list up.
  bool WriteItem(size_t i, double x, const Row& row) const;
  bool EndList(size_t items, const Row& row) const;
  // One character more than the sequence has; returns the place of the first that is not in the alphabet, or
  // the number of characters.
  size_t WriteCharacters(const uint8_t* characters, const Row& row) const;

  bool takes_number() const { return kind_ < Kind::kOneHot; }
  bool takes_list() const { return kind_ == Kind::kIds; }
  // Why the number, or the text, does not fit: "amount: -3 is below 0, which log does not take".
  std::string Reason(double x) const;
  Misfit Reason(std::string_view text) const;
  // Of a list with so many items.
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
  // Place of the text among the values, or -1.
  int Find(std::string_view text) const;

  Kind kind_;
  uint32_t first_, label_;
  uint32_t count_;   // buckets, classes, or what ids are below
  uint32_t length_;  // features of a list, a sequence or bytes
  uint32_t pad_;
  double scale_ = 1, shift_ = 0;
  std::vector<std::string> values_;
  // Only for long lists of values; short ones are compared one by one.
  std::unordered_map<std::string_view, int> places_;
  std::vector<int32_t> place_of_byte_;  // characters: in the alphabet, or -1
  std::string name_;
};

// The fields of a schema that a decoder reads, in the schema's order; those that are ignored are null.
std::vector<std::unique_ptr<const FieldWriter>> MakeWriters(const Schema& schema);

// Grows DecodedRows by a batch: room for every record, then a row or a dead letter for each, in order.
class RowSink {
 public:
  RowSink(const Schema& schema, const RecordBatch& batch, DecodedRows* out);
  // Trims the columns to the rows that were kept.
  ~RowSink();
  RowSink(const RowSink&) = delete;
  RowSink& operator=(const RowSink&) = delete;

  // Every record: `write(record, row)` writes its row, or says why it does not fit.
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

  // The row to be written next, all zeros.
  Row row();
  void Keep(size_t record);
  // Clears what was written of the row.
  void Refuse(size_t record, Misfit why);
  // Clears what was written of the row, to write it again.
  void Restart();

 private:
  const RecordBatch& batch_;
  DecodedRows& out_;
  size_t features_, labels_;
  bool truth_;
};

// "'abc'", cut and with what cannot be printed replaced: dead letters end up in terminals.
std::string Quoted(std::string_view text);

}  // namespace leat::stream
