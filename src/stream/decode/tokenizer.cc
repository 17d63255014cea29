#include "stream/decode/tokenizer.h"

#include <algorithm>
#include <string>

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

}  // namespace leat::stream
