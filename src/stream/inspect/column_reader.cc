#include "stream/inspect/column_reader.h"

#include <algorithm>

#include "base/rng.h"
#include "base/text.h"
#include "stream/csv/split.h"
#include "stream/decode/canonical.h"
#include "stream/decode/number.h"
#include "stream/decode/text_hint.h"
#include "stream/decode/utf8.h"

namespace leat::stream {
namespace {

constexpr size_t kBytesOfAnEntry = 96;  // memory of a text's map entry
// A column has its first number of another spelling among so many values, or none.
constexpr uint64_t kSpelledWithin = 10'000;
// A longer text is not a category.
constexpr size_t kMaxText = 256;

// Digits with zeros before them.
bool IsCode(std::string_view text) {
  text = TrimBlanks(text);
  return text.size() > 1 && text[0] == '0' && std::ranges::all_of(text, IsDigit);
}

}  // namespace

void ColumnReader::Add(std::string_view text, const double* number, char decimal) {
  ++column_.values;
  Distinguish(text);
  if (number == nullptr) {
    // A column of texts is not looked at for ever.
    if (!column_.spelled.empty() || column_.values < kSpelledWithin)
      AddSpelling(SpellingOf(text, decimal), text);
    if (IsMissingNumber(text)) {
      ++word_count_;
      words_.emplace(text);
    } else if (column_.text.empty()) {
      column_.text = CutUtf8(text, kMaxText);
    }
    return;
  }
  column_.codes = column_.codes || IsCode(text);
  const double x = *number;
  column_.min = column_.numbers == 0 ? x : std::min(column_.min, x);
  column_.max = column_.numbers == 0 ? x : std::max(column_.max, x);
  column_.whole = column_.whole && x == std::floor(x);
  if (column_.numbers == 1) step_ = x - last_;
  if (column_.numbers > 0 && (x - last_ != step_ || step_ <= 0)) column_.rising = false;
  last_ = x;
  ++column_.numbers;
  plain_.Add(x);
  if (x > -1) logs_.Add(std::log1p(x));
}

void ColumnReader::AddText(std::string_view text) {
  Add(text, nullptr);
  if (!IsCode(text) && IsCsvNumber(text)) AddSpelling(&kInQuotes, text);
}

void ColumnReader::AddSign(std::string_view text) {
  is_csv() ? AddAbsent() : AddMissing();
  ++signs_[std::string(text)];
}

void ColumnReader::TakeSigns() {
  for (const auto& [text, count] : std::exchange(signs_, {})) {
    column_.missing -= count;
    if (is_csv()) column_.absent -= count;
    for (uint64_t i = 0; i < count; ++i) Add(text, nullptr);
  }
}

void ColumnReader::TakeWords() {
  column_.values -= word_count_;
  AddAbsent(word_count_);
  for (const std::string& word : words_) {
    hashes_.erase(Mix(HashName(word)));
    column_.texts.erase(word);
  }
  word_count_ = 0;
}

Column ColumnReader::Finish(char decimal) {
  if (column_.texts.size() == hashes_.size()) MergeSpellings(decimal);
  column_.distinct = column_.texts.empty() ? hashes_.size() : column_.texts.size();
  if (column_.text.empty() && word_count_ > 0) column_.text = *words_.begin();
  column_.mean = plain_.mean();
  column_.std = plain_.std();
  column_.log_mean = logs_.mean();
  column_.log_std = logs_.std();
  return std::move(column_);
}

void ColumnReader::MergeSpellings(char decimal) {
  std::map<std::string, std::map<std::string, uint64_t>> spellings;  // spellings of each value
  for (const auto& [text, count] : column_.texts) {
    CanonicalBuffer buffer;
    spellings[std::string(CanonicalSpelling(text, decimal, &buffer).value_or(text))].emplace(text, count);
  }
  column_.texts.clear();
  for (const auto& [value, counts] : spellings) {
    uint64_t all = 0;
    for (const auto& [text, count] : counts) all += count;
    const auto most = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
    column_.texts.emplace(most->first, all);
  }
}

void ColumnReader::AddSpelling(const Spelling* spelling, std::string_view text) {
  if (spelling == nullptr) return;
  Column::Spelled& spelled = column_.spelled[spelling];
  if (spelled.count++ == 0) spelled.first = text;
}

void ColumnReader::Distinguish(std::string_view text) {
  const uint64_t hash = Mix(HashName(text));
  if (hashes_.contains(hash)) {
    if (const auto at = column_.texts.find(text); at != column_.texts.end()) ++at->second;
    return;
  }
  if (hashes_.size() == Column::kMaxDistinct || budget_->distinct == 0) {
    column_.all_distinct_known = false;
    return;
  }
  --budget_->distinct;
  hashes_.insert(hash);
  // Once one does not fit, the list is useless.
  if (column_.texts.size() + 1 < hashes_.size()) return;
  const size_t bytes = text.size() + kBytesOfAnEntry;
  if (hashes_.size() <= Column::kMaxTexts && text.size() <= kMaxText && budget_->text_bytes >= bytes) {
    budget_->text_bytes -= bytes;
    text_bytes_ += bytes;
    column_.texts.emplace(text, 1);
    return;
  }
  column_.texts.clear();
  budget_->text_bytes += std::exchange(text_bytes_, 0);
}

}  // namespace leat::stream
