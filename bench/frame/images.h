// Images of noise as idx files, for benchmarks to which it is all the same what is in them.
#pragma once

#include <cstdint>
#include <string>

namespace leat::bench {

// `count` images of 28 × 28 bytes, and as many labels from 0 to 9.
void WriteImages(const std::string& images, const std::string& labels, uint32_t count);

// The stream and schema sections of a job that reads them in 4 partitions, so often.
std::string ImagesJob(const std::string& images, const std::string& labels, uint32_t epochs);

}  // namespace leat::bench
