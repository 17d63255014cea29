#include "images.h"

#include <fstream>
#include <random>

namespace leat::bench {
namespace {

constexpr uint32_t kSide = 28;

void WriteBig32(std::ofstream& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.put(static_cast<char>(value >> shift));
}

}  // namespace

void WriteImages(const std::string& images, const std::string& labels, uint32_t count) {
  std::ofstream x(images, std::ios::binary), y(labels, std::ios::binary);
  for (const uint32_t word : {0x00000803u, count, kSide, kSide}) WriteBig32(x, word);
  for (const uint32_t word : {0x00000801u, count}) WriteBig32(y, word);
  std::minstd_rand random(1);
  for (uint32_t i = 0; i < count * kSide * kSide; ++i) x.put(static_cast<char>(random()));
  for (uint32_t i = 0; i < count; ++i) y.put(static_cast<char>(random() % 10));
}

std::string ImagesJob(const std::string& images, const std::string& labels, uint32_t epochs) {
  return "stream:\n  epochs: " + std::to_string(epochs) + "\n  files: {format: idx, paths: [\"" + images +
         "\", \"" + labels +
         "\"], partitions: 4}\n"
         "schema:\n  format: idx\n  fields:\n"
         "    image: {type: bytes, width: 784, mean: 128, std: 74}\n"
         "    digit: {type: number, role: label}\n";
}

}  // namespace leat::bench
