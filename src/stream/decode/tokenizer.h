// Divides text into tokens and gives each an id, for fields of type text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "stream/schema.h"

namespace leat::stream {

// The bytes of the first character of a text in UTF-8, at least 1.
size_t CharacterSize(std::string_view text);

// Ids begin at 1; 0 is padding. Thread-safe.
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
  struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  // Calls take(id) for each token, in order.
  template <class Take>
  void ForEach(std::string_view text, const Take& take) const;
  template <class Take>
  void ForEachWord(std::string_view text, const Take& take) const;
  uint32_t Place(std::string_view token) const;

  Field::Tokens tokens_;
  uint32_t buckets_;
  std::unordered_map<std::string, uint32_t, TextHash, std::equal_to<>> places_;
};

}  // namespace leat::stream
