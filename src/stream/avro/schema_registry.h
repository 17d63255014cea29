// Schemas by id, asked from a registry when records with unknown ids arrive.
//
// The reader waits while an id is asked for again, so waiting is limited: at most `timeout` for all ids of a
// batch, and then not again for kPause. Within that pause a registry that answers is asked once for each new
// id, and one that does not answer is not asked at all. An id that was not found counts as unknown for
// kPause.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "base/status.h"
#include "stream/decode/decoder.h"
#include "stream/schema.h"

namespace leat::stream {

// Where schemas come from.
class SchemaService {
 public:
  static constexpr size_t kMaxReply = size_t{4} << 20;  // bytes

  virtual ~SchemaService() = default;
  // The text of the schema. kNotFound: the service has none, now; kUnavailable or kDeadlineExceeded: it does
  // not answer; anything else is its last word.
  virtual Result<std::string> Get(uint32_t id, Duration timeout) = 0;
};

// Opens the HTTP interface of Confluent's Schema Registry. Reads the secrets; errors of ReadSecretValue.
Result<std::unique_ptr<SchemaService>> OpenRegistry(const RegistryOptions& options);

// Not thread-safe.
class SchemaRegistry {
 public:
  static constexpr Duration kFirstWait = std::chrono::milliseconds(50);
  static constexpr Duration kLongestWait = std::chrono::seconds(2);
  static constexpr Duration kPause = std::chrono::seconds(60);
  static constexpr size_t kMaxUnknown = 10'000;  // ids that are remembered as such

  // How the registry waits and what time it is; tests have their own.
  struct Timing {
    std::function<Time()> now;
    std::function<void(Duration)> wait;
  };
  SchemaRegistry(std::unique_ptr<SchemaService> service, Duration timeout, Timing timing = RealTiming());

  // Asks for all ids that are not known to be unknown, and calls `found` for each that the service has.
  void Find(const std::set<uint32_t>& ids, const std::function<void(uint32_t, const std::string&)>& found);
  // Why an id was not found by the last call of Find that it was part of.
  std::string Reason(uint32_t id) const;

 private:
  struct Unknown {
    std::string reason;
    Time until{0};
  };
  static Timing RealTiming();
  // Asks once for each of the ids. Removes those that have got their answer; the others get the reason why
  // not. An error if the service is silent.
  Status AskAll(std::map<uint32_t, std::string>* ids, Time deadline,
                const std::function<void(uint32_t, const std::string&)>& found);
  void Remember(uint32_t id, std::string reason);

  const std::unique_ptr<SchemaService> service_;
  const Duration timeout_;
  const Timing timing_;
  std::unordered_map<uint32_t, Unknown> unknown_;
  Time waits_again_{0};  // no waiting before this time
  Time asks_again_{0};   // no requests before this time, because of `silence_`
  std::string silence_;
};

// MakeAvroDecoder (decode/decoder.h) with a registry of the caller's, for tests.
std::unique_ptr<Decoder> MakeAvroDecoder(const Schema& schema, std::unique_ptr<SchemaRegistry> registry);

}  // namespace leat::stream
