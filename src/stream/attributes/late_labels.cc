#include "stream/decode/formats.h"

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "stream/attributes/row_filter.h"

namespace leat::stream {
namespace {

// The value of the attribute kLabel.
struct JoinedLabel {
  uint64_t offset = 0;
  ByteView record;

  // Nothing if it has no offset.
  static std::optional<JoinedLabel> Of(ByteView value) {
    JoinedLabel label;
    if (value.size() < sizeof(label.offset)) return std::nullopt;
    std::memcpy(&label.offset, value.data(), sizeof(label.offset));
    label.record = value.subspan(sizeof(label.offset));
    return label;
  }
};

class LateLabelDecoder final : public Decoder {
 public:
  LateLabelDecoder(const Schema& schema, std::unique_ptr<Decoder> events)
      : events_(std::move(events)),
        labels_(MakeDecoder(schema.LateLabels())),
        negative_(schema.label_records->negative),
        shape_(schema),
        attribute_(IndexOf(schema.attributes(), Attribute::Kind::kLabel)) {
    uint32_t label = 0;
    for (const Field& field : schema.fields) {
      if (field.is_late()) places_.push_back(label);
      label += field.labels();
    }
  }

  void Decode(const RecordBatch& batch, DecodedRows* out) override {
    RowFilter rows(shape_, out);
    events_->Decode(batch, out);
    DecodeRecords(batch, rows.first(), *out);
    size_t label = 0, good = 0, dead = 0;  // the next ones
    for (size_t at = rows.first(); at < out->rows; ++at) {
      const auto value = batch.Value(attribute_, out->index[at]);
      if (!value) {
        ++out->unjoined;
        if (negative_) rows.Keep(at);  // the labels of a new row are 0
        continue;
      }
      const auto joined = JoinedLabel::Of(*value);
      if (!joined) {
        rows.Refuse(batch, at, "a label without its offset");
        continue;
      }
      if (good < found_.rows && found_.index[good] == label) {
        for (size_t i = 0; i < places_.size(); ++i)
          rows[at].labels[places_[i]] = found_.labels[good * places_.size() + i];
        rows.Keep(at);
        ++good;
      } else {
        DecodedRows::DeadLetter& letter = found_.dead.at(dead++);
        Misfit why("label at offset " + std::to_string(joined->offset) + ": " + letter.reason);
        why.field = std::move(letter.field);
        why.text = std::move(letter.text);
        rows.Refuse(batch, at, std::move(why));
      }
      ++label;
    }
  }

 private:
  // The labels that were joined with the rows from `first` on, in order.
  void DecodeRecords(const RecordBatch& batch, size_t first, const DecodedRows& rows) {
    records_.Restart(batch.partition, 0);
    for (size_t at = first; at < rows.rows; ++at) {
      const auto value = batch.Value(attribute_, rows.index[at]);
      const auto joined = value ? JoinedLabel::Of(*value) : std::nullopt;
      if (!joined) continue;
      records_.data.insert(records_.data.end(), joined->record.begin(), joined->record.end());
      records_.offsets.push_back(records_.data.size());
    }
    records_.data.resize(records_.data.size() + RecordBatch::kPadding);
    found_.clear();
    labels_->Decode(records_, &found_);
  }

  const std::unique_ptr<Decoder> events_, labels_;
  const bool negative_;
  const RowShape shape_;
  const size_t attribute_;        // index in `wanted`
  std::vector<uint32_t> places_;  // positions of the labels in a row
  RecordBatch records_;
  DecodedRows found_;
};

}  // namespace

std::unique_ptr<Decoder> DecodeLateLabels(const Schema& schema, std::unique_ptr<Decoder> events) {
  return std::make_unique<LateLabelDecoder>(schema, std::move(events));
}

}  // namespace leat::stream
