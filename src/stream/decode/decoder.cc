#include "stream/decode/decoder.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include "base/config/config.h"
#include "base/text.h"
#include "stream/csv/csv.h"
#include "stream/decode/row_writer.h"
#include "stream/decode/text.h"

namespace leat::stream {
namespace {

// Records of text: one field takes the whole record.
class TextDecoder final : public Decoder {
 public:
  explicit TextDecoder(const Schema& schema) : schema_(schema), field_(schema.fields.at(0), 0, 0) {}

  void Decode(const RecordBatch& batch, DecodedRows* out) override {
    RowSink(schema_, batch, out).TakeAll([this](ByteView record, const Row& row) {
      return WriteRow(record, row);
    });
  }

 private:
  Misfit WriteRow(ByteView record, const Row& row) const {
    const size_t whole = field_.length() + 1;
    if (record.size() != whole) return StrCat("has ", record.size(), " characters instead of ", whole);
    const auto* const characters = reinterpret_cast<const uint8_t*>(record.data());
    const size_t written = field_.WriteCharacters(characters, row);
    if (written == whole) return {};
    return field_.name() + ": " + Quoted(AsText(record).substr(written, 1)) +
           Formatted(" (0x%02x), character %zu of the record, is not in the alphabet", characters[written],
                     written);
  }

  const Schema schema_;
  const FieldWriter field_;
};

// Keeps some rows of another decoder, and moves them together. Made before that decoder appends to `out`;
// then each new row is kept, refused, or neither, in order.
class RowFilter {
 public:
  RowFilter(const RowShape& shape, DecodedRows* out)
      : shape_(shape), out_(*out), first_(out->rows), kept_(out->rows), dead_(out->dead.size()) {}
  RowFilter(const RowFilter&) = delete;
  RowFilter& operator=(const RowFilter&) = delete;
  // Trims the columns to the rows that are kept.
  ~RowFilter() {
    if (kept_ < out_.rows) {
      out_.rows = kept_;
      shape_.Resize(&out_, kept_);
    }
    if (!refused_) return;
    std::ranges::sort(out_.dead.begin() + static_cast<std::ptrdiff_t>(dead_), out_.dead.end(), {},
                      &DecodedRows::DeadLetter::offset);
  }

  size_t first() const { return first_; }  // index of the first new row
  Row operator[](size_t row) { return shape_.At(&out_, row); }
  void Keep(size_t row) {
    const size_t place = kept_++;
    if (row == place) return;
    const Row from = (*this)[row], to = (*this)[place];
    std::copy_n(from.features, shape_.features, to.features);
    std::copy_n(from.labels, shape_.labels, to.labels);
    if (shape_.truth) *to.truth = *from.truth;
    out_.index[place] = out_.index[row];
  }
  // The row's record, which is one of the batch, becomes a dead letter.
  void Refuse(const RecordBatch& batch, size_t row, Misfit why) {
    refused_ = true;
    AddDeadLetter(batch, out_.index[row], std::move(why), &out_);
  }

 private:
  const RowShape& shape_;
  DecodedRows& out_;
  const size_t first_;
  size_t kept_;  // the next row's place
  const size_t dead_;
  bool refused_ = false;
};

std::string DescribeAttribute(const Attribute& attribute) {
  const std::string kind(fields::NameOf(attribute.kind));
  return attribute.kind == Attribute::Kind::kHeader ? kind + " " + Quoted(attribute.header) : kind;
}

// Adds the fields that come from a record's key, timestamp or headers (Field::from) to the rows of `bytes`,
// which decodes all others. Batches must have schema.attributes() as `wanted`, maybe with others after them.
//
class AttributeDecoder final : public Decoder {
 public:
  AttributeDecoder(const Schema& schema, std::unique_ptr<Decoder> bytes)
      : bytes_(std::move(bytes)), shape_(schema) {
    const auto attributes = schema.attributes();
    uint32_t first = 0, label = 0;
    for (const Field& field : schema.fields) {
      if (field.from && field.role != Role::kIgnore && field.from->kind != Attribute::Kind::kLabel) {
        const auto at = std::ranges::find(attributes, *field.from) - attributes.begin();
        fields_.push_back({std::make_unique<FieldWriter>(field, first, label), static_cast<size_t>(at),
                           field.from->kind == Attribute::Kind::kTimestamp,
                           "the record has no " + DescribeAttribute(*field.from)});
      }
      first += field.features();
      label += field.labels();
    }
  }

