// The consumer that `bench kafka` compares with: a loop around librdkafka, in one thread beside its own.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace leat::bench {

// Reads the records of all partitions once, from their first one. `parse`: reads all fields of each payment
// by simdjson. Returns the number of records, which is below `events` only if `seconds` were not enough.
// Throws std::runtime_error.
uint64_t ConsumePayments(const std::map<std::string, std::string>& settings, const std::string& topic,
                         uint32_t partitions, uint64_t events, bool parse, double seconds);

}  // namespace leat::bench
