#include "stream/decode/row_writer.h"

#include <algorithm>
#include <numbers>
#include <utility>

#include "base/multiversion.h"
#include "base/rng.h"

namespace leat::stream {
namespace {

// The ids 0 and 1 are padding and unknown tokens.
constexpr uint32_t kFirstKnown = 2;

// The byte of a word with a small letter, or 0 if it belongs to none.
char ByteOfWord(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  const bool part =
      (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
  return part ? c : '\0';
}

constexpr float kMaxFloat = std::numeric_limits<float>::max();
// Bytes that a message shows of a text found instead of a number.
constexpr size_t kKeptText = 64;
// With more values a table without collisions is rarely found.
constexpr size_t kListedInReason = 64;

LEAT_MULTIVERSION void ScaleBytes(const uint8_t* bytes, size_t size, float scale, float shift, float* out) {
  for (size_t i = 0; i < size; ++i) out[i] = static_cast<float>(bytes[i]) * scale + shift;
}

bool IsWholeBelow(double x, uint32_t limit) {
  return x >= 0 && x < limit && x == static_cast<double>(static_cast<int64_t>(x));
}

}  // namespace

size_t CharacterSize(std::string_view text) {
  size_t size = 1;
  while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) ++size;
  return size;
}

Tokenizer::Tokenizer(const Field& field) : tokens_(field.tokens), buckets_(field.buckets) {
  for (size_t i = 0; i < field.values.size(); ++i)
    places_.emplace(field.values[i], static_cast<uint32_t>(i) + kFirstKnown);
}

uint32_t Tokenizer::Place(std::string_view token) const {
  const auto it = places_.find(token);
  return it == places_.end() ? 1 : it->second;
}

template <class Take>
void Tokenizer::ForEachWord(std::string_view text, const Take& take) const {
  std::string word;
  for (size_t at = 0; at <= text.size(); ++at) {
    if (const char c = at < text.size() ? ByteOfWord(text[at]) : '\0') {
      word += c;
    } else if (!word.empty()) {
      take(buckets_ > 0 ? 1 + static_cast<uint32_t>(Mix(HashName(word)) % (buckets_ - 1)) : Place(word));
      word.clear();
    }
  }
}

template <class Take>
void Tokenizer::ForEach(std::string_view text, const Take& take) const {
  switch (tokens_) {
    case Field::Tokens::kBytes:
      for (const char c : text) take(static_cast<unsigned char>(c) + 1u);
      return;
    case Field::Tokens::kCharacters:
      while (!text.empty()) {
        const size_t size = CharacterSize(text);
        take(Place(text.substr(0, size)));
        text.remove_prefix(size);
      }
      return;
    case Field::Tokens::kWords:
      return ForEachWord(text, take);
  }
}

size_t Tokenizer::WriteIds(std::string_view text, size_t length, float* out) const {
  size_t count = 0;
  ForEach(text, [&](uint32_t id) {
    if (count < length) out[count] = static_cast<float>(id);
    ++count;
  });
  if (count < length) std::fill(out + count, out + length, 0.0f);
  return count;
}

void Tokenizer::CountIds(std::string_view text, float* out) const {
  ForEach(text, [out](uint32_t id) { ++out[id - 1]; });
}

FieldWriter::FieldWriter(const Field& field, uint32_t first, uint32_t label, char decimal)
    : first_(first),
      label_(label),
      length_(field.width),
      pad_(field.pad),
      log_(field.log),
      truncate_(field.truncate),
      decimal_(decimal),
      name_(field.path_text()) {
  scale_ = 1 / field.std;
  shift_ = -field.mean / field.std;
  count_ = field.classes;
  if (field.type == Field::Type::kBytes) {
    kind_ = Kind::kBytes;
  } else if (field.type == Field::Type::kId) {
    kind_ = field.list ? Kind::kIds : Kind::kId;
    count_ = field.below;
  } else if (field.type == Field::Type::kCharacters) {
    kind_ = Kind::kCharacters;
    place_of_byte_.assign(256, -1);
    for (size_t i = 0; i < field.values.size(); ++i)
      place_of_byte_[static_cast<unsigned char>(field.values[i][0])] = static_cast<int32_t>(i);
  } else if (field.type == Field::Type::kText) {
    kind_ = field.list ? Kind::kTokens : Kind::kTokenCounts;
    tokenizer_ = std::make_unique<Tokenizer>(field);
    using T = Field::Tokens;
    items_ = field.tokens == T::kWords ? "words" : field.tokens == T::kBytes ? "bytes" : "characters";
  } else if (field.type == Field::Type::kCategory) {
    kind_ = field.role == Role::kLabel ? Kind::kLabelText
            : field.values.empty()     ? Kind::kHashed
                                       : Kind::kOneHot;
    count_ = field.buckets;
    values_ = field.values;
    MakeSlots();
  } else if (field.role == Role::kLabel) {
    kind_ = field.classes > 0 ? Kind::kClass : Kind::kLabel;
  } else if (field.role == Role::kTruth) {
    kind_ = Kind::kTruth;
  } else if (field.period > 0) {
    kind_ = Kind::kPeriod;
    scale_ = 1 / field.period;
  } else if (field.list) {
    kind_ = Kind::kNumbers;
  } else {
    kind_ = field.log ? Kind::kLog : Kind::kNumber;
  }
  log_scale_ = LogScale(scale_, shift_);
  if (field.fallback) PrepareDefault(field);
}

// Writes the value once, as if a record had it.
void FieldWriter::PrepareDefault(const Field& field) {
  has_default_ = true;
  default_features_.resize(field.features());
  default_labels_.resize(field.labels());
  const Row row{default_features_.data(), default_labels_.data(), &default_truth_};
  const uint32_t first = std::exchange(first_, 0), label = std::exchange(label_, 0);
  if (const auto* text = std::get_if<std::string>(&*field.fallback)) {
    if (!WriteText(*text, row)) default_misfit_ = Reason(*text).reason;
  } else if (const auto* items = std::get_if<std::vector<double>>(&*field.fallback)) {
    for (size_t i = 0; i < std::min<size_t>(items->size(), length_); ++i) {
      if (!WriteItem(i, (*items)[i], row)) default_misfit_ = Reason((*items)[i]);
    }
    if (!EndList(items->size(), row)) default_misfit_ = ReasonOfLength(items->size());
  } else if (const double number = std::get<double>(*field.fallback); !WriteNumber(number, row)) {
    default_misfit_ = Reason(number);
  }
  first_ = first;
  label_ = label;
}

void FieldWriter::WriteDefault(const Row& row) const {
  std::ranges::copy(default_features_, row.features + first_);
  std::ranges::copy(default_labels_, row.labels + label_);
  if (kind_ == Kind::kTruth) *row.truth = default_truth_;
}

Misfit FieldWriter::TakeDefault(std::string_view why, const Row& row) const {
  if (!has_default_) return name_ + ": " + std::string(why);
  WriteDefault(row);
  return {};
}

bool FieldWriter::WriteOtherNumber(double x, const Row& row) const {
  switch (kind_) {
    case Kind::kPeriod: {
      const double turns = x * scale_;
      if (!(std::abs(turns) <= 1e9)) return false;  // beyond this, the position within a period is noise
      auto whole = static_cast<double>(static_cast<int64_t>(turns));
      if (whole > turns) whole -= 1;
      const auto angle = static_cast<float>((turns - whole) * 2 * std::numbers::pi);
      row.features[first_] = std::sin(angle);
      row.features[first_ + 1] = std::cos(angle);
      return true;
    }
    case Kind::kLabel:
    case Kind::kTruth: {
      const auto y = static_cast<float>(x);
      *(kind_ == Kind::kLabel ? row.labels + label_ : row.truth) = y;
      return std::abs(y) <= kMaxFloat;
    }
    case Kind::kClass:
      row.labels[label_] = static_cast<float>(x);
      return IsWholeBelow(x, count_);
    case Kind::kId:
      row.features[first_] = static_cast<float>(x);
      return IsWholeBelow(x, count_);
    default:
      return false;
  }
}

// Looks for a factor that sends the values to different slots.
void FieldWriter::MakeSlots() {
  CanonicalBuffer buffer;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (const auto spelling = CanonicalSpelling(values_[i], decimal_, &buffer))
      places_.emplace(*spelling, static_cast<int32_t>(i));
  }
  constexpr int kTries = 100;
  const int bits = std::bit_width(values_.size()) + 2;
  slot_shift_ = 64 - bits;
  factor_ = 0x9e3779b97f4a7c15;
  for (int i = 0; i < kTries && values_.size() <= kListedInReason; ++i, factor_ = Mix(factor_) | 1) {
    slots_.assign(size_t{1} << bits, {});
    const bool all = std::ranges::all_of(values_, [this, place = 0](const std::string& value) mutable {
      Slot& slot = slots_[SlotOf(TextStart::Of(value))];
      const bool free = slot.place < 0;
      slot = {TextStart::Of(value), place++};
      return free;
    });
    if (all) return;
  }
  slots_.clear();
  for (size_t i = 0; i < values_.size(); ++i) places_.emplace(values_[i], static_cast<int32_t>(i));
}