  void Decode(const RecordBatch& batch, DecodedRows* out) override {
    RowFilter rows(shape_, out);
    bytes_->Decode(batch, out);
    for (size_t at = rows.first(); at < out->rows; ++at) {
      Misfit why = Write(batch, out->index[at], rows[at]);
      if (why.empty()) {
        rows.Keep(at);
      } else {
        rows.Refuse(batch, at, std::move(why));
      }
    }
  }

 private:
  struct Part {
    std::unique_ptr<const FieldWriter> field;
    size_t attribute;  // in `wanted`
    bool time;
    std::string missing;  // why there is no value
  };

  Misfit Write(const RecordBatch& batch, size_t record, const Row& row) {
    for (const Part& part : fields_) {
      const auto value = batch.Value(part.attribute, record);
      Misfit why = value ? WriteValue(part, *value, row) : part.field->TakeDefault(part.missing, row);
      if (!why.empty()) return why;
    }
    return {};
  }

  Misfit WriteValue(const Part& part, ByteView value, const Row& row) {
    const FieldWriter& field = *part.field;
    if (part.time) {
      const auto ms = TimeOf(value);
      return ms ? field.TakeNumber(static_cast<double>(*ms) / 1000, row) : field.name() + ": is no timestamp";
    }
    const std::string_view text = AsText(value);
    // Only what is compared with values has to be text; keys that are hashed may be any bytes.
    if (field.has_values() && !ValidUtf8(text)) return field.name() + ": is not UTF-8";
    if (!field.takes_number()) return field.TakeText(text, row);
    scratch_.assign(text);
    scratch_.append(kCsvReadAhead, '\0');
    double number = 0;
    const bool good = CsvNumber(std::string_view(scratch_).substr(0, text.size()), &number);
    return good ? field.TakeNumber(number, row) : field.Reason(text);
  }

