#include "stream/attributes/row_filter.h"

#include <algorithm>
#include <string>
#include <utility>

namespace leat::stream {

Row RowShape::At(DecodedRows* rows, size_t row) const {
  return {rows->features.data() + row * features, rows->labels.data() + row * labels,
          truth ? &rows->truth[row] : nullptr};
}

void RowFilter::Keep(size_t row) {
  const size_t place = kept_++;
  if (row == place) return;
  const Row from = (*this)[row], to = (*this)[place];
  std::copy_n(from.features, shape_.features, to.features);
  std::copy_n(from.labels, shape_.labels, to.labels);
  if (shape_.truth) *to.truth = *from.truth;
  out_.index[place] = out_.index[row];
}

void RowFilter::Refuse(const RecordBatch& batch, size_t row, Misfit why) {
  refused_ = true;
  const uint32_t record = out_.index[row];
  out_.dead.push_back({batch.first_offset + record, std::move(why.reason),
                       std::string(AsText(batch[record]).substr(0, Decoder::kKeptBytes)),
                       std::move(why.field), std::move(why.text)});
}

RowFilter::~RowFilter() {
  if (kept_ < out_.rows) {
    out_.rows = kept_;
    out_.features.resize(kept_ * shape_.features);
    out_.labels.resize(kept_ * shape_.labels);
    out_.index.resize(kept_);
    if (shape_.truth) out_.truth.resize(kept_);
  }
  if (refused_) {
    std::ranges::sort(out_.dead.begin() + static_cast<std::ptrdiff_t>(dead_), out_.dead.end(), {},
                      &DecodedRows::DeadLetter::offset);
  }
}

}  // namespace leat::stream