int32_t FieldWriter::FindPlace(std::string_view text) const {
  auto it = places_.find(text);
  CanonicalBuffer buffer;
  if (it == places_.end()) {
    if (const auto spelling = CanonicalSpelling(text, decimal_, &buffer)) it = places_.find(*spelling);
  }
  return it == places_.end() ? -1 : it->second;
}

int32_t FieldWriter::Hashed(std::string_view text) const {
  CanonicalBuffer buffer;
  if (!IsAsItIs(text)) text = CanonicalSpelling(text, decimal_, &buffer).value_or(text);
  return static_cast<int32_t>(Mix(HashName(text)) % count_);
}

bool FieldWriter::WriteTokens(std::string_view text, const Row& row) const {
  if (kind_ == Kind::kTokens)
    return tokenizer_->WriteIds(text, length_, row.features + first_) <= length_ || truncate_;
  tokenizer_->CountIds(text, row.features + first_);
  return true;
}

bool FieldWriter::WriteBytes(const uint8_t* bytes, const Row& row) const {
  if (kind_ != Kind::kBytes) return false;
  ScaleBytes(bytes, length_, static_cast<float>(scale_), static_cast<float>(shift_), row.features + first_);
  return true;
}

bool FieldWriter::WriteItem(size_t i, double x, const Row& row) const {
  if (i >= length_) return truncate_;
  if (kind_ == Kind::kNumbers) {
    const float y = log_ ? log_scale_(x) : static_cast<float>(x * scale_ + shift_);
    row.features[first_ + i] = y;
    return !(log_ && x < 0) && std::abs(y) <= kMaxFloat;
  }
  row.features[first_ + i] = static_cast<float>(x);
  return IsWholeBelow(x, count_);
}