  const std::unique_ptr<Decoder> bytes_;
  std::vector<Part> fields_;
  const RowShape shape_;
  std::string scratch_;
};

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

// Adds labels that come later, in records of their own that were joined with the events (join/join_source.h),
// to the rows of `events`, which decodes all others. Batches are as for DecodeAttributes. An event whose
// label does not match is a dead letter, with a reason that begins "label at offset 17: ". An event without a
// label is counted as unjoined. Throws as Schema::LateLabels.
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
        Misfit why(StrCat("label at offset ", joined->offset, ": ", letter.reason));
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

std::unique_ptr<Decoder> MakeDecoderOfBytes(const Schema& schema) {
  switch (schema.format) {
    case Schema::Format::kJson:
      return MakeJsonDecoder(schema);
    case Schema::Format::kCsv:
      return MakeCsvDecoder(schema);
    case Schema::Format::kAvro:
      return MakeAvroDecoder(schema);
    case Schema::Format::kProtobuf:
      return MakeProtobufDecoder(schema);
    case Schema::Format::kIdx:
    case Schema::Format::kTensor:
      return MakeTensorDecoder(schema);
    case Schema::Format::kText:
      return std::make_unique<TextDecoder>(schema);
  }
  throw std::invalid_argument("unknown format");
}

constexpr size_t kLongestMissing = 10;
// A field is taken for a category if at most one record fits for every ten that do not.
constexpr uint64_t kFewFit = 10;

bool IsAmong(std::span<const std::string_view> words, std::string_view text) {
  text = TrimBlanks(text);
  return text.size() <= kLongestMissing && std::ranges::find(words, Lower(text)) != words.end();
}

}  // namespace

std::unique_ptr<Decoder> MakeDecoder(const Schema& schema) {
  auto decoder = MakeDecoderOfBytes(schema);
  const auto beside = [](const Field& field) { return field.from && !field.is_late(); };
  if (std::ranges::any_of(schema.fields, beside))
    decoder = std::make_unique<AttributeDecoder>(schema, std::move(decoder));
  if (!schema.has_late_labels()) return decoder;
  return std::make_unique<LateLabelDecoder>(schema, std::move(decoder));
}

void DecodedRows::clear() {
  rows = 0;
  features.clear();
  labels.clear();
  truth.clear();
  index.clear();
  dead.clear();
  unjoined = 0;
}

bool IsMissing(std::string_view text) {
  static constexpr std::string_view kWords[] = {
      "",    "-",    "--",   "?",      ".",      "n/a", "#n/a",   "#n/a n/a", "n.a.",    "<na>",    "#na",
      "nan", "-nan", "null", "<null>", "(null)", "\\n", "1.#ind", "-1.#ind",  "1.#qnan", "-1.#qnan"};
  // In lower case, na can be a code among others.
  return IsAmong(kWords, text) || TrimBlanks(text) == "NA";
}

bool IsMissingNumber(std::string_view text) {
  static constexpr std::string_view kWords[] = {"na",        "none",    "nil",     "missing", "unknown",
                                                "undefined", "#value!", "#div/0!", "#ref!",   "#num!",
                                                "#name?",    "nat",     "*",       "**",      "***"};
  const std::string_view bare = TrimBlanks(text);
  // SAS has a missing value for each letter.
  const bool dotted = bare.size() == 2 && bare[0] == '.' &&
                      (std::isalpha(static_cast<unsigned char>(bare[1])) != 0 || bare[1] == '_');
  return dotted || IsMissing(text) || IsAmong(kWords, text);
}

bool InThousands(std::string_view text, std::string_view separator) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.starts_with('0')) return false;
  size_t groups = 0;
  for (;; ++groups) {
    const size_t end = text.find(separator);
    const std::string_view group = text.substr(0, end);
    const bool digits = std::ranges::all_of(group, [](unsigned char c) { return std::isdigit(c) != 0; });
    if (!digits || group.empty() || group.size() > 3 || (groups > 0 && group.size() != 3)) return false;
    if (end == text.npos) return groups > 0;
    text.remove_prefix(end + separator.size());
  }
}

std::string YamlText(std::string_view text) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-' || c == '+';
  };
  const bool begins = !text.empty() && text[0] != '-' && text[0] != '.';
  if (begins && std::ranges::all_of(text, plain) && !IsMissing(text)) return std::string(text);
  return DoubleQuoted(text);
}

void TextHint::See(const DecodedRows::DeadLetter& letter) {
  // The field's own name comes from a header that was read as a record.
  if (letter.field.empty() || letter.text == letter.field || IsMissing(letter.text)) return;
  if (!fields_.contains(letter.field) && fields_.size() == kMaxFields) return;
  Texts& texts = fields_[letter.field];
  ++texts.count;
  if (texts.values.contains(letter.text)) {
    ++texts.repeats;
    return;
  }
  if (texts.values.size() < kMaxValues) {
    texts.values.insert(letter.text);
  } else {
    texts.more = true;
  }
}

std::string TextHint::Describe() const {
  const auto most =
      std::ranges::max_element(fields_, {}, [](const auto& field) { return field.second.count; });
  if (most == fields_.end()) return "";
  const auto has_comma = [](const std::string& text) {
    double number;
    return text.find(',') != text.npos && CsvNumber(text, ',', &number);
  };
  const auto thousands = [](const std::string& text) { return InThousands(text, ","); };
  if (csv_ && std::ranges::all_of(most->second.values, thousands)) return "";
  if (csv_ && std::ranges::all_of(most->second.values, has_comma))
    return "; `decimal: \",\"`, a setting of the schema, would read " + Quoted(most->first);
  if (fitting_ * kFewFit > most->second.count) return "";
  // Texts that hardly repeat are not categories.
  if (most->second.more && most->second.repeats * 20 < most->second.count) return "";
  return "; `type: category, values: [" + Joined(most->second.values, ", ", YamlText) +
         (most->second.more ? ", ..." : "") + "]` would read " + Quoted(most->first);
}

}  // namespace leat::stream
