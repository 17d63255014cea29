#include "stream/decode/text_index.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace leat::stream {
namespace {

void ExpectFindsAsALoop(const std::vector<std::string>& texts, const std::vector<std::string>& asked) {
  const TextIndex index(texts);
  for (const auto* some : {&texts, &asked}) {
    for (const std::string& text : *some) {
      const auto at = std::ranges::find(texts, text);
      EXPECT_EQ(index.Find(text), at == texts.end() ? -1 : at - texts.begin()) << "'" << text << "'";
    }
  }
}

TEST(TextIndex, FindsWhatALoopFinds) {
  ExpectFindsAsALoop({}, {"", "a"});
  ExpectFindsAsALoop({""}, {"a"});
  ExpectFindsAsALoop({"grocery", "restaurant", "fuel", ""}, {"groceries", "fuem", "f", "restaurant "});
  ExpectFindsAsALoop({"twice", "once", "twice"}, {"never"});
  // Told apart by none of the characters that are looked at.
  ExpectFindsAsALoop({"abcdefg", "aXcdefg", "abcdeXg"}, {"abXdefg", "abcdefg "});
}

TEST(TextIndex, FindsRandomTexts) {
  Rng rng(1);
  for (const size_t count : {1, 2, 10, 100, 256, 257, 1000}) {
    for (const uint64_t letters : {2, 26}) {
      const auto text = [&] {
        std::string made(rng.Below(12), ' ');
        for (char& c : made) c = static_cast<char>('a' + rng.Below(letters));
        return made;
      };
      std::vector<std::string> texts(count), asked(200);
      std::ranges::generate(texts, text);
      std::ranges::generate(asked, text);
      ExpectFindsAsALoop(texts, asked);
    }
  }
}

}  // namespace
}  // namespace leat::stream