bool FieldWriter::EndList(size_t items, const Row& row) const {
  if (items > length_) return truncate_;
  std::fill(row.features + first_ + items, row.features + first_ + length_, static_cast<float>(pad_));
  return true;
}

size_t FieldWriter::WriteCharacters(const uint8_t* characters, const Row& row) const {
  float* const features = row.features + first_;
  float* const labels = row.labels + label_;
  for (size_t i = 0; i <= length_; ++i) {
    const int32_t place = place_of_byte_[characters[i]];
    if (place < 0) return i;
    if (i < length_) features[i] = static_cast<float>(place);
    if (i > 0) labels[i - 1] = static_cast<float>(place);
  }
  return length_ + size_t{1};
}

std::string FieldWriter::Reason(double x) const {
  return std::isnan(x) ? name_ + ": is not a number" : ReasonOfNumber(x, Formatted("%.9g", x));
}

std::string FieldWriter::ReasonOfTooLarge(std::string_view number) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return ReasonOfNumber(number.starts_with('-') ? -kInfinity : kInfinity, Quoted(number));
}

std::string FieldWriter::ReasonOfNumber(double x, const std::string& spelling) const {
  const std::string text = name_ + ": " + spelling;
  if (log_ && x < 0) return text + " is below 0, which log does not take";
  if (kind_ == Kind::kClass || kind_ == Kind::kId || kind_ == Kind::kIds)
    return StrCat(text, " is not a whole number from 0 to ", count_ - 1);
  return text + " is too large";
}

