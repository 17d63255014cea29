// Runs a fuzz target without a fuzzer, on every seed and on damaged copies, which are the same in every run.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "base/rng.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Input = std::vector<uint8_t>;

// Copies the input to memory of its exact size, so that ASan detects reads past the end.
void Replay(const Input& input) {
  const Input exact(input);
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

Input Damaged(const Input& seed, const Input& other, leat::Rng& rng) {
  Input out = seed;
  for (uint64_t i = 0, edits = 1 + rng.Below(4); i < edits; ++i) {
    const size_t at = rng.Below(out.size() + 1);
    const auto place = out.begin() + static_cast<std::ptrdiff_t>(at);
    const size_t length = rng.Below(std::min<size_t>(out.size() - at, 16) + 1);
    switch (rng.Below(5)) {
      case 0:
        out.resize(at);
        break;
      case 1:
        out.erase(place, place + static_cast<std::ptrdiff_t>(length));
        break;
      case 2:
        out.insert(place, static_cast<uint8_t>(rng()));
        break;
      case 3:
        if (at < out.size()) *place ^= static_cast<uint8_t>(1u << rng.Below(8));
        break;
      default:  // a piece of another seed
        if (!other.empty()) {
          const size_t from = rng.Below(other.size()),
                       count = rng.Below(std::min<size_t>(other.size() - from, 32) + 1);
          out.insert(place, other.begin() + static_cast<std::ptrdiff_t>(from),
                     other.begin() + static_cast<std::ptrdiff_t>(from + count));
        }
    }
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s SEED_DIRECTORY\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Input> seeds;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  if (seeds.empty()) {
    std::fprintf(stderr, "%s holds no seeds\n", argv[1]);
    return 1;
  }
  constexpr uint64_t kCopies = 2000;
  leat::Rng rng(1);
  for (const Input& seed : seeds) Replay(seed);
  for (uint64_t i = 0; i < kCopies; ++i)
    Replay(Damaged(seeds[i % seeds.size()], seeds[rng.Below(seeds.size())], rng));
  std::printf("%zu seeds and %llu damaged copies\n", seeds.size(), static_cast<unsigned long long>(kCopies));
}
