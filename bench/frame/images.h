// Random images as idx files, for benchmarks that do not depend on the content.
#pragma once

#include <cstdint>
#include <string>

namespace leat::bench {

// Writes `count` images of 28 × 28 bytes, and as many labels from 0 to 9.
void WriteImages(const std::string& images, const std::string& labels, uint32_t count);

// The stream and schema sections of a job that reads these files in 4 partitions, `epochs` times.
std::string ImagesJob(const std::string& images, const std::string& labels, uint32_t epochs);

}  // namespace leat::bench