Misfit FieldWriter::Reason(std::string_view text) const {
  if (kind_ == Kind::kLabelText) return name_ + ": " + Quoted(text) + std::string(kNotAmongValues);
  if (kind_ == Kind::kTokens) {
    std::vector<float> ids(length_);
    return ReasonOfLength(tokenizer_->WriteIds(text, length_, ids.data()));
  }
  if (takes_number() && IsTooLargeNumber(text, decimal_)) return ReasonOfTooLarge(text);
  Misfit why(name_ + ": " + Quoted(text) + (takes_list() ? " is not a list" : " is not a number"));
  if (kind_ > Kind::kClass) return why;
  why.field = name_;
  why.text = CutUtf8(text, kKeptText);
  return why;
}

std::string FieldWriter::ReasonOfLength(size_t items) const {
  return StrCat(name_, ": has ", items, " ", items_, ", more than ", length_);
}

std::vector<std::unique_ptr<const FieldWriter>> MakeWriters(const Schema& schema) {
  std::vector<std::unique_ptr<const FieldWriter>> writers;
  uint32_t first = 0, label = 0;
  for (const Field& field : schema.fields) {
    const bool read = field.role != Role::kIgnore && !field.from;
    writers.push_back(read ? std::make_unique<FieldWriter>(field, first, label, schema.decimal) : nullptr);
    first += field.features();
    label += field.labels();
  }
  return writers;
}

void RowShape::Resize(DecodedRows* rows, size_t count) const {
  rows->features.resize(count * features);
  rows->labels.resize(count * labels);
  rows->index.resize(count);
  if (truth) rows->truth.resize(count);
}

void AddDeadLetter(const RecordBatch& batch, size_t record, Misfit why, DecodedRows* out) {
  out->dead.push_back({batch.first_offset + record, std::move(why.reason),
                       std::string(AsText(batch[record]).substr(0, Decoder::kKeptBytes)),
                       std::move(why.field), std::move(why.text)});
}

RowSink::RowSink(const Schema& schema, const RecordBatch& batch, DecodedRows* out)
    : batch_(batch), out_(*out), shape_(schema), max_bytes_(schema.max_record_bytes) {
  shape_.Resize(&out_, out_.rows + batch.size());
}

const std::string* RowSink::LostReason(size_t record) const {
  for (const auto& lost : batch_.lost) {
    if (lost.begin <= record && record < lost.end) return &lost.reason;
  }
  return nullptr;
}

Misfit RowSink::TooLarge(size_t record) const {
  return StrCat("has ", batch_[record].size(), " bytes, more than max_record_bytes ", max_bytes_);
}

void RowSink::Restart() {
  std::fill_n(row().features, shape_.features, 0.0f);
  std::fill_n(row().labels, shape_.labels, 0.0f);
}

void RowSink::Refuse(size_t record, Misfit why) {
  Restart();
  if (batch_.IsAbsent(record)) return;
  if (const std::string* lost = LostReason(record)) why = Misfit(*lost);
  AddDeadLetter(batch_, record, std::move(why), &out_);
}

std::string ReasonOfFrame(ByteView record) {
  const std::string wanted = "; a record begins with a byte 0 and the 4 bytes of a schema's id";
  if (record.size() < kFrameBytes) return StrCat("has ", record.size(), " bytes", wanted);
  return Formatted("begins with the byte 0x%02x", static_cast<unsigned>(record[0])) + wanted;
}

}  // namespace leat::stream
