// Statistics of one column, value by value.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "stream/inspect/inspect.h"

namespace leat::stream {

// Not thread-safe.
class ColumnReader {
 public:
  // The memory shared by all columns: distinct values counted, bytes of texts kept.
  struct Budget {
    size_t distinct = size_t{2} << 20;
    size_t text_bytes = size_t{64} << 20;
  };

  // `budget` must outlive it.
  ColumnReader(std::string name, Budget* budget) : budget_(budget) { column_.name = std::move(name); }
  // A column of JSON.
  ColumnReader(const std::vector<std::string>& path, Budget* budget)
      : ColumnReader(path.size() == 1 ? path[0] : PathText(path), budget) {
    column_.path = path;
  }

  // `number`: the value, if the text is a number; otherwise it has another decimal point than `decimal`.
  void Add(std::string_view text, const double* number, char decimal = '.');
  // A text of JSON.
  void AddText(std::string_view text);
  void AddMissing(uint64_t count = 1) { column_.missing += count; }
  void AddAbsent(uint64_t count = 1) {
    column_.absent += count;
    column_.missing += count;
  }
  // A missing value, unless TakeSigns makes it one of the values.
  void AddSign(std::string_view text);
  void AddInfinite() { ++column_.infinite; }
  void AddNested() {
    ++column_.values;
    ++column_.nested;
  }
  std::string_view name() const { return column_.name; }
  uint64_t seen() const { return column_.values + column_.missing + column_.infinite; }

  // The texts would be one and the same without the signs, as of + and -.
  bool NeedsSigns() const { return column_.numbers == 0 && hashes_.size() == 1 && !signs_.empty(); }
  const std::map<std::string, uint64_t>& signs() const { return signs_; }
  void TakeSigns();

  // Among numbers, words such as none stand for missing values.
  bool HasWords() const {
    const uint64_t odd = column_.values - column_.numbers - word_count_;
    return word_count_ > 0 && column_.numbers > 0 && odd * 20 <= column_.values;
  }
  const std::set<std::string, std::less<>>& words() const { return words_; }
  bool HasText(const std::string& text) const { return column_.texts.contains(text); }
  // The words are missing values from now on.
  void TakeWords();

  // `decimal`: the decimal point of numbers, besides the dot.
  Column Finish(char decimal);

 private:
  // Mean and standard deviation of a stream of numbers (Welford 1962).
  class Moments {
   public:
    void Add(double x) {
      ++count_;
      const double off = x - mean_;
      mean_ += off / static_cast<double>(count_);
      squares_ += off * (x - mean_);
    }
    double mean() const { return mean_; }
    double std() const { return count_ > 0 ? std::sqrt(squares_ / static_cast<double>(count_)) : 0; }

   private:
    uint64_t count_ = 0;
    double mean_ = 0, squares_ = 0;
  };

  bool is_csv() const { return column_.path.empty(); }
  // Makes spellings of one number or boolean one value, as categories compare them.
  void MergeSpellings(char decimal);
  void AddSpelling(const Spelling* spelling, std::string_view text);
  void Distinguish(std::string_view text);

  Budget* budget_;
  Column column_;
  std::unordered_set<uint64_t> hashes_;
  size_t text_bytes_ = 0;
  Moments plain_, logs_;
  double last_ = 0, step_ = 0;
  uint64_t word_count_ = 0;  // texts for which IsMissingNumber holds
  std::set<std::string, std::less<>> words_;
  std::map<std::string, uint64_t> signs_;  // how often each of them occurs
};

}  // namespace leat::stream
