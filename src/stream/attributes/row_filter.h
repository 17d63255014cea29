// For decoders that complete the rows of another decoder: keeps some of them, and moves them together.
#pragma once

#include <cstddef>

#include "stream/decode/row_writer.h"
#include "stream/schema.h"

namespace leat::stream {

// The columns of a schema's rows.
struct RowShape {
  explicit RowShape(const Schema& schema)
      : features(schema.features()), labels(schema.labels()), truth(schema.has_truth()) {}
  Row At(DecodedRows* rows, size_t row) const;

  size_t features, labels;
  bool truth;
};

// Made before the other decoder appends to `out`; then each new row is kept, refused, or neither, in order.
class RowFilter {
 public:
  RowFilter(const RowShape& shape, DecodedRows* out)
      : shape_(shape), out_(*out), first_(out->rows), kept_(out->rows), dead_(out->dead.size()) {}
  // Trims the columns to the rows that are kept.
  ~RowFilter();
  RowFilter(const RowFilter&) = delete;
  RowFilter& operator=(const RowFilter&) = delete;

  size_t first() const { return first_; }  // index of the first new row
  Row operator[](size_t row) { return shape_.At(&out_, row); }
  void Keep(size_t row);
  // The row's record, which is one of the batch, becomes a dead letter.
  void Refuse(const RecordBatch& batch, size_t row, Misfit why);

 private:
  const RowShape& shape_;
  DecodedRows& out_;
  const size_t first_;
  size_t kept_;  // the next row's place
  const size_t dead_;
  bool refused_ = false;
};

}  // namespace leat::stream
